"""Rows for GPUs whose work-groups take lines: softmax and layer normalization along an axis, means."""

from collections.abc import Mapping
from math import prod

import numpy as np

from codl.catalog.epilogue import epilogue_scalars
from codl.catalog.groups import GROUP, choose_assembly, size_grid, takes_groups
from codl.catalog.rows.boxes import (
    box_in,
    column_dims,
    constants_like,
    has_rank_up_to,
    has_residual,
    innermost_axis,
    is_plain,
    moved_bytes,
)
from codl.catalog.rows.lanes import box_scalars
from codl.catalog.spec import (
    Accepts,
    Describe,
    Implementation,
    KernelDims,
    LaunchBatch,
    Parameters,
    Scalar,
    TensorArg,
    ceil_div,
    kernel_dims,
    plain_arg,
    spread,
)
from codl.ir.graph import Graph, Node, Shape
from codl.ir.ops import CombineMoments, CombineRows, LayerNorm, ReduceMean, RowMoments, RowSum, Softmax
from codl.ir.regions import Boxes, IntArray
from codl.machine import DeviceInfo

SOFTMAX, LAYER, MEAN = "softmax_group__buffer", "layer_norm_group__buffer", "mean_group__buffer"
ROWS, COMBINE = "moments_rows_group__buffer", "moments_combine_group__buffer"
THREADS = (32, 64, 128, 256)
"""How many work-items may share a line."""
_PASSES = 3
"""Of softmax and of layer normalization over a line."""


