"""The row for GPUs that multiplies matrices as they lie: work-groups share square tiles."""

from math import prod

import numpy as np

from codl.catalog.epilogue import epilogue_scalars
from codl.catalog.groups import GROUP, PRECISIONS, choose_products, size_grid, takes_groups
from codl.catalog.rows.boxes import constants_like, moved_bytes
from codl.catalog.rows.matmul import matrix_arg, matrix_box, rows_args
from codl.catalog.spec import Implementation, LaunchBatch, Parameters, busiest_share, ceil_div, spread
from codl.ir.graph import Graph, Node
from codl.ir.ops import MatMul
from codl.ir.regions import Boxes
from codl.machine import DeviceInfo

MATMUL = "matmul_tile__buffer"
STEPS = {32: 32, 64: 16}
"""BM -> BK, steps of the sum that lie in local memory together."""
_STEP_US, _START_US = {32: 0.60, 64: 0.65}, {32: 1.9, 64: 2.9}
"""What a group takes for BK steps of its tile, and for the tile besides.

Source: those of convolutions by such tiles (`codl/catalog/rows/conv2d_tile.py`).
"""


def _accept(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    op = node.op
    if not takes_groups(info) or not isinstance(op, MatMul) or op.has_bias:
        return None
    *batch, rows, columns = graph.shape(node.output)
    if len(batch) > 2:
        return None
    depth, units = graph.shape(node.inputs[0])[-1], max(1, info.units)

    def estimate_us(tile: int) -> float:
        waves = -(-prod(batch) * -(-rows // tile) * -(-columns // tile) // units)
        return waves * (-(-depth // STEPS[tile]) * _STEP_US[tile] + _START_US[tile])

    return {"BM": min(STEPS, key=estimate_us), **choose_products(info)}


def _fits(node: Node, graph: Graph, info: DeviceInfo, parameters: Parameters) -> bool:
    del node, graph
    return all(parameters[name] == value for name, value in choose_products(info).items())


def _describe(
    node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters
) -> tuple[LaunchBatch, ...]:
    tile, depth = parameters["BM"], graph.shape(node.inputs[0])[-1]
    begin, end = matrix_box(out)
    extent = end - begin
    matrices = extent[:, 0] * extent[:, 1]
    places = matrices * ceil_div(extent[:, 2], tile) * ceil_div(extent[:, 3], tile)
    busiest = spread(places, info.units)
    target, left, residual = rows_args(node, graph)
    right = matrix_arg(node.inputs[1], graph.shape(node.inputs[1]), graph.shape(node.output))
    read, written = moved_bytes(node, graph, out)
    batch = LaunchBatch(
        entry=MATMUL,
        tensors=(target, left, right, residual),
        global_size=size_grid(places),
        local_size=(GROUP, 1, 1),
        scalars={
            "n_begin": begin[:, 0],
            "n_count": extent[:, 0],
            "h_begin": begin[:, 1],
            "h_count": extent[:, 1],
            "row_begin": begin[:, 2],
            "row_end": end[:, 2],
            "channel_begin": begin[:, 3],
            "channel_end": end[:, 3],
            **constants_like(out, depth=depth),
            **epilogue_scalars(node.epilogue, out.count),
        },
        busiest_flops=busiest_share(
            2 * depth * tile * tile,
            full_items=matrices * (extent[:, 2] // tile) * (extent[:, 3] // tile),
            units=info.units,
        ),
        units={"steps": busiest * -(-depth // STEPS[tile]), "tiles": busiest},
        read_bytes=read,
        written_bytes=written,
        flops=np.asarray(2 * depth * out.size),
    )
    return (batch,)


IMPLEMENTATIONS = (
    Implementation(
        name=MATMUL,
        source=f"gemm/{MATMUL}.cl",
        allowed={"BM": tuple(STEPS), "PTX": (0, 1), "PRECISION": PRECISIONS},
        accepts=_accept,
        describe=_describe,
        fits=_fits,
        uses_groups=True,
    ),
)
