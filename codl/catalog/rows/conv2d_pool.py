"""Rows over two nodes: a convolution, and the maxima over windows of its values behind it."""

from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from codl.catalog.epilogue import epilogue_scalars
from codl.catalog.gemm_tile import count_panels, list_tiles
from codl.catalog.rows import conv2d_patch, conv2d_winograd, conv2d_winograd_patch, conv2d_winograd_streamed
from codl.catalog.rows.boxes import constants_like
from codl.catalog.spec import (
    Batches,
    Implementation,
    Parameters,
    Scalar,
    busiest_share,
    ceil_div,
    kernel_box,
    plain_arg,
    spread,
)
from codl.ir.graph import FLOAT_BYTES, Graph, Node
from codl.ir.ops import FUNCTIONS, Epilogue, Pool2d, PoolKind, ResidualOrder
from codl.ir.regions import Boxes, IntArray, Region, input_boxes
from codl.machine import DeviceInfo

_SIDE = 2
_TILES = (2, 4)
"""Tiles of minimal filtering that hold whole windows."""
_MOST_ROW_BYTES = 256 << 10
"""Most bytes of the values that a window's rows see: a part of a core's cache."""
_ROW_PADDING = 16
"""ROW_PADDING of the kernel."""
_ITEM_ROWS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 14, 16, 20, 28, 32, 56)
"""Rows of maxima that a work-item may take."""
_LATE_SHARE = 0.1
"""Share of a work-item that a compute unit waits for the others' last one."""
_ITEM_CYCLES, _LAUNCH_CYCLES, _BYTE_CYCLES = 500.0, 20_000.0, 0.1
"""Work of a work-item, of a launch, and of a byte that is stored for another launch, in cycles."""


def find_halved(node: Node, graph: Graph) -> Node | None:
    """Return the node whose values are read by ``node`` alone, which takes their maxima by 2 x 2."""
    return _find_only(node, graph) if _is_halving(node, graph) else None


def _find_only(node: Node, graph: Graph) -> Node | None:
    """Return the node whose values are read by ``node`` alone, which takes maxima of them."""
    producer, op = graph.producers.get(node.inputs[0]), node.op
    if producer is None or producer.output in graph.outputs or node.epilogue != Epilogue():
        return None
    is_maximum = isinstance(op, Pool2d) and op.kind is PoolKind.MAX
    is_read_once = len(graph.consumers[producer.output]) == 1
    is_single = producer.epilogue.residual is ResidualOrder.NONE
    return producer if is_maximum and is_read_once and is_single else None


def _is_halving(node: Node, graph: Graph) -> bool:
    """Return whether a node's windows are 2 x 2 without overlap, none of them cut by the image's end."""
    op = node.op
    if not isinstance(op, Pool2d):
        return False
    sides = zip(graph.shape(node.inputs[0])[2:], graph.shape(node.output)[2:], strict=True)
    is_whole = all(_SIDE * result <= side for side, result in sides)
    return (
        is_whole and op.kernel == op.stride == (_SIDE, _SIDE) and op.dilation == (1, 1) and not any(op.pads)
    )


def _accept(node: Node, graph: Graph, info: DeviceInfo, *, row: Implementation) -> Parameters | None:
    """Return the parameters of the convolution's own row, unless windows lie across its tiles."""
    convolution = find_halved(node, graph)
    parameters = None if convolution is None else row.accepts(convolution, graph, info)
    return parameters if parameters is not None and parameters["TILE"] in _TILES else None


def _fits(node: Node, graph: Graph, info: DeviceInfo, parameters: Parameters, *, row: Implementation) -> bool:
    convolution = _find_only(node, graph)
    return convolution is not None and row.fits is not None and row.fits(convolution, graph, info, parameters)


def _describe(
    node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters, *, row: Implementation
) -> Batches:
    convolution, (values,) = find_halved(node, graph), input_boxes(node, graph, out)
    assert convolution is not None
    result = plain_arg(node.output, graph.shape(node.output))
    *first, last = (
        replace(batch, entry=_name(row), tensors=(result, batch.tensors[1], result))
        for batch in row.describe(convolution, graph, values, info, parameters)
    )
    return *first, replace(last, written_bytes=FLOAT_BYTES * out.size)


