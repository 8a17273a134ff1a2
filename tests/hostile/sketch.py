"""A model that grows node by node; ONNX Runtime computes each at once, so every tensor's value is known."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tests.frontend.onnx_models import open_onnxruntime

NEWEST_OPSET = onnx.defs.onnx_opset_version()
MOST_FEEDS = 4
LARGEST = 1e4
"""Values beyond lose too many digits in what is computed from them."""
_MOST_BYTES = 1 << 20
_DOMAINS = ("com.microsoft", "ai.onnx.ml")
_ODD_NAMES = (
    "{0} a b",
    "größe/{0}:0",
    "日本語{0}",
    "{0}%s{{}}\\n",
    "\x1b[31m{0}",
    "'{0}\"",
    "../{0}",
    "-{0}\t",
)


@dataclass
class Sketch:
    """Nodes with the values that they yield for the feeds."""

    rng: np.random.Generator
    opset: int
    has_odd_names: bool = False
    values: dict[str, Any] = field(default_factory=dict)
    """Every tensor that a node may read."""
    constants: dict[str, Any] = field(default_factory=dict)
    """Arrays by name, in the order in which they were made."""
    feeds: dict[str, Any] = field(default_factory=dict)
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    functions: list[onnx.FunctionProto] = field(default_factory=list)
    count: list[int] = field(default_factory=lambda: [0])
    """How many names were given, shared with all scopes inside."""
    is_clean: bool = True
    """Whether a node is left out whose numbers are not finite, or very large."""

    def flip(self, share: float = 0.5) -> bool:
        """Return True in this share of cases."""
        return bool(self.rng.random() < share)

    def choose(self, options: Sequence[Any]) -> Any:
        """Return one of the options."""
        return options[int(self.rng.integers(len(options)))]

    def name(self, stem: str) -> str:
        """Return a name that is not taken."""
        self.count[0] += 1
        plain = f"{stem}{self.count[0]}"
        return str(self.choose(_ODD_NAMES)).format(plain) if self.has_odd_names else plain

    def shape(self, rank: int, *, largest: int = 5) -> list[int]:
        """Return a random shape."""
        return [int(n) for n in self.rng.integers(1, largest + 1, rank)]

    def array(self, shape: Sequence[int], dtype: Any = np.float32) -> Any:
        """Return random numbers: standard-normal ones, small whole ones, or truths."""
        kind = np.dtype(dtype)
        if kind.kind == "f":
            return np.asarray(self.rng.standard_normal(shape)).astype(kind)
        if kind.kind == "b":
            return np.asarray(self.rng.random(shape) < 0.5)
        return np.asarray(self.rng.integers(0, 4, shape)).astype(kind)

    def feed(self, value: Any) -> str:
        """Return the name of a new input; a constant where there are many."""
        if len(self.feeds) >= MOST_FEEDS:
            return self.constant(value)
        name = self.name("x")
        self.feeds[name] = self.values[name] = value
        return name

    def constant(self, value: Any) -> str:
        """Return the name of a constant: an initializer, or the output of a Constant node."""
        value, name = np.asarray(value), self.name("c")
        self.values[name] = value
        if self.flip(0.2):
            tensor = numpy_helper.from_array(value, "value")
            self.nodes.append(helper.make_node("Constant", [], [name], value=tensor))
        else:
            self.constants[name] = value
        return name

    def integers(self, *values: int) -> str:
        """Return the name of a constant of whole numbers; now and then they are computed from a shape."""
        found = np.array(values, np.int64)
        if self.flip(0.1) and len(found):
            known = self.pick(least=1, most=4)
            shape = np.array(self.values[known].shape, np.int64)
            if len(shape) == 1:
                length = self.add("Shape", [known])
                rest = self.constant(found - shape)
                return (length and self.add("Add", [length, rest])) or self.constant(found)
        return self.constant(found)

    def pick(
        self,
        *,
        least: int = 0,
        most: int = 6,
        dtype: Any = np.float32,
        fits: Callable[[Any], bool] = lambda value: True,
    ) -> str:
        """Return the name of a tensor of so many axes, one that is there or a new input."""
        known = [name for name, value in self.values.items() if self._fits(value, least, most, dtype, fits)]
        if known and self.flip(0.85):
            return str(self.choose(known[-6:]))
        rank = int(self.rng.integers(least, most + 1))
        rank = rank if rank <= 4 or self.flip(0.3) else min(4, most)
        for _ in range(20):
            value = self.array(self.shape(max(rank, least), largest=8 if rank == 4 else 5), dtype)
            if fits(value):
                break
        return self.feed(value)

    @staticmethod
    def _fits(value: Any, least: int, most: int, dtype: Any, fits: Callable[[Any], bool]) -> bool:
        if not isinstance(value, np.ndarray) or value.dtype != dtype or not least <= value.ndim <= most:
            return False
        return value.size > 0 and fits(value)

    def add(self, op_type: str, inputs: Sequence[str], *, domain: Any = "", **attributes: Any) -> str | None:
        """Return the name of the new node's output, or None when ONNX Runtime does not compute it."""
        found = self.add_all(op_type, inputs, 1, domain=domain, **attributes)
        return found[0] if found else None

    def add_all(
        self, op_type: str, inputs: Sequence[str], outputs: int, *, domain: Any = "", **attributes: Any
    ) -> list[str]:
        """Return the names of the new node's outputs; none when ONNX Runtime does not compute it."""
        names = [self.name("t") for _ in range(outputs)]
        label = self.name(op_type) if self.flip(0.7) else ""
        attributes = {name: value for name, value in attributes.items() if value != []}
        node = helper.make_node(op_type, inputs, names, name=label, domain=domain, **attributes)
        return names if self.add_node(node) else []

    def add_node(self, node: onnx.NodeProto) -> bool:
        """Append a node if ONNX Runtime computes it, and return whether it does."""
        try:
            found = self.compute(node)
        except Exception:  # its errors have no common base but this one
            return False
        if not all(self._is_tame(value) for value in found):
            return False
        self.values.update(zip(node.output, found, strict=True))
        self.nodes.append(node)
        return True

    def _is_tame(self, value: Any) -> bool:
        """Return whether a value is small, and its numbers are."""
        if not isinstance(value, np.ndarray):
            return True
        if value.nbytes > _MOST_BYTES:
            return False
        if not self.is_clean or value.dtype.kind != "f":
            return True
        return bool((np.abs(value.astype(np.float64)) <= LARGEST).all()) and value.size > 0

    def compute(self, node: onnx.NodeProto) -> list[Any]:
        """Return what ONNX Runtime computes for one node."""
        read = [name for name in dict.fromkeys(find_reads(node)) if name in self.values]
        inputs = [describe(name, self.values[name]) for name in read]
        outputs = [onnx.ValueInfoProto(name=name) for name in node.output]
        model = self._wrap(helper.make_graph([node], "probe", inputs, outputs))
        session = open_onnxruntime(model.SerializeToString())
        return list(session.run(None, {name: self.values[name] for name in read}))

    def _wrap(self, graph: onnx.GraphProto) -> onnx.ModelProto:
        opsets = [helper.make_opsetid("", self.opset)]
        opsets += [helper.make_opsetid(name, 1) for name in ("local", *_DOMAINS)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8, functions=self.functions)

    def inside(self) -> "Sketch":
        """Return a scope that sees all tensors and adds to none of the nodes."""
        return replace(self, values=dict(self.values), constants={}, nodes=[])

    def finish(self, outputs: Iterable[str]) -> onnx.ModelProto:
        """Return the model with these outputs."""
        feeds = [describe(name, value) for name, value in self.feeds.items()]
        results = [describe(name, self.values[name]) for name in outputs]
        tensors = [numpy_helper.from_array(value, name) for name, value in self.constants.items()]
        return self._wrap(helper.make_graph(self.nodes, "sketch", feeds, results, tensors))


def find_reads(node: onnx.NodeProto) -> Iterator[str]:
    """Yield the names that a node reads, those of its subgraphs too."""
    yield from (name for name in node.input if name)
    for attribute in node.attribute:
        for each in attribute.g.node:
            yield from find_reads(each)
        yield from (output.name for output in attribute.g.output)


def describe(name: str, value: Any) -> onnx.ValueInfoProto:
    """Return the declaration of a tensor, or of a sequence of them."""
    if isinstance(value, np.ndarray):
        kind = helper.np_dtype_to_tensor_dtype(value.dtype)
        return helper.make_tensor_value_info(name, kind, value.shape)
    if isinstance(value, list) and value:
        kind = helper.np_dtype_to_tensor_dtype(value[0].dtype)
        return helper.make_tensor_sequence_value_info(name, kind, None)
    return onnx.ValueInfoProto(name=name)
