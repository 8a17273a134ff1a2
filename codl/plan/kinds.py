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
