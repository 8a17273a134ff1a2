"""What a model would cost, counted before anything is expanded, computed or allocated."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from codl.errors import ModelError
from codl.frontend.onnx_node import find_bodies
from codl.frontend.types import count_tensor_bytes, make_value_type
from codl.ir.graph import Shape
from codl.limits import Limits

_RAISE = "raise Limits.{} if you trust the model"
_WITHOUT_FOLDING = frozenset(
    {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial"}
)
"""Operators that are never folded, as those with branches or bodies are not."""
_WEIGHT_FACTOR = 3
"""Computed constants may be so many times as large as the weights: these are cast, transposed and packed."""
_UNKNOWN_BYTES = 8
FunctionKey = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class _Cost:
    nodes: int
    calls: int
    depth: int


def check_expansion(proto: Any, *, label: str, limits: Limits) -> None:
    """Raise an error where functions and branches make a model too large, counted without expanding them.

    Raises:
        ModelError: A function calls itself, or a limit is passed.
    """
    cost = _Counter(proto, label, limits).count(proto.graph.node, 0)
    for what, got in (("nodes", cost.nodes), ("function_calls", cost.calls)):
        most = getattr(limits, what)
        if got > most:
            words = what.replace("_", " ")
            raise ModelError(
                f"{label}: got {got} {words} after functions are expanded, expected at most {most}; "
                f"{_RAISE.format(what)}"
            )
    size = sum(tensor.ByteSize() for tensor in proto.graph.initializer)
    if size > limits.initializer_bytes:
        raise ModelError(
            f"{label}: got {size} bytes of initializers, expected at most {limits.initializer_bytes}; "
            f"{_RAISE.format('initializer_bytes')}"
        )


class _Counter:
    """Counts each function once, however often it is called."""

    def __init__(self, proto: Any, label: str, limits: Limits) -> None:
        self._functions = {(f.domain, f.name, _overload(f)): f for f in proto.functions}
        self._known: dict[FunctionKey, _Cost | None] = {}
        """None while a function is being counted."""
        self._label, self._limits = label, limits

    def count(self, nodes: Any, depth: int) -> _Cost:
        """Return what nodes at some depth cost."""
        if depth > self._limits.nesting:
            raise ModelError(
                f"{self._label}: got branches, loops or functions more than {self._limits.nesting} deep, "
                f"expected at most that; {_RAISE.format('nesting')}"
            )
        count = calls = deepest = 0
        for node in nodes:
            key = node.domain, node.op_type, _overload(node)
            parts = [self.count(body.node, depth + 1) for body in find_bodies(node)]
            if key in self._functions:
                parts.append(self._count_function(key, depth + 1))
                calls += 1
            else:
                count += 1
            count += sum(part.nodes for part in parts)
            calls += sum(part.calls for part in parts)
            deepest = max([deepest, *(1 + part.depth for part in parts)])
        return _Cost(count, calls, deepest)

    def _count_function(self, key: FunctionKey, depth: int) -> _Cost:
        if key not in self._known:
            self._known[key] = None
            self._known[key] = self.count(self._functions[key].node, depth)
        cost = self._known[key]
        if cost is None:
            raise ModelError(
                f"{self._label}: function {key[1]!r}: got a call of itself, expected none; export it again"
            )
        if depth + cost.depth > self._limits.nesting:
            self.count((), depth + cost.depth)
        return cost


def _overload(proto: Any) -> str:
    return str(getattr(proto, "overload", ""))  # onnx knows it since 1.16


def check_elements(shapes: Mapping[str, Shape], *, label: str, limits: Limits) -> None:
    """Raise `ModelError` naming the first tensor with too many elements, or return silently."""
    for name, shape in shapes.items():
        if math.prod(shape) > limits.tensor_elements:
            raise ModelError(
                f"{label}: tensor {name!r}: got shape {list(shape)}, expected at most "
                f"{limits.tensor_elements} elements; {_RAISE.format('tensor_elements')}"
            )


def check_folding(
    graph: Any, shapes: Mapping[str, Shape], types: Mapping[str, str], *, label: str, limits: Limits
) -> None:
    """Raise `ModelError` where constants would be computed that are too large, or return silently."""
    constants = {tensor.name for tensor in graph.initializer}
    most = limits.folded_bytes + _WEIGHT_FACTOR * sum(tensor.ByteSize() for tensor in graph.initializer)
    total = 0
    for node in graph.node:
        is_random = node.op_type in _WITHOUT_FOLDING or any(find_bodies(node))
        if is_random or not all(name in constants for name in node.input if name):
            continue
        for name in filter(None, node.output):
            constants.add(name)
            total += _count_bytes(shapes.get(name, ()), types.get(name, ""))
            if total > most:
                raise ModelError(
                    f"{label}: tensor {name!r}: got {total} bytes of constants to compute up to here, "
                    f"expected at most {most}; {_RAISE.format('folded_bytes')}"
                )


def _count_bytes(shape: Shape, words: str) -> int:
    try:
        return count_tensor_bytes(make_value_type(words).tensor_type.elem_type, shape)
    except ValueError:  # texts, or an unknown type
        return _UNKNOWN_BYTES * max(0, math.prod(shape))
