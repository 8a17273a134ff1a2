"""Which nodes count as alike, and how far apart they are."""

from dataclasses import replace
from math import inf

import pytest

from codl.catalog.shape_key import ShapeKey, make_shape_key
from codl.ir.graph import Graph, Node
from codl.ir.ops import Activation, ActivationKind, Conv2d, Epilogue
from tests.catalog.nodes import NODES, Sample, conv
from tests.catalog.test_box_rows import SAMPLES


def key_of(case: Sample) -> ShapeKey:
    return make_shape_key(case.node, case.graph)


def changed(case: Sample, **op: object) -> Sample:
    """Return a convolution with other attributes."""
    assert isinstance(case.node.op, Conv2d)
    node: Node = replace(case.node, op=replace(case.node.op, **op))  # type: ignore[arg-type]
    graph: Graph = replace(case.graph, nodes=(node,))
    return Sample(graph, case.row)


@pytest.mark.parametrize("case", NODES.values(), ids=NODES)
def test_a_node_is_no_distance_from_itself(case: Sample) -> None:
    assert key_of(case).distance(key_of(case)) == 0.0


def test_names_padding_and_epilogue_do_not_matter() -> None:
    case = conv(16, 32, 14)
    relu = Epilogue(activation=Activation(kind=ActivationKind.RELU))
    named = replace(case.node, name="other", epilogue=relu)
    renamed = Sample(replace(case.graph, nodes=(named,)), case.row)

    assert key_of(renamed) == key_of(case)
    assert key_of(changed(case, pads=(0, 0, 2, 2))) == key_of(case)


def test_stride_kernel_and_grouping_part_classes() -> None:
    case = conv(16, 16, 14)

    assert key_of(changed(case, stride=(2, 2))).distance(key_of(case)) == inf
    assert key_of(changed(case, dilation=(2, 2))).distance(key_of(case)) == inf
    assert key_of(conv(16, 16, 14, groups=16)).distance(key_of(case)) == inf
    assert key_of(NODES["matrix-times-constant"]).distance(key_of(NODES["heads-times-constant"])) == inf


def test_distance_counts_doublings_of_all_sizes() -> None:
    near, far = key_of(conv(16, 32, 14)), key_of(conv(32, 32, 28))

    assert near.distance(far) == far.distance(near) == pytest.approx(3.0)  # IC, OH and OW


def test_matrices_are_known_by_their_sizes() -> None:
    assert dict(key_of(NODES["matrix-times-constant"]).sizes) == {"B": 4, "M": 50, "K": 64, "N": 20}


def test_text_tells_class_and_sizes() -> None:
    assert str(key_of(conv(16, 32, 14))) == (
        "Conv2d dilation=1x1 grouping=dense kernel=3x3 stride=1x1 tile=1x1 N=1 IC=16 OC=32 OH=14 OW=14 G=1"
    )


def test_every_kind_of_node_has_a_key() -> None:
    keys = {key_of(case) for case in (*SAMPLES.values(), *NODES.values())}

    assert len(keys) == len(SAMPLES) + len(NODES)
