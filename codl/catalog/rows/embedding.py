"""The row for Embedding: rows of a table, picked by ids."""

from codl.catalog.rows.boxes import LANES, constants_like, is_plain, lanes_for, share_box
from codl.catalog.spec import Batches, Parameters, TensorArg, define_row, kernel_dims, plain_arg
from codl.ir.graph import FLOAT_BYTES, Graph, Node
from codl.ir.ops import Embedding
from codl.ir.regions import Boxes
from codl.machine import DeviceInfo

EMBEDDING = "embedding_rows__buffer"


def _accepts(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    if not isinstance(node.op, Embedding) or not is_plain(node):
        return None
    return lanes_for(info, graph.shape(node.output)[-1])


def _describe(node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters) -> Batches:
    ids, table = node.inputs
    shape, rows = graph.shape(node.output), graph.shape(table)
    dims = kernel_dims(len(shape))
    written = out.size * FLOAT_BYTES
    counted = Boxes(out.begin[:, :-1], out.end[:, :-1]).size * FLOAT_BYTES
    return share_box(out, dims, info).describe(
        EMBEDDING,
        (
            plain_arg(node.output, shape),
            TensorArg(name=ids, dims=(*dims[:3], None), origin=(0,) * (len(shape) - 1)),
            plain_arg(table, rows),
        ),
        info,
        moved=(written + counted, written),
        lanes=parameters["VECTOR"],
        scalars=constants_like(out, rows=rows[0]),
    )


IMPLEMENTATIONS = (define_row("embedding", EMBEDDING, _accepts, _describe, allowed={"VECTOR": LANES}),)
