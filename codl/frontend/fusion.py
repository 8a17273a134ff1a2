"""Fuses operators into the epilogue of the node that produces their input."""

from collections.abc import Callable
from dataclasses import replace

from codl.frontend.folding import fold_channel_map
from codl.frontend.layouts import arrange
from codl.frontend.leading import unify
from codl.frontend.padding import fold_padding
from codl.frontend.patterns import recognise
from codl.frontend.workbench import Fusion, Workbench
from codl.ir.graph import Graph, Node
from codl.ir.ops import (
    Activation,
    Affine,
    Binary,
    BinaryKind,
    Conv2d,
    ConvTranspose2d,
    Epilogue,
    MatMul,
    Normalize,
    ResidualOrder,
    Unary,
)

_IDENTITY = Activation()
_ACTIVATING = (Conv2d, ConvTranspose2d, MatMul, Affine, Normalize, Binary, Unary)
"""Operators whose kernels apply an activation before they store."""
_RESIDUAL = (Conv2d, ConvTranspose2d, MatMul, Normalize)
"""Operators whose kernels add a residual before they store."""


def fuse(graph: Graph) -> Graph:
    """Return the same network with constants folded and activations and residual adds in epilogues.

    A fused node keeps its own name and takes the tensor name and the place of the
    last operator it absorbed, so the order stays topological.
    """
    bench = Workbench.of(unify(arrange(recognise(graph))))
    for output in list(bench.nodes):
        for rule in _RULES:
            fusion = rule(bench, bench.nodes[output])
            if fusion is not None:
                bench.apply(fusion)
    return bench.finish()


def _fuse_activation(bench: Workbench, node: Node) -> Fusion | None:
    """Move the function of a `Unary` into its producer; a plain copy only renames the producer's output."""
    if not isinstance(node.op, Unary) or node.residual is not None:
        return None
    producer = bench.sole_producer(node.inputs[0])
    if producer is None:
        return None
    activation, epilogue = node.epilogue.activation, producer.epilogue
    if activation != _IDENTITY:
        is_open = epilogue.activation == _IDENTITY and epilogue.residual is not ResidualOrder.AFTER
        if not (is_open and isinstance(producer.op, _ACTIVATING)):
            return None
        epilogue = replace(epilogue, activation=activation)
    fused = replace(producer, output=node.output, epilogue=epilogue)
    return Fusion(node=fused, absorbed=producer.output)


def _fuse_residual(bench: Workbench, node: Node) -> Fusion | None:
    """Move an addition into the later of its producers that can add a residual."""
    if node.op != Binary(kind=BinaryKind.ADD) or node.epilogue != Epilogue():
        return None
    shape = bench.graph.shape(node.output)
    a, b = node.inputs
    if any(name in bench.constants or bench.graph.shape(name) != shape for name in (a, b)):
        return None
    found = [(p, other) for name, other in ((a, b), (b, a)) if (p := bench.sole_producer(name)) is not None]
    found = [
        (producer, other)
        for producer, other in found
        if isinstance(producer.op, _RESIDUAL) and producer.epilogue.residual is ResidualOrder.NONE
    ]
    if not found:
        return None
    producer, other = max(found, key=lambda pair: bench.position(pair[0]))
    is_plain = producer.epilogue.activation == _IDENTITY
    order = ResidualOrder.BEFORE if is_plain else ResidualOrder.AFTER
    fused = replace(
        producer,
        inputs=(*producer.inputs, other),
        output=node.output,
        epilogue=replace(producer.epilogue, residual=order),
    )
    return Fusion(node=fused, absorbed=producer.output)


_RULES: tuple[Callable[[Workbench, Node], Fusion | None], ...] = (
    fold_channel_map,
    fold_padding,
    _fuse_residual,
    _fuse_activation,
)
