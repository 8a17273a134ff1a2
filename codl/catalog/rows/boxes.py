"""How kernels that walk boxes (kernels/common/runs.h) are launched: a work-item's share and its cost."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from codl.catalog.spec import (
    KernelDims,
    LaunchBatch,
    Parameters,
    Scalar,
    TensorArg,
    ceil_div,
    kernel_dims,
    spread,
)
from codl.ir.graph import FLOAT_BYTES, Graph, Node, Shape
from codl.ir.ops import Epilogue, ResidualOrder
from codl.ir.regions import Boxes, IntArray, input_boxes
from codl.machine import DeviceInfo

LANES = (4, 8, 16)
"""Allowed values of VECTOR."""
LEAST_ITEM = 8192
"""Elementary steps (an element read and used) that make a work-item worth its start; about 1 us."""
ITEMS_PER_UNIT = 8
"""Work-items that each compute unit should get where there is enough to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxLaunch:
    """A box in kernel dimensions and the part of it that one work-item takes, for many candidates."""

    begin: IntArray
    """[count, 4]"""
    extent: IntArray
    """[count, 4]"""
    item_rows: IntArray
    item_channels: IntArray

    @property
    def global_size(self) -> IntArray:
        """Work-items [count, 3]; zero in some dimension for an empty box."""
        size = np.ones((len(self.extent), 3), np.int64)
        size[:, 0], size[:, 1] = self._share()
        return size

    @property
    def scalars(self) -> dict[str, Scalar]:
        """BOX_SCALARS in their order."""
        named: dict[str, Scalar] = {}
        for suffix, values in (("begin", self.begin), ("count", self.extent)):
            for place, letter in enumerate("nhwc"):
                named[f"{letter}_{suffix}"] = values[:, place]
        named["item_rows"], named["item_channels"] = self.item_rows, self.item_channels
        return named

    def units(self, info: DeviceInfo, lanes: int, work: IntArray | int = 1) -> Mapping[str, IntArray]:
        """Return what the busiest compute unit does: work-items, and steps over vectors inside them.

        Args:
            info: The device.
            lanes: Elements that a step handles.
            work: Steps for each vector of outputs.
        """
        pieces, groups = self._share()
        items = spread(pieces * groups, info.units)
        vectors = self.item_rows * ceil_div(self.item_channels, lanes)
        return {"items": items, "vectors": np.asarray(items * vectors * work, np.int64)}

    def describe(
        self,
        entry: str,
        tensors: tuple[TensorArg, ...],
        info: DeviceInfo,
        *,
        moved: tuple[IntArray, IntArray],
        lanes: int,
        scalars: Mapping[str, Scalar],
        work: IntArray | int = 1,
        flops: IntArray | None = None,
        **facts: Any,
    ) -> tuple[LaunchBatch, ...]:
        """Return the launch of a kernel that walks the box, as a row describes itself.

        Args:
            entry: The kernel.
            tensors: Its operands.
            info: The device.
            moved: Bytes read and written, [count] each.
            lanes: Elements that a step handles.
            scalars: The kernel's own, behind the box's.
            work: Steps for each vector of outputs.
            flops: [count]; zeros by default.
            facts: Other fields of `LaunchBatch`.
        """
        batch = LaunchBatch(
            entry=entry,
            tensors=tensors,
            global_size=self.global_size,
            scalars={**self.scalars, **scalars},
            units=self.units(info, lanes, work),
            read_bytes=moved[0],
            written_bytes=moved[1],
            flops=np.zeros(len(self.extent), np.int64) if flops is None else flops,
            **facts,
        )
        return (batch,)

    def _share(self) -> tuple[IntArray, IntArray]:
        """Return into how many pieces lines are cut, and how many groups of lines there are, [count] each."""
        images, rows, columns, channels = self.extent.T
        return ceil_div(channels, self.item_channels), ceil_div(images * rows * columns, self.item_rows)


def box_in(boxes: Boxes, dims: KernelDims) -> tuple[IntArray, IntArray]:
    """Return begin and extent, each [count, 4], of ``boxes`` along ``dims``; absent ones are [0, 1)."""
    begin, extent = np.zeros((boxes.count, 4), np.int64), np.ones((boxes.count, 4), np.int64)
    lengths = boxes.extent
    for place, entry in enumerate(dims):
        if entry is not None:
            begin[:, place], extent[:, place] = boxes.begin[:, entry[0]], lengths[:, entry[0]]
    return begin, extent


