"""Rewrites a graph before fusion: several nodes that are one operator, and nodes that nothing reads."""

import math
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from codl.ir.graph import NO_EPILOGUE, Graph, Node
from codl.ir.ops import Activation, ActivationKind, Binary, BinaryKind, Epilogue, Unary

_TOLERANCE = 1e-6
"""Numbers such as a sixth are stored as float32."""
_SCALINGS = (BinaryKind.MUL, BinaryKind.DIV)
_DEPTH = 3
"""Products within products that are looked into."""


def recognise(graph: Graph) -> Graph:
    """Return the same network with products of x and a gate of x as one operator, without unread nodes.

    ONNX Runtime and exporters spell HardSwish, SiLU and Gelu out.
    """
    nodes = [_recognise_gate(node, graph) for node in graph.nodes]
    return replace(graph, nodes=drop_unread(nodes, graph.outputs))


def _recognise_gate(node: Node, graph: Graph) -> Node:
    """Return a product of x, a gate of x and a number as the activation that it is; others stay."""
    if not _is_scaling(node):
        return node
    for gate in _find_factors(node.output, graph):
        for activation, x, scale in _read_gate(gate, graph):
            factors, found = _multiply(node.output, graph, kept=(x, gate))
            is_alike = graph.shape(x) == graph.shape(node.output)  # a number of more axes would add them
            if is_alike and factors == Counter((x, gate)) and math.isclose(found, scale, rel_tol=_TOLERANCE):
                epilogue = Epilogue(activation=activation)
                return replace(node, op=Unary(), inputs=(x,), epilogue=epilogue)
    return node


def _read_gate(gate: str, graph: Graph) -> Iterator[tuple[Activation, str, float]]:
    """Yield the activations that a tensor may be the gate of, with x and a factor: factor * x * gate."""
    node = graph.producers.get(gate)
    if node is None:
        return
    activation = node.epilogue.activation
    if isinstance(node.op, Unary) and activation.kind is ActivationKind.SIGMOID:
        for x, scale in _find_scaled(node.inputs[0], graph):
            yield Activation(kind=ActivationKind.SWISH, alpha=scale), x, 1.0
    elif isinstance(node.op, Unary) and activation.kind is ActivationKind.HARD_SIGMOID:
        if math.isclose(activation.alpha, 1 / 6, rel_tol=_TOLERANCE) and activation.beta == 0.5:
            yield Activation(kind=ActivationKind.HARD_SWISH), node.inputs[0], 1.0
    elif node.op == Binary(kind=BinaryKind.ADD) and node.epilogue == NO_EPILOGUE:
        for name, one in (node.inputs, node.inputs[::-1]):
            inner = graph.producers.get(name)
            if inner is None or inner.epilogue.activation.kind is not ActivationKind.ERF:
                continue
            for x, scale in _find_scaled(inner.inputs[0], graph):
                if _read_number(one, graph) == 1.0 and math.isclose(scale, 0.5**0.5, rel_tol=_TOLERANCE):
                    yield Activation(kind=ActivationKind.GELU), x, 0.5


def _find_factors(name: str, graph: Graph, depth: int = _DEPTH) -> Iterator[str]:
    """Yield what a tensor is a product of, and what those are products of."""
    node = graph.producers.get(name)
    for factor in node.inputs if depth and node is not None and _is_scaling(node) else ():
        yield factor
        yield from _find_factors(factor, graph, depth - 1)


def _find_scaled(name: str, graph: Graph) -> Iterator[tuple[str, float]]:
    """Yield the tensors that a tensor is a multiple of, with the factor."""
    yield name, 1.0
    node = graph.producers.get(name)
    if node is not None and _is_scaling(node):
        for x in node.inputs:
            factors, scale = _multiply(name, graph, kept=(x,))
            if factors == Counter((x,)):
                yield x, scale


def _multiply(
    name: str, graph: Graph, *, kept: Collection[str], depth: int = _DEPTH
) -> tuple[Counter[str], float]:
    """Return a tensor as a product of tensors and a number; those of ``kept`` are not taken apart."""
    number = _read_number(name, graph)
    if number is not None:
        return Counter(), number
    node = graph.producers.get(name)
    if name in kept or node is None or not depth or not _is_scaling(node):
        return Counter((name,)), 1.0
    products = [_multiply(each, graph, kept=kept, depth=depth - 1) for each in node.inputs]
    (factors, scale), (others, other) = products
    if node.op == Binary(kind=BinaryKind.MUL):
        return factors + others, scale * other
    return (factors, scale / other) if not others and other else (Counter((name,)), 1.0)


def _is_scaling(node: Node) -> bool:
    return isinstance(node.op, Binary) and node.op.kind in _SCALINGS and node.epilogue == NO_EPILOGUE


def _read_number(name: str, graph: Graph) -> float | None:
    """Return a constant of one element; None for anything else."""
    value = graph.constants.get(name)
    return float(value.reshape(-1)[0]) if value is not None and value.size == 1 else None


def drop_unread(nodes: Sequence[Node], outputs: tuple[str, ...]) -> tuple[Node, ...]:
    """Return the nodes on which an output depends."""
    needed = Counter(outputs)
    kept = []
    for node in reversed(nodes):
        if needed[node.output]:
            needed.update(node.inputs)
            kept.append(node)
    return tuple(reversed(kept))
