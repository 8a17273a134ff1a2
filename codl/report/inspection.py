"""An inspection: what is known about a plan, as data that pages show and `--json` prints.

Times are in microseconds; None stands for what is neither predicted nor measured.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from codl.plan.timeline import Span

Us = float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What one device does for one operator."""

    device: str
    begin: int
    """Of what it computes along the axis of the cut, the halo included; 0 where nothing is cut."""
    end: int
    share: float
    """Of the operator's output that it computes, in [0, 1]; the shares of an operator with halos pass 1."""
    kernel: str | None = None
    """Row of the catalog; None where the device is not known well enough to tell."""
    predicted_us: Us = None
    """While other devices work on the same step."""
    uncertainty: float | None = None
    """Typical relative error of the prediction."""
    is_estimated: bool = False
    """Whether its kernel was not measured, or only on smaller work."""
    measured_us: Us = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """Another way to compute one operator, priced on its own: its output is shared, then devices meet."""

    label: str
    """Such as `H 30:70` (percent of each device) or `all on intel-cpu`."""
    axis: int | None
    bounds: tuple[int, ...]
    """Of the cut along `axis`; empty where one device computes all."""
    compute_us: tuple[Us, ...]
    """By device; 0 for one that computes nothing."""
    share_us: Us
    sync_us: Us
    total_us: Us
    is_chosen: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """One node of the network and how the plan computes it."""

    name: str
    kind: str
    shape: tuple[int, ...]
    """Of its output."""
    sources: tuple[str, ...]
    """The operators that it reads from."""
    step: int
    place: int
    """In its step, from 0."""
    length: int
    """Operators in its step."""
    axis: int | None
    axis_name: str | None
    """Such as H, OC, N."""
    bounds: tuple[int, ...]
    """Which device owns what of the output; empty where it is not shared, or not cut."""
    parts: tuple[Part, ...]
    """Of the devices that compute something; none where the host runs it."""
    predicted_us: Us
    """On the device that its step waits for."""
    of_total: float | None
    """`predicted_us` as a share of the plan's time."""
    measured_us: Us = None
    """On the device that its step waited for."""
    alternatives: tuple[Alternative, ...] = ()
    """Other ways to compute it, cheapest first, the chosen way among them."""
    note: str = ""
    """Why the host runs it."""
    in_kernel_of: str | None = None
    """The operator whose kernel computes this one too; None where it has a launch of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRow:
    """A step of the plan and its price."""

    index: int
    kind: str
    nodes: tuple[str, ...]
    device: str | None
    """Of a run."""
    axis: int | None
    axis_name: str | None
    compute_us: tuple[Us, ...]
    """Of its slices, by device."""
    share_us: Us
    sync_us: Us
    total_us: Us
    measured_us: tuple[Us, ...] = ()
    """What kernels took, by device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """The plan's time, compared with alternatives."""

    predicted_us: Us
    single_us: tuple[Us, ...]
    """All on one device, by device."""
    best_single: str | None
    best_single_us: Us
    ideal_us: Us
    """Every operator at the added speeds of all devices, without transfers or synchronization."""
    measured_us: Us = None
    parts: Mapping[str, float] | None = None
    """Where predicted time goes, in us; what steps that run side by side save (`overlap`) is below zero."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """A plan explained."""

    model: str
    planner: str
    devices: tuple[str, ...]
    origins: tuple[str | None, ...]
    """Where each device's profile comes from: measured, borrowed, simulated; None without one."""
    operators: tuple[Operator, ...]
    steps: tuple[StepRow, ...]
    totals: Totals
    timeline: tuple[Span, ...] = ()
    """As predicted."""
    measured: tuple[Span, ...] = ()
    """Of one run."""
    planning_ms: float | None = None
    notes: tuple[str, ...] = ()
    """Remarks about the figures."""

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain JSON values; what is not finite is null."""
        values: dict[str, Any] = _plain(asdict(self))
        return values

    def with_alternatives(self, found: Mapping[str, Sequence[Alternative]]) -> "Inspection":
        """Return the inspection with alternatives of operators, by name."""
        operators = tuple(replace(o, alternatives=tuple(found.get(o.name, ()))) for o in self.operators)
        return replace(self, operators=operators)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value


def format_us(time_us: Us) -> str:
    """Return a time in the unit that suits it; a dash where there is none."""
    if time_us is None:
        return "-"
    if abs(time_us) < 999.5:
        return f"{time_us:.3g} us"
    if abs(time_us) < 999.5e3:
        return f"{time_us / 1e3:.3g} ms"
    return f"{time_us / 1e6:.3g} s"


def format_share(share: float | None) -> str:
    """Return a share in percent; a dash where there is none."""
    return "-" if share is None else f"{share * 100:.1f} %"
