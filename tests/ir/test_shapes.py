"""The shape rules: sound graphs pass, and no changed shape leads a read out of a tensor."""

from dataclasses import replace
from math import prod

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codl.ir.check import check_graph, find_problems
from codl.ir.graph import Graph, Shape, Tensor
from codl.ir.ops import (
    ConvTranspose2d,
    Op,
    Pad,
    Pool2d,
    Reshape,
    Resize2d,
    Slice,
)
from codl.ir.regions import Region, input_regions
from tests.ir.brute_force import bounding_box, find_needs
from tests.ir.every_kind import EVERY_KIND, OPERATORS

OPEN_LENGTHS = (ConvTranspose2d, Pad, Pool2d, Resize2d, Slice)
"""Operators whose output may have several lengths for the same input and attributes."""

many = settings(
    deadline=None,
    max_examples=30,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("rule", ["find_shapes", "find_needs"])
def test_every_operator_has_its_rules(operator: type[Op], rule: str) -> None:
    assert rule in vars(operator)


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_accepts_what_is_sound(kind: str) -> None:
    @many
    @given(EVERY_KIND[kind])
    def check(graph: Graph) -> None:
        check_graph(graph)

    check()


@st.composite
def other_shapes(draw: st.DrawFn, shape: Shape) -> Shape:
    """Return another shape: one length changed, an axis more, or an axis less."""
    change = draw(st.sampled_from(["length", "more", "fewer"] if shape else ["more"]))
    place = draw(st.integers(0, len(shape) - (change != "more")))
    length = draw(st.sampled_from([1, 2, 3, 5, 7, 12]))
    rest = shape[place:] if change == "more" else shape[place + 1 :]
    return (*shape[:place], *([] if change == "fewer" else [length]), *rest)


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_names_a_changed_shape_or_keeps_every_read_inside(kind: str) -> None:
    @many
    @given(st.data())
    def check(data: st.DataObject) -> None:
        graph = data.draw(EVERY_KIND[kind])
        (node,) = graph.nodes
        name = data.draw(st.sampled_from([*dict.fromkeys(node.inputs), "y"]))
        shape = data.draw(other_shapes(graph.shape(name)).filter(lambda other: other != graph.shape(name)))
        changed = replace(graph, tensors={**graph.tensors, name: Tensor(name=name, shape=shape)})

        problems = list(find_problems(changed))
        if problems:
            assert any("node 'node'" in problem and "expected" in problem for problem in problems)
            return

        is_open = isinstance(node.op, OPEN_LENGTHS) or (
            isinstance(node.op, Reshape) and prod(shape) == prod(graph.shape("y"))
        )
        assert name != "y" or is_open, (node.op, graph.tensors, shape)
        boxes = input_regions(node, changed, Region.whole(changed.shape("y")))
        reads = find_needs(node, changed, Region.whole(changed.shape("y")))
        for one, box, places in zip(node.inputs, boxes, reads, strict=True):
            whole = Region.whole(changed.shape(one))
            assert whole.contains(box)
            assert whole.contains(bounding_box(places, len(whole.shape)))

    check()
