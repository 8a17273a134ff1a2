"""Plans read from JSON; one error lists every problem."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from codl.errors import PlanError
from codl.machine import Precision
from codl.plan.kinds import PREDICTIONS, Chain, Cut, DeviceMemory, Host, Run, Step

SCHEMA = 1
_REQUIRED: Any = object()
_LARGEST = 2**63 - 1
_MOST_DIGITS = 60
T = TypeVar("T")


def read_plan(values: Any, *, known: set[str]) -> dict[str, Any]:
    """Return the fields of a plan from JSON values.

    Args:
        values: What stands in a file.
        known: Names that a plan may have.

    Raises:
        PlanError: Another schema, or fields are missing, unknown or of the wrong type: a line for each.
    """
    problems: list[str] = []
    plan = _open(values, "plan", known, problems)
    if not problems and plan.values.get("schema") != SCHEMA:
        got = plan.values.get("schema")
        raise PlanError(f"plan.schema: got {got!r}, expected {SCHEMA}; plan the model again")
    number = float | int | None
    found = {
        "devices": plan.read_names("devices"),
        "steps": plan.read_all("steps", _read_step),
        "planner": plan.read("planner", str, ""),
        "model": plan.read("model", str | None, None),
        "fingerprint": plan.read("fingerprint", str, ""),
        "profiles": plan.read_list(
            "profiles", lambda item: isinstance(item, str | None), "a list of fingerprints or null", ()
        ),
        "testbed": plan.read_names("testbed", ()),
        "predicted_us": plan.read("predicted_us", number, None),
        "best_single_us": plan.read("best_single_us", number, None),
        "planning_ms": plan.read("planning_ms", number, None),
        "precision": plan.read_precision("precision"),
        "memory": plan.read_all("memory", _read_memory, ()),
    }
    if problems:
        raise PlanError("\n".join(problems))
    return found


@dataclass(frozen=True, slots=True)
class _Fields:
    """An object in a file; what is wrong with it is noted, and something harmless is returned instead."""

    values: Mapping[str, Any]
    where: str
    problems: list[str] = field(repr=False)

    def note(self, name: str, got: str, expected: str) -> None:
        """Note a problem of a field."""
        self.problems.append(f"{self.where}.{name}: got {got}, expected {expected}")

    def read(self, name: str, kind: Any, default: Any = _REQUIRED) -> Any:
        """Return a value of a type; numbers are finite."""
        value = self.values.get(name, default)
        if value is _REQUIRED:
            self.note(name, "nothing", getattr(kind, "__name__", str(kind)))
        elif not isinstance(value, kind) or isinstance(value, bool):
            self.note(name, repr(value), getattr(kind, "__name__", str(kind)))
        elif isinstance(value, float | int) and not _is_sane(value):
            self.note(name, repr(value)[:_MOST_DIGITS], f"a number up to {_LARGEST}")
        return value

    def read_precision(self, name: str) -> Precision:
        """Return a precision; float32 where none is given."""
        value = self.values.get(name, Precision.FLOAT32)
        if isinstance(value, str) and value in list(Precision):
            return Precision(value)
        self.note(name, repr(value)[:_MOST_DIGITS], f"one of {', '.join(Precision)}")
        return Precision.FLOAT32

    def read_list(self, name: str, fits: Callable[[Any], bool], expected: str, default: Any = None) -> Any:
        """Return a list, as a tuple, of what fits; nothing where it is none."""
        value = self.values.get(name, default)
        if isinstance(value, list | tuple) and all(map(fits, value)):
            return tuple(value)
        self.note(name, repr(value), expected)
        return ()

    def read_names(self, name: str, default: Any = None) -> tuple[str, ...]:
        """Return a list of names."""
        names: tuple[str, ...] = self.read_list(
            name, lambda item: isinstance(item, str), "a list of names", default
        )
        return names

    def read_all(
        self, name: str, read: Callable[[Any, str, list[str]], T | None], default: Any = None
    ) -> tuple[T, ...]:
        """Return what is read of each item of a list; those that cannot be read are left out."""
        items = self.values.get(name, default)
        if not isinstance(items, list | tuple):
            self.note(name, type(items).__name__, "a list")
            return ()
        found = [
            read(item, f"{self.where}.{name}[{index}]", self.problems) for index, item in enumerate(items)
        ]
        return tuple(item for item in found if item is not None)


def _is_sane(value: float) -> bool:
    """Return whether a number is finite and fits into 64 bits."""
    return -_LARGEST <= value <= _LARGEST


def _open(values: Any, where: str, known: set[str], problems: list[str]) -> _Fields:
    """Return an object's fields; notes unknown ones as problems."""
    if not isinstance(values, Mapping):
        problems.append(f"{where}: got {type(values).__name__}, expected an object")
        # No further problems are noted for something that is no object.
        return _Fields({}, where, [])
    unknown = sorted(set(values) - known)
    problems.extend(f"{where}: got unknown field {name!r}, expected only {sorted(known)}" for name in unknown)
    return _Fields(values, where, problems)


