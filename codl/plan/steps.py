"""Plans: what each step runs and where the output is cut.

A plan is data. It survives JSON unchanged, can be edited by hand, and runs
after `codl.plan.check.check_plan` has found no problem in it.
"""

import json
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from typing import Any, Literal, TypeVar

from codl.errors import PlanError

SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """How a tensor read outside its step is divided among the devices."""

    tensor: str
    axis: int
    bounds: tuple[int, ...]
    """Device i owns [bounds[i], bounds[i + 1]) of `axis`; an empty interval is legal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One node, whole, on one device."""

    node: str
    device: str
    kind: Literal["run"] = "run"
    compute_us: float | None = None
    """Predicted time of its kernels; None where nothing was predicted, as below."""
    share_us: float | None = None
    """Predicted time until others have what it publishes, or it has what it reads."""
    sync_us: float | None = None
    """Predicted time of meeting other devices, beyond their work."""
    total_us: float | None = None
    """By how much the step is predicted to make a run longer; what overlaps counts once."""
    device_us: tuple[float, ...] = ()
    """Predicted time of kernels on each of the plan's devices; empty where nothing was predicted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """Connected nodes that every device computes its slice of without talking to the others."""

    nodes: tuple[str, ...]
    """In topological order."""
    axis: int
    """The axis that the chain is cut along, as its cuts say for each published tensor."""
    cuts: tuple[Cut, ...]
    """One for each tensor that is read outside the chain or is an output of the network."""
    kind: Literal["chain"] = "chain"
    compute_us: float | None = None
    """Predicted time of its kernels on the device that takes longest; None where nothing was predicted."""
    share_us: float | None = None
    """Predicted time until others have what it publishes, or it has what it reads."""
    sync_us: float | None = None
    """Predicted time of meeting other devices, beyond their work."""
    total_us: float | None = None
    """By how much the step is predicted to make a run longer; what overlaps counts once."""
    device_us: tuple[float, ...] = ()
    """Predicted time of kernels on each of the plan's devices; empty where nothing was predicted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """All nodes of a group of host calls: ONNX Runtime computes them at once on the CPU."""

    nodes: tuple[str, ...]
    """In topological order."""
    operators: tuple[str, ...] = ()
    """ONNX operators of the part, for people."""
    reasons: tuple[str, ...] = ()
    """Why no kernel computes them, for people."""
    kind: Literal["host"] = "host"
    compute_us: float | None = None
    """Predicted time of ONNX Runtime; None where nothing was predicted."""
    share_us: float | None = None
    """Predicted time until it has what it reads, and others have what it writes."""
    sync_us: float | None = None
    """Predicted time of meeting devices, beyond their work."""
    total_us: float | None = None
    """By how much the step is predicted to make a run longer."""
    device_us: tuple[float, ...] = ()
    """Predicted time of kernels on each of the plan's devices; empty where nothing was predicted."""


Step = Run | Chain | Host
SHARED_MEMORY = "shared"
"""Stands for the host's memory, which several devices compute in, where a device name is expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceMemory:
    """The most memory that a device holds at a time during a run, as planned."""

    device: str
    """Device name, or `SHARED_MEMORY`."""
    activation_bytes: int
    weight_bytes: int | None
    """Constants, packed; None where nothing is known of the device but its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Devices and steps; everything the executor needs besides the network itself."""

    devices: tuple[str, ...]
    steps: tuple[Step, ...]
    planner: str = ""
    model: str | None = None
    """Path of the model the plan was made for, for people."""
    fingerprint: str = ""
    """`Graph.fingerprint` of that model."""
    profiles: tuple[str | None, ...] = ()
    """Fingerprint of the profile used for each device; None where nothing was predicted."""
    predicted_us: float | None = None
    best_single_us: float | None = None
    planning_ms: float | None = None
    memory: tuple[DeviceMemory, ...] = ()
    """By device; empty where it was not counted."""
    schema: int = SCHEMA

    def to_json(self) -> dict[str, Any]:
        """Return the plan as plain JSON values; every step has its nodes, axis, cuts and times."""
        return {**asdict(self), "steps": [_step_values(step) for step in self.steps]}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Plan":
        """Return the plan that `to_json` wrote.

        Raises:
            PlanError: Another schema, or a field is missing, unknown or of the wrong type.
        """
        return _read_plan(values)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the plan as JSON; an existing file is replaced at once or not at all.

        Raises:
            PlanError: The file cannot be written.
        """
        target = Path(path)
        text = json.dumps(self.to_json(), indent=1)
        try:
            _replace_file(target, text + "\n")
        except OSError as error:
            raise PlanError(
                f"{os.fspath(path)}: got {error.strerror or error}, expected a file that can be written; "
                "name one in a folder that exists and is yours"
            ) from error

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Plan":
        """Return the plan in a file.

        Raises:
            PlanError: The file cannot be read, is no JSON or no plan.
        """
        try:
            values = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise PlanError(f"{os.fspath(path)}: got {error}, expected a plan as JSON") from error
        try:
            return cls.from_json(values)
        except PlanError as error:
            raise PlanError(f"{os.fspath(path)}: {error}") from error


