"""Lines of kernels that walk boxes: joined or apart, with one factor a channel, copied in segments."""

import numpy as np

from codl.catalog.choose import choose
from codl.catalog.layers import Layer
from codl.ir.boxes import Boxes
from codl.ir.graph import Shape
from codl.ir.ops import Binary, BinaryKind, ChannelShuffle, Reshape
from codl.latency.amounts.crossing import count_crossing
from codl.latency.features import Features, extract_features
from tests.catalog.nodes import device_info

INFO = device_info(8)
MULTIPLY = Binary(kind=BinaryKind.MUL)


def describe(layer: Layer, boxes: Boxes) -> Features:
    graph = layer.make_graph()
    (node,) = graph.nodes
    chosen = choose(node, graph, INFO)
    batches = chosen.implementation.describe(node, graph, boxes, INFO, chosen.parameters)
    crossing = count_crossing([(boxes, layer.output)])
    return extract_features(batches, chosen.parameters, INFO, crossing=crossing)


def multiply(shape: Shape, factor: Shape) -> Layer:
    return Layer(op=MULTIPLY, inputs=(shape, factor), output=shape)


def test_lines_of_some_of_the_channels_do_not_join() -> None:
    shape = (1, 24, 10, 10)
    boxes = Boxes.whole(shape, 2).with_axis(1, 0, np.array([24, 7]))

    found = describe(multiply(shape, shape), boxes)

    lines, apart = found.select(["lines"]), found.select(["apart_lines"])
    assert apart[:, 0].tolist() == [0, lines[1, 0]]
    assert found.select(["apart_short_values"])[:, 0].tolist() == [0, 7 * lines[1, 0]]


def test_factors_of_channels_keep_lines_from_joining() -> None:
    shape = (1, 24, 10, 10)
    boxes = Boxes.whole(shape, 1)

    equal, scalar, repeated = (
        describe(multiply(shape, factor), boxes).select(["repeating_lines", "lines"])[0]
        for factor in (shape, (), (1, 24, 1, 1))
    )

    assert equal[0] == scalar[0] == 0
    assert repeated[0] == repeated[1] > 0


def test_few_channels_are_spread_out_to_a_pattern() -> None:
    shape = (1, 16, 10, 10)

    found = describe(multiply(shape, (1, 16, 1, 1)), Boxes.whole(shape, 1))

    assert found.select(["repeating_lines"])[0, 0] == 0


def test_reshapes_copy_from_each_of_the_lines_that_they_read() -> None:
    layer = Layer(op=Reshape(), inputs=((1, 64, 7, 9),), output=(1, 64 * 7 * 9))

    found = describe(layer, Boxes.whole(layer.output, 1))

    assert found.select(["strided.segments"])[0, 0] >= 64 * 7 / INFO.units


def test_shuffles_turn_whole_groups_and_move_other_values_one_by_one() -> None:
    shape = (1, 112, 16, 16)
    begin, end = np.array([0, 0, 0, 13, 0, 29]), np.array([112, 24, 12, 112, 15, 31])
    layer = Layer(op=ChannelShuffle(groups=4), inputs=(shape,), output=shape)

    found = describe(layer, Boxes.whole(shape, 6).with_axis(1, begin, end))

    names = ["turns", "uneven_lines", "lone_values", "lone_groups"]
    amounts = found.select(names) / found.select(["lines"])
    np.testing.assert_allclose(
        amounts, [[7, 0, 0, 0], [2, 1, 0, 0], [0, 1, 0, 3], [6, 1, 3, 0], [0, 1, 3, 3], [0, 1, 2, 0]]
    )
