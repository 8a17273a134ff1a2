"""Units of a CPU that take work from each other: whoever computes what, bits are the same."""

from dataclasses import replace

import numpy as np
import pyopencl as cl
import pytest

from codl.catalog.spec import Implementation, Selection, can_steal
from codl.catalog.table import IMPLEMENTATIONS
from codl.devices.opencl import Device
from codl.ir.graph import FloatArray, Graph
from codl.ir.ops import MatMul
from codl.ir.regions import Boxes, Region
from codl.machine import DeviceKind
from tests.kernels.convolutions import Case, build
from tests.kernels.harness import one_node_graph, random_array, run_node

UNITS = (1, 2, 3, 16)
"""Compute units that a device is taken to have: fewer and more than there are cores and places."""
CASES = {
    "window": Case(image=(17, 15), inputs=24, outputs=40),
    "window-of-many-channels": Case(image=(7, 7), inputs=160, outputs=200),
    "window-batch": Case(image=(9, 8), inputs=16, outputs=40, batch=3),
    "image": Case(image=(21, 30), inputs=3, outputs=20, kernel=(5, 5), stride=(2, 2), pads=(2, 2, 2, 2)),
    "pointwise": Case(image=(14, 13), inputs=40, outputs=100, kernel=(1, 1), pads=(0, 0, 0, 0)),
    "pointwise-strided": Case(
        image=(14, 13), inputs=40, outputs=100, kernel=(1, 1), pads=(0, 0, 0, 0), stride=(2, 2), batch=2
    ),
    "pointwise-of-many-channels": Case(
        image=(4, 4), inputs=300, outputs=600, kernel=(1, 1), pads=(0, 0, 0, 0)
    ),
    "pointwise-groups": Case(
        image=(9, 8), inputs=24, outputs=80, kernel=(1, 1), pads=(0, 0, 0, 0), groups=4, batch=3
    ),
    "depthwise": Case(image=(13, 12), inputs=70, outputs=70, groups=70),
}


def product(rows: int) -> tuple[Graph, dict[str, FloatArray]]:
    """Return a matrix product with a constant, and its feeds."""
    a, b = random_array(rows, 90), random_array(90, 130, seed=1)
    graph = one_node_graph(MatMul(has_bias=False), {"a": a, "b": b}, (rows, 130), constants=["b"])
    return graph, {"a": a}


def compute(
    device: Device, row: Implementation, graph: Graph, feeds: dict[str, FloatArray]
) -> FloatArray | None:
    """Return what a row computes by its own parameters; None where it cannot, or steals nothing."""
    (node,) = graph.nodes
    parameters = row.accepts(node, graph, device.info)
    if parameters is None:
        return None
    whole = Boxes.of([Region.whole(graph.shape(node.output))])
    if not any(batch.steals for batch in row.describe(node, graph, whole, device.info, parameters)):
        return None
    return run_node(device, graph, feeds, selection=Selection(implementation=row, parameters=parameters))


@pytest.mark.parametrize("name", [*CASES, "product", "product-of-a-row"])
def test_units_change_no_bits(device: Device, name: str) -> None:
    if name in CASES:
        graph, feeds, _ = build(CASES[name])
    else:
        graph, feeds = product(1 if name.endswith("row") else 50)
    found = 0
    for row in IMPLEMENTATIONS:
        twins = (device.with_facts(kind=DeviceKind.CPU, units=units) for units in UNITS)
        alone, *others = (compute(twin, row, graph, feeds) for twin in twins)
        for other in others:
            if alone is not None and other is not None:
                np.testing.assert_array_equal(other.view(np.uint32), alone.view(np.uint32), err_msg=row.name)
                found += 1
    assert found


def test_leaves_counters_as_it_found_them(device: Device) -> None:
    several = device.with_facts(units=3, kind=DeviceKind.CPU)
    graph, feeds, _ = build(CASES["pointwise"])
    first, second = (run_node(several, graph, feeds) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    counters = np.ones(several.counters.size // 4, np.int32)
    cl.enqueue_copy(device.queue, counters, several.counters)
    assert not counters.any()


def test_queues_have_counters_of_their_own(device: Device) -> None:
    assert device.with_profiling().counters is not device.counters
    assert device.counters is device.counters


def test_only_several_units_of_a_cpu_steal(device: Device) -> None:
    info = replace(device.info, kind=DeviceKind.CPU, units=2)
    assert can_steal(info)
    assert not can_steal(replace(info, units=1))
    assert not can_steal(replace(info, kind=DeviceKind.GPU))
