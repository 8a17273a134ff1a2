"""Attention is found in what exporters write: projections apart and packed, masks, scales, heads merged."""

import numpy as np
import pytest

from codl.ir.graph import Graph
from codl.ir.ops import Attention
from tests.executor import encoders
from tests.executor.encoders import Sketch
from tests.frontend.onnx_models import check_translation

TOKENS, WIDTH, HEADS = 6, 24, 3
SIZE = WIDTH // HEADS


def attentions(graph: Graph) -> list[Attention]:
    return [node.op for node in graph.nodes if isinstance(node.op, Attention)]


def kinds(graph: Graph) -> list[str]:
    return [node.kind for node in graph.nodes]


def finish(net: Sketch, output: str, *shape: int) -> Graph:
    """Return the graph of a network of the input `x`, whose values are compared."""
    return check_translation(net.finish({"x": shape}, [output]))


def split(net: Sketch, x: str, order: tuple[int, ...], *, batch: int = 1, size: int = SIZE) -> str:
    """Split heads off the channels and turn them."""
    return net.add("Transpose", net.reshape(x, batch, TOKENS, -1, size), perm=order)


def join(net: Sketch, mixed: str, *, batch: int = 1) -> str:
    """Join heads."""
    return net.reshape(net.add("Transpose", mixed, perm=(0, 2, 1, 3)), batch, TOKENS, -1)


def scores_of(net: Sketch, *, batch: int = 1, size: int = SIZE) -> str:
    """Return the product of x, split into heads, with itself."""
    query, key = (split(net, "x", order, batch=batch, size=size) for order in ((0, 2, 1, 3), (0, 2, 3, 1)))
    return net.add("MatMul", query, key)


def mix(net: Sketch, scores: str, *, batch: int = 1, size: int = SIZE) -> str:
    """Return a mean of x, split into heads, by scores."""
    value = split(net, "x", (0, 2, 1, 3), batch=batch, size=size)
    return net.add("MatMul", net.add("Softmax", scores, axis=-1), value)


@pytest.mark.parametrize("batch", [1, 2])
def test_projections_apart(batch: int) -> None:
    net = Sketch()
    mixed = encoders.attention(net, "x", tokens=TOKENS, width=WIDTH, heads=HEADS, batch=batch)
    graph = finish(net, mixed, batch, TOKENS, WIDTH)
    assert kinds(graph) == ["MatMul"] * 3 + ["Attention", "MatMul"]
    (op,) = attentions(graph)
    assert op == Attention(heads=HEADS, depth=SIZE, width=SIZE, scale=op.scale)
    assert op.scale == pytest.approx(SIZE**-0.5)


def test_one_projection_with_rows_first() -> None:
    net = Sketch()
    mixed = encoders.joint_attention(net, "x", tokens=TOKENS, width=WIDTH, heads=HEADS)
    (op,) = attentions(finish(net, mixed, 1, TOKENS, WIDTH))
    assert op.begins == (0, WIDTH, 2 * WIDTH)
    assert op.scale == pytest.approx(SIZE**-0.5)


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("how", ["Split", "Gather"])
def test_one_projection_turned_by_five_axes(how: str, batch: int) -> None:
    net = Sketch()
    joint = net.reshape(net.linear("x", WIDTH, 3 * WIDTH), batch, TOKENS, 3, HEADS, SIZE)
    turned = net.add("Transpose", joint, perm=(2, 0, 3, 1, 4))
    if how == "Split":
        name = net.add("Split", turned, outputs=3, axis=0)
        zero = net.constant([0], np.int64)
        query, key, value = (net.add("Squeeze", f"{name}.{part}", zero) for part in range(3))
    else:
        query, key, value = (
            net.add("Gather", turned, net.constant(part, np.int64), axis=0) for part in range(3)
        )
    scale = net.constant(SIZE**-0.25)
    scores = net.add(
        "MatMul",
        net.add("Mul", query, scale),
        net.add("Mul", net.add("Transpose", key, perm=(0, 1, 3, 2)), scale),
    )
    mixed = net.add("MatMul", net.add("Softmax", scores, axis=-1), value)
    graph = finish(net, join(net, mixed, batch=batch), batch, TOKENS, WIDTH)
    assert kinds(graph) == ["MatMul", "Attention"]
    assert attentions(graph)[0].begins == (0, WIDTH, 2 * WIDTH)


def test_heads_merged_with_the_batch() -> None:
    net, batch = Sketch(), 2

    def merge(order: tuple[int, ...]) -> str:
        return net.add(
            "Transpose", net.reshape(net.linear("x", WIDTH, WIDTH), TOKENS, batch * HEADS, SIZE), perm=order
        )

    query, key, value = merge((1, 0, 2)), merge((1, 2, 0)), merge((1, 0, 2))
    mixed = net.add("MatMul", net.add("Softmax", net.add("MatMul", query, key), axis=-1), value)
    joined = net.reshape(net.add("Transpose", mixed, perm=(1, 0, 2)), TOKENS, batch, WIDTH)
    graph = finish(net, joined, TOKENS, batch, WIDTH)
    assert kinds(graph) == ["MatMul"] * 3 + ["Attention"]
    assert attentions(graph)[0].row_axis == 0


