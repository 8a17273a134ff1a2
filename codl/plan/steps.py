"""Plans: what each step runs and where the output is cut.

A plan is data. It survives JSON unchanged, can be edited by hand, and runs
after `codl.plan.check.check_plan` has found no problem in it.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from codl.errors import PlanError
from codl.files import read_text
from codl.machine import Precision
from codl.outputs import write_output
from codl.plan.kinds import PREDICTIONS, SHARED_MEMORY, Chain, Cut, DeviceMemory, Host, Run, Step
from codl.plan.reading import SCHEMA, read_plan

__all__ = ["SCHEMA", "SHARED_MEMORY", "Chain", "Cut", "DeviceMemory", "Host", "Plan", "Run", "Step"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
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
    testbed: tuple[str, ...] = ()
    """Each device in words: processor, compute units, driver. Empty where they were not known."""
    predicted_us: float | None = None
    best_single_us: float | None = None
    planning_ms: float | None = None
    precision: Precision = Precision.FLOAT32
    """What products of GPUs may be rounded to."""
    memory: tuple[DeviceMemory, ...] = ()
    """By device; empty where it was not counted."""
    schema: int = SCHEMA

    def __repr__(self) -> str:
        """Return the plan in a line."""
        price = "" if self.predicted_us is None else f", {self.predicted_us / 1e3:.3f} ms predicted"
        return f"<Plan by {self.planner!r}: {len(self.steps)} steps over {', '.join(self.devices)}{price}>"

    def to_json(self) -> dict[str, Any]:
        """Return the plan as plain JSON values; every step has its nodes, axis, cuts and times."""
        memory = [_values(one) for one in self.memory]
        return {**_values(self), "memory": memory, "steps": [_step_values(step) for step in self.steps]}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Plan":
        """Return the plan that `to_json` wrote.

        Raises:
            PlanError: Another schema, or fields are missing, unknown or of the wrong type: all of them are
                named.
        """
        return cls(**read_plan(values, known=set(cls.__dataclass_fields__)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the plan as JSON; an existing file is replaced at once or not at all.

        Raises:
            PlanError: The file cannot be written.
        """
        text = json.dumps(self.to_json(), indent=1)
        try:
            write_output(path, text + "\n")
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
            values = json.loads(read_text(path))
        except (OSError, ValueError, RecursionError) as error:
            raise PlanError(f"{os.fspath(path)}: got {error}, expected a plan as JSON") from error
        try:
            return cls.from_json(values)
        except PlanError as error:
            raise PlanError(f"{os.fspath(path)}: {error}") from error


def _step_values(step: Step) -> dict[str, Any]:
    """Return a step as JSON values: a run as a chain of one node that is not cut."""
    values = _values(step)
    times = {name: values.pop(name) for name in PREDICTIONS}
    if isinstance(step, Run):
        return {"kind": "run", "nodes": [step.node], "device": step.device, "axis": None, "cuts": [], **times}
    if isinstance(step, Chain):
        values["cuts"] = [_values(cut) for cut in step.cuts]
    return values | times


def _values(one: Any) -> dict[str, Any]:
    """Return the fields of a dataclass; `asdict` would copy each of them, of thousands of steps."""
    return {name: getattr(one, name) for name in one.__dataclass_fields__}
