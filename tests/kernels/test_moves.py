"""Rows that copy boxes on every device: Slice, Transpose, DepthToSpace, ChannelShuffle; cuts, tile edges."""

import numpy as np
import pytest
from onnx import helper

from codl.catalog.choose import choose
from codl.catalog.rows.copy import COPY
from codl.catalog.rows.shuffle import SHUFFLE
from codl.devices.opencl import Device
from codl.ir.graph import FloatArray, Shape
from codl.ir.ops import ChannelShuffle, DepthToSpace, Op, Slice, Transpose
from tests.kernels.harness import assert_right, one_node_graph, random_array, run_onnx
from tests.kernels.slices import EDGES, slices_of

GAPS = pytest.mark.parametrize("gap", [0, 3], ids=["dense", "spaced"])

SLICES: dict[str, tuple[Shape, tuple[slice, ...]]] = {
    "channels": ((2, 20, 4, 5), (slice(0, 2), slice(3, 19), slice(0, 4), slice(0, 5))),
    "pixels": ((1, 9, 6, 7), (slice(0, 1), slice(0, 9), slice(1, 5), slice(2, 7))),
    "every-second": ((2, 9, 7, 8), (slice(0, 2), slice(1, 9, 2), slice(0, 7, 3), slice(1, 8, 2))),
    "backwards": ((2, 9, 6, 5), (slice(1, None, -1), slice(8, 1, -3), slice(5, None, -1), slice(4, 0, -2))),
    "focus": ((1, 3, 8, 8), (slice(0, 1), slice(0, 3), slice(1, 8, 2), slice(0, 8, 2))),
    "sequence": ((2, 7, 20), (slice(0, 2), slice(6, 0, -2), slice(4, 20))),
    "matrix": ((5, 33), (slice(1, 4), slice(32, None, -1))),
    "vector": ((40,), (slice(3, 40, 4),)),
}
TRANSPOSES: dict[str, tuple[Shape, tuple[int, ...]]] = {
    "to-channels-last": ((2, 20, 3, 5), (0, 2, 3, 1)),
    "to-channels-first": ((2, 5, 20, 3), (0, 3, 1, 2)),
    "heads": ((1, 9, 4, 17), (0, 2, 1, 3)),
    "keys": ((1, 4, 9, 17), (0, 1, 3, 2)),
    "reversed": ((2, 3, 4, 5), (3, 2, 1, 0)),
    "identity": ((2, 9, 3, 4), (0, 1, 2, 3)),
    "sequence": ((2, 7, 20), (1, 0, 2)),
    "sequence-turned": ((2, 7, 20), (0, 2, 1)),
    "matrix": ((7, 33), (1, 0)),
    "vector": ((9,), (0,)),
    "large": ((1, 64, 40, 50), (0, 2, 3, 1)),
}
DEPTHS: dict[str, tuple[Shape, int]] = {
    "two": ((2, 12, 3, 4), 2),
    "three": ((1, 27, 2, 3), 3),
    "many-channels": ((1, 80, 2, 3), 2),
    "one": ((1, 5, 2, 2), 1),
}
SHUFFLES: dict[str, tuple[Shape, int]] = {
    "two": ((2, 24, 3, 4), 2),
    "three": ((1, 9, 2, 3), 3),
    "four": ((1, 112, 3, 4), 4),
    "eight": ((2, 40, 2, 3), 8),
    "eight-wide": ((1, 120, 2, 3), 8),
    "all": ((1, 5, 2, 3), 5),
    "one": ((1, 6, 2, 3), 1),
}


def check(
    device: Device, op: Op, x: FloatArray, reference: FloatArray, *, gap: int = 3, row: str = COPY
) -> None:
    """Assert that ``op`` makes ``reference`` of ``x``, whole and in slices, by the kernel ``row``."""
    graph = one_node_graph(op, {"x": x}, reference.shape)
    assert choose(graph.nodes[0], graph, device.info).implementation.name == row
    assert_right(device, graph, {"x": x}, reference, slices=slices_of(reference.shape), gap=gap, tolerance=0)


