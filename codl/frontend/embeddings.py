"""Finds embeddings: Gathers of rows of a constant table, by ids that are an input of the model.

Devices have such an input as floats. So nothing else may read it, neither on devices nor on the host.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from codl.frontend.draft import MAX_RANK, Draft
from codl.frontend.onnx_node import OnnxNode
from codl.frontend.reader import NEWEST_OPSET
from codl.frontend.strides import RESHAPING
from codl.frontend.structure import find_reads
from codl.ir.ids import ID_TYPES
from codl.ir.ops import MOST_ROWS, Embedding

_MOST_ELEMENTS = 1 << 31
"""Of a table: kernels count them in 32 bits."""
_WIDENED = ("tensor(int32)", "tensor(int64)")


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundEmbedding:
    """A Gather whose ids are an input."""

    ids: str
    """The input."""
    node: OnnxNode
    moved: tuple[str, ...]
    """Tensors of the model between the input and the Gathers that read it: the same ids, reshaped."""


def find_embeddings(
    nodes: Sequence[OnnxNode], draft: Draft, *, inputs: Sequence[str], outputs: Sequence[str]
) -> list[FoundEmbedding]:
    """Return the embeddings of a model.

    Args:
        nodes: All nodes, in topological order.
        draft: What is known of their tensors.
        inputs: Inputs of the model.
        outputs: Outputs of the model.
    """
    origins = {name: name for name in inputs if draft.types.get(name) in ID_TYPES}
    gathers: list[tuple[str, OnnxNode]] = []
    moved: dict[str, list[str]] = {}
    others = {*outputs}
    """Tensors that something else than an embedding reads."""
    for node in nodes:
        reads = {name for name in find_reads(node.proto) if name in origins}
        for name in reads:
            origin = origins[name]
            if _is_move(node, name, draft):
                origins[node.output] = origin
                moved.setdefault(origin, []).append(node.output)
            elif _is_embedding(node, name, origin, draft):
                gathers.append((origin, node))
            else:
                others.add(name)
    refused = {origins[name] for name in others if name in origins}
    return [
        FoundEmbedding(ids=origin, node=node, moved=tuple(moved.get(origin, ())))
        for origin, node in gathers
        if origin not in refused
    ]


def _is_move(node: OnnxNode, name: str, draft: Draft) -> bool:
    """Return whether a node gives an input of it another shape, or a wider type, and does nothing else."""
    if list(find_reads(node.proto)).count(name) != 1 or node.inputs[:1] != (name,):
        return False
    is_widened = (draft.types.get(name), draft.types.get(node.output)) == _WIDENED
    return node.op_type in (*RESHAPING, "Identity") or (node.op_type == "Cast" and is_widened)


def _is_embedding(node: OnnxNode, name: str, origin: str, draft: Draft) -> bool:
    """Return whether a node picks rows of a constant table by ids, and devices can have all that it needs."""
    if node.op_type != "Gather" or len(node.inputs) != 2 or node.version > NEWEST_OPSET:
        return False
    table, ids, given = draft.values.get(node.inputs[0]), draft.shapes.get(name), draft.shapes.get(origin)
    if table is None or ids is None or given is None or node.inputs[0] in (name, origin):
        return False
    is_table = table.ndim == 2 and table.dtype == np.float32 and 0 < table.size < _MOST_ELEMENTS
    is_held = len(given) <= MAX_RANK and len(ids) < MAX_RANK and prod(given) == prod(ids) > 0
    return is_table and is_held and len(table) <= MOST_ROWS and node.integer("axis", 0) in (0, -2)


def add_embedding(draft: Draft, found: FoundEmbedding) -> None:
    """Add an `Embedding`; ids of other than one or two axes are a vector to it."""
    node = found.node
    table, name = draft.operand(node.inputs[0], node=node), node.inputs[1]
    draft.tensors[found.ids] = replace(draft.tensors[found.ids], is_on_host=False)
    ids, columns = draft.shapes[name], draft.tensors[table].shape[1]
    flat = ids if len(ids) in (1, 2) else (prod(ids),)
    x = draft.reshape(found.ids, flat, hint=f"{name}/ids")
    result = (*ids, columns)
    draft.add_result(Embedding(), (x, table), node, shape=(*flat, columns), result=result, word="rows")