def find_pooled(node: Node, graph: Graph) -> Node | None:
    """Return the node whose values ``node`` alone reads, which takes maxima over windows that see some."""
    producer = _find_only(node, graph)
    op = node.op
    if producer is None or not isinstance(op, Pool2d) or op.dilation != (1, 1):
        return None
    sides = zip(graph.shape(node.inputs[0])[2:], graph.shape(node.output)[2:], strict=True)
    sees_some = all(
        pad < kernel and (result - 1) * stride - pad < side
        for (side, result), kernel, stride, pad in zip(sides, op.kernel, op.stride, op.pads[:2], strict=True)
    )
    return producer if sees_some else None


def _accept_patch(node: Node, graph: Graph, info: DeviceInfo, *, row: Implementation) -> Parameters | None:
    """Return the parameters of the convolution's own row, where one launch should take less time than two.

    Minimal filtering and maxima behind it take two, and less.
    """
    convolution = find_pooled(node, graph)
    parameters = None if convolution is None else row.accepts(convolution, graph, info)
    if (
        convolution is None
        or parameters is None
        or not FUNCTIONS[convolution.epilogue.activation.kind].is_plain
        or any(row.accepts(convolution, graph, info) for row in conv2d_winograd_patch.IMPLEMENTATIONS)
    ):
        return None
    images, outputs, height, width = graph.shape(convolution.output)
    most = min(_MOST_ROW_BYTES, info.local_memory_bytes // 2)
    if FLOAT_BYTES * _pooling(node).kernel[0] * width * outputs > most or outputs < parameters["VECTOR"]:
        return None
    line = _count_line_cycles(convolution, graph, np.array([width]), info, parameters)
    one = np.ones(1, np.int64)
    _, (together,) = _share(node, one * graph.shape(node.output)[2], one * images, line, units=info.units)
    moved = 2 * FLOAT_BYTES * images * outputs * height * width * _BYTE_CYCLES
    apart = (float(line[0]) * images * height + moved) / info.units + _LAUNCH_CYCLES
    if together >= apart:
        return None
    whole = Boxes.of([Region.whole(graph.shape(node.output))])
    (batch,) = _describe_patch(node, graph, whole, info, parameters, row=row)
    assert batch.local is not None
    return parameters if FLOAT_BYTES * int(batch.local[0]) <= info.local_memory_bytes else None


def _pooling(node: Node) -> Pool2d:
    assert isinstance(node.op, Pool2d)
    return node.op


def _count_line_cycles(
    convolution: Node, graph: Graph, columns: IntArray, info: DeviceInfo, parameters: Parameters
) -> npt.NDArray[np.float64]:
    """Return what a row of so many values costs, [count]."""
    tiles = list_tiles(parameters["VECTOR"], info.vector_width, info.vector_registers)
    index = tiles.find(parameters)
    depth = prod(graph.shape(convolution.inputs[1])[1:])
    panels = count_panels(graph.shape(convolution.output)[1], parameters)
    tile = panels * (depth * tiles.step_cycles[index] + tiles.end_cycles[index])
    return np.asarray(ceil_div(columns, parameters["MR"]) * tile)


def _share(
    node: Node, rows: IntArray, images: IntArray, line: npt.NDArray[np.float64], *, units: int
) -> tuple[IntArray, npt.NDArray[np.float64]]:
    """Return the rows of maxima of a work-item and the cycles of the busiest unit, each [count]."""
    sizes = np.minimum(np.array(_ITEM_ROWS)[:, None], rows[None])
    items = spread(ceil_div(rows, sizes) * images, units)
    total = (items + _LATE_SHARE) * (_ITEM_CYCLES + _count_lines(node, sizes) * line)
    best = np.argmin(total, axis=0)[None]
    return np.take_along_axis(sizes, best, 0)[0], np.take_along_axis(total, best, 0)[0]


def _count_lines(node: Node, rows: IntArray) -> IntArray:
    """Return the rows of values that so many rows of maxima see."""
    kernel, stride = _pooling(node).kernel[0], _pooling(node).stride[0]
    return (rows - 1) * min(stride, kernel) + kernel


def _count_outside(node: Node, graph: Graph) -> int:
    """Return the most rows outside the values that the windows of a work-item see."""
    op, (height, rows) = _pooling(node), (graph.shape(name)[2] for name in (node.inputs[0], node.output))
    return op.pads[0] + max(0, (rows - 1) * op.stride[0] - op.pads[0] + op.kernel[0] - height)


def _describe_patch(
    node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters, *, row: Implementation
) -> Batches:
    convolution, op, (values,) = find_pooled(node, graph), _pooling(node), input_boxes(node, graph, out)
    assert convolution is not None
    (batch,) = row.describe(convolution, graph, values, info, parameters)
    assert batch.local is not None
    assert batch.panel_begin is not None
    assert batch.panel_end is not None
    (begin, end), (first, last) = kernel_box(out), kernel_box(values)
    rows, images, columns = (end - begin)[:, 1], (end - begin)[:, 0], (last - first)[:, 2]
    line = _count_line_cycles(convolution, graph, columns, info, parameters)
    item_rows, _ = _share(node, rows, images, line, units=info.units)
    global_size = np.stack([ceil_div(rows, item_rows), np.ones_like(rows), images], axis=1)
    lines = _count_lines(node, item_rows)
    tiles = ceil_div(columns, parameters["MR"]) * (batch.panel_end - batch.panel_begin)
    busiest = spread(global_size.prod(axis=1), info.units) * lines
    depth = prod(graph.shape(convolution.inputs[1])[1:])
    tile_flops = 2 * depth * parameters["MR"] * parameters["VECTORS"] * parameters["VECTOR"]
    result = plain_arg(node.output, graph.shape(node.output))
    epilogue = epilogue_scalars(convolution.epilogue, out.count)
    values_scalars = {name: scalar for name, scalar in batch.scalars.items() if name not in epilogue}
    return (
        replace(
            batch,
            entry=_name(row),
            tensors=(result, batch.tensors[1], result),
            global_size=global_size,
            local=batch.local + op.kernel[0] * (columns * graph.shape(node.output)[1] + _ROW_PADDING),
            scalars={**values_scalars, **_pool_scalars(op, out, values, item_rows), **epilogue},
            busiest_flops=busiest_share(
                tile_flops * tiles * np.maximum(lines - _count_outside(node, graph), 1),
                full_items=rows // item_rows * images,
                units=info.units,
            ),
            units={"steps": busiest * tiles * depth, "tiles": busiest * tiles, "items": busiest},
            written_bytes=FLOAT_BYTES * out.size,
        ),
    )


def _pool_scalars(op: Pool2d, out: Boxes, values: Boxes, item_rows: IntArray) -> dict[str, Scalar]:
    """Return the kernel's scalars other than those of its values: the box of maxima, and their window."""
    begin, end = kernel_box(out)
    return {
        "pool_row_begin": begin[:, 1],
        "pool_col_begin": begin[:, 2],
        "pool_row_end": end[:, 1],
        "pool_col_end": end[:, 2],
        "row_end": kernel_box(values)[1][:, 1],
        "item_rows": item_rows,
        **constants_like(
            out,
            pool_kernel_h=op.kernel[0],
            pool_kernel_w=op.kernel[1],
            pool_stride_h=op.stride[0],
            pool_stride_w=op.stride[1],
            pool_pad_h=op.pads[0],
            pool_pad_w=op.pads[1],
        ),
    }


def _name(row: Implementation) -> str:
    return row.name.replace("__", "_pool__")


def _pool(
    row: Implementation,
    *,
    accept: Any = _accept,
    describe: Any = _describe,
    **allowed: tuple[int, ...],
) -> Implementation:
    """Return the row that takes the maxima of a row's values; ``allowed`` takes the place of its own."""
    return replace(
        row,
        name=_name(row),
        source=f"conv2d/{_name(row)}.cl",
        allowed={**row.allowed, **allowed},
        accepts=partial(accept, row=row),
        fits=partial(_fits, row=row),
        describe=partial(describe, row=row),
        stacks=False,
        inner_loop=None,
        taken=1,
    )


IMPLEMENTATIONS = (
    *(
        _pool(row, TILE=_TILES)
        for row in (*conv2d_winograd_streamed.IMPLEMENTATIONS, *conv2d_winograd.IMPLEMENTATIONS)
    ),
    *(_pool(row, accept=_accept_patch, describe=_describe_patch) for row in conv2d_patch.IMPLEMENTATIONS),
)
