"""A node on a device: with its own constants it computes the node, with those of a pool it is timed."""

from collections.abc import Iterable

import numpy as np
import pyopencl as cl

from codl.catalog.candidates import iterate_candidates
from codl.catalog.choose import choose
from codl.devices.launch import BoundLaunch
from codl.devices.opencl import open_device
from codl.devices.pools import ConstantPool
from codl.tuner.trial import Trial
from codl.tuner.workload import find_shapes
from tests.catalog.nodes import NODES
from tests.kernels.convolutions import Case, build
from tests.tuner.test_reference import DEVICE


def test_far_constants_are_others_each_time_and_as_many() -> None:
    graph, _, _ = build(Case(image=(8, 8), inputs=16, outputs=32))
    (shape,) = find_shapes([graph])
    device = open_device(DEVICE)
    trial, pool = Trial(shape.with_constants(), device), ConstantPool(device)
    selection = choose(shape.node, shape.graph, device.info)

    own, first, second = (trial.bind(selection, constants) for constants in (None, pool, pool))

    for launches in zip(own, first, second, strict=True):
        sizes = [[arg.size for arg in _list_buffers([one])] for one in launches]
        assert sizes[1] == sizes[2]
        assert len(sizes[0]) == len(sizes[1])
    assert trial.count_constant_bytes(selection) >= 4 * 16 * 32 * 9
    assert {arg.int_ptr for arg in _list_buffers(first)} != {arg.int_ptr for arg in _list_buffers(second)}
    for launch in (*first, *second):
        launch.enqueue()
    device.finish()
    assert np.isfinite(trial.compute(selection)).all()


def test_constants_that_are_read_as_they_are_are_far_too() -> None:
    graph = NODES["vector-times-constant"].graph
    device = open_device(DEVICE)
    trial, pool = Trial(graph, device), ConstantPool(device)
    candidates = iterate_candidates(graph.nodes[0], graph, device.info)
    plain = next(one for one in candidates if one.implementation.name == "gemm_plain__buffer")

    own, first, second = ({*_list_buffers(trial.bind(plain, one))} for one in (None, pool, pool))

    assert len(own & first & second) == 2
    assert own - first != first - second != set()
    assert trial.count_constant_bytes(plain) == 4 * 64 * 1000


def _list_buffers(launches: Iterable[BoundLaunch]) -> list[cl.Buffer]:
    return [arg for launch in launches for arg in launch.args if isinstance(arg, cl.Buffer)]
