"""Images stay as they are, and matrices lose their first axis, where operators need it; values stay."""

from typing import Any

import numpy as np
import pytest

from codl.ir.graph import Graph
from codl.ir.ops import LayerNorm, MatMul, Softmax, Transpose
from tests.executor.encoders import NETWORKS, Sketch
from tests.frontend.onnx_models import check_host, check_translation


def finish(net: Sketch, output: str, *inputs: tuple[int, ...]) -> Graph:
    """Return the graph of a network of inputs `x`, `y` and so on, whose values are compared."""
    return check_translation(net.finish(dict(zip("xyz", inputs, strict=False)), [output]))


def kinds(graph: Graph) -> list[str]:
    return [node.kind for node in graph.nodes]


def turn(net: Sketch, x: str, order: tuple[int, ...]) -> str:
    return net.add("Transpose", x, perm=order)


@pytest.mark.parametrize("network", NETWORKS)
def test_networks_keep_their_values_and_need_no_host(network: str) -> None:
    assert not check_translation(NETWORKS[network]()).host_models


def test_layers_over_channels_take_images_as_they_are() -> None:
    net = Sketch()
    last = net.gelu(net.linear(net.norm(turn(net, "x", (0, 2, 3, 1)), 8), 8, 16))
    graph = finish(net, turn(net, last, (0, 3, 1, 2)), (2, 8, 3, 5))
    assert kinds(graph) == ["LayerNorm", "Conv2d"]
    assert isinstance(graph.nodes[0].op, LayerNorm)
    assert graph.nodes[0].op.axis == 1


def test_an_output_with_channels_last_is_turned_behind_the_layers() -> None:
    net = Sketch()
    graph = finish(net, net.norm(turn(net, "x", (0, 2, 3, 1)), 8), (2, 8, 3, 5))
    assert kinds(graph) == ["LayerNorm", "Transpose"]


@pytest.mark.parametrize("shape", [(), (1,), (8,), (1, 1, 1, 8)], ids=str)
def test_constants_are_turned_with_the_images(shape: tuple[int, ...]) -> None:
    net = Sketch()
    scaled = net.add("Mul", net.norm(turn(net, "x", (0, 2, 3, 1)), 8), net.weight(*shape, scale=1.0))
    graph = finish(net, turn(net, scaled, (0, 3, 1, 2)), (1, 8, 3, 5))
    assert Transpose(order=(0, 2, 3, 1)) not in [node.op for node in graph.nodes]


def test_a_constant_along_columns_is_no_number_a_channel() -> None:
    net = Sketch()
    scaled = net.add("Mul", net.norm(turn(net, "x", (0, 2, 3, 1)), 8), net.weight(8, 1, scale=1.0))
    finish(net, turn(net, scaled, (0, 3, 1, 2)), (1, 8, 3, 8))


def test_matrices_of_one_image_lose_their_first_axis() -> None:
    net = Sketch()
    scores = net.add("Softmax", net.add("MatMul", "x", turn(net, "y", (0, 1, 3, 2))), axis=-1)
    graph = finish(net, turn(net, net.add("MatMul", scores, "y"), (0, 2, 1, 3)), (1, 3, 5, 8), (1, 3, 7, 8))
    products = [node for node in graph.nodes if isinstance(node.op, MatMul | Softmax)]
    assert [len(graph.shape(node.output)) for node in products] == [3, 3, 3]
    assert [node.op.order for node in graph.nodes if isinstance(node.op, Transpose)] == [(0, 2, 1), (1, 0, 2)]


def test_matrices_of_several_images_stay() -> None:
    net = Sketch()
    graph = finish(net, net.add("MatMul", "x", "y"), (2, 3, 5, 8), (2, 3, 8, 4))
    assert kinds(graph) == ["MatMul"]


@pytest.mark.parametrize(
    ("index", "begin", "step"), [(1, 1, 1), (-1, 3, 1), ([1, 3], 1, 2), ([2], 2, 1)], ids=str
)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_picks_at_equal_steps_are_slices(index: Any, begin: int, step: int, axis: int) -> None:
    net = Sketch()
    picked = net.add("Gather", "x", net.constant(index, np.int64), axis=axis)
    graph = finish(net, picked, (4, 4, 4))
    assert kinds(graph) == (["Slice"] if isinstance(index, list) else ["Slice", "Reshape"])
    assert not graph.host_models


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_picks_of_every_nth_place_in_n_rows_are_a_transpose(axis: int) -> None:
    net = Sketch()
    picked = net.add("Gather", "x", net.constant([[0, 3], [1, 4], [2, 5]], np.int64), axis=axis)
    graph = finish(net, picked, (6, 6, 6))
    assert "Transpose" in kinds(graph)
    assert not graph.host_models


def test_unfolded_images_are_moved_on_devices() -> None:
    net = Sketch()
    index = net.constant(np.arange(6).reshape(3, 2).T, np.int64)
    rows = net.add("Gather", "x", index, axis=2)
    both = net.add("Gather", rows, index, axis=4)
    turned = turn(net, both, (0, 1, 2, 4, 3, 5))
    graph = finish(net, net.reshape(turned, 1, 5, 4, 9), (1, 5, 6, 6))
    assert set(kinds(graph)) == {"Transpose", "Reshape"}
    assert not graph.host_models


@pytest.mark.parametrize(
    "index", [[1, 0], [0, 1, 3], [[0, 1], [2, 3]], [[0, 2]], [[2, 0], [3, 1]], [1, 1]], ids=str
)
def test_other_picks_are_left_to_the_host(index: Any) -> None:
    net = Sketch()
    picked = net.add("Gather", "x", net.constant(index, np.int64), axis=1)
    check_host(net.finish({"x": (4, 4, 4)}, [picked]), reason="indices")


def test_a_transpose_of_five_axes_between_reshapes_is_one_of_few() -> None:
    net = Sketch()
    split = net.reshape("x", 1, 6, 1, 3, 8)
    turned = turn(net, split, (3, 1, 2, 0, 4))
    graph = finish(net, net.reshape(turned, 3, 6, 8), (6, 1, 24))
    assert Transpose(order=(1, 0, 2)) in [node.op for node in graph.nodes]
    assert not graph.host_models


def test_a_transpose_of_five_long_axes_is_left_to_the_host() -> None:
    net = Sketch()
    turned = turn(net, net.reshape("x", 2, 2, 3, 2, 2), (4, 3, 2, 1, 0))
    model = net.finish({"x": (4, 12)}, [net.reshape(turned, 4, 12)])
    check_host(model, reason="of shape [2, 2, 3, 2, 2]")


def test_images_cut_and_joined_again_behind_a_reshape_lose_their_first_axis() -> None:
    net, ends = Sketch(), 1 << 40
    image = net.reshape("x", 1, 4, 6, 5)
    for axis in (1, 2):
        parts = [
            net.add("Slice", image, *(net.constant([limit], np.int64) for limit in (begin, end, axis)))
            for begin, end in ((1, ends), (0, 1))
        ]
        image = net.add("Concat", *parts, axis=axis)
    graph = finish(net, net.reshape(image, 24, 5), (8, 15))
    assert kinds(graph) == ["Reshape", *["Slice", "Slice", "Concat"] * 2, "Reshape"]
    assert all(len(graph.shape(node.output)) < 4 for node in graph.nodes)
