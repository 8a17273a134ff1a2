"""What poolings take: taps inside the image, by pairs of vectors, single ones and values."""

from dataclasses import replace

import numpy as np
import pytest

from codl.catalog.choose import choose
from codl.catalog.layers import Layer
from codl.ir.boxes import Boxes
from codl.ir.ops import Pool2d, PoolKind, Unary
from codl.latency.features import Features
from codl.profiler.samples import describe_boxes
from tests.catalog.nodes import device_info

INFO = replace(device_info(8), units=1)
NAMES = ("pair_taps", "single_taps", "value_taps", "pair_maxima", "value_maxima", "reciprocals")


def describe(layer: Layer, boxes: Boxes) -> Features:
    graph = layer.make_graph()
    return describe_boxes(layer, choose(graph.nodes[0], graph, INFO), boxes, INFO)


@pytest.mark.parametrize("kind", list(PoolKind))
def test_taps_in_the_image_are_counted(kind: PoolKind) -> None:
    op = Pool2d(kind=kind, kernel=(3, 3), stride=(2, 2), pads=(1, 1, 1, 1))
    shape, side = (1, 40, 6, 6), 11
    boxes = Boxes.whole(shape, 6).with_axis(1, 0, np.array([40, 24, 16, 8, 3, 40]))
    boxes = boxes.with_axis(2, np.array([0, 0, 0, 0, 0, 4]), 6)

    found = describe(Layer(op=op, inputs=((1, 40, side, side),), output=shape), boxes)

    inside = [sum(0 <= 2 * place - 1 + tap < side for tap in range(3)) for place in range(6)]
    all_rows, last_rows = sum(inside) ** 2, sum(inside[4:]) * sum(inside)
    is_maximum = kind is PoolKind.MAX
    pairs = np.array([3 * all_rows, 2 * all_rows, all_rows, 0, 0, 3 * last_rows])
    values = np.array([0, 0, 0, 0, 3 * all_rows, 0])
    expected = np.array(
        [
            pairs,
            [0, 0, 0, all_rows, 0, 0],
            values,
            pairs * is_maximum,
            values * is_maximum,
            np.array([36, 36, 36, 36, 36, 12]) * (not is_maximum),
        ]
    )
    np.testing.assert_allclose(found.select(NAMES), expected.T)


def test_other_operators_pool_nothing() -> None:
    found = describe(
        Layer(op=Unary(), inputs=((1, 8, 5, 5),), output=(1, 8, 5, 5)), Boxes.whole((1, 8, 5, 5), 1)
    )

    assert not set(NAMES) & set(found.names)