def _choose(info: DeviceInfo, *, lines: int, length: int, is_innermost: bool) -> Parameters:
    """Return as many work-items a line as its elements are worth, while one round of groups takes all lines.

    Lines that are not dense share cache lines with their neighbours: groups take many of them.
    """
    threads = THREADS[0]
    if is_innermost:
        threads = max(
            (n for n in THREADS if n <= length and -(-lines // (GROUP // n)) <= max(1, info.units)),
            default=threads,
        )
    return {"threads": threads, **choose_assembly(info)}


def _axis_dims(shape: Shape, axis: int) -> tuple[KernelDims, bool]:
    """Return the kernel dimensions whose c, or else w, walks along an axis, and whether it is c."""
    rank = len(shape)
    if axis == innermost_axis(rank):
        return kernel_dims(rank), True
    return column_dims(rank, axis), False


def _accept_axis(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    op = node.op
    if not isinstance(op, Softmax | LayerNorm) or not takes_groups(info):
        return None
    if not is_plain(node) or not has_rank_up_to(4, node, graph):
        return None
    shape = graph.shape(node.output)
    length, (_, is_innermost) = shape[op.axis], _axis_dims(shape, op.axis)
    return _choose(info, lines=prod(shape) // max(1, length), length=length, is_innermost=is_innermost)


def _accept_softmax(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    return _accept_axis(node, graph, info) if isinstance(node.op, Softmax) else None


def _accept_layer(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    return _accept_axis(node, graph, info) if isinstance(node.op, LayerNorm) else None


def _describe_axis(
    node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters
) -> tuple[LaunchBatch, ...]:
    op, shape = node.op, graph.shape(node.output)
    assert isinstance(op, Softmax | LayerNorm)
    (dims, is_innermost), length = _axis_dims(shape, op.axis), shape[op.axis]
    origin = (0,) * len(shape)
    tensors = [TensorArg(name=name, dims=dims, origin=origin) for name in (node.output, node.inputs[0])]
    scalars = constants_like(out, is_innermost=is_innermost, length=length, threads=parameters["threads"])
    if isinstance(op, LayerNorm):
        weights = (node.inputs[1], node.inputs[-1])
        tensors += [TensorArg(name=name, dims=(None, None, None, (0, 1)), origin=(0,)) for name in weights]
        scalars |= constants_like(out, has_shift=op.has_shift)
        scalars["epsilon"] = np.full(out.count, op.epsilon, np.float32)
    begin, extent = box_in(out, dims)
    across = (0, 1, 2) if is_innermost else (0, 1, 3)
    lines = np.where(out.size > 0, extent[:, across].prod(axis=1), 0)
    entry = LAYER if isinstance(op, LayerNorm) else SOFTMAX
    batch = _launch(
        entry,
        tensors,
        lines,
        info,
        scalars={**box_scalars(begin, extent), **scalars},
        moved=moved_bytes(node, graph, out),
        threads=parameters["threads"],
        work=_PASSES * length,
    )
    return (batch,)


def _accept_mean(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    op = node.op
    if not isinstance(op, ReduceMean | RowSum | CombineRows) or not takes_groups(info):
        return None
    if has_residual(node) or not has_rank_up_to(4, node, graph):
        return None
    if not isinstance(op, ReduceMean):
        return {"threads": THREADS[0], **choose_assembly(info)}
    x, outputs = graph.shape(node.inputs[0]), prod(graph.shape(node.output))
    is_inner = len(x) > 0 and innermost_axis(len(x)) in op.axes
    return _choose(info, lines=outputs, length=prod(x) // max(1, outputs), is_innermost=is_inner)


def _describe_mean(
    node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters
) -> tuple[LaunchBatch, ...]:
    op, x = node.op, graph.shape(node.inputs[0])
    assert isinstance(op, ReduceMean | RowSum | CombineRows)
    axes = op.axes if isinstance(op, ReduceMean) else (3,) if isinstance(op, RowSum) else (2,)
    dims = kernel_dims(len(x))
    lengths = [x[entry[0]] if entry is not None and entry[0] in axes else 1 for entry in dims]
    addends, inner = prod(lengths), dims[3]
    scale = 1 / addends if isinstance(op, ReduceMean) else op.scale if isinstance(op, CombineRows) else 1.0
    batch = _launch(
        MEAN,
        [plain_arg(name, graph.shape(name)) for name in (node.output, node.inputs[0])],
        out.size,
        info,
        scalars={
            **box_scalars(*box_in(out, dims)),
            **constants_like(
                out, **{f"length_{letter}": n for letter, n in zip("nhwc", lengths, strict=True)}
            ),
            **constants_like(
                out,
                is_inner=int(inner is not None and inner[0] in axes),
                threads=parameters["threads"],
            ),
            "scale": np.full(out.count, scale, np.float32),
            **epilogue_scalars(node.epilogue, out.count),
        },
        moved=moved_bytes(node, graph, out),
        threads=parameters["threads"],
        work=addends,
    )
    return (batch,)


def _accept_moments(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    del graph
    if not isinstance(node.op, RowMoments | CombineMoments) or not is_plain(node) or not takes_groups(info):
        return None
    return {"threads": THREADS[0], **choose_assembly(info)}


def _accept_rows(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    return _accept_moments(node, graph, info) if isinstance(node.op, RowMoments) else None


def _accept_combine(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    return _accept_moments(node, graph, info) if isinstance(node.op, CombineMoments) else None


def _describe_moments(
    node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters
) -> tuple[LaunchBatch, ...]:
    op, x, threads = node.op, graph.shape(node.inputs[0]), parameters["threads"]
    assert isinstance(op, RowMoments | CombineMoments)
    length = x[3] if isinstance(op, RowMoments) else x[2]
    begin, extent = box_in(out, kernel_dims(4))
    scalars = {
        **box_scalars(begin, extent),
        **constants_like(out, is_innermost=0, length=length, threads=threads),
    }
    if isinstance(op, CombineMoments):
        scalars["row_length"] = np.full(out.count, op.row_length, np.float32)
        scalars["epsilon"] = np.full(out.count, op.epsilon, np.float32)
    batch = _launch(
        ROWS if isinstance(op, RowMoments) else COMBINE,
        [plain_arg(name, graph.shape(name)) for name in (node.output, *node.inputs)],
        np.where(out.size > 0, extent[:, (0, 1, 3)].prod(axis=1), 0),
        info,
        scalars=scalars,
        moved=moved_bytes(node, graph, out),
        threads=threads,
        work=2 * length,
    )
    return (batch,)


def _launch(
    entry: str,
    tensors: list[TensorArg],
    lines: IntArray,
    info: DeviceInfo,
    *,
    scalars: Mapping[str, Scalar],
    moved: tuple[IntArray, IntArray],
    threads: int,
    work: int,
) -> LaunchBatch:
    """Return the launch over so many lines, on each of which ``threads`` work-items take ``work`` steps."""
    places = ceil_div(lines, GROUP // threads)
    busiest = spread(places, info.units)
    return LaunchBatch(
        entry=entry,
        tensors=tuple(tensors),
        global_size=size_grid(places),
        local_size=(GROUP, 1, 1),
        scalars=scalars,
        units={"items": busiest, "vectors": busiest * GROUP * -(-work // threads)},
        read_bytes=moved[0],
        written_bytes=moved[1],
        flops=np.asarray(2 * lines * work),
    )


def _make_row(folder: str, name: str, accepts: Accepts, describe: Describe) -> Implementation:
    return Implementation(
        name=name,
        source=f"{folder}/{name}.cl",
        allowed={"PTX": (0, 1), "threads": THREADS},
        uses_groups=True,
        accepts=accepts,
        describe=describe,
    )


IMPLEMENTATIONS = (
    _make_row("softmax", SOFTMAX, _accept_softmax, _describe_axis),
    _make_row("normalize", LAYER, _accept_layer, _describe_axis),
    _make_row("reduce", MEAN, _accept_mean, _describe_mean),
    _make_row("normalize", ROWS, _accept_rows, _describe_moments),
    _make_row("normalize", COMBINE, _accept_combine, _describe_moments),
)
