"""Rewrites a graph before fusion, so that values lie next to each other in memory where operators need them.

In memory the channels of an image [N, C, H, W] are innermost, and the last axis of all other ranks.
Networks that compute along the last of four axes turn images before and after: here such operators take the
image as it is. And matrices [1, heads, rows, columns], as of attention, lose their first axis.
"""

from collections.abc import Iterator
from dataclasses import replace
from math import prod

import numpy as np

from codl.frontend.patterns import drop_unread
from codl.ir.graph import NO_EPILOGUE, FloatArray, Graph, Node, Shape, Tensor
from codl.ir.ops import (
    Binary,
    Concat,
    Conv2d,
    LayerNorm,
    MatMul,
    Op,
    Reshape,
    Slice,
    Softmax,
    Transpose,
    Unary,
)

_TO_LAST, _TO_SECOND = (0, 2, 3, 1), (0, 3, 1, 2)
_IMAGE_RANK = 4


def arrange(graph: Graph) -> Graph:
    """Return the same network with images and matrices as kernels read them best, without unread nodes."""
    return _Squeezing(_Turning(graph).finish()).finish()


class Rewriting:
    """A graph while it is written anew, node by node."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes: list[Node] = []
        self.tensors = dict(graph.tensors)
        self.constants: dict[str, FloatArray] = dict(graph.constants)
        self._names = {node.name for node in graph.nodes}

    def shape(self, name: str) -> Shape:
        """Return the shape of a tensor, of a new one, too."""
        return self.tensors[name].shape

    def add(self, op: Op, inputs: tuple[str, ...], hint: str, shape: Shape, like: Node | None = None) -> str:
        """Add a node, which may take name and epilogue of another one; return its output, a new tensor."""
        output = self._take(hint, shape)
        name, epilogue = (like.name, like.epilogue) if like else (self.name_node(output), NO_EPILOGUE)
        self.nodes.append(Node(name=name, op=op, inputs=inputs, output=output, epilogue=epilogue))
        return output

    def name_node(self, hint: str) -> str:
        """Return a node name that no node has yet, and take it."""
        while hint in self._names:
            hint += "'"
        self._names.add(hint)
        return hint

    def put_back(self, node: Node, op: Op, source: str) -> None:
        """Add what writes the output of a node, which another node has become, in its old form."""
        name = self.name_node(f"{node.name}/back")
        self.nodes.append(replace(node, name=name, op=op, inputs=(source,), epilogue=NO_EPILOGUE))

    def add_constant(self, hint: str, value: FloatArray) -> str:
        """Add a constant and return its name."""
        name = self._take(hint, value.shape)
        self.constants[name] = np.ascontiguousarray(value)
        return name

    def _take(self, hint: str, shape: Shape) -> str:
        name = hint
        while name in self.tensors:
            name += "'"
        self.tensors[name] = Tensor(name=name, shape=shape)
        return name

    def close(self) -> Graph:
        """Return the graph, without unread nodes."""
        if tuple(self.nodes) == self.graph.nodes:
            return self.graph
        nodes = drop_unread(self.nodes, self.graph.outputs)
        kept = {*self.graph.inputs, *self.graph.outputs}
        kept.update(name for node in nodes for name in (*node.inputs, node.output))
        return replace(
            self.graph,
            nodes=nodes,
            tensors={name: tensor for name, tensor in self.tensors.items() if name in kept},
            constants={name: value for name, value in self.constants.items() if name in kept},
        )


class _Turning(Rewriting):
    """Moves turns of images, channels last, behind the operators that follow them; turns back end them."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self._images: dict[str, str] = {}
        """Tensor with channels last -> the image that it is a turn of."""
        self._others: dict[str, str] = {}
        """Image -> one of the same values."""

    def finish(self) -> Graph:
        """Return the graph."""
        for node in self.graph.nodes:
            self._take_node(node)
        return self.close()

    def _take_node(self, node: Node) -> None:
        node = replace(node, inputs=tuple(self._others.get(name, name) for name in node.inputs))
        image = self._images.get(node.inputs[0]) if node.inputs else None
        if node.op == Transpose(order=_TO_LAST):
            self._images[node.output] = node.inputs[0]
        elif node.op == Transpose(order=_TO_SECOND) and image is not None:
            if node.output not in self.graph.outputs:
                self._others[node.output] = image
            node = replace(node, op=Unary(), inputs=(image,))
        elif node.residual is None:
            moved = next(self._move(node), None)
            if moved is not None:
                self._images[node.output] = moved
                self.put_back(node, Transpose(order=_TO_LAST), moved)
                return
        self.nodes.append(node)

    def _move(self, node: Node) -> Iterator[str]:
        """Yield the image of which the output of a node is a turn, where its inputs are."""
        images = [self._images.get(name) for name in node.inputs]
        if not any(images) or len(self.shape(node.output)) != _IMAGE_RANK:
            return
        n, height, width, channels = self.shape(node.output)
        shape, hint = (n, channels, height, width), f"{node.output}/image"
        image, others = images[0], node.inputs[1:]
        if isinstance(node.op, LayerNorm) and image and node.op.axis == _IMAGE_RANK - 1:
            yield self.add(replace(node.op, axis=1), (image, *others), hint, shape, node)
        elif isinstance(node.op, Unary) and image:
            yield self.add(node.op, (image,), hint, shape, node)
        elif isinstance(node.op, MatMul) and image and not node.op.has_bias:
            matrix = self.constants.get(others[0])
            if matrix is not None and matrix.ndim == 2:
                weight = self.add_constant(f"{others[0]}/kernel", matrix.T[:, :, None, None])
                yield self.add(Conv2d(kernel=(1, 1)), (image, weight), hint, shape, node)
        elif isinstance(node.op, Binary):
            operands = [
                found or self._turn_constant(name) for name, found in zip(node.inputs, images, strict=True)
            ]
            known = tuple(name for name in operands if name is not None)
            if len(known) == len(operands):
                yield self.add(node.op, known, hint, shape, node)

    def _turn_constant(self, name: str) -> str | None:
        """Return a constant of one number a channel, or of one in all, as it is added to images."""
        value = self.constants.get(name)
        if value is None or value.size not in (1, value.shape[-1] if value.ndim else 1):
            return None
        return name if value.ndim == 0 else self.add_constant(f"{name}/channels", value.reshape(-1, 1, 1))


