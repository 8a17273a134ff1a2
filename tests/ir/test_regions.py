"""The region rules against brute force, many boxes against one, and the algebra of boxes."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codl.ir.graph import Graph, Node, Shape
from codl.ir.ops import (
    Binary,
    BinaryKind,
    ChannelShuffle,
    CombineMoments,
    Concat,
    Conv2d,
    ConvTranspose2d,
    DepthToSpace,
    HostCall,
    MatMul,
    Normalize,
    Pad,
    Pool2d,
    PoolKind,
    ReduceMean,
    Reshape,
    Resize2d,
    ResizeMode,
    RowMoments,
    RowSum,
    Slice,
    Softmax,
    SpaceToDepth,
    Transpose,
)
from codl.ir.regions import Boxes, OutputBoxes, Region, find_splittable_axes, input_boxes, input_regions
from tests.ir.brute_force import bounding_box, elements, find_needs
from tests.ir.every_kind import EVERY_KIND, OPERATORS
from tests.ir.random_nodes import one_node, regions, shapes

quick = settings(
    deadline=None,
    max_examples=300,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_needs_what_brute_force_finds(kind: str) -> None:
    @quick
    @given(st.data())
    def check(data: st.DataObject) -> None:
        graph = data.draw(EVERY_KIND[kind])
        (node,) = graph.nodes
        out = data.draw(regions(graph.shape("y")))

        boxes = input_regions(node, graph, out)

        for name, box, found in zip(node.inputs, boxes, find_needs(node, graph, out), strict=True):
            shape = graph.shape(name)
            smallest = bounding_box(found, len(shape))
            assert Region.whole(shape).contains(box)
            assert box.contains(smallest)
            tight = find_tight_axes(node, graph, name)
            if found:
                assert [box.begin[i] for i in tight] == [smallest.begin[i] for i in tight]
                assert [box.end[i] for i in tight] == [smallest.end[i] for i in tight]
            elif len(tight) == len(shape):
                assert box.is_empty

    check()


def find_tight_axes(node: Node, graph: Graph, name: str) -> list[int]:
    """Return the axes of an input along which its rule promises the smallest box."""
    shape = graph.shape(name)
    axes = list(range(len(shape)))
    if name != "x0":
        return axes
    op = node.op
    if isinstance(op, Conv2d | Pool2d):
        out = graph.shape("y")
        return [0, 1] + [2 + i for i in (0, 1) if reaches_the_image(op, i, shape[2 + i], out[2 + i])]
    if isinstance(op, ConvTranspose2d):
        return [0, 1] + [2 + i for i in (0, 1) if op.dilation[i] == 1 and op.kernel[i] >= op.stride[i]]
    if isinstance(op, SpaceToDepth):
        return axes if op.block == 1 else [0, 1]
    if isinstance(op, Reshape):
        out = graph.shape("y")
        common = next((i for i, (a, b) in enumerate(zip(shape, out, strict=False)) if a != b), len(shape))
        return axes[: common + (common == len(out) - 1)]
    return axes


def reaches_the_image(op: Conv2d | Pool2d, axis: int, length: int, out_length: int) -> bool:
    """Return whether no tap is skipped and no window lies in the padding alone."""
    side = op.tile[axis] if isinstance(op, Conv2d) else 1
    last = (-(-out_length // side) * side - 1) * op.stride[axis] - op.pads[axis]
    return op.dilation[axis] == 1 and op.pads[axis] < op.kernel[axis] and last < length


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_answers_many_boxes_as_it_answers_each(kind: str) -> None:
    @quick
    @given(st.data())
    def check(data: st.DataObject) -> None:
        graph = data.draw(EVERY_KIND[kind])
        (node,) = graph.nodes
        box = regions(graph.shape("y"), least=0)
        many = data.draw(st.lists(box, min_size=1, max_size=6))

        together = input_boxes(node, graph, Boxes.of(many))

        assert len(together) == len(node.inputs)
        for index, out in enumerate(many):
            alone = input_regions(node, graph, out)
            assert [boxes.region(index) for boxes in together] == list(alone)
            if out.is_empty:
                assert all(r.is_empty or not r.shape for r in alone)
        known = OutputBoxes.find(node, graph, Boxes.of(many))
        again = input_boxes(node, graph, known)
        assert again is known.needs
        assert [list(map(boxes.region, range(len(many)))) for boxes in again] == [
            list(map(boxes.region, range(len(many)))) for boxes in together
        ]

    check()


def test_random_nodes_cover_every_operator() -> None:
    seen: set[type] = set()

    @settings(quick, max_examples=20)
    @given(st.data())
    def collect(data: st.DataObject) -> None:
        seen.update(type(data.draw(strategy).nodes[0].op) for strategy in EVERY_KIND.values())

    collect()

    assert seen == set(OPERATORS) - {HostCall}


def test_host_call_needs_all_of_its_inputs() -> None:
    graph = one_node(HostCall(group="host/1", index=0), [(2, 3), (), (5, 1, 1, 1, 0)], (4, 4))

    needs = input_regions(graph.nodes[0], graph, Region((1, 1), (2, 3)))

    assert needs == tuple(Region.whole(shape) for shape in ((2, 3), (), (5, 1, 1, 1, 0)))
    assert find_splittable_axes(graph.nodes[0], graph) == ()


IMAGE = (2, 4, 6, 6)
SPLITTABLE: dict[str, tuple[Graph, tuple[int, ...]]] = {
    "conv": (one_node(Conv2d(kernel=(3, 3)), [IMAGE, (8, 4, 3, 3)], (2, 8, 4, 4)), (0, 1, 2, 3)),
    "conv on one row": (
        one_node(Conv2d(kernel=(3, 3)), [(1, 4, 3, 6), (8, 4, 3, 3)], (1, 8, 1, 4)),
        (1, 3),
    ),
    "conv whose kernel sees all rows": (
        one_node(Conv2d(kernel=(6, 1), pads=(5, 0, 5, 0)), [IMAGE, (8, 4, 6, 1)], (2, 8, 11, 6)),
        (0, 1, 2, 3),
    ),
    "pool": (
        one_node(Pool2d(kind=PoolKind.MAX, kernel=(2, 2), stride=(2, 2)), [IMAGE], (2, 4, 3, 3)),
        (0, 1, 2, 3),
    ),
    "product": (one_node(MatMul(), [(4, 8), (8, 5)], (4, 5)), (0, 1)),
    "product of one row": (one_node(MatMul(), [(1, 8), (8, 5)], (1, 5)), (1,)),
    "row sum": (one_node(RowSum(), [IMAGE], (2, 4, 6, 1)), (0, 1, 2)),
    "transposed conv": (
        one_node(ConvTranspose2d(kernel=(2, 2), stride=(2, 2)), [IMAGE, (4, 3, 2, 2)], (2, 3, 12, 12)),
        (0, 1, 2, 3),
    ),
    "row moments": (one_node(RowMoments(), [IMAGE], (2, 4, 6, 2)), (0, 1, 2)),
    "combined moments": (
        one_node(CombineMoments(epsilon=0.1, row_length=6), [(2, 4, 6, 2), (4,), (4,)], (2, 4, 1, 2)),
        (0, 1),
    ),
    "normalization": (one_node(Normalize(), [IMAGE, (2, 4, 1, 2)], IMAGE), (0, 1, 2, 3)),
    "mean over channels": (one_node(ReduceMean(axes=(1,)), [IMAGE], (2, 1, 6, 6)), (0, 2, 3)),
    "transpose": (one_node(Transpose(order=(0, 2, 3, 1)), [IMAGE], (2, 6, 6, 4)), (0, 1, 2, 3)),
    "channel shuffle": (one_node(ChannelShuffle(groups=2), [IMAGE], IMAGE), (0, 1, 2, 3)),
    "depth to space": (one_node(DepthToSpace(block=2), [IMAGE], (2, 1, 12, 12)), (0, 2, 3)),
    "slice": (one_node(Slice(begin=(0, 0, 5, 0), step=(1, 1, -1, 1)), [IMAGE], (2, 4, 3, 6)), (0, 1, 2, 3)),
    "pad": (one_node(Pad(before=(0, 0, 1, 1)), [IMAGE], (2, 4, 8, 8)), (0, 1, 2, 3)),
    "resize": (
        one_node(Resize2d(mode=ResizeMode.LINEAR, scale=(2.0, 2.0)), [IMAGE], (2, 4, 12, 12)),
        (0, 1, 2, 3),
    ),
    "binary": (one_node(Binary(kind=BinaryKind.ADD), [(3, 4), (4,)], (3, 4)), (0, 1)),
    "concat": (one_node(Concat(axis=1), [(2, 3), (2, 2)], (2, 5)), (0, 1)),
    "softmax": (one_node(Softmax(axis=1), [(3, 4)], (3, 4)), (0,)),
    "flatten": (one_node(Reshape(), [IMAGE], (2, 144)), (0, 1)),
    "reshape of all axes": (one_node(Reshape(), [(4, 6)], (6, 4)), ()),
}


@pytest.mark.parametrize("case", SPLITTABLE)
def test_finds_axes_along_which_a_cut_saves_work(case: str) -> None:
    graph, axes = SPLITTABLE[case]

    assert find_splittable_axes(graph.nodes[0], graph) == axes


class TestAlgebra:
    @quick
    @given(st.data())
    def test_agrees_with_sets_of_elements(self, data: st.DataObject) -> None:
        shape = data.draw(shapes(least=1))
        a, b = (data.draw(regions(shape, least=0)) for _ in range(2))
        in_a, in_b = set(elements(a)), set(elements(b))

        assert a.size == len(in_a)
        assert a.is_empty == (not in_a)
        assert set(elements(a.intersect(b))) == in_a & in_b
        assert a.contains(b) == (in_b <= in_a)
        if in_a | in_b:
            assert a.hull(b) == bounding_box(in_a | in_b, len(shape))
        else:
            assert a.hull(b).is_empty

    @quick
    @given(st.data())
    def test_subtracts_into_disjoint_boxes(self, data: st.DataObject) -> None:
        shape = data.draw(shapes(least=1))
        a, b = (data.draw(regions(shape, least=0)) for _ in range(2))

        pieces = list(a.subtract(b))

        covered = [element for piece in pieces for element in elements(piece)]
        assert not any(piece.is_empty for piece in pieces)
        assert len(covered) == len(set(covered))
        assert set(covered) == set(elements(a)) - set(elements(b))

    @quick
    @given(st.data())
    def test_cuts_one_axis(self, data: st.DataObject) -> None:
        shape: Shape = data.draw(shapes(least=1))
        a = data.draw(regions(shape))
        axis = data.draw(st.integers(0, len(shape) - 1))
        begin, end = sorted((data.draw(st.integers(0, 5)), data.draw(st.integers(0, 5))))

        cut = a.cut(axis, begin, end)

        assert set(elements(cut)) == {e for e in elements(a) if begin <= e[axis] < end}

    @quick
    @given(st.data())
    def test_counts_many_boxes_as_it_counts_each(self, data: st.DataObject) -> None:
        shape = data.draw(shapes(least=1))
        many = data.draw(st.lists(regions(shape, least=0), min_size=1, max_size=5))

        boxes = Boxes.of(many)

        assert boxes.count == len(many)
        assert boxes.size.tolist() == [r.size for r in many]
        assert boxes.is_empty.tolist() == [r.is_empty for r in many]
        assert boxes.extent.tolist() == [list(r.shape) for r in many]
        assert [boxes.region(i) for i in range(len(many))] == many

    def test_covers_a_whole_tensor(self) -> None:
        whole = Boxes.whole((2, 3), 2)

        assert [whole.region(i) for i in (0, 1)] == [Region.whole((2, 3))] * 2
        assert np.array_equal(whole.with_axis(1, 1, [2, 3]).end, [[2, 2], [2, 3]])
