"""A `Graph` under construction: what the operators' translations read from and write to."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import helper

from codl.errors import ModelError
from codl.frontend.onnx_node import OnnxNode
from codl.ir.graph import FLOAT_TYPE, NO_EPILOGUE, FloatArray, Node, Shape, Tensor
from codl.ir.ops import Epilogue, Op, Reshape, Unary

MAX_RANK = 4
HOLDABLE = f"up to {MAX_RANK} axes, none empty"

Array = npt.NDArray[np.generic]


def is_holdable(shape: Shape) -> bool:
    """Return whether a graph can have a tensor of this shape."""
    return len(shape) <= MAX_RANK and min(shape, default=1) > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class HostNode:
    """A node of the model that no kernel computes."""

    node: OnnxNode
    reason: str
    """Why, as text for users."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """Nodes and tensors so far, and what is known of the model they come from."""

    label: str
    """The model in messages."""
    opset: int
    shapes: Mapping[str, Shape]
    types: Mapping[str, str]
    """In ONNX's words, such as `tensor(float)`."""
    values: Mapping[str, Array]
    """Constants of the model, of any type."""
    taken: set[str]
    """Every name of the model: new ones stay apart from these."""
    given: frozenset[str]
    """Constants of the model by name, those that are no plain arrays included."""
    nodes: list[Node | HostNode] = field(default_factory=list)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    constants: dict[str, FloatArray] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    """Tensor of the model -> tensor of equal value and shape that stands for it."""
    node_names: set[str] = field(default_factory=set)
    counts: dict[str, int] = field(default_factory=dict)
    """Hint -> number at the end of the last tensor's name made from it."""
    node_counts: dict[str, int] = field(default_factory=dict)
    original_names: dict[str, str] = field(default_factory=dict)

    def shape(self, name: str, *, node: OnnxNode) -> Shape:
        """Return the shape of a tensor that ``node`` reads or writes.

        Raises:
            NoKernelError: It is unknown before the model runs, empty, or of too many axes.
        """
        shape = self.shapes.get(name)
        if shape is None:
            raise node.unsupported(
                got=f"tensor {name!r} of unknown shape",
                expected="shapes that are fixed before the model runs",
            )
        self.check_shape(name, shape, node=node)
        return shape

    def check_shape(self, name: str, shape: Shape, *, node: OnnxNode) -> None:
        """Raise `NoKernelError` if the graph cannot hold a tensor of ``node`` of this shape."""
        if not is_holdable(shape):
            raise node.unsupported(got=f"tensor {name!r} of shape {list(shape)}", expected=HOLDABLE)

    def fits_device(self, name: str) -> bool:
        """Return whether devices can have a tensor of the model: float32, of a shape that fits a graph."""
        return self.types.get(name) == FLOAT_TYPE and name in self.shapes and is_holdable(self.shapes[name])

    def describe(self, name: str) -> Tensor:
        """Return the graph's entry for a tensor of the model, on the host where devices cannot have it."""
        return Tensor(
            name=name,
            shape=self.shapes.get(name, ()),
            type=self.types.get(name, ""),
            is_on_host=not self.fits_device(name),
        )

    def value(self, name: str, *, node: OnnxNode) -> Array:
        """Return the value of a constant that ``node`` reads.

        Raises:
            NoKernelError: The tensor is computed at run time.
        """
        value = self.values.get(name)
        if value is None:
            raise node.unsupported(got=f"input {name!r} computed at run time", expected="a constant")
        return value

    def scalar(self, name: str, *, node: OnnxNode) -> float:
        """Return the only element of a constant that ``node`` reads.

        Raises:
            ModelError: It has more elements, or none.
            NoKernelError: It is computed at run time.
        """
        value = self.value(name, node=node)
        if value.size != 1:
            raise node.broken(got=f"{name!r} of shape {list(value.shape)}", expected="one element")
        return float(np.asarray(value).item())

    def integers_of(self, node: OnnxNode, attribute: str, *, index: int) -> tuple[int, ...] | None:
        """Return integers that are an attribute in old versions of an operator and a constant input since.

        Raises:
            NoKernelError: The input is computed at run time.
        """
        name = node.optional_input(index)
        if name is None:
            return node.integers(attribute)
        return tuple(int(i) for i in np.asarray(self.value(name, node=node)).reshape(-1))

    def operand(self, name: str, *, node: OnnxNode) -> str:
        """Return the tensor that stands for an input of ``node``; constants enter the graph here.

        Raises:
            NoKernelError: The tensor is no float32 of a shape that the graph can hold.
        """
        self.shape(name, node=node)
        found = self.types.get(name, "")
        if found != FLOAT_TYPE:
            raise node.unsupported(got=f"{name!r} of {found or 'an unknown type'}", expected=FLOAT_TYPE)
        if name in self.values:
            self._add_model_constant(name)
        return self.aliases.get(name, name)

    def first_operand(self, node: OnnxNode) -> tuple[str, Shape]:
        """Return the tensor for the first input of ``node``, and its shape; errors as in `operand`."""
        x = self.operand(node.inputs[0], node=node)
        return x, self.tensors[x].shape

    def add_constant(self, hint: str, value: npt.ArrayLike) -> str:
        """Add a derived constant, cast to float32, and return its name."""
        name = self.fresh_name(hint)
        array = np.ascontiguousarray(value, dtype=np.float32).reshape(np.shape(value))
        self.constants[name] = array
        self.tensors[name] = Tensor(name=name, shape=array.shape)
        return name

    def add_node(
        self,
        op: Op,
        inputs: Sequence[str],
        output: str,
        *,
        shape: Shape,
        name: str | None = None,
        epilogue: Epilogue = NO_EPILOGUE,
    ) -> str:
        """Add a node and its output tensor; return the latter's name."""
        self.tensors[output] = Tensor(name=output, shape=shape)
        unique = self.unique_node_name(name or output)
        self.nodes.append(Node(name=unique, op=op, inputs=tuple(inputs), output=output, epilogue=epilogue))
        return output

    def reshape(self, x: str, shape: Shape, *, hint: str, name: str | None = None) -> str:
        """Return the name of a tensor under another shape: of a new constant, or of a new node's output."""
        if x in self.constants:
            return self.add_constant(hint, self.constants[x].reshape(shape))
        return self.add_node(Reshape(), (x,), self.fresh_name(hint), shape=shape, name=name)

    def add_result(
        self, op: Op, inputs: Sequence[str], node: OnnxNode, *, shape: Shape, result: Shape, word: str
    ) -> None:
        """Add a node, and a `Reshape` behind it where the output of ``node`` has another shape.

        Args:
            op: The operator.
            inputs: Its inputs.
            node: The node of the model whose output it computes.
            shape: Shape that the operator returns.
            result: Shape of the output.
            word: Names what lies between the two.
        """
        if shape == result:
            self.add_node(op, inputs, node.output, shape=shape, name=node.name)
            return
        between = self.fresh_name(f"{node.output}/{word}")
        self.add_node(op, inputs, between, shape=shape, name=f"{node.name}/{word}")
        self.add_node(Reshape(), (between,), node.output, shape=result, name=node.name)

    def add_alias(self, output: str, source: str) -> None:
        """Let ``source``, already in the graph, stand for ``output``."""
        self.aliases[output] = self.aliases.get(source, source)

    def fresh_name(self, hint: str) -> str:
        """Return a tensor name that neither the model nor the graph has, and take it."""
        return _take(hint, self.taken, self.counts)

    def add_host_node(self, node: OnnxNode, *, reason: str) -> None:
        """Leave a node of the model to the host; its outputs enter the graph."""
        self.nodes.append(HostNode(node=node, reason=reason))
        self.tensors.update({name: self.describe(name) for name in node.outputs})

    def finish_outputs(self, names: Sequence[str]) -> list[str]:
        """Return the tensors that are outputs of the graph: the model's own, or copies of others.

        A copy of an input or a constant gets a name of its own.

        Raises:
            ModelError: Nothing stands for one.
        """
        written = {name for node in self.nodes for name in _find_outputs(node)}
        return [name if name in written else self._copy_output(name) for name in names]

    def _copy_output(self, name: str) -> str:
        """Add a copy of what stands for an output that no node writes, and return its name."""
        source, output = self.aliases.get(name, name), name
        if source == name:
            output = self.fresh_name(f"{name}/copy")
            self.original_names[output] = name
        if name in self.given and self.fits_device(name):
            self._add_model_constant(name)
        if source in self.tensors and not self.tensors[source].is_on_host:
            return self.add_node(Unary(), [source], output, shape=self.tensors[source].shape)
        if source not in self.tensors and source not in self.given:
            raise ModelError(
                f"{self.label}: output {name!r}: got no node that writes it, expected one; "
                "export the model again"
            )
        return self._copy_on_host(source, output)

    def _copy_on_host(self, source: str, output: str) -> str:
        """Add a copy of an input or constant that devices cannot have."""
        found = self.describe(source)
        copy = OnnxNode(
            proto=helper.make_node("Identity", [source], [output], name=output),
            opset=self.opset,
            label=self.label,
        )
        self.nodes.append(HostNode(node=copy, reason=f"output {source!r} is {found.type}"))
        self.tensors[output] = Tensor(name=output, shape=found.shape, type=found.type, is_on_host=True)
        return output

    def _add_model_constant(self, name: str) -> None:
        """Let a float32 constant of the model enter the graph under its own name."""
        if name not in self.constants:
            self.constants[name] = np.asarray(self.values[name], dtype=np.float32)
            self.tensors[name] = Tensor(name=name, shape=self.constants[name].shape)

    def mark(self) -> tuple[int, ...]:
        """Return what `rewind` needs to come back to here."""
        return tuple(len(kept) for kept in (self.nodes, *self._named()))

    def rewind(self, mark: tuple[int, ...]) -> None:
        """Take back what was added since a mark; names stay taken."""
        del self.nodes[mark[0] :]
        for kept, count in zip(self._named(), mark[1:], strict=True):
            while len(kept) > count:
                kept.popitem()

    def _named(self) -> tuple[dict[str, Any], ...]:
        return self.tensors, self.constants, self.aliases, self.original_names

    def unique_node_name(self, hint: str) -> str:
        """Return a node name that no node has yet, and take it."""
        return _take(hint, self.node_names, self.node_counts)


def _take(hint: str, taken: set[str], counts: dict[str, int]) -> str:
    """Return a name that is not taken yet, and take it; numbers behind a hint go on from its last use."""
    name, count = hint, counts.get(hint, 1)
    while name in taken:
        count += 1
        name = f"{hint}_{count}"
    counts[hint] = count
    taken.add(name)
    return name


def _find_outputs(node: Node | HostNode) -> tuple[str, ...]:
    return (node.output,) if isinstance(node, Node) else node.node.outputs


Translations = dict[str, Callable[[Draft, OnnxNode], None]]
"""ONNX operator -> what adds it to a draft."""
