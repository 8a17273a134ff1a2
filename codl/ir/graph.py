"""The network as data: tensors, nodes in topological order, constants."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from codl.ir.boxes import Shape
from codl.ir.ops import Epilogue, HostCall, Op, ResidualOrder

__all__ = [
    "FLOAT_BYTES",
    "FLOAT_TYPE",
    "NO_EPILOGUE",
    "FloatArray",
    "Graph",
    "HostModel",
    "Node",
    "Shape",
    "Tensor",
]

NO_EPILOGUE = Epilogue()
FLOAT_BYTES = 4
"""Bytes of one element of any tensor on a device."""
FLOAT_TYPE = "tensor(float)"
"""The one type of tensors that devices have, in ONNX's words."""

FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """A float32 tensor of fixed shape, ONNX axis order; or a value of any type on the host only.

    An input that is ids of embeddings (`codl/ir/ids.py`) keeps its type, and is float32 on devices.
    """

    name: str
    shape: Shape
    """Empty for a value on the host whose shape is unknown before a run."""
    type: str = FLOAT_TYPE
    """ONNX's words, such as `tensor(int64)`; empty where it is unknown."""
    is_on_host: bool = False
    """Whether no device has it: only host calls, feeds and outputs of the network touch it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One operator with its fused epilogue and its single output."""

    name: str
    op: Op
    inputs: tuple[str, ...]
    """Activations and constants by name, in the operator's order; a residual comes last."""
    output: str
    epilogue: Epilogue = NO_EPILOGUE

    @property
    def residual(self) -> str | None:
        """Name of the tensor that the epilogue adds, if there is one."""
        return None if self.epilogue.residual is ResidualOrder.NONE else self.inputs[-1]

    @property
    def kind(self) -> str:
        """Operator name in messages, such as `Conv2d`."""
        return type(self.op).__name__


@dataclass(frozen=True, slots=True, kw_only=True)
class HostModel:
    """A part of the network that ONNX Runtime runs on the CPU, and why."""

    content: bytes = field(repr=False)
    """A whole ONNX model, weights included."""
    operators: tuple[str, ...]
    """ONNX operators in the order in which they run."""
    reasons: tuple[str, ...]
    """Why no kernel computes them: one phrase for each distinct reason."""


@dataclass(frozen=True, kw_only=True)
class Graph:
    """A whole network. Nodes are in topological order; every tensor has one producer."""

    name: str
    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    tensors: Mapping[str, Tensor]
    """Every activation and constant by name."""
    constants: Mapping[str, FloatArray] = field(repr=False)
    original_names: Mapping[str, str] = field(default_factory=dict)
    """For tensors renamed on the way in: codl's name -> the model's name."""
    digest: str | None = None
    """Graphs of equal digest have constants of equal values; None where it is not known."""
    host_models: Mapping[str, HostModel] = field(default_factory=dict)
    """What `HostCall` nodes run, by their group."""

    @cached_property
    def producers(self) -> Mapping[str, Node]:
        """Activation name -> the node that writes it; graph inputs and constants are absent."""
        return {node.output: node for node in self.nodes}

    @cached_property
    def consumers(self) -> Mapping[str, tuple[Node, ...]]:
        """Activation name -> the nodes that read it, in topological order."""
        found: dict[str, list[Node]] = {name: [] for name in self.tensors}
        for node in self.nodes:
            for name in dict.fromkeys(node.inputs):
                found[name].append(node)
        return {name: tuple(nodes) for name, nodes in found.items()}

    @cached_property
    def ends(self) -> frozenset[str]:
        """The outputs as a set, for membership tests."""
        return frozenset(self.outputs)

    @cached_property
    def nodes_by_name(self) -> Mapping[str, Node]:
        """Node name -> node."""
        return {node.name: node for node in self.nodes}

    @cached_property
    def host_groups(self) -> Mapping[str, tuple[Node, ...]]:
        """Group of `HostCall` nodes -> the nodes, in topological order."""
        found: dict[str, list[Node]] = {}
        for node in self.nodes:
            if isinstance(node.op, HostCall):
                found.setdefault(node.op.group, []).append(node)
        return {group: tuple(nodes) for group, nodes in found.items()}

    @cached_property
    def positions(self) -> Mapping[str, int]:
        """Node name -> place in the topological order."""
        return {node.name: index for index, node in enumerate(self.nodes)}

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over structure, shapes and attributes; weights' values are not part of it."""
        told = [*_tell_nodes(self.nodes), *map(_tell_tensor, self.tensors.values())]
        told.append(repr((self.inputs, self.outputs)))
        told.append(repr([(group, part.operators) for group, part in self.host_models.items()]))
        return hashlib.sha256("".join(told).encode()).hexdigest()

    def shape(self, name: str) -> Shape:
        """Return the shape of a tensor."""
        return self.tensors[name].shape

    def activations(self, node: Node) -> tuple[str, ...]:
        """Return the inputs of ``node`` that are not constants, each once."""
        return tuple(name for name in dict.fromkeys(node.inputs) if name not in self.constants)


def _tell_nodes(nodes: Iterable[Node]) -> Iterator[str]:
    """Yield the `repr` of each node; equal operators and epilogues are formatted once."""
    ops: dict[Op, str] = {}
    epilogues: dict[Epilogue, str] = {}
    for node in nodes:
        op, epilogue = ops.get(node.op), epilogues.get(node.epilogue)
        if op is None:
            op = ops[node.op] = repr(node.op)
        if epilogue is None:
            epilogue = epilogues[node.epilogue] = repr(node.epilogue)
        ends = f"inputs={node.inputs!r}, output={node.output!r}"
        yield f"Node(name={node.name!r}, op={op}, {ends}, epilogue={epilogue})"


def _tell_tensor(tensor: Tensor) -> str:
    """Return the `repr` of a tensor, faster than `repr` itself."""
    ends = f"type={tensor.type!r}, is_on_host={tensor.is_on_host!r}"
    return f"Tensor(name={tensor.name!r}, shape={tensor.shape!r}, {ends})"
