"""Inputs of a graph that are ids of embeddings: whole numbers that devices have as floats."""

from codl.ir.graph import Graph
from codl.ir.ops import Embedding, Reshape

ID_TYPES = ("tensor(int32)", "tensor(int64)")
"""Their types, in ONNX's words."""


def find_tables(name: str, graph: Graph) -> list[str] | None:
    """Return the tables of all embeddings that read an input as ids, perhaps reshaped; None for other inputs.

    Args:
        name: Any tensor of the graph.
        graph: The network.
    """
    if graph.tensors[name].type not in ID_TYPES or name not in graph.inputs or name in graph.ends:
        return None
    tables: list[str] = []
    names = {name}
    for node in graph.nodes:
        if names.isdisjoint(node.inputs):
            continue
        match node.op:
            case Reshape():
                names.add(node.output)
            case Embedding() if node.inputs[0] in names and node.inputs[1] not in names:
                tables.append(node.inputs[1])
            case _:
                return None
    return tables
