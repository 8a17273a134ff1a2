"""Networks over signals [N, C, L] become networks over images of one row, [N, C, 1, L], where windows slide.

Kernels slide windows over images, whose channels lie innermost; signals lie in ONNX order. So a stretch of a
network, convolutions, poolings and what is done to single elements or channels between them, is turned once
where it begins and once where it ends.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from onnx import helper, numpy_helper

from codl.frontend.activations import TRANSLATIONS as ELEMENTWISE
from codl.frontend.shapes import Inferred
from codl.frontend.structure import find_reads
from codl.ir.graph import FLOAT_TYPE

_POOLING = ("AveragePool", "GlobalAveragePool", "GlobalMaxPool", "MaxPool")
_WINDOWED = ("Conv", "ConvTranspose", "InstanceNormalization", *_POOLING)
_BY_CHANNEL = ("BatchNormalization", "Dropout", "Identity")
_BY_AXIS = ("Concat", "Split")
_SIGNAL_AXES, _AXES_INPUT = 3, 3
"""Axes of a signal, and which input of a Slice lists axes."""
_IMAGE_AXES = (0, 1, 3)
"""Where a signal's axes are in its image."""
_LEADING = {"kernel_shape": 1, "strides": 1, "dilations": 1, "output_padding": 0, "output_shape": 1}
"""Attributes with a value for each axis of a window, and that of the row."""


def widen_signals(model: Any, inferred: Inferred) -> bool:
    """Rewrite a model's signals as images; return whether there were any.

    Args:
        model: A simplified `onnx.ModelProto`; it is changed.
        inferred: What is known of its tensors.
    """
    rewriting = _Rewriting(model.graph, inferred)
    if not rewriting.images:
        return False
    rewriting.apply()
    return True


