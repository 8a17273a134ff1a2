"""Moves over tensors of more than four axes: as moves over fewer, which keep values, or on the host."""

import random
from math import prod

import numpy as np
import pytest

import codl
from codl.frontend import load_graph
from codl.frontend.merging import Cut, fit_cuts, fit_order, merge_operands
from codl.ir.ops import Slice, Transpose
from tests.executor.encoders import Sketch
from tests.frontend.onnx_models import check_host, check_translation, open_onnxruntime
from tests.oracle import NETWORK_TOLERANCE, random_feeds, relative_error

SEEDS = range(40)
Shape = tuple[int, ...]


def cut_anywhere(rng: random.Random, count: int, most: int = 4) -> Shape:
    """Return a shape of a number of elements, of up to ``most`` axes."""
    lengths, left = [], count
    for _ in range(most - 1):
        length = rng.choice([n for n in range(1, left + 1) if left % n == 0])
        lengths.append(length)
        left //= length
    return (*lengths, left)


def random_shape(rng: random.Random, rank: int) -> Shape:
    return tuple(rng.choice((1, 1, 2, 3, 4)) for _ in range(rank))


@pytest.mark.parametrize("seed", SEEDS)
def test_fitted_orders_move_the_same_elements(seed: int) -> None:
    rng = random.Random(seed)
    shape = random_shape(rng, rng.randint(0, 7))
    order = rng.sample(range(len(shape)), len(shape))
    x = np.arange(prod(shape)).reshape(shape)
    lengths, merged = fit_order(shape, order, carrier=cut_anywhere(rng, x.size))
    assert np.array_equal(x.reshape(lengths).transpose(merged).ravel(), x.transpose(order).ravel())


@pytest.mark.parametrize("seed", SEEDS)
def test_fitted_cuts_pick_the_same_elements(seed: int) -> None:
    rng = random.Random(seed)
    shape = random_shape(rng, rng.randint(1, 6))
    cuts = []
    for length in shape:
        begin = rng.randrange(length)
        step = rng.choice((1, 1, 2, -1))
        count = rng.randint(1, len(range(begin, length, step) if step > 0 else range(begin, -1, step)))
        whole = Cut(length=length, begin=0, step=1, count=length)
        cuts.append(rng.choice((whole, Cut(length=length, begin=begin, step=step, count=count))))
    x = np.arange(prod(shape)).reshape(shape)
    fitted = fit_cuts(cuts, carrier=cut_anywhere(rng, x.size))
    lengths = tuple(cut.length for cut in fitted)
    assert np.array_equal(pick(x.reshape(lengths), fitted).ravel(), pick(x, cuts).ravel())


def pick(
    x: "np.ndarray[Shape, np.dtype[np.int64]]", cuts: list[Cut]
) -> "np.ndarray[Shape, np.dtype[np.int64]]":
    places = [[cut.begin + place * cut.step for place in range(cut.count)] for cut in cuts]
    return x[np.ix_(*places)] if places else x


@pytest.mark.parametrize("seed", SEEDS)
def test_fitted_operands_broadcast_alike(seed: int) -> None:
    rng = random.Random(seed)
    shape = random_shape(rng, rng.randint(0, 7))
    a, b = (
        tuple(rng.choice((1, n)) for n in shape[rng.randint(0, len(shape)) if at else 0 :]) for at in (0, 1)
    )
    x, y = np.arange(prod(a)).reshape(a), 1000 * np.arange(prod(b)).reshape(b)
    carriers = [cut_anywhere(rng, value.size) for value in (x, y)]
    first, second = merge_operands(a, b, carriers=carriers)
    assert len(first) == len(second)
    assert np.array_equal((x.reshape(first) + y.reshape(second)).ravel(), (x + y).ravel())


def partition(net: Sketch, x: str, *, batch: int, windows: int, size: int, channels: int) -> str:
    """Add what cuts an image, channels last, into windows [count, size * size, channels]."""
    split = net.reshape(x, batch, windows, size, windows, size, channels)
    turned = net.add("Transpose", split, perm=(0, 1, 3, 2, 4, 5))
    return net.reshape(turned, -1, size * size, channels)


def join(net: Sketch, x: str, *, batch: int, windows: int, size: int, channels: int) -> str:
    """Add what makes an image of windows."""
    split = net.reshape(x, batch, windows, windows, size, size, channels)
    turned = net.add("Transpose", split, perm=(0, 1, 3, 2, 4, 5))
    return net.reshape(turned, batch, windows * size, windows * size, channels)


@pytest.mark.parametrize("batch", [1, 2])
def test_windows_of_images_are_turned_on_four_axes(batch: int) -> None:
    net, sizes = Sketch(), {"batch": batch, "windows": 3, "size": 2, "channels": 5}
    inside = net.linear(partition(net, "x", **sizes), 5, 5)
    model = net.finish({"x": (batch, 6, 6, 5)}, [join(net, inside, **sizes)])
    graph = check_translation(model)
    assert not graph.host_models
    assert [node.op for node in graph.nodes if isinstance(node.op, Transpose)] == [
        Transpose(order=(0, 2, 1, 3))
    ] * 2