def _replace_file(target: Path, text: str) -> None:
    """Write a file with the access rights that a new file gets, complete or not at all."""
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        with temporary.open("x", encoding="utf-8") as file:
            file.write(text)
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _read_plan(values: Any) -> Plan:
    fields = _take(values, "plan", set(Plan.__dataclass_fields__))
    if fields.get("schema") != SCHEMA:
        raise PlanError(f"plan.schema: got {fields.get('schema')!r}, expected {SCHEMA}; plan the model again")
    steps = fields.get("steps")
    if not isinstance(steps, list | tuple):
        raise PlanError(f"plan.steps: got {type(steps).__name__}, expected a list")
    return Plan(
        devices=_strings(fields, "plan", "devices"),
        steps=_read_all(steps, "plan.steps", _read_step),
        planner=_typed(fields, "plan", "planner", str, ""),
        model=_typed(fields, "plan", "model", str | None, None),
        fingerprint=_typed(fields, "plan", "fingerprint", str, ""),
        profiles=_read_profiles(fields.get("profiles", ())),
        predicted_us=_typed(fields, "plan", "predicted_us", float | int | None, None),
        best_single_us=_typed(fields, "plan", "best_single_us", float | int | None, None),
        planning_ms=_typed(fields, "plan", "planning_ms", float | int | None, None),
        memory=_read_memory(fields.get("memory", ())),
    )


T = TypeVar("T")


def _read_all(values: Sequence[Any], where: str, read: Callable[[Any, str], T]) -> tuple[T, ...]:
    """Return what is read of each value; every one that cannot be read is told of."""
    found, problems = [], []
    for index, value in enumerate(values):
        try:
            found.append(read(value, f"{where}[{index}]"))
        except PlanError as error:
            problems.append(str(error))
    if problems:
        raise PlanError("\n".join(problems))
    return tuple(found)


def _read_profiles(values: Any) -> tuple[str | None, ...]:
    if not isinstance(values, list | tuple) or not all(isinstance(value, str | None) for value in values):
        raise PlanError(f"plan.profiles: got {values!r}, expected a list of fingerprints or null")
    return tuple(values)


def _read_memory(values: Any) -> tuple[DeviceMemory, ...]:
    if not isinstance(values, list | tuple):
        raise PlanError(f"plan.memory: got {type(values).__name__}, expected a list")
    found = []
    for index, value in enumerate(values):
        where = f"plan.memory[{index}]"
        fields = _take(value, where, set(DeviceMemory.__dataclass_fields__))
        found.append(
            DeviceMemory(
                device=_typed(fields, where, "device", str),
                activation_bytes=_typed(fields, where, "activation_bytes", int),
                weight_bytes=_typed(fields, where, "weight_bytes", int | None),
            )
        )
    return tuple(found)


_TIMES = ("compute_us", "share_us", "sync_us", "total_us")


def _step_values(step: Step) -> dict[str, Any]:
    """Return a step as JSON values: a run as a chain of one node that is not cut."""
    values = asdict(step)
    if isinstance(step, Run):
        times = {name: values[name] for name in (*_TIMES, "device_us")}
        return {"kind": "run", "nodes": [step.node], "device": step.device, "axis": None, "cuts": [], **times}
    return values