class _Rewriting:
    def __init__(self, graph: Any, inferred: Inferred) -> None:
        self._graph, self._shapes, self._types = graph, inferred.shapes, inferred.types
        self._constants = {tensor.name: tensor for tensor in graph.initializer}
        self._names = {name for node in graph.node for name in (*node.input, *node.output)}
        self._names |= {*self._constants, *(one.name for one in (*graph.input, *graph.output))}
        self._twins: dict[str, str] = {}
        self.images: set[str] = set()
        """Signals that some widened node writes."""
        self._nodes = [(node, self._find_out(node)) for node in graph.node]
        """In topological order, and whether each computes images."""

    def apply(self) -> None:
        """Put the nodes of images in the place of those of signals."""
        wanted = {one.name for one in self._graph.output}
        for node, is_widened in self._nodes:
            wanted.update(() if is_widened else find_reads(node))
        nodes: list[Any] = []
        for node, is_widened in self._nodes:
            if not is_widened:
                nodes.append(node)
                continue
            for name in node.input:
                if self._is_signal(name) and name not in self._twins:
                    nodes.append(self._turn(name, self._name_twin(name), (*self._shapes[name][:2], 1, -1)))
            nodes.append(self._widen(node))
            for name in node.output:
                if name in wanted:
                    nodes.append(self._turn(self._twins[name], name, self._shapes[name]))
        del self._graph.node[:]
        self._graph.node.extend(nodes)
        read = {name for node in nodes for name in find_reads(node)} | wanted
        kept = [tensor for tensor in self._graph.initializer if tensor.name in read]
        del self._graph.initializer[:]
        self._graph.initializer.extend(kept)

    def _find_out(self, node: Any) -> bool:
        """Return whether a node computes images, and note its outputs if it does."""
        outputs = [name for name in node.output if name]
        if node.domain not in ("", "ai.onnx") or not all(map(self._is_signal, outputs)) or not node.input:
            return False
        has_constants = all(name in self._constants for name in node.input[1:] if name)
        if node.op_type in _WINDOWED:
            found = has_constants and len(outputs) == 1 and self._has_window(node)
        elif node.op_type in _BY_CHANNEL:
            found = has_constants and len(outputs) == 1 and node.input[0] in self.images
        elif node.op_type in ("Slice", "Split"):
            has_axes = node.op_type == "Split" or any(node.input[_AXES_INPUT : _AXES_INPUT + 1])
            found = has_constants and has_axes and node.input[0] in self.images
        elif node.op_type == "Concat":
            found = all(name in self.images for name in node.input)
        else:
            found = node.op_type in ELEMENTWISE and self._reads_images(node.input)
        self.images.update(outputs if found else ())
        return found

    def _reads_images(self, names: Iterable[str]) -> bool:
        """Return whether all of a node's operands are images, or constants that may meet them."""
        constants = [name for name in names if name and name not in self.images]
        may_meet = all(
            name in self._constants and len(self._constants[name].dims) <= _SIGNAL_AXES for name in constants
        )
        return may_meet and any(name in self.images for name in names)

    def _has_window(self, node: Any) -> bool:
        """Return whether a window slides over a signal, as its attributes and its weights say."""
        counts = {one.name: len(one.ints) for one in node.attribute if one.name in ("pads", *_LEADING)}
        fits = all(count == (2 if name == "pads" else 1) for name, count in counts.items())
        weights = node.input[1:2] if node.op_type.startswith("Conv") else ()
        fits = fits and all(len(self._constants[name].dims) == _SIGNAL_AXES for name in weights)
        return fits and self._is_signal(node.input[0])

    def _is_signal(self, name: str) -> bool:
        shape = self._shapes.get(name, ())
        is_sound = len(shape) == _SIGNAL_AXES and min(shape) > 0 and self._types.get(name) == FLOAT_TYPE
        return is_sound and name not in self._constants

    def _widen(self, node: Any) -> Any:
        """Return the node of images."""
        is_convolution = node.op_type.startswith("Conv")
        inputs = [
            name if not name else self._widen_constant(name, is_weight=is_convolution and place == 1)
            if name in self._constants else self._twins[name]
            for place, name in enumerate(node.input)
        ]  # fmt: skip
        outputs = [self._name_twin(name) if name else name for name in node.output]
        wide = helper.make_node(node.op_type, inputs, outputs, name=node.name, domain=node.domain)
        wide.attribute.extend(node.attribute)
        for attribute in wide.attribute:
            if attribute.name == "pads":
                begin, end = attribute.ints
                attribute.ints[:] = [0, begin, 0, end]
            elif attribute.name in _LEADING:
                attribute.ints[:] = [_LEADING[attribute.name], *attribute.ints]
            elif attribute.name == "axis" and node.op_type in _BY_AXIS:
                attribute.i = _IMAGE_AXES[attribute.i % _SIGNAL_AXES]
        if node.op_type == "Slice":
            axes = numpy_helper.to_array(self._constants[node.input[_AXES_INPUT]]).reshape(-1)
            places = np.array([_IMAGE_AXES[axis % _SIGNAL_AXES] for axis in axes], np.int64)
            wide.input[_AXES_INPUT] = self._find_name(f"{node.output[0]}/axes")
            self._graph.initializer.append(numpy_helper.from_array(places, wide.input[_AXES_INPUT]))
        return wide

    def _widen_constant(self, name: str, *, is_weight: bool) -> str:
        """Return the constant as images meet it: a row's axis comes before the last."""
        dims = list(self._constants[name].dims)
        if not is_weight and len(dims) < _SIGNAL_AXES - 1:
            return name
        if name not in self._twins:
            values = numpy_helper.to_array(self._constants[name])
            twin = numpy_helper.from_array(values.reshape(*dims[:-1], 1, dims[-1]), self._name_twin(name))
            self._graph.initializer.append(twin)
        return self._twins[name]

    def _turn(self, source: str, target: str, shape: Iterable[int]) -> Any:
        """Return a Reshape from a signal to its image or back."""
        places = self._find_name(f"{target}/shape")
        self._graph.initializer.append(numpy_helper.from_array(np.array([*shape], np.int64), places))
        return helper.make_node("Reshape", [source, places], [target], name=target)

    def _name_twin(self, name: str) -> str:
        if name not in self._twins:
            self._twins[name] = self._find_name(f"{name}/image")
        return self._twins[name]

    def _find_name(self, hint: str) -> str:
        while hint in self._names:
            hint += "'"
        self._names.add(hint)
        return hint