@pytest.mark.parametrize("how", ["Split", "Gather", "Slice"])
def test_parts_of_five_axes_are_cut_where_they_lie(how: str) -> None:
    net = Sketch()
    joint = net.reshape(net.linear("x", 8, 24), 2, 7, 3, 2, 4)
    axes = net.constant([2], np.int64)
    if how == "Split":
        name = net.add("Split", joint, outputs=3, axis=2)
        parts = [net.add("Squeeze", f"{name}.{part}", axes) for part in range(3)]
    elif how == "Gather":
        parts = [net.add("Gather", joint, net.constant(part, np.int64), axis=2) for part in range(3)]
    else:
        ends = [(net.constant([part], np.int64), net.constant([part + 1], np.int64)) for part in range(3)]
        parts = [net.add("Squeeze", net.add("Slice", joint, *end, axes), axes) for end in ends]
    turned = [net.add("Transpose", part, perm=(0, 2, 3, 1)) for part in parts]
    graph = check_translation(net.finish({"x": (2, 7, 8)}, turned))
    assert not graph.host_models
    slices = [node for node in graph.nodes if isinstance(node.op, Slice)]
    assert [graph.shape(node.output) for node in slices] == [(2, 7, 8)] * 3


def test_a_mask_of_five_axes_is_added_to_matrices_as_they_are() -> None:
    net = Sketch()
    scores = net.reshape("x", 1, 6, 2, 5, 5)
    masked = net.add("Relu", net.add("Add", scores, net.weight(1, 6, 1, 5, 5, scale=1.0)))
    graph = check_translation(net.finish({"x": (6, 2, 5, 5)}, [net.reshape(masked, 6, 2, 5, 5)]))
    assert [node.kind for node in graph.nodes] == ["Binary"]


def test_tensors_of_six_axes_are_joined() -> None:
    net = Sketch()
    parts = [net.reshape(x, 2, 1, n, 2, 1, 3) for x, n in (("x", 3), ("y", 2))]
    joined = net.add("Identity", net.add("Concat", *parts, axis=2))
    graph = check_translation(net.finish({"x": (2, 18), "y": (2, 12)}, [net.reshape(joined, 2, 30)]))
    assert [node.kind for node in graph.nodes] == ["Concat"]


def test_an_output_of_five_axes_is_reshaped_on_the_host() -> None:
    net = Sketch()
    wide = net.add("Relu", net.reshape(net.add("Relu", "x"), 2, 1, 3, 2, 2))
    model = net.finish({"x": (6, 4)}, [wide, net.reshape(net.add("Tanh", wide), 4, 6)])
    graph = check_host(model, reason="of shape [2, 1, 3, 2, 2]")
    assert any(node.kind == "Unary" for node in graph.nodes)


def test_the_host_reads_what_it_makes_of_the_same_moves() -> None:
    net = Sketch()
    halves = net.add("Split", net.reshape("x", 2, 2, 3, 2, 2), axis=2, outputs=3)
    turned = net.add("Transpose", f"{halves}.1", perm=(4, 3, 1, 0, 2))
    odd = net.add("Transpose", net.reshape("x", 2, 2, 3, 2, 2), perm=(4, 3, 2, 1, 0))
    outputs = [net.reshape(turned, 4, 4), net.reshape(odd, 4, 12), net.reshape(f"{halves}.2", 2, 8)]
    check_host(net.finish({"x": (4, 12)}, outputs), reason="Transpose")


def grow(rng: random.Random, net: Sketch, x: str, shape: Shape) -> tuple[str, Shape]:
    """Add a random node to a chain; return its output and the shape of that."""
    rank = len(shape)
    match rng.choice(("Transpose", "Transpose", "Slice", "Gather", "Concat", "Add", "Relu", "Reshape")):
        case "Transpose":
            order = rng.sample(range(rank), rank)
            return net.add("Transpose", x, perm=order), tuple(shape[axis] for axis in order)
        case "Slice":
            axis = rng.randrange(rank)
            begin = rng.randrange(shape[axis])
            places, axes, step = [begin], [axis], [rng.choice((1, 2))]
            limits = [net.constant(value, np.int64) for value in (places, [shape[axis]], axes, step)]
            count = len(range(begin, shape[axis], step[0]))
            return net.add("Slice", x, *limits), (*shape[:axis], count, *shape[axis + 1 :])
        case "Gather" if rank > 1:
            axis = rng.randrange(rank)
            place = net.constant(rng.randrange(shape[axis]), np.int64)
            return net.add("Gather", x, place, axis=axis), shape[:axis] + shape[axis + 1 :]
        case "Concat":
            axis = rng.randrange(rank)
            return net.add("Concat", x, x, axis=axis), (*shape[:axis], 2 * shape[axis], *shape[axis + 1 :])
        case "Add":
            other = tuple(rng.choice((1, n)) for n in shape[rng.randrange(rank) :])
            return net.add("Add", x, net.weight(*other, scale=1.0)), shape
        case "Relu":
            return net.add("Relu", x), shape
    wide = cut_anywhere(rng, prod(shape), rng.randint(4, 6))
    return net.reshape(x, *wide), wide


@pytest.mark.parametrize("seed", SEEDS)
def test_random_chains_keep_their_values(seed: int) -> None:
    rng, net = random.Random(seed), Sketch()
    shape: Shape = (2, 3, 4, 6)
    x, outputs = "x", []
    for _ in range(rng.randint(3, 9)):
        x, shape = grow(rng, net, x, shape)
        if rng.random() < 0.1:
            outputs.append(x)
    outputs.append(net.reshape(x, prod(shape)))
    model = net.finish({"x": (2, 3, 4, 6)}, list(dict.fromkeys(outputs)))
    data, feeds = model.SerializeToString(), random_feeds(model)
    if not load_graph(data).host_models:
        check_translation(model)
        return
    with codl.InferenceSession(data) as session:
        found = session.run(None, feeds)
    for value, reference in zip(found, open_onnxruntime(data).run(None, dict(feeds)), strict=True):
        assert relative_error(value, reference) <= NETWORK_TOLERANCE
