"""How far a plan is from what its devices could do, as data and as text.

Source:
    Benanza (IPDPS 2020): the lower bound is the sum over layers of the best kernel's time, or the longest
    path when layers run side by side; its ratio to the time taken is 1 where nothing is left to gain.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from codl.report.inspection import format_us
from codl.report.table import shorten


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelChoice:
    """What computes a layer on a device, and what would be fastest there."""

    device: str
    kernel: str
    us: float
    best_kernel: str
    best_us: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """Operators that are alike: same kind, shapes, attributes and epilogue."""

    operators: tuple[str, ...]
    kind: str
    shape: tuple[int, ...]
    """Of the output."""
    kernels: tuple[KernelChoice, ...]
    """By device."""

    @property
    def loss_us(self) -> float:
        """What the best kernels would save on the device where they save most, over all its operators."""
        return max((k.us - k.best_us for k in self.kernels), default=0.0) * len(self.operators)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """What a device could do alone."""

    device: str
    sequential_us: float
    """Every layer by its best kernel, one after the other."""
    longest_path_us: float
    """The same when independent branches run side by side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A part of the time that is not in the lower bound."""

    name: str
    us: float
    """Below zero where predictions are too high."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """A plan beside its lower bound."""

    model: str
    planner: str
    devices: tuple[str, ...]
    operators: int
    bounds: tuple[Bound, ...]
    bound_us: float
    """All devices' speeds added up, layer by layer, by their best kernels."""
    taken_us: float
    is_measured: bool
    """Whether the time taken was measured; else it is predicted."""
    gaps: tuple[Gap, ...]
    """What lies between the bound and the time taken; they add up to it."""
    layers: tuple[Layer, ...]
    """By what is lost, the largest first."""
    advice: tuple[str, ...]

    @property
    def ratio(self) -> float:
        """Lower bound over time taken, 1 where nothing is left to gain."""
        return self.bound_us / self.taken_us if self.taken_us > 0 else 0.0

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain JSON values."""
        layers = [{**asdict(layer), "loss_us": layer.loss_us} for layer in self.layers]
        return {**asdict(self), "ratio": self.ratio, "layers": layers}


def list_lines(found: Assessment, *, most: int = 8) -> Iterator[str]:
    """Yield lines for people: the bound and the time taken, what lies between, the layers that lose most."""
    kind = "measured" if found.is_measured else "predicted"
    yield f"{found.model}: {found.operators} operators, {len(found.layers)} of them unlike each other"
    yield f"{'lower bound':<26}{format_us(found.bound_us):>10}  all devices, best kernels, nothing else"
    for gap in found.gaps:
        if abs(gap.us) >= found.taken_us * 5e-4:
            name = f"  {'+' if gap.us >= 0 else '-'} {gap.name}"
            yield f"{name:<26}{format_us(abs(gap.us)):>10}  {gap.us / found.taken_us * 100:.1f} %"
    yield f"{kind:<26}{format_us(found.taken_us):>10}  ratio {found.ratio:.2f}"
    for bound in found.bounds:
        yield (
            f"{f'all on {bound.device}':<26}{format_us(bound.sequential_us):>10}  by its best kernels; "
            f"longest path {format_us(bound.longest_path_us)}"
        )
    losing = [layer for layer in found.layers[:most] if layer.loss_us > 0]
    if losing:
        yield "kernels that could be better:"
    for layer in losing:
        worst = max(layer.kernels, key=lambda kernel: kernel.us - kernel.best_us)
        yield (
            f"  {shorten(layer.operators[0], 30):<30} x{len(layer.operators):<3} on {worst.device}: "
            f"{worst.kernel} {format_us(worst.us)}, {worst.best_kernel} {format_us(worst.best_us)}"
        )
    yield from (f"advice: {line}" for line in found.advice)
