"""Chains found side by side: what each costs does not depend on which others are followed."""

from collections.abc import Mapping

import numpy as np
import pytest

from codl.ir.graph import Graph
from codl.ir.regions import Boxes, Region, input_regions
from codl.partitioner.chains import ChainBatch
from codl.partitioner.enumeration import ChainEnumeration
from codl.partitioner.lookup import SliceLookup
from codl.partitioner.order import order_units
from codl.plan.shares import share_step
from codl.plan.sharing import Sharing
from codl.plan.steps import Chain, Cut
from codl.simulator.arrays import Floats
from codl.simulator.contention import Contention
from codl.simulator.slices import AxisTable, SliceTables
from tests.arrangements import arrange_alike
from tests.graphs import residual_block, two_branches
from tests.simulator.profiles import make_predictors

PREDICTORS = make_predictors(slower=1.5, slowdown=1.2)
DEVICES = ("left", "right")


def find_chains(graph: Graph, *, axes: tuple[int, ...] | None = None) -> list[ChainBatch]:
    finder = ChainEnumeration(
        SliceTables(graph, PREDICTORS), order_units(graph), arrange_alike(Sharing.COHERENT, 2), most=4
    )
    return [batch for batches in finder.find_all(axes).values() for batch in batches]


@pytest.mark.parametrize("axis", [1, 2])
def test_chains_of_an_axis_are_the_same_beside_those_of_others(axis: int) -> None:
    graph = residual_block(height=24)

    alone, beside = (find_chains(graph, axes=axes) for axes in ((axis,), None))

    same = [batch for batch in beside if batch.axis == axis]
    assert [(batch.first, batch.last) for batch in alone] == [(batch.first, batch.last) for batch in same]
    for one, other in zip(alone, same, strict=True):
        assert np.array_equal(one.busy_us, other.busy_us)
        assert one.least_us == other.span_us.min()


@pytest.mark.parametrize("graph", [residual_block(height=24), two_branches(size=24)], ids=["joined", "apart"])
def test_chains_read_and_compute_what_devices_do(graph: Graph) -> None:
    order = order_units(graph)
    found = find_chains(graph, axes=(2,))
    assert any(batch.last > batch.first for batch in found)

    for batch in found:
        names = tuple(unit.nodes[0].name for unit in order[batch.first : batch.last + 1])
        for index in (0, len(batch.span_us) // 2):
            cuts = tuple(
                Cut(tensor=name, axis=2, bounds=tuple(bounds[index].tolist()))
                for name, bounds in batch.bounds.items()
            )
            shares = share_step(Chain(nodes=names, axis=2, cuts=cuts), graph, DEVICES)
            alone = np.array([[_sum_us(graph, share.computes, place) for place, share in enumerate(shares)]])
            if len(cuts) == 1:  # others' parts of what is published on the way are copied too
                assert batch.busy_us[index] == pytest.approx(Contention(PREDICTORS).apply(alone)[0])
            for place, share in enumerate(shares):
                for tensor, region in share.reads.items():
                    reading = batch.reads[tensor]
                    assert (reading.low[index, place], reading.high[index, place]) == (
                        region.begin[2],
                        region.end[2],
                    )


def find_slice(table: AxisTable, device: int, position: int, *, is_tail: bool = False) -> Floats:
    """Return latency and memory's part of it of the slice from 0 to a position, or from there to the end."""
    places = table.grid.positions.tolist()
    found: Floats = table.predicted[device, places.index(position) + is_tail * len(places)]
    return found


def _sum_us(graph: Graph, computes: Mapping[str, Region], device: int) -> tuple[float, float]:
    """Return what a device takes for its regions, and memory's part of it."""
    us = memory_us = 0.0
    for name, region in computes.items():
        found = PREDICTORS[device].predict(graph.nodes_by_name[name], graph, Boxes.of([region]))
        us += found.us[0]
        memory_us += found.us[0] * found.memory_share[0]
    return us, memory_us


def test_slices_of_many_operators_are_looked_up_at_once() -> None:
    graph = residual_block(height=24)
    tables = SliceTables(graph, PREDICTORS)
    asked = [tables.find(graph.nodes_by_name[name]).axes[2] for name in ("conv_a", "pool")]
    low, high = np.array([[0, 7], [0, 12], [0, 5]]), np.array([[7, 24], [12, 12], [5, 12]])

    found = SliceLookup(asked).find_latencies(asked, [1, 2], low, high)
    begin, end = SliceLookup(asked).find_reads([table.needs[0] for table in asked], [1, 2], low, high)

    assert found[0].tolist() == [
        find_slice(asked[0], 0, 7).tolist(),
        find_slice(asked[0], 1, 7, is_tail=True).tolist(),
    ]
    assert found[1].tolist() == [find_slice(asked[1], 0, 12).tolist(), [0.0, 0.0]]
    whole = Region.whole(graph.shape("y"))
    for place, (node, interval) in enumerate([("conv_a", (7, 24)), ("pool", (5, 12))]):
        row = (0, 2)[place]
        out = Region.whole(graph.shape(graph.nodes_by_name[node].output)) if place == 0 else whole
        need = input_regions(graph.nodes_by_name[node], graph, out.cut(2, *interval))[0]
        assert (begin[row, 1], end[row, 1]) == (need.begin[2], need.end[2])
    assert end[1, 1] <= begin[1, 1]
