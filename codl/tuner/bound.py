"""Lower bounds of candidates' times: they order the search, and candidates above the best time are not built.

Source:
    DeepCuts: a ratio to the peak made of memory traffic, local memory, work-group waves and instruction mix.
    Here each is a time, and each rate is one that the device was seen to reach in a reference kernel.
"""

from collections.abc import Callable
from dataclasses import dataclass

from codl.catalog.candidates import describe_whole
from codl.catalog.spec import LaunchBatch, Parameters, Selection
from codl.devices.reference import CACHED_BYTES, COMPUTE, LANES, MEMORY, READING
from codl.ir.graph import FLOAT_BYTES, Graph, Node
from codl.machine import DeviceInfo, Peaks

HEADROOM = 1.25
"""By how much a rate may be higher than its micro-benchmark found.

Source:
    Of all 1326 candidates of four convolutions, each alone on two cores of an Emerald Rapids, 28 ran faster
    than their inner loop alone by more than a tenth, two by more than a quarter. Bounds with a quarter leave
    some 340 that may beat the best, with a tenth 278.
"""
_READING_SHARE = 0.75
"""Share of reads in the bytes moved above which a candidate resembles reading more than copying."""
LoopRate = Callable[[str, Parameters, float], float]
"""(reference kernel of an inner loop, parameters, products summed for an output) -> operations a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """The least time of a candidate on an idle machine, in seconds."""

    seconds: float
    compute_seconds: float
    """Of its arithmetic on the busiest compute unit, in the inner loop's instruction mix."""
    memory_seconds: float
    """Of its traffic, each byte moved once."""
    read_bytes: float
    written_bytes: float

    @property
    def reference(self) -> str:
        """The reference kernel that slows down with this candidate."""
        moved = self.read_bytes + self.written_bytes
        if self.memory_seconds <= self.compute_seconds or moved <= CACHED_BYTES:
            return COMPUTE
        return READING if self.read_bytes >= _READING_SHARE * moved else MEMORY

    def ratio(self, reference: str, peaks: Peaks) -> float:
        """Return the bound in runs of a reference kernel."""
        return self.seconds / peaks.reference_seconds[reference]


def find_bound(
    selection: Selection,
    node: Node,
    graph: Graph,
    *,
    info: DeviceInfo,
    peaks: Peaks,
    loop_rate: LoopRate | None = None,
) -> Bound:
    """Return the bound of a node computed whole.

    Args:
        selection: Row and parameters.
        node: The operator.
        graph: Where its shapes are found.
        info: The device.
        peaks: What it can reach.
        loop_rate: What the rows' inner loops reach; without it, multiply-adds alone count.
    """
    row, parameters = selection.implementation, selection.parameters
    lanes = min(max(LANES), parameters.get("VECTOR", max(LANES)))
    total = compute = memory = read = written = 0.0
    for batch in describe_whole(selection, node, graph, info):
        rate = peaks.flops[lanes]
        if row.inner_loop is not None and loop_rate is not None:
            rate = min(rate, loop_rate(row.inner_loop, parameters, _find_depth(batch)))
        arithmetic = _count_busiest(batch, info) * info.units / (rate * HEADROOM)
        read, written = read + float(batch.read_bytes[0]), written + float(batch.written_bytes[0])
        moved = float(batch.read_bytes[0] + batch.written_bytes[0])
        traffic = moved / (peaks.find_bandwidth(moved) * HEADROOM)
        compute, memory = compute + arithmetic, memory + traffic
        total += max(arithmetic, traffic)
    return Bound(
        seconds=total,
        compute_seconds=compute,
        memory_seconds=memory,
        read_bytes=read,
        written_bytes=written,
    )


def find_loops(
    selection: Selection, node: Node, graph: Graph, info: DeviceInfo
) -> list[tuple[str, Parameters, float]]:
    """Return the inner loops whose rates a bound asks for, as arguments of a `LoopRate`."""
    row, parameters = selection.implementation, selection.parameters
    if row.inner_loop is None:
        return []
    batches = describe_whole(selection, node, graph, info)
    return [(row.inner_loop, parameters, _find_depth(batch)) for batch in batches]


def _find_depth(batch: LaunchBatch) -> float:
    """Return how many products are summed for each output."""
    return float(batch.flops[0] * FLOAT_BYTES / (2 * batch.written_bytes[0]))


def _count_busiest(batch: LaunchBatch, info: DeviceInfo) -> float:
    """Return the least that the busiest compute unit computes, in floating-point operations."""
    if batch.busiest_flops is not None:
        return float(batch.busiest_flops[0])
    items = int(batch.global_size[0].prod())
    return float(batch.flops[0]) / max(1, min(items, info.units))