class _Squeezing(Rewriting):
    """Takes the first axis off matrices [1, heads, rows, columns] and off what leads from and to them."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self._squeezed: dict[tuple[str, int], str] = {}
        """Tensor of four axes and one of length 1 among them -> the tensor without it."""

    def finish(self) -> Graph:
        """Return the graph."""
        for node in self.graph.nodes:
            self._take_node(node)
        return self.close()

    def _take_node(self, node: Node) -> None:
        shape = self.shape(node.output)
        if isinstance(node.op, Reshape) and node.epilogue == NO_EPILOGUE:
            self.nodes.append(replace(node, inputs=(self._find_origin(node.inputs[0]),)))
            return
        squeezed = None
        if len(shape) == _IMAGE_RANK and node.epilogue.residual == NO_EPILOGUE.residual:
            squeezed = next(self._squeeze_node(node, shape), None)
        if squeezed is None:
            self.nodes.append(node)
            return
        name, axis = squeezed
        self._squeezed[node.output, axis] = name
        self.put_back(node, Reshape(), name)

    def _squeeze_node(self, node: Node, shape: Shape) -> Iterator[tuple[str, int]]:
        """Yield the output of a node without its axis of length 1, and that axis."""
        op, inputs = node.op, node.inputs
        is_squeezed = any((name, 0) in self._squeezed for name in inputs)
        hint = f"{node.output}/matrices"
        if isinstance(op, MatMul) and shape[0] == 1 and self._are_matrices(inputs):
            a, b = (self._squeeze(name, 0) for name in inputs)
            yield self.add(op, (a, b), hint, shape[1:], node), 0
        elif isinstance(op, Softmax) and is_squeezed and op.axis > 0:
            yield (
                self.add(Softmax(axis=op.axis - 1), (self._squeeze(inputs[0], 0),), hint, shape[1:], node),
                0,
            )
        elif isinstance(op, Unary) and is_squeezed:
            yield self.add(op, (self._squeeze(inputs[0], 0),), hint, shape[1:], node), 0
        elif isinstance(op, Binary) and is_squeezed and all(self._is_cheap(name, shape) for name in inputs):
            operands = tuple(self._squeeze(name, 0) for name in inputs)
            yield self.add(op, operands, hint, shape[1:], node), 0
        elif isinstance(op, Slice):
            for axis in self._find_free(inputs[0]):
                part = Slice(begin=_without(op.begin, axis), step=_without(op.step, axis))
                x = self._squeeze(inputs[0], axis)
                yield self.add(part, (x,), hint, _without(shape, axis), node), axis
        elif isinstance(op, Concat):
            for axis in range(_IMAGE_RANK):
                if axis != op.axis and all((name, axis) in self._squeezed for name in inputs):
                    parts = tuple(self._squeeze(name, axis) for name in inputs)
                    joined = Concat(axis=op.axis - (op.axis > axis))
                    yield self.add(joined, parts, hint, _without(shape, axis), node), axis
        elif isinstance(op, Transpose):
            for axis, source in enumerate(op.order):
                if (inputs[0], source) in self._squeezed:
                    yield self._turn(node, axis, node), axis
                    return

    def _find_free(self, name: str) -> Iterator[int]:
        """Yield the axes of length 1 that a tensor can lose without a copy."""
        producer = self.graph.producers.get(name)
        for axis, length in enumerate(self.shape(name)):
            is_reshaped = producer is not None and isinstance(producer.op, Reshape) and length == 1
            if is_reshaped or (name, axis) in self._squeezed:
                yield axis

    def _find_origin(self, name: str) -> str:
        """Return the tensor, of fewer axes if there is one, that reshapes make a tensor of."""
        while (producer := self.graph.producers.get(name)) is not None:
            if not isinstance(producer.op, Reshape) or producer.epilogue != NO_EPILOGUE:
                break
            name = producer.inputs[0]
        return next((one for (x, _), one in self._squeezed.items() if x == name), name)

    def _are_matrices(self, names: tuple[str, ...]) -> bool:
        return len(names) == 2 and all(
            len(self.shape(name)) == _IMAGE_RANK and name not in self.constants for name in names
        )

    def _turn(self, node: Node, axis: int, like: Node | None = None) -> str:
        """Return the output of a Transpose without an axis of length 1."""
        assert isinstance(node.op, Transpose)
        source = node.op.order[axis]
        order = tuple(one - (one > source) for one in node.op.order if one != source)
        x = self._squeeze(node.inputs[0], source)
        shape = _without(self.shape(node.output), axis)
        return self.add(Transpose(order=order), (x,), f"{node.output}/matrices", shape, like)

    def _is_cheap(self, name: str, shape: Shape) -> bool:
        """Return whether an operand of a sum needs no copy to lose its first axis, or a small one."""
        is_known = (name, 0) in self._squeezed or name in self.constants
        return shape[0] == 1 and (is_known or prod(self.shape(name)) < prod(shape))

    def _squeeze(self, name: str, axis: int) -> str:
        """Return a tensor without an axis of length 1; one of fewer axes stays."""
        shape = self.shape(name)
        if len(shape) < _IMAGE_RANK:
            return name
        if (name, axis) not in self._squeezed:
            self._squeezed[name, axis] = self._make_squeezed(name, axis)
        return self._squeezed[name, axis]

    def _make_squeezed(self, name: str, axis: int) -> str:
        shape, producer = _without(self.shape(name), axis), self.graph.producers.get(name)
        hint = f"{name}/matrices"
        if name in self.constants:
            return self.add_constant(hint, self.constants[name].reshape(shape))
        if producer is not None and producer.epilogue == NO_EPILOGUE:
            if (
                isinstance(producer.op, Transpose)
                and self.shape(producer.inputs[0])[producer.op.order[axis]] == 1
            ):
                return self._turn(producer, axis)
            if isinstance(producer.op, Reshape):
                origin = self._find_origin(name)
                return origin if self.shape(origin) == shape else self.add(Reshape(), (origin,), hint, shape)
            if isinstance(producer.op, Binary) and self._has_one_reader(name):
                a, b = producer.inputs
                if axis == 0 and all(
                    self._is_number(one) or len(self.shape(one)) == _IMAGE_RANK for one in (a, b)
                ):
                    operands = (self._squeeze(a, 0), self._squeeze(b, 0))
                    return self.add(producer.op, operands, hint, shape)
        return self.add(Reshape(), (name,), hint, shape)

    def _has_one_reader(self, name: str) -> bool:
        return len(self.graph.consumers[name]) == 1 and name not in self.graph.outputs

    def _is_number(self, name: str) -> bool:
        return name in self.constants and self.constants[name].size == 1 and self.constants[name].ndim < 2


def _without(shape: Shape, axis: int) -> Shape:
    return shape[:axis] + shape[axis + 1 :]
