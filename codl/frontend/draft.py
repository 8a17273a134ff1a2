"""A `Graph` under construction: what the operators' translations read from and write to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from onnx import TensorProto

from codl.errors import ModelError, UnsupportedError
from codl.frontend.onnx_node import OnnxNode, name_type
from codl.ir.graph import NO_EPILOGUE, FloatArray, Graph, Node, Shape, Tensor
from codl.ir.ops import Epilogue, Op, Unary

MAX_RANK = 4
HOLDABLE = f"up to {MAX_RANK} axes, none empty"

Array = npt.NDArray[np.generic]


def is_holdable(shape: Shape) -> bool:
    """Return whether a graph can have a tensor of this shape."""
    return len(shape) <= MAX_RANK and min(shape, default=1) > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """Nodes and tensors so far, and what is known of the model they come from."""

    label: str
    """The model in messages."""
    shapes: Mapping[str, Shape]
    types: Mapping[str, int]
    values: Mapping[str, Array]
    """Constants of the model, of any type."""
    taken: set[str]
    """Every name of the model: new ones stay apart from these."""
    nodes: list[Node] = field(default_factory=list)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    constants: dict[str, FloatArray] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    """Tensor of the model -> tensor of equal value and shape that stands for it."""
    node_names: set[str] = field(default_factory=set)
    original_names: dict[str, str] = field(default_factory=dict)

    def shape(self, name: str, *, node: OnnxNode) -> Shape:
        """Return the shape of a tensor that ``node`` reads or writes.

        Raises:
            UnsupportedError: It is unknown before the model runs, empty, or of too many axes.
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
        """Raise `UnsupportedError` if the graph cannot hold a tensor of ``node`` of this shape."""
        if not is_holdable(shape):
            raise node.unsupported(got=f"tensor {name!r} of shape {list(shape)}", expected=HOLDABLE)

    def is_constant(self, name: str) -> bool:
        """Return whether the tensor's value is known now."""
        return name in self.values

    def value(self, name: str, *, node: OnnxNode) -> Array:
        """Return the value of a constant that ``node`` reads.

        Raises:
            UnsupportedError: The tensor is computed at run time.
        """
        value = self.values.get(name)
        if value is None:
            raise node.unsupported(got=f"input {name!r} computed at run time", expected="a constant")
        return value

    def integers_of(self, node: OnnxNode, attribute: str, *, index: int) -> tuple[int, ...] | None:
        """Return integers that are an attribute in old versions of an operator and a constant input since.

        Args:
            node: The operator.
            attribute: Name of the attribute.
            index: Position of the input.

        Raises:
            UnsupportedError: The input is computed at run time.
        """
        name = node.optional_input(index)
        if name is None:
            return node.integers(attribute)
        return tuple(int(i) for i in np.asarray(self.value(name, node=node)).reshape(-1))

    def operand(self, name: str, *, node: OnnxNode) -> str:
        """Return the tensor that stands for an input of ``node``; constants enter the graph here.

        Raises:
            UnsupportedError: The tensor is no float32 of a shape that the graph can hold.
        """
        self.shape(name, node=node)
        if self.types.get(name) != TensorProto.FLOAT:
            kind = name_type(self.types.get(name, TensorProto.UNDEFINED))
            raise node.unsupported(got=f"tensor {name!r} of type {kind}", expected="float")
        if name in self.values:
            self._add_model_constant(name)
        return self.aliases.get(name, name)

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
        unique = self._unique_node_name(name or output)
        self.nodes.append(Node(name=unique, op=op, inputs=tuple(inputs), output=output, epilogue=epilogue))
        return output

    def add_alias(self, output: str, source: str) -> None:
        """Let ``source``, already in the graph, stand for ``output``."""
        self.aliases[output] = self.aliases.get(source, source)

    def fresh_name(self, hint: str) -> str:
        """Return a tensor name that neither the model nor the graph has, and take it."""
        name, count = hint, 1
        while name in self.taken:
            count += 1
            name = f"{hint}_{count}"
        self.taken.add(name)
        return name

    def finish(self, *, name: str, inputs: Sequence[str], outputs: Sequence[str]) -> Graph:
        """Return the graph; outputs that no node writes under their name get a copying node."""
        written = {node.output for node in self.nodes}
        final = [o if o in written else self._copy_output(o) for o in outputs]
        return Graph(
            name=name,
            nodes=tuple(self.nodes),
            inputs=tuple(inputs),
            outputs=tuple(final),
            tensors=dict(self.tensors),
            constants=dict(self.constants),
            original_names=dict(self.original_names),
        )

    def _copy_output(self, name: str) -> str:
        """Add a copy of what stands for an output; one of an input or constant gets a name of its own."""
        source, output = self.aliases.get(name, name), name
        if name in self.values:
            self._add_model_constant(name)
        if source not in self.tensors:
            raise ModelError(
                f"{self.label}: output {name!r}: got no node that writes it, expected one; "
                "export the model again"
            )
        if source == name:
            output = self.fresh_name(f"{name}/copy")
            self.original_names[output] = name
        return self.add_node(Unary(), [source], output, shape=self.tensors[source].shape)

    def _add_model_constant(self, name: str) -> None:
        """Let a constant of the model enter the graph under its own name.

        Raises:
            UnsupportedError: It is no float32.
        """
        kind = self.types[name]
        if kind != TensorProto.FLOAT:
            raise UnsupportedError(
                f"{self.label}: constant {name!r}: got {name_type(kind)}, "
                "expected float; convert the model to float32"
            )
        if name not in self.constants:
            self.constants[name] = np.asarray(self.values[name], dtype=np.float32)
            self.tensors[name] = Tensor(name=name, shape=self.constants[name].shape)

    def _unique_node_name(self, hint: str) -> str:
        name, count = hint, 1
        while name in self.node_names:
            count += 1
            name = f"{hint}_{count}"
        self.node_names.add(name)
        return name