@pytest.mark.parametrize(
    "shape", [(TOKENS,), (TOKENS, TOKENS), (HEADS, 1, TOKENS), (2, 1, 1, TOKENS), (1, 1, 1, 1)], ids=str
)
@pytest.mark.parametrize("is_scaled", [True, False], ids=["scaled", "plain"])
def test_masks(shape: tuple[int, ...], is_scaled: bool) -> None:
    net = Sketch()
    scores = scores_of(net, batch=2)
    if is_scaled:
        scores = net.add("Mul", net.constant(0.25), scores)
    masked = net.add("Add", scores, net.weight(*shape, scale=1.0))
    graph = finish(net, join(net, mix(net, masked, batch=2), batch=2), 2, TOKENS, WIDTH)
    assert kinds(graph) == ["Attention"]
    assert attentions(graph)[0].has_mask


def test_one_head_needs_no_moves() -> None:
    net = Sketch()
    scores = net.add("MatMul", "x", net.add("Transpose", "x", perm=(0, 2, 1)))
    graph = finish(net, net.add("MatMul", net.add("Softmax", scores, axis=-1), "x"), 4, TOKENS, SIZE)
    assert kinds(graph) == ["Attention"]


def test_heads_that_stay_apart_are_split_behind_it() -> None:
    net = Sketch()
    graph = finish(net, mix(net, scores_of(net, batch=2), batch=2), 2, TOKENS, WIDTH)
    assert kinds(graph) == ["Attention", "Reshape", "Transpose"]


def test_what_reads_a_part_of_the_result_reads_it_behind() -> None:
    net = Sketch()
    joined = join(net, mix(net, scores_of(net)))
    graph = finish(net, net.add("Gather", joined, net.constant(0, np.int64), axis=1), 1, TOKENS, WIDTH)
    assert kinds(graph)[0] == "Attention"
    assert graph.shape(graph.nodes[0].output) == (1, TOKENS, WIDTH)


def test_scores_that_are_read_again_stay() -> None:
    net = Sketch()
    scores = scores_of(net)
    mixed = net.add("Concat", mix(net, scores), net.add("MatMul", scores, scores), axis=-1)
    assert not attentions(finish(net, mixed, 1, TOKENS, WIDTH))


def test_a_softmax_over_queries_is_no_attention() -> None:
    net = Sketch()
    value = split(net, "x", (0, 2, 1, 3))
    mixed = net.add("MatMul", net.add("Softmax", scores_of(net), axis=2), value)
    assert not attentions(finish(net, join(net, mixed), 1, TOKENS, WIDTH))


def test_a_mask_that_widens_the_scores_is_left() -> None:
    net = Sketch()
    masked = net.add("Add", scores_of(net), net.weight(2, 1, 1, 1, scale=1.0))
    mixed = net.add("MatMul", net.add("Softmax", masked, axis=-1), split(net, "x", (0, 2, 1, 3)))
    assert not attentions(finish(net, mixed, 1, TOKENS, WIDTH))


def test_heads_of_many_channels_are_left() -> None:
    net = Sketch()
    graph = finish(net, join(net, mix(net, scores_of(net, size=160), size=160)), 1, TOKENS, 320)
    assert not attentions(graph)


@pytest.mark.parametrize("windows", [1, 4])
@pytest.mark.parametrize("is_joint", [False, True], ids=["heads apart", "heads joint"])
def test_constants_added_one_by_one_are_one_mask(windows: int, is_joint: bool) -> None:
    net = Sketch()
    query, key, value = (
        net.add("Transpose", net.reshape(x, windows, TOKENS, HEADS, SIZE), perm=perm)
        for x, perm in zip("xyz", ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3)), strict=True)
    )
    scores = net.add("MatMul", query, key)
    if is_joint:
        scores = net.reshape(scores, windows * HEADS, TOKENS, TOKENS)
        scores = net.reshape(scores, windows, HEADS, TOKENS, TOKENS)
    scores = net.add("Add", scores, net.weight(1, HEADS, TOKENS, TOKENS, scale=1.0))
    scores = net.reshape(scores, 1, windows, HEADS, TOKENS, TOKENS)
    scores = net.add("Add", net.weight(1, windows, 1, TOKENS, TOKENS, scale=9.0), scores)
    weights = net.add("Softmax", net.reshape(scores, windows, HEADS, TOKENS, TOKENS), axis=-1)
    mixed = net.add("Transpose", net.add("MatMul", weights, value), perm=(0, 2, 1, 3))
    joined = net.reshape(mixed, windows, TOKENS, WIDTH)
    shapes = dict.fromkeys("xyz", (windows, TOKENS, WIDTH))
    graph = check_translation(net.finish(shapes, [joined]))
    (node,) = graph.nodes
    assert node.kind == "Attention"
    assert graph.shape(node.inputs[3]) == (windows, HEADS, TOKENS, TOKENS)