@GAPS
@pytest.mark.parametrize(("shape", "parts"), SLICES.values(), ids=SLICES)
def test_slice_agrees_with_onnx_runtime_under_cuts(
    device: Device, shape: Shape, parts: tuple[slice, ...], gap: int
) -> None:
    x = random_array(*shape)
    ranges = [range(length)[part] for part, length in zip(parts, shape, strict=True)]
    bounds = {
        "begin": [part.start for part in ranges],
        "end": [part.stop if part.stop >= 0 else -(2**31) for part in ranges],
        "axes": list(range(len(shape))),
        "step": [part.step for part in ranges],
    }
    nodes = [helper.make_node("Constant", [], [name], value_ints=values) for name, values in bounds.items()]
    reference = run_onnx([*nodes, helper.make_node("Slice", ["x", *bounds], ["y"])], {"x": x})
    op = Slice(begin=tuple(part.start for part in ranges), step=tuple(part.step for part in ranges))
    check(device, op, x, reference, gap=gap)


@GAPS
@pytest.mark.parametrize(("shape", "order"), TRANSPOSES.values(), ids=TRANSPOSES)
def test_transpose_agrees_with_onnx_runtime_under_cuts(
    device: Device, shape: Shape, order: tuple[int, ...], gap: int
) -> None:
    x = random_array(*shape)
    reference = run_onnx([helper.make_node("Transpose", ["x"], ["y"], perm=order)], {"x": x})
    check(device, Transpose(order=order), x, reference, gap=gap)


@GAPS
@pytest.mark.parametrize("mode", ["DCR", "CRD"])
@pytest.mark.parametrize(("shape", "block"), DEPTHS.values(), ids=DEPTHS)
def test_depth_to_space_agrees_with_onnx_runtime_under_cuts(
    device: Device, shape: Shape, block: int, mode: str, gap: int
) -> None:
    x = random_array(*shape)
    node = helper.make_node("DepthToSpace", ["x"], ["y"], blocksize=block, mode=mode)
    op = DepthToSpace(block=block, is_column_major=mode == "CRD")
    check(device, op, x, run_onnx([node], {"x": x}), gap=gap)


@GAPS
@pytest.mark.parametrize(("shape", "groups"), SHUFFLES.values(), ids=SHUFFLES)
def test_channel_shuffle_agrees_with_onnx_runtime_under_cuts(
    device: Device, shape: Shape, groups: int, gap: int
) -> None:
    x = random_array(*shape)
    row = SHUFFLE if groups in {2, 3, 4, 8} else COPY
    check(device, ChannelShuffle(groups=groups), x, shuffle(x, groups), gap=gap, row=row)


def shuffle(x: FloatArray, groups: int) -> FloatArray:
    """Return what ONNX Runtime makes of a reshape, a transpose and a reshape."""
    n, c, h, w = x.shape
    grouped = np.ascontiguousarray(x.reshape(n, groups, c // groups, h, w))
    node = helper.make_node("Transpose", ["x"], ["y"], perm=(0, 2, 1, 3, 4))
    return run_onnx([node], {"x": grouped}).reshape(x.shape)


@pytest.mark.parametrize("length", [2 * n for n in EDGES.values()], ids=EDGES)
def test_tile_edges(device: Device, length: int) -> None:
    x = random_array(1, 2 * length, 2, 3)
    check(device, Slice(begin=(0, length, 0, 0), step=(1, 1, 1, 1)), x, np.array(x[:, length:]))
    check(device, ChannelShuffle(groups=2 * length), x, shuffle(x, 2 * length))


@pytest.mark.parametrize("groups", [2, 3, 4, 8])
@pytest.mark.parametrize("size", EDGES.values(), ids=EDGES)
def test_tile_edges_of_a_shuffle(device: Device, size: int, groups: int) -> None:
    x = random_array(1, groups * size, 2, 3)
    check(device, ChannelShuffle(groups=groups), x, shuffle(x, groups), row=SHUFFLE)
