"""What the convolution kernels share: operands, constants, the scalars of a box and of a window."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from codl.catalog.epilogue import epilogue_scalars
from codl.catalog.gemm_tile import is_tile, pack_panels
from codl.catalog.rows.boxes import constants_like
from codl.catalog.spec import LaunchBatch, PackedArg, Parameters, Scalar, TensorArg, kernel_box, plain_arg
from codl.ir.graph import FLOAT_BYTES, FloatArray, Graph, Node
from codl.ir.ops import Conv2d, ConvTranspose2d, Pool2d
from codl.ir.regions import Boxes, IntArray, input_boxes
from codl.machine import DeviceInfo

_MOST_NARROW = 4
"""Input channels up to which windows are copied, and all parts of a window lie next to each other."""


def constant_names(node: Node, op: Conv2d | ConvTranspose2d) -> tuple[str, ...]:
    """Return the names of weight and, if there is one, bias."""
    return node.inputs[1 : 3 if op.has_bias else 2]


def has_constant_weights(node: Node, graph: Graph) -> bool:
    """Return whether ``node`` is a convolution whose weight and bias can be packed."""
    op = node.op
    return isinstance(op, Conv2d) and all(name in graph.constants for name in constant_names(node, op))


def is_narrow(node: Node, graph: Graph) -> bool:
    """Return whether a convolution's input channels are so few that alone they fill no vector."""
    return graph.shape(node.inputs[0])[1] <= _MOST_NARROW


def pack_taps(node: Node, graph: Graph, parameters: Parameters) -> PackedArg:
    """Return weight and bias of a convolution as panels of each group, K in the order (kh, kw, ic).

    A panel has VECTORS * VECTOR channels.
    """
    op = node.op
    assert isinstance(op, Conv2d)
    names, vectors, lanes = constant_names(node, op), parameters["VECTORS"], parameters["VECTOR"]
    _, inputs, height, width = graph.shape(names[0])
    return PackedArg(
        key=f"{names!r}/ohwi/groups{op.groups}/{vectors}x{lanes}",
        pack=partial(_pack_taps, names=names, groups=op.groups, vectors=vectors, lanes=lanes),
        panel_floats=vectors * lanes * (1 + height * width * inputs),
    )


def _pack_taps(
    constants: Mapping[str, FloatArray], *, names: tuple[str, ...], groups: int, vectors: int, lanes: int
) -> FloatArray:
    weight, *bias = (constants[name] for name in names)
    matrix = weight.transpose(0, 2, 3, 1).reshape(len(weight), -1)
    return pack_panels(matrix, bias[0] if bias else None, groups=groups, vectors=vectors, lanes=lanes)


def find_panels(out: Boxes, group_outputs: int, panel: int) -> tuple[IntArray, IntArray, int]:
    """Return the first panel that boxes need and one past the last, [count] each, and the panels of a group.

    Args:
        out: Boxes of outputs.
        group_outputs: Output channels of a group; no panel has channels of two groups.
        panel: Channels of a panel.
    """
    group_panels = -(-group_outputs // panel)
    first, last = (
        channel // group_outputs * group_panels + channel % group_outputs // panel
        for channel in (out.begin[:, 1], out.end[:, 1] - 1)
    )
    return first, last + 1, group_panels


def fits_tile(node: Node, graph: Graph, info: DeviceInfo, parameters: Parameters) -> bool:
    """Return whether the tile stays in registers."""
    return is_tile(parameters, info)


def take_whole(packed: PackedArg, panels: int) -> PackedArg:
    """Return a packed constant for launches that read all of its panels, whichever they read of others."""
    assert packed.panel_floats is not None
    return PackedArg(
        key=f"{packed.key}/whole",
        pack=partial(_pack_whole, pack=packed.pack),
        panel_floats=panels * packed.panel_floats,
        is_whole=True,
    )


def _pack_whole(
    constants: Mapping[str, FloatArray], *, pack: Callable[[Mapping[str, FloatArray]], FloatArray]
) -> FloatArray:
    return pack(constants).reshape(1, -1)


def launch_windows(
    node: Node,
    graph: Graph,
    out: Boxes,
    *,
    packed: tuple[PackedArg, ...],
    panels: tuple[IntArray, IntArray],
    scalars: Mapping[str, Scalar],
    first: Node | None = None,
    read: IntArray | None = None,
    more: tuple[TensorArg, ...] = (),
    has_row_end: bool = True,
    **facts: Any,
) -> tuple[LaunchBatch, ...]:
    """Return the launch of a convolution: what all of them read, write and take, and what one adds.

    Args:
        node: The convolution, whose epilogue the launch applies.
        graph: Where its shapes are found.
        out: The candidates.
        packed: Weight and bias.
        panels: First panel that a launch reads, and where they end, [count] each.
        scalars: The kernel's own, between the box and the epilogue.
        first: The node whose input is read, where the launch computes two.
        read: Floats of the input that are read, [count]; those under the windows by default.
        more: Tensors behind output, input and residual.
        has_row_end: As of `box_scalars`.
        facts: The other fields of `LaunchBatch`.
    """
    begin, end = kernel_box(out)
    shape, x = graph.shape(node.output), (first or node).inputs[0]
    if read is None:
        read = input_boxes(node, graph, out)[0].size
    read = read + (out.size if node.residual else 0)
    for one in packed:
        assert one.panel_floats is not None
        read = read + one.panel_floats * (1 if one.is_whole else panels[1] - panels[0])
    return (
        LaunchBatch(
            tensors=(
                plain_arg(node.output, shape),
                plain_arg(x, graph.shape(x)),
                plain_arg(node.residual or node.output, shape),
                *more,
            ),
            packed=packed,
            panel_begin=panels[0],
            panel_end=panels[1],
            scalars={
                **box_scalars(begin, end, has_row_end=has_row_end),
                "panel_begin": panels[0],
                **scalars,
                **epilogue_scalars(node.epilogue, out.count),
            },
            read_bytes=FLOAT_BYTES * read,
            written_bytes=FLOAT_BYTES * out.size,
            **facts,
        ),
    )


def box_scalars(begin: IntArray, end: IntArray, *, has_row_end: bool = True) -> dict[str, Scalar]:
    """Return the first image, the first row, column and channel of boxes, and where these three end.

    Args:
        begin: [count, 4], kernel dimensions.
        end: [count, 4]
        has_row_end: Whether the kernel wants to know where rows end; with one work-item a row it does not.
    """
    scalars: dict[str, Scalar] = {
        "image_begin": begin[:, 0],
        "row_begin": begin[:, 1],
        "col_begin": begin[:, 2],
        "channel_begin": begin[:, 3],
    }
    if has_row_end:
        scalars["row_end"] = end[:, 1]
    return {**scalars, "col_end": end[:, 2], "channel_end": end[:, 3]}


def window_scalars(node: Node, graph: Graph, out: Boxes, *, has_dilation: bool = True) -> dict[str, Scalar]:
    """Return image size and window, some without dilation, as kernels take them, equal for all candidates."""
    op = node.op
    assert isinstance(op, Conv2d | ConvTranspose2d | Pool2d)
    _, _, height, width = graph.shape(node.inputs[0])
    dilation = {"dilation_h": op.dilation[0], "dilation_w": op.dilation[1]} if has_dilation else {}
    return constants_like(
        out,
        in_h=height,
        in_w=width,
        kernel_h=op.kernel[0],
        kernel_w=op.kernel[1],
        stride_h=op.stride[0],
        stride_w=op.stride[1],
        **dilation,
        pad_h=op.pads[0],
        pad_w=op.pads[1],
    )
