"""Transposed convolutions with constant weights: every output gathers the inputs that reach it."""

from collections.abc import Mapping
from functools import partial

import numpy as np

from codl.catalog.register_tile import ALLOWED_TILES, choose_tile, pack_panels
from codl.catalog.rows.boxes import ITEMS_PER_UNIT, constants_like
from codl.catalog.rows.windows import constant_names, find_panels, launch_windows, window_scalars
from codl.catalog.spec import Batches, PackedArg, Parameters, ceil_div, define_row, kernel_box, spread
from codl.ir.graph import FloatArray, Graph, Node
from codl.ir.ops import ConvTranspose2d
from codl.ir.regions import Boxes
from codl.machine import DeviceInfo

ROWS = "conv_transpose2d_rows__buffer"


def _tap_count(op: ConvTranspose2d) -> int:
    """Return how many taps reach an output at most: one in `stride` on either axis."""
    rows, columns = (-(-op.kernel[axis] // op.stride[axis]) for axis in (0, 1))
    return rows * columns


def _accept(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    op = node.op
    if not isinstance(op, ConvTranspose2d):
        return None
    if any(name not in graph.constants for name in constant_names(node, op)):
        return None
    _, outputs, _, out_width = graph.shape(node.output)
    inputs = graph.shape(node.inputs[0])[1]
    return choose_tile(
        info.vector_width,
        rows=-(-out_width // op.stride[1]),
        channels=outputs // op.groups,
        depth=_tap_count(op) * inputs // op.groups,
    )


def _pack(constants: Mapping[str, FloatArray], *, names: tuple[str, ...], groups: int, nr: int) -> FloatArray:
    """Return [groups * ceil(OC/groups / nr), 1 + KH*KW*IC/groups, nr], the bias in row 0."""
    weight, *bias = (constants[name] for name in names)
    inputs, outputs, height, width = weight.shape
    grouped = weight.reshape(groups, inputs // groups, outputs, height, width)
    taps_first = grouped.transpose(0, 2, 3, 4, 1).reshape(groups * outputs, -1)
    return pack_panels(taps_first, bias[0] if bias else None, groups=groups, nr=nr)


def _describe(node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters) -> Batches:
    op, names, nr = node.op, node.inputs, parameters["NR"]
    assert isinstance(op, ConvTranspose2d)
    x, shape = graph.shape(names[0]), graph.shape(node.output)
    group_outputs, group_inputs = shape[1] // op.groups, x[1] // op.groups
    panel_begin, panel_end, group_panels = find_panels(out, group_outputs, nr)
    begin, end = kernel_box(out)
    extent = end - begin
    panels = panel_end - panel_begin
    rows = extent[:, 0] * extent[:, 1]
    item_panels = np.clip(rows * panels // (ITEMS_PER_UNIT * info.units), 1, panels)
    global_size = np.stack([extent[:, 1], ceil_div(panels, item_panels), extent[:, 0]], axis=1)
    items = spread(global_size.prod(axis=1), info.units)
    row_tiles = op.stride[1] * ceil_div(extent[:, 2], parameters["MR"] * op.stride[1])
    tiles = items * item_panels * row_tiles
    depth = _tap_count(op) * group_inputs
    constants = constant_names(node, op)
    weights = 1 + op.kernel[0] * op.kernel[1] * group_inputs
    return launch_windows(
        node,
        graph,
        out,
        entry=ROWS,
        packed=(
            PackedArg(
                key=f"{constants!r}/iohw/groups{op.groups}/nr{nr}",
                pack=partial(_pack, names=constants, groups=op.groups, nr=nr),
                panel_floats=weights * nr,
            ),
        ),
        panels=(panel_begin, panel_end),
        scalars={
            "item_panels": item_panels,
            "panels": panels,
            **constants_like(
                out,
                group_panels=group_panels,
                group_outputs=group_outputs,
                group_inputs=group_inputs,
            ),
            **window_scalars(node, graph, out),
        },
        has_row_end=False,
        zeros=group_inputs,
        global_size=global_size,
        units={"steps": tiles * depth, "tiles": tiles, "items": items},
        flops=np.asarray(2 * depth * out.size),
    )


IMPLEMENTATIONS = (define_row("conv_transpose2d", ROWS, _accept, _describe, allowed=ALLOWED_TILES),)