def _read_memory(values: Any, where: str, problems: list[str]) -> DeviceMemory:
    fields = _open(values, where, set(DeviceMemory.__dataclass_fields__), problems)
    return DeviceMemory(
        device=fields.read("device", str),
        activation_bytes=fields.read("activation_bytes", int),
        weight_bytes=fields.read("weight_bytes", int | None),
    )


def _read_times(fields: _Fields) -> dict[str, Any]:
    names = [name for name in PREDICTIONS if name != "device_us"]
    by_device = fields.read_list(
        "device_us", lambda us: type(us) in (int, float) and _is_sane(us), "a list of numbers", ()
    )
    return {name: fields.read(name, float | int | None, None) for name in names} | {"device_us": by_device}


def _read_run(values: Any, where: str, problems: list[str]) -> Run:
    known = {"kind", "node", "nodes", "device", "axis", "cuts", *PREDICTIONS}
    fields = _open(values, where, known, problems)
    nodes = fields.read_names("nodes") if "nodes" in fields.values else (fields.read("node", str),)
    if len(nodes) != 1 or fields.values.get("node", nodes[0]) != nodes[0]:
        fields.note("nodes", str(list(nodes)), "one node; give each a step of its own")
    if fields.values.get("axis") is not None or fields.values.get("cuts"):
        fields.note("axis", "a cut of a run", "none; make it a step of kind 'chain'")
    return Run(node=nodes[0] if nodes else "", device=fields.read("device", str), **_read_times(fields))


def _read_chain(values: Any, where: str, problems: list[str]) -> Chain:
    fields = _open(values, where, {"kind", "nodes", "axis", "cuts", *PREDICTIONS}, problems)
    return Chain(
        nodes=fields.read_names("nodes"),
        axis=fields.read("axis", int),
        cuts=fields.read_all("cuts", _read_cut),
        **_read_times(fields),
    )


def _read_host(values: Any, where: str, problems: list[str]) -> Host:
    fields = _open(values, where, set(Host.__dataclass_fields__), problems)
    filled = _Fields({"operators": (), "reasons": (), **fields.values}, where, fields.problems)
    return Host(
        nodes=filled.read_names("nodes"),
        operators=filled.read_names("operators"),
        reasons=filled.read_names("reasons"),
        **_read_times(filled),
    )


_READERS: Mapping[str, Callable[[Any, str, list[str]], Step]] = {
    "run": _read_run,
    "chain": _read_chain,
    "host": _read_host,
}


def _read_step(values: Any, where: str, problems: list[str]) -> Step | None:
    kind = values.get("kind") if isinstance(values, Mapping) else None
    read = _READERS.get(kind) if isinstance(kind, str) else None
    if read is None:
        problems.append(f"{where}.kind: got {kind!r}, expected 'run', 'chain' or 'host'")
        return None
    return read(values, where, problems)


def _read_cut(values: Any, where: str, problems: list[str]) -> Cut:
    fields = _open(values, where, {"tensor", "axis", "bounds"}, problems)
    return Cut(
        tensor=fields.read("tensor", str),
        axis=fields.read("axis", int),
        bounds=fields.read_list("bounds", lambda bound: type(bound) is int, "a list of whole numbers"),
    )