def share_box(boxes: Boxes, dims: KernelDims, info: DeviceInfo, *, work: IntArray | int = 1) -> BoxLaunch:
    """Return the launch of a kernel that may cut its box anywhere: whole rows, or pieces of very long ones.

    Args:
        boxes: Output boxes, one for each candidate.
        dims: Which axis each kernel dimension walks along.
        info: The device.
        work: Elementary steps for each output element.
    """
    begin, extent = box_in(boxes, dims)
    images, lines, columns, length = extent.T
    count = images * lines * columns
    channels, rows = np.maximum(length, 1), np.maximum(count, 1)
    fair = count * length // (ITEMS_PER_UNIT * max(1, info.units))
    target = np.maximum(np.maximum(fair, LEAST_ITEM // np.maximum(work, 1)), 1)
    pieces = ceil_div(channels, 2 * target)
    is_cut, widest = pieces > 1, max(LANES)
    return BoxLaunch(
        begin=begin,
        extent=extent,
        item_rows=np.where(is_cut, 1, np.minimum(np.maximum(target // channels, 1), rows)),
        item_channels=np.where(is_cut, ceil_div(ceil_div(channels, 2 * pieces), widest) * widest, channels),
    )


def share_lines(out: Boxes, dims: KernelDims, info: DeviceInfo, *, work: int) -> BoxLaunch:
    """Return the launch of a kernel that reads whole lines of c for any part of one: no line is shared.

    Args:
        out: Output boxes, one for each candidate.
        dims: Which axis each kernel dimension walks along.
        info: The device.
        work: Elementary steps for each line.
    """
    begin, extent = box_in(out, dims)
    rows = np.maximum(extent[:, :3].prod(axis=1), 1)
    fair = rows // (ITEMS_PER_UNIT * max(1, info.units))
    return BoxLaunch(
        begin=begin,
        extent=extent,
        item_rows=np.minimum(np.maximum(fair, max(1, LEAST_ITEM // work)), rows),
        item_channels=np.maximum(extent[:, 3], 1),
    )


def share_columns(out: Boxes, dims: KernelDims, axis: int, info: DeviceInfo, *, work: int) -> BoxLaunch:
    """Return the launch of a kernel whose work-items take the whole of an axis, which w walks along.

    Args:
        out: Output boxes, one for each candidate.
        dims: Which axis each kernel dimension walks along, as `column_dims` returns them.
        axis: The axis.
        info: The device.
        work: Elementary steps for the whole axis.
    """
    shared = share_box(out.with_axis(axis, 0, 1), dims, info, work=work)
    begin, extent = box_in(out, dims)
    return replace(shared, begin=begin, extent=extent, item_rows=np.maximum(extent[:, 2], 1))


def innermost_axis(rank: int) -> int:
    """Return the axis that kernel dimension c walks along: the innermost in memory."""
    entry = kernel_dims(rank)[3]
    assert entry is not None
    return entry[0]


def column_dims(rank: int, axis: int) -> KernelDims:
    """Return kernel dimensions whose w walks along an axis that is not the innermost in memory."""
    inner = innermost_axis(rank)
    others = [other for other in range(rank) if other not in (axis, inner)]
    n, h = [None] * (2 - len(others)) + [(other, 1) for other in others]
    return n, h, (axis, 1), (inner, 1)


def lanes_for(info: DeviceInfo, channels: int) -> Parameters:
    """Return VECTOR for a device and a node: its registers' width, less where lines are shorter.

    Args:
        info: The device.
        channels: Length of the lines that the kernel walks on the whole tensor.
    """
    widest = max(LANES[0], min(info.vector_width, channels))
    return {"VECTOR": max(lanes for lanes in LANES if lanes <= widest)}


def channel_dims(rank: int) -> KernelDims:
    """Return kernel dimensions whose c walks along axis 1, the channels, whatever the rank."""
    return ((0, 1), None, (2, 1), (1, 1)) if rank == 3 else kernel_dims(rank)


def innermost_length(shape: Shape) -> int:
    """Return the length of a tensor along its innermost axis in memory; 1 for a single number."""
    entry = kernel_dims(len(shape))[3]
    return 1 if entry is None else shape[entry[0]]


def moved_bytes(node: Node, graph: Graph, out: Boxes) -> tuple[IntArray, IntArray]:
    """Return bytes read (each input's region once) and written, each [count]."""
    read = sum((boxes.size for boxes in input_boxes(node, graph, out)), np.zeros(out.count, np.int64))
    return read * FLOAT_BYTES, out.size * FLOAT_BYTES


def has_rank_up_to(limit: int, node: Node, graph: Graph) -> bool:
    """Return whether all tensors of ``node`` have at most ``limit`` axes."""
    return all(len(graph.shape(name)) <= limit for name in (*node.inputs, node.output))


def is_plain(node: Node) -> bool:
    """Return whether the epilogue of ``node`` does nothing."""
    return node.epilogue == Epilogue()


def has_residual(node: Node) -> bool:
    """Return whether the epilogue of ``node`` adds a tensor."""
    return node.epilogue.residual is not ResidualOrder.NONE


def constants_like(boxes: Boxes, **values: int) -> dict[str, Scalar]:
    """Return integer scalars that are equal for all candidates."""
    return {name: np.full(boxes.count, value, np.int64) for name, value in values.items()}
