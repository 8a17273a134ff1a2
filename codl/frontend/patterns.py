"""Rewrites a graph before fusion: several nodes that are one operator, and nodes that nothing reads."""

from collections import Counter
from dataclasses import replace

from codl.ir.graph import NO_EPILOGUE, Graph, Node
from codl.ir.ops import Activation, ActivationKind, Binary, BinaryKind, Epilogue, Unary

_HARD_SWISH = Epilogue(activation=Activation(kind=ActivationKind.HARD_SWISH))
_SLOPE_TOLERANCE = 1e-6
"""A sixth is stored as float32."""


def recognise(graph: Graph) -> Graph:
    """Return the same network with products x * hard_sigmoid(x) as one operator, without unread nodes."""
    nodes = [_recognise_hard_swish(node, graph) for node in graph.nodes]
    return replace(graph, nodes=_drop_unread(nodes, graph.outputs))


def _recognise_hard_swish(node: Node, graph: Graph) -> Node:
    """Return x * hard_sigmoid(x) of slope 1/6 as a HardSwish, which ONNX Runtime spells out; others stay."""
    if node.op != Binary(kind=BinaryKind.MUL) or node.epilogue != NO_EPILOGUE:
        return node
    for x, gate in (node.inputs, node.inputs[::-1]):
        producer = graph.producers.get(gate)
        if producer is not None and producer.inputs == (x,) and _is_gate(producer):
            return replace(node, op=Unary(), inputs=(x,), epilogue=_HARD_SWISH)
    return node


def _is_gate(node: Node) -> bool:
    activation = node.epilogue.activation
    is_sixth = abs(activation.alpha - 1 / 6) < _SLOPE_TOLERANCE and activation.beta == 0.5
    return isinstance(node.op, Unary) and activation.kind is ActivationKind.HARD_SIGMOID and is_sixth


def _drop_unread(nodes: list[Node], outputs: tuple[str, ...]) -> tuple[Node, ...]:
    """Return the nodes on which an output depends."""
    needed = Counter(outputs)
    kept = []
    for node in reversed(nodes):
        if needed[node.output]:
            needed.update(node.inputs)
            kept.append(node)
    return tuple(reversed(kept))
