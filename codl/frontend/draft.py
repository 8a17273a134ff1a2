"""A `Graph` under construction: what the operators' translations read from and write to."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from codl.frontend.onnx_node import OnnxNode
from codl.frontend.structure import find_reads
from codl.ir.graph import FLOAT_TYPE, NO_EPILOGUE, FloatArray, Node, Shape, Tensor
from codl.ir.ops import Epilogue, Op, Reshape

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
class Carrier:
    """What stands for a tensor of more axes than a graph's tensors have."""

    tensor: str
    """One of the graph with the same elements in ONNX order."""
    node: OnnxNode
    """The node of the model that writes the tensor: the host computes it where a node there reads it."""
    place: int
    """Carriers come in topological order."""


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
    carriers: dict[str, Carrier] = field(default_factory=dict)
    """Tensor of the model with more axes than fit -> what stands for it."""
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
        shape = self.full_shape(name, node=node)
        self.check_shape(name, shape, node=node)
        return shape

    def full_shape(self, name: str, *, node: OnnxNode) -> Shape:
        """Return the shape of a tensor that ``node`` reads or writes, of any number of axes.

        Raises:
            NoKernelError: It is unknown before the model runs, or empty.
        """
        shape = self.shapes.get(name)
        if shape is None:
            raise node.unsupported(
                got=f"tensor {name!r} of unknown shape",
                expected="shapes that are fixed before the model runs",
            )
        self.check_shape(name, shape, node=node, is_carried=True)
        return shape

    def check_shape(self, name: str, shape: Shape, *, node: OnnxNode, is_carried: bool = False) -> None:
        """Raise `NoKernelError` if the graph cannot hold a tensor of ``node``, or what carries it."""
        if not (min(shape, default=1) > 0 if is_carried else is_holdable(shape)):
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
            self.add_model_constant(name)
        return self.aliases.get(name, name)

    def carried(self, name: str, *, node: OnnxNode) -> tuple[str, Shape]:
        """Return a tensor with the elements of an input of ``node`` in ONNX order, and the input's shape.

        The two have the same axes where a graph can have the input itself.

        Raises:
            NoKernelError: As in `operand`, or the host computes a tensor of many axes.
        """
        shape = self.full_shape(name, node=node)
        if is_holdable(shape):
            return self.operand(name, node=node), shape
        if name in self.values and self.types.get(name) == FLOAT_TYPE:
            return self.add_constant(f"{name}/flat", np.reshape(self.values[name], -1)), shape
        if name not in self.carriers:
            self.check_shape(name, shape, node=node)
        return self.carriers[name].tensor, shape

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
        if shape == self.tensors[x].shape:
            return x
        if x in self.constants:
            return self.add_constant(hint, self.constants[x].reshape(shape))
        return self.add_node(Reshape(), (x,), self.fresh_name(hint), shape=shape, name=name)

    def add_result(
        self,
        op: Op,
        inputs: Sequence[str],
        node: OnnxNode,
        *,
        shape: Shape,
        result: Shape,
        word: str,
        output: str | None = None,
        epilogue: Epilogue = NO_EPILOGUE,
    ) -> None:
        """Add a node, and a `Reshape` behind it where the output of ``node`` has another shape.

        Args:
            op: The operator.
            inputs: Its inputs.
            node: The node of the model whose output it computes.
            shape: Shape that the operator returns.
            result: Shape of the output.
            word: Names what lies between the two.
            output: One of several of the node's; without it the first.
            epilogue: Of the operator.
        """
        name = node.name if len(node.proto.output) == 1 or output is None else f"{node.name}/{output}"
        output = output or node.output
        if shape == result:
            self.add_node(op, inputs, output, shape=shape, name=name, epilogue=epilogue)
            return
        between = self.fresh_name(f"{output}/{word}")
        title = name if len(result) > MAX_RANK else f"{name}/{word}"
        self.add_node(op, inputs, between, shape=shape, name=title, epilogue=epilogue)
        self.add_reshaped(between, node, result=result, output=output, name=name)

    def add_reshaped(
        self,
        x: str,
        node: OnnxNode,
        *,
        result: Shape,
        output: str | None = None,
        name: str | None = None,
    ) -> None:
        """Let a tensor with the elements of an output in ONNX order become that output.

        Args:
            x: The tensor.
            node: The node of the model.
            result: Shape of the output; one of too many axes is carried by the tensor.
            output: One of several of the node's; without it the first.
            name: Of the `Reshape`, if there is one.
        """
        output = output or node.output
        if len(result) > MAX_RANK:
            self.carriers[output] = Carrier(tensor=x, node=node, place=len(self.carriers))
        elif result == self.tensors[x].shape:
            self.add_alias(output, x)
        else:
            self.add_node(Reshape(), (x,), output, shape=result, name=name or node.name)

    def add_alias(self, output: str, source: str) -> None:
        """Let ``source``, already in the graph, stand for ``output``."""
        self.aliases[output] = self.aliases.get(source, source)

    def fresh_name(self, hint: str) -> str:
        """Return a tensor name that neither the model nor the graph has, and take it."""
        return _take(hint, self.taken, self.counts)

    def add_host_node(self, node: OnnxNode, *, reason: str) -> None:
        """Leave a node of the model to the host; its outputs enter the graph."""
        self.leave_carried(find_reads(node.proto))
        self._add_host_node(node, reason=reason)

    def leave_carried(self, names: Iterable[str]) -> None:
        """Let the host compute those of some tensors, too, that are only carried so far."""
        waiting, found = list(names), dict[int, OnnxNode]()
        while waiting:
            name = waiting.pop()
            carrier = self.carriers.get(name)
            if carrier is not None and name not in self.tensors and carrier.place not in found:
                found[carrier.place] = carrier.node
                waiting.extend(find_reads(carrier.node.proto))
        for _, node in sorted(found.items(), key=lambda item: item[0]):
            if not self.tensors.keys() & set(node.outputs):
                name = node.outputs[0]
                got = f"tensor {name!r} of shape {list(self.shapes[name])}"
                self._add_host_node(node, reason=node.unsupported(got=got, expected=HOLDABLE).reason)

    def _add_host_node(self, node: OnnxNode, *, reason: str) -> None:
        self.nodes.append(HostNode(node=node, reason=reason))
        self.tensors.update({name: self.describe(name) for name in node.outputs})

    def add_model_constant(self, name: str) -> None:
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
        return self.tensors, self.constants, self.aliases, self.carriers, self.original_names

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


Translations = dict[str, Callable[[Draft, OnnxNode], None]]
"""ONNX operator -> what adds it to a draft."""