def _read_times(fields: Mapping[str, Any], where: str) -> dict[str, Any]:
    times = {name: _typed(fields, where, name, float | int | None, None) for name in _TIMES}
    by_device = fields.get("device_us", ())
    if not isinstance(by_device, list | tuple) or not all(
        type(us) in (int, float) and isfinite(us) for us in by_device
    ):
        raise PlanError(f"{where}.device_us: got {by_device!r}, expected a list of numbers")
    return {**times, "device_us": tuple(by_device)}


def _read_run(values: Any, where: str) -> Run:
    fields = _take(values, where, {"kind", "node", "nodes", "device", "axis", "cuts", "device_us", *_TIMES})
    nodes = _strings(fields, where, "nodes") if "nodes" in fields else (_typed(fields, where, "node", str),)
    if len(nodes) != 1 or fields.get("node", nodes[0]) != nodes[0]:
        raise PlanError(f"{where}.nodes: got {list(nodes)}, expected one node; give each a step of its own")
    if fields.get("axis") is not None or fields.get("cuts"):
        raise PlanError(f"{where}.axis: got a cut of a run, expected none; make it a step of kind 'chain'")
    device = _typed(fields, where, "device", str)
    return Run(node=nodes[0], device=device, **_read_times(fields, where))


def _read_step(values: Any, where: str) -> Step:
    kind = values.get("kind") if isinstance(values, Mapping) else None
    if kind == "run":
        return _read_run(values, where)
    if kind == "chain":
        fields = _take(values, where, {"kind", "nodes", "axis", "cuts", "device_us", *_TIMES})
        cuts = fields.get("cuts")
        if not isinstance(cuts, list | tuple):
            raise PlanError(f"{where}.cuts: got {type(cuts).__name__}, expected a list")
        return Chain(
            nodes=_strings(fields, where, "nodes"),
            axis=_typed(fields, where, "axis", int),
            cuts=_read_all(cuts, f"{where}.cuts", _read_cut),
            **_read_times(fields, where),
        )
    if kind == "host":
        fields = {"operators": (), "reasons": (), **_take(values, where, set(Host.__dataclass_fields__))}
        return Host(
            nodes=_strings(fields, where, "nodes"),
            operators=_strings(fields, where, "operators"),
            reasons=_strings(fields, where, "reasons"),
            **_read_times(fields, where),
        )
    raise PlanError(f"{where}.kind: got {kind!r}, expected 'run', 'chain' or 'host'")


def _read_cut(values: Any, where: str) -> Cut:
    fields = _take(values, where, {"tensor", "axis", "bounds"})
    bounds = fields.get("bounds")
    if not isinstance(bounds, list | tuple) or not all(type(bound) is int for bound in bounds):
        raise PlanError(f"{where}.bounds: got {bounds!r}, expected a list of whole numbers")
    return Cut(
        tensor=_typed(fields, where, "tensor", str),
        axis=_typed(fields, where, "axis", int),
        bounds=tuple(bounds),
    )


def _take(values: Any, where: str, known: set[str]) -> Mapping[str, Any]:
    if not isinstance(values, Mapping):
        raise PlanError(f"{where}: got {type(values).__name__}, expected an object")
    if unknown := sorted(set(values) - known):
        raise PlanError(f"{where}: got unknown field {unknown[0]!r}, expected only {sorted(known)}")
    return values


_REQUIRED: Any = object()


def _typed(fields: Mapping[str, Any], where: str, name: str, kind: Any, default: Any = _REQUIRED) -> Any:
    value = fields.get(name, default)
    if value is _REQUIRED:
        raise PlanError(f"{where}.{name}: got nothing, expected {getattr(kind, '__name__', kind)}")
    if not isinstance(value, kind) or isinstance(value, bool):
        raise PlanError(f"{where}.{name}: got {value!r}, expected {getattr(kind, '__name__', kind)}")
    if isinstance(value, float) and not isfinite(value):
        raise PlanError(f"{where}.{name}: got {value!r}, expected a finite number")
    return value


def _strings(fields: Mapping[str, Any], where: str, name: str) -> tuple[str, ...]:
    value = fields.get(name)
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise PlanError(f"{where}.{name}: got {value!r}, expected a list of names")
    return tuple(value)
