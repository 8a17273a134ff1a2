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
    ChannelShuffle,
    CombineMoments,
    CombineRows,
    Concat,
    DepthToSpace,
    LocalResponseNorm,
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
    "concat": sample(
        Concat(axis=1), {**X, "b": (2, 9, 30, 20)}, (), (2, 49, 30, 20), "layout_concat__buffer"
    ),
    "concat-rows": sample(
        Concat(axis=2), {**X, "b": (2, 40, 9, 20)}, (), (2, 40, 39, 20), "layout_copy__buffer"
    ),
    "space-to-depth": sample(SpaceToDepth(block=2), X, (), (2, 160, 15, 10), "layout_copy__buffer"),
    "depth-to-space": sample(DepthToSpace(block=2), X, (), (2, 10, 60, 40), "layout_copy__buffer"),
    "shuffle": sample(ChannelShuffle(groups=4), X, (), X["x"], "layout_shuffle__buffer"),
    "shuffle-other": sample(ChannelShuffle(groups=5), X, (), X["x"], "layout_copy__buffer"),
    "slice": sample(
        Slice(begin=(1, 3, 29, 0), step=(1, 2, -3, 1)), X, (), (1, 18, 10, 20), "layout_copy__buffer"
    ),
    "transpose": sample(Transpose(order=(0, 2, 3, 1)), X, (), (2, 30, 20, 40), "layout_copy__buffer"),
    "pad": sample(Pad(before=(0, 0, 2, 3)), X, (), (2, 40, 33, 26), "layout_pad__buffer"),
    "resize": sample(
        Resize2d(mode=ResizeMode.LINEAR, scale=(2.0, 1.5)), X, (), (2, 40, 60, 30), "resize2d_taps__buffer"
    ),
    "mean": sample(ReduceMean(axes=(1, 3)), X, (), (2, 1, 30, 1), "reduce_mean__buffer"),
    "row-moments": sample(RowMoments(), X, (), (2, 40, 30, 2), "moments_rows__buffer"),
    "combine-moments": sample(
        CombineMoments(epsilon=1e-5, row_length=20),
        {"x": (2, 40, 30, 2), "s": (40,), "t": (40,)},
        ("s", "t"),
        (2, 40, 1, 2),
        "moments_combine__buffer",
    ),
    "normalize": sample(Normalize(), {**X, "f": (2, 40, 1, 2)}, (), X["x"], "normalize_channels__buffer"),
    "response-norm": sample(
        LocalResponseNorm(size=5, alpha=1e-4, beta=0.75, bias=1.0),
        X,
        (),
        X["x"],
        "response_norm_window__buffer",
    ),
    "flatten": sample(Reshape(), X, (), (2, 24000), "reshape_gather__buffer"),
}
EACH = pytest.mark.parametrize("case", SAMPLES.values(), ids=SAMPLES)


def boxes_of(shape: Shape) -> Boxes:
    """Return the whole tensor and slices of it along each axis."""
    whole = Region.whole(shape)
    return Boxes.of(
        [whole]
        + [
            whole.cut(axis, low, low + 1 + length // 3)
            for axis, length in enumerate(shape)
            for low in range(min(length, 2))
        ]
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
