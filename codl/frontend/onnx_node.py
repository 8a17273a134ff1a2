"""One ONNX node as the frontend reads it: attributes with defaults, and errors that name it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import onnx
from onnx import AttributeProto

from codl.errors import ModelError, UnsupportedError


class NoKernelError(UnsupportedError):
    """A valid node that no kernel computes: it runs on the host."""

    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(message)
        self.reason = reason
        """The message without the model and without advice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxNode:
    """A node of a model together with what its reading depends on."""

    proto: Any
    """The `onnx.NodeProto`."""
    opset: int
    """Version of the default operator set that the model asks for."""
    label: str
    """The model in messages: its file name."""

    @property
    def op_type(self) -> str:
        """Operator, with its domain where that is not ONNX's own."""
        domain = self.proto.domain
        return f"{domain}.{self.proto.op_type}" if domain not in ("", "ai.onnx") else str(self.proto.op_type)

    @property
    def schema(self) -> Any:
        """The `onnx.defs.OpSchema` of the operator at the model's opset; None where ONNX has none."""
        try:
            return onnx.defs.get_schema(str(self.proto.op_type), self.opset, "")
        except onnx.defs.SchemaError:
            return None

    @property
    def version(self) -> int:
        """Opset that defines the operator as the model means it; the model's own where ONNX has none."""
        schema = self.schema
        return self.opset if schema is None else int(schema.since_version)

    @property
    def name(self) -> str:
        """The node's name, or its first output's where it has none."""
        return str(self.proto.name or next((o for o in self.proto.output if o), "without outputs"))

    @property
    def inputs(self) -> tuple[str, ...]:
        """Input tensors; an omitted one in the middle is an empty string, none at the end are."""
        names = list(self.proto.input)
        while names and not names[-1]:
            names.pop()
        return tuple(names)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Output tensors that are asked for."""
        return tuple(name for name in self.proto.output if name)

    @property
    def output(self) -> str:
        """The first output."""
        return str(self.proto.output[0])

    def optional_input(self, index: int) -> str | None:
        """Return the name of an input, or None where the model omits it."""
        inputs = self.inputs
        return inputs[index] if index < len(inputs) and inputs[index] else None

    def integer(self, name: str, default: int) -> int:
        """Return an integer attribute."""
        value = self._attribute(name, AttributeProto.INT)
        return default if value is None else int(value.i)

    def number(self, name: str, default: float) -> float:
        """Return a float attribute."""
        value = self._attribute(name, AttributeProto.FLOAT)
        return default if value is None else float(value.f)

    def text(self, name: str, default: str) -> str:
        """Return a string attribute."""
        value = self._attribute(name, AttributeProto.STRING)
        return default if value is None else bytes(value.s).decode(errors="replace")

    def integers(self, name: str) -> tuple[int, ...] | None:
        """Return an attribute that lists integers, or None where the model leaves it out."""
        value = self._attribute(name, AttributeProto.INTS)
        return None if value is None else tuple(int(i) for i in value.ints)

    def numbers(self, name: str) -> tuple[float, ...] | None:
        """Return an attribute that lists floats, or None where the model leaves it out."""
        value = self._attribute(name, AttributeProto.FLOATS)
        return None if value is None else tuple(float(f) for f in value.floats)

    def is_default(self, attribute: AttributeProto) -> bool:
        """Return whether an attribute says what ONNX takes where it is missing."""
        schema = self.schema
        declared = None if schema is None else schema.attributes.get(attribute.name)
        return declared is not None and bool(declared.default_value == attribute)

    def sentence(
        self, *, got: str, expected: str, remedy: str = "correct the attribute in the exporter"
    ) -> str:
        """Return the sentence of a problem with this node."""
        return f"{self.label}: node {self.name!r} ({self.op_type}): got {got}, expected {expected}; {remedy}"

    def broken(self, *, got: str, expected: str, remedy: str = "export the model again") -> ModelError:
        """Return the error of a node that ONNX does not allow."""
        return ModelError(self.sentence(got=got, expected=expected, remedy=remedy))

    def unsupported(self, *, got: str, expected: str) -> NoKernelError:
        """Return the error of a valid node that no kernel computes."""
        reason = f"node {self.name!r} ({self.op_type}): got {got}, expected {expected}"
        return NoKernelError(f"{self.label}: {reason}; run it on the host", reason=reason)

    def _attribute(self, name: str, kind: int) -> Any:
        for attribute in self.proto.attribute:
            if attribute.name != name:
                continue
            if attribute.type != kind:
                raise self.broken(
                    got=f"attribute {name} of type {name_attribute_type(attribute.type)}",
                    expected=name_attribute_type(kind),
                )
            return attribute
        return None


def name_attribute_type(kind: int) -> str:
    """Return ONNX's word for the type of an attribute, such as `INTS`."""
    known = kind in AttributeProto.AttributeType.values()
    return str(AttributeProto.AttributeType.Name(kind)) if known else f"unknown type {kind}"


def find_bodies(node: Any) -> Iterator[Any]:
    """Yield the graphs inside an `onnx.NodeProto`: branches and loop bodies."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs
