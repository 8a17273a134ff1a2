"""Rows that move values on every device: Concat, SpaceToDepth, Reshape, publication of a region."""

from dataclasses import replace
from typing import Any

import numpy as np
import pyopencl as cl
import pytest
from onnx import helper

from codl.catalog.choose import choose
from codl.catalog.rows import concat, copy, reshape
from codl.catalog.rows.concat import CONCAT
from codl.catalog.rows.copy import COPY, copy_batch
from codl.catalog.rows.reshape import GATHER
from codl.catalog.spec import Selection
from codl.devices.launch import tensor_arguments
from codl.devices.memory import Storage, place_host
from codl.devices.opencl import Device
from codl.ir.graph import FloatArray, Shape
from codl.ir.ops import Concat, Reshape, SpaceToDepth
from codl.ir.regions import Boxes, Region
from tests.kernels.guarded_images import CANARY
from tests.kernels.harness import assert_right, one_node_graph, random_array, run_onnx
from tests.kernels.slices import EDGES, slices_of

TABLE = {row.name: row for row in (*concat.IMPLEMENTATIONS, *copy.IMPLEMENTATIONS, *reshape.IMPLEMENTATIONS)}
GAPS = pytest.mark.parametrize("gap", [0, 3], ids=["dense", "spaced"])

CONCATS: dict[str, tuple[int, tuple[Shape, ...]]] = {
    "channels": (1, ((2, 3, 4, 5), (2, 20, 4, 5), (2, 1, 4, 5))),
    "channels-of-five": (1, tuple((2, channels, 3, 4) for channels in (3, 9, 8, 1, 17))),
    "batch": (0, ((2, 9, 2, 3), (1, 9, 2, 3))),
    "rows": (2, ((1, 9, 4, 5), (1, 9, 1, 5))),
    "columns": (3, ((1, 9, 4, 5), (1, 9, 4, 2), (1, 9, 4, 9))),
    "matrix": (1, ((3, 4), (3, 17))),
    "vector": (0, ((3,), (40,))),
    "sequence": (1, ((2, 3, 4), (2, 5, 4))),
}

RESHAPES: dict[str, tuple[Shape, Shape]] = {
    "flatten": ((2, 20, 3, 5), (2, 300)),
    "flatten-few-channels": ((1, 3, 7, 6), (1, 126)),
    "flatten-one-pixel": ((2, 37, 1, 1), (2, 37)),
    "flatten-all": ((2, 3, 4, 5), (120,)),
    "flatten-to-rows": ((2, 3, 4, 5), (6, 20)),
    "columns": ((1, 18, 4, 5), (1, 18, 20)),
    "sequence-of-pixels": ((2, 6, 4, 5), (2, 2, 60)),
    "heads": ((2, 5, 24), (2, 5, 3, 8)),
    "image-from-vector": ((1, 180), (1, 9, 4, 5)),
    "image-to-image": ((2, 3, 4, 5), (5, 4, 3, 2)),
    "shuffled-groups": ((1, 12, 3, 4), (3, 4, 3, 4)),
    "merge-batch": ((2, 3, 20), (6, 20)),
    "number": ((1, 1), ()),
    "long": ((1, 5000), (5000,)),
}


def concat_case(axis: int, shapes: tuple[Shape, ...]) -> tuple[dict[str, FloatArray], FloatArray]:
    """Return the inputs of one Concat and ONNX Runtime's result."""
    inputs = {f"x{index}": random_array(*shape, seed=index) for index, shape in enumerate(shapes)}
    return inputs, run_onnx([helper.make_node("Concat", list(inputs), ["y"], axis=axis)], inputs)


@GAPS
@pytest.mark.parametrize(("axis", "shapes"), CONCATS.values(), ids=CONCATS)
def test_concat_agrees_with_onnx_runtime_under_cuts(
    device: Device, axis: int, shapes: tuple[Shape, ...], gap: int
) -> None:
    inputs, reference = concat_case(axis, shapes)
    graph = one_node_graph(Concat(axis=axis), inputs, reference.shape)
    assert_right(device, graph, inputs, reference, slices=slices_of(reference.shape), gap=gap, tolerance=0)


def test_concat_of_a_constant(device: Device) -> None:
    inputs, reference = concat_case(1, ((1, 9, 3, 4), (1, 8, 3, 4)))
    graph = one_node_graph(Concat(axis=1), inputs, reference.shape, constants=("x1",))
    assert_right(device, graph, inputs, reference, slices=slices_of(reference.shape), tolerance=0)


def test_copies_launch_nothing_for_an_input_outside_the_region(device: Device) -> None:
    inputs, reference = concat_case(1, ((1, 4, 2, 2), (1, 6, 2, 2)))
    graph = one_node_graph(Concat(axis=1), inputs, reference.shape)
    whole = Region.whole(reference.shape)
    boxes = Boxes.of([whole, whole.cut(1, 0, 4), whole.cut(1, 4, 10)])
    assert choose(graph.nodes[0], graph, device.info).implementation.name == CONCAT
    first, second = TABLE[COPY].describe(graph.nodes[0], graph, boxes, device.info, {})
    assert (first.global_size.prod(axis=1) > 0).tolist() == [True, True, False]
    assert (second.global_size.prod(axis=1) > 0).tolist() == [True, False, True]


BLOCKS = pytest.mark.parametrize(
    ("shape", "block"), [((2, 12, 4, 6), 2), ((1, 3, 6, 9), 3), ((1, 20, 4, 4), 4), ((1, 1, 2, 2), 2)]
)


@GAPS
@BLOCKS
def test_space_to_depth_agrees_with_onnx_runtime_under_cuts(
    device: Device, shape: Shape, block: int, gap: int
) -> None:
    x = random_array(*shape)
    reference = run_onnx([helper.make_node("SpaceToDepth", ["x"], ["y"], blocksize=block)], {"x": x})
    graph = one_node_graph(SpaceToDepth(block=block), {"x": x}, reference.shape)
    assert_right(device, graph, {"x": x}, reference, slices=slices_of(reference.shape), gap=gap, tolerance=0)


@GAPS
@BLOCKS
def test_space_to_depth_by_columns_agrees_with_onnx_runtime_under_cuts(
    device: Device, shape: Shape, block: int, gap: int
) -> None:
    """ONNX Runtime moves the axes; older ones know no mode of the operator."""
    x = random_array(*shape)
    n, c, h, w = shape
    blocks = x.reshape(n, c, h // block, block, w // block, block)
    moved = run_onnx([helper.make_node("Transpose", ["x"], ["y"], perm=(0, 1, 3, 5, 2, 4))], {"x": blocks})
    reference = moved.reshape(n, c * block**2, h // block, w // block)
    graph = one_node_graph(SpaceToDepth(block=block, is_column_major=True), {"x": x}, reference.shape)
    assert_right(device, graph, {"x": x}, reference, slices=slices_of(reference.shape), gap=gap, tolerance=0)


@GAPS
@pytest.mark.parametrize(("before", "after"), RESHAPES.values(), ids=RESHAPES)
def test_reshape_agrees_with_onnx_runtime_under_cuts(
    device: Device, before: Shape, after: Shape, gap: int
) -> None:
    x = random_array(*before)
    reference = np.reshape(run_onnx([helper.make_node("Flatten", ["x"], ["y"], axis=0)], {"x": x}), after)
    graph = one_node_graph(Reshape(), {"x": x}, after)
    assert_right(device, graph, {"x": x}, reference, slices=slices_of(after), gap=gap, tolerance=0)


@pytest.mark.parametrize("length", [2 * n for n in EDGES.values()], ids=EDGES)
@pytest.mark.parametrize("name", [CONCAT, COPY, GATHER])
def test_tile_edges(device: Device, name: str, length: int) -> None:
    lanes = Selection(implementation=TABLE[name], parameters={})
    if name != GATHER:
        inputs, reference = concat_case(1, ((2, length), (2, 5)))
        graph = one_node_graph(Concat(axis=1), inputs, reference.shape)
    else:
        inputs = {"x": random_array(2, 3, length)}
        reference = inputs["x"].reshape(6, length)
        graph = one_node_graph(Reshape(), inputs, reference.shape)
    slices = slices_of(reference.shape)
    assert_right(device, graph, inputs, reference, slices=slices, selection=lanes, tolerance=0)


@pytest.mark.parametrize("shape", [(7,), (3, 20), (2, 3, 4), (2, 20, 6, 5)], ids=["1", "2", "3", "4"])
def test_publication_copies_a_region_and_nothing_else(device: Device, shape: Shape) -> None:
    x = random_array(*shape)
    for own in slices_of(shape):
        part = tuple(map(slice, own.begin, own.end))
        shared, private = place_host(Region.whole(shape)), place_host(own)
        shared.view()[...] = CANARY
        private.view()[...] = x[part]
        copy_on(device, shape, own, shared, private)
        expected = np.full(shape, CANARY, np.float32)
        expected[part] = x[part]
        np.testing.assert_array_equal(shared.view(), expected)


def copy_on(device: Device, shape: Shape, own: Region, shared: Storage, private: Storage) -> None:
    """Run a publication with both storages in memory of the device, and bring the shared one back."""
    row, batch = copy_batch("t", shape, Boxes.of([own]), device.info)
    args: list[Any] = []
    for arg, storage in zip(batch.tensors, (shared, private), strict=True):
        assert storage.host is not None
        on_device = replace(storage, buffer=device.allocate(storage.host.size))
        cl.enqueue_copy(device.queue, on_device.buffer, storage.host)
        args += tensor_arguments(arg, on_device)
    args += [np.int32(values[0]) for values in batch.scalars.values()]
    kernel = device.kernel(row.source, batch.entry, {})
    kernel.set_args(*args)
    size = tuple(batch.global_size[0].tolist())
    cl.enqueue_nd_range_kernel(device.queue, kernel, size, batch.local_size)
    cl.enqueue_copy(device.queue, shared.host, args[0])
    device.finish()
