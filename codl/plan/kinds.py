"""What a plan is made of: steps, and where a tensor is cut."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """How a tensor read outside its step is divided among the devices."""

    tensor: str
    axis: int
    bounds: tuple[int, ...]
    """Device i owns [bounds[i], bounds[i + 1]) of `axis`; an empty interval is legal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """What a step is predicted to take; None, or empty, where nothing was predicted."""

    compute_us: float | None = None
    """Time of its kernels on the device that takes longest."""
    share_us: float | None = None
    """Time until others have what it publishes, or it has what it reads."""
    sync_us: float | None = None
    """Time of synchronizing with other devices, beyond their work."""
    total_us: float | None = None
    """By how much the step makes a run longer; what overlaps counts once."""
    device_us: tuple[float, ...] = ()
    """Time of kernels on each of the plan's devices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run(Predicted):
    """One node, whole, on one device."""

    node: str
    device: str
    kind: Literal["run"] = "run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain(Predicted):
    """Connected nodes; every device computes its slice of them without exchanging anything."""

    nodes: tuple[str, ...]
    """In topological order."""
    axis: int
    """The axis that the chain is cut along, as its cuts say for each published tensor."""
    cuts: tuple[Cut, ...]
    """One for each tensor that is read outside the chain or is an output of the network."""
    kind: Literal["chain"] = "chain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Host(Predicted):
    """All nodes of a group of host calls: ONNX Runtime computes them at once on the CPU."""

    nodes: tuple[str, ...]
    """In topological order."""
    operators: tuple[str, ...] = ()
    """ONNX operators of the part, for people."""
    reasons: tuple[str, ...] = ()
    """Why no kernel computes them, for people."""
    kind: Literal["host"] = "host"


Step = Run | Chain | Host
PREDICTIONS = tuple(Predicted.__dataclass_fields__)
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
