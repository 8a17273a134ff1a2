"""Launches of kernels that walk boxes: many candidates as one alone, every element in one work-item."""

import numpy as np
import pytest

from codl.catalog.choose import choose
from codl.catalog.rows.boxes import LANES
from codl.catalog.spec import LaunchBatch
from codl.ir.graph import Shape
from codl.ir.ops import (
    Affine,
    Binary,
    BinaryKind,
    CombineRows,
    Concat,
    Pool2d,
    PoolKind,
    Reshape,
    RowSum,
    Softmax,
    SpaceToDepth,
    Unary,
)
from codl.ir.regions import Boxes, Region
from tests.catalog.nodes import Sample, device_info, sample

X: dict[str, Shape] = {"x": (2, 40, 30, 20)}
SAMPLES = {
    "pool": sample(
        Pool2d(kind=PoolKind.MAX, kernel=(3, 3), stride=(2, 2)),
        X,
        (),
        (2, 40, 14, 9),
        "pool2d_direct__buffer",
    ),
    "unary": sample(Unary(), X, (), X["x"], "elementwise_unary__buffer"),
    "binary": sample(
        Binary(kind=BinaryKind.ADD), {**X, "b": (40, 1, 1)}, (), X["x"], "elementwise_binary__buffer"
    ),
    "affine": sample(Affine(), {**X, "s": (40,), "t": (40,)}, ("s", "t"), X["x"], "affine_channels__buffer"),
    "softmax-inner": sample(Softmax(axis=1), X, (), X["x"], "softmax_rows__buffer"),
    "softmax-outer": sample(Softmax(axis=2), X, (), X["x"], "softmax_columns__buffer"),
    "row-sum": sample(RowSum(), X, (), (2, 40, 30, 1), "reduce_axis_sum__buffer"),
    "combine-rows": sample(
        CombineRows(scale=0.1), {"x": (2, 40, 30, 1)}, (), (2, 40, 1, 1), "reduce_axis_sum__buffer"
    ),
    "concat": sample(Concat(axis=1), {**X, "b": (2, 9, 30, 20)}, (), (2, 49, 30, 20), "layout_copy__buffer"),
    "space-to-depth": sample(SpaceToDepth(block=2), X, (), (2, 160, 15, 10), "layout_copy__buffer"),
    "flatten": sample(Reshape(), X, (), (2, 24000), "reshape_gather__buffer"),
}
EACH = pytest.mark.parametrize("case", SAMPLES.values(), ids=SAMPLES)


def boxes_of(shape: Shape) -> Boxes:
    """Return the whole tensor and slices of it along each axis."""
    whole = Region.whole(shape)
    return Boxes.of(
        [whole]
        + [whole.cut(axis, low, low + 1 + length // 3) for axis, length in enumerate(shape) for low in (0, 1)]
    )


def describe(case: Sample, boxes: Boxes) -> tuple[LaunchBatch, ...]:
    info = device_info(8)
    selection = choose(case.node, case.graph, info)
    return selection.implementation.describe(case.node, case.graph, boxes, info, selection.parameters)


@EACH
def test_row_is_chosen(case: Sample) -> None:
    for width in (1, *LANES, 32):
        assert choose(case.node, case.graph, device_info(width)).implementation.name == case.row


@EACH
def test_many_candidates_are_described_as_one_alone(case: Sample) -> None:
    boxes = boxes_of(case.graph.shape("y"))
    for index in range(boxes.count):
        alone = describe(case, Boxes.of([boxes.region(index)]))
        for batch, single in zip(describe(case, boxes), alone, strict=True):
            assert batch.global_size[index].tolist() == single.global_size[0].tolist()
            for many, one in ((batch.scalars, single.scalars), (batch.units, single.units)):
                assert {k: v[index] for k, v in many.items()} == {k: v[0] for k, v in one.items()}
            for field in ("read_bytes", "written_bytes", "flops"):
                assert getattr(batch, field)[index] == getattr(single, field)[0]


@EACH
def test_work_items_cover_the_region_and_no_row_twice(case: Sample) -> None:
    boxes = boxes_of(case.graph.shape("y"))
    written = np.zeros(boxes.count, np.int64)
    for batch in describe(case, boxes):
        box = {name: values.astype(np.int64) for name, values in batch.scalars.items()}
        rows = box["n_count"] * box["h_count"] * box["w_count"]
        pieces, groups = batch.global_size[:, 0], batch.global_size[:, 1]
        assert (pieces * box["item_channels"] >= box["c_count"]).all()
        assert ((pieces - 1) * box["item_channels"] < box["c_count"]).all()
        assert (groups * box["item_rows"] >= rows).all()
        assert ((groups - 1) * box["item_rows"] < np.maximum(rows, 1)).all()
        written += rows * box["c_count"]
    np.testing.assert_array_equal(written, boxes.size)
