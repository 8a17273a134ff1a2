"""Problems of a node that ONNX's operator schemas tell: unknown operators, attributes, argument counts."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import onnx

from codl.errors import ModelError, UnsupportedError
from codl.frontend.onnx_node import OnnxNode, name_attribute_type
from codl.frontend.reader import DEFAULT_DOMAINS, Source
from codl.frontend.refusal import RefusedError

_RUNTIME_DOMAINS = ("ai.onnx.ml", "ai.onnx.preview", "ai.onnx.training", "ai.onnx.preview.training")
_RUNTIME_VENDORS = ("com.microsoft", "com.ms", "org.pytorch")
_REMEDY = "correct the node in the exporter"


def check_operator_sets(source: Source) -> None:
    """Raise if the model asks for operators of a future opset or of an unknown domain.

    Raises:
        ModelError: The opset is none that exists, or a domain is used and not imported.
        UnsupportedError: A domain is imported that neither ONNX nor ONNX Runtime has.
    """
    latest = onnx.defs.onnx_opset_version()
    if source.opset > latest:
        raise ModelError(
            f"{source.label}: got opset {source.opset}, expected {latest} or earlier; "
            "export the model for an older opset, or update onnx and onnxruntime"
        )
    imported = {entry.domain for entry in source.proto.opset_import}
    local = {function.domain for function in source.proto.functions}
    for proto in source.proto.graph.node:
        node = OnnxNode(proto=proto, opset=source.opset, label=source.label)
        domain = str(proto.domain)  # bytes where the model holds no UTF-8
        if domain in DEFAULT_DOMAINS or domain in local:
            continue
        if domain not in imported:
            raise node.broken(
                got=f"operator domain {domain!r} that the model does not import",
                expected="an opset_import of it",
            )
        if domain not in _RUNTIME_DOMAINS and not domain.startswith(_RUNTIME_VENDORS):
            raise UnsupportedError(
                node.sentence(
                    got=f"operator domain {domain!r}",
                    expected="ONNX's own or one of ONNX Runtime's",
                    remedy="export the model without custom operators",
                )
            )


def find_schema_problems(node: OnnxNode) -> Iterator[str]:
    """Yield one sentence for each attribute or argument that the operator's schema does not have."""
    schema = node.schema if node.proto.domain in DEFAULT_DOMAINS else None
    if schema is not None and not schema.deprecated:
        yield from _find_attribute_problems(node, schema)
        yield from _find_argument_problems(node, schema)


def check_known(node: OnnxNode) -> None:
    """Raise if ONNX has no such operator at the model's opset.

    ONNX Runtime has some that ONNX dropped, and some before ONNX had them, such as LayerNormalization.

    Raises:
        RefusedError: It has none; ONNX Runtime may.
    """
    schema = node.schema if node.proto.domain in DEFAULT_DOMAINS else None
    if node.proto.domain in DEFAULT_DOMAINS and (schema is None or schema.deprecated):
        got, expected = f"operator {node.op_type or 'without a type'}", f"one that opset {node.opset} has"
        raise RefusedError(
            node.sentence(got=got, expected=expected, remedy=_REMEDY),
            reason=f"node {node.name!r}: got {got}, expected {expected}",
        )


def _find_attribute_problems(node: OnnxNode, schema: Any) -> Iterator[str]:
    given = Counter(attribute.name for attribute in node.proto.attribute)
    for name, count in given.items():
        if count > 1:
            yield node.sentence(got=f"{count} attributes {name}", expected="1", remedy=_REMEDY)
        if name not in schema.attributes:
            known = f"one of {', '.join(schema.attributes)}" if schema.attributes else "none"
            yield node.sentence(got=f"attribute {name}", expected=known, remedy=_REMEDY)
    for name, declared in schema.attributes.items():
        if declared.required and name not in given:
            yield node.sentence(got=f"no attribute {name}", expected="a value for it", remedy=_REMEDY)
    for attribute in node.proto.attribute:
        if attribute.name not in schema.attributes or attribute.ref_attr_name:
            continue
        expected = int(schema.attributes[attribute.name].type.value)
        if attribute.type != expected:
            yield node.sentence(
                got=f"attribute {attribute.name} of type {name_attribute_type(attribute.type)}",
                expected=name_attribute_type(expected),
                remedy=_REMEDY,
            )


def _find_argument_problems(node: OnnxNode, schema: Any) -> Iterator[str]:
    for word, names, least, most, declared in (
        ("inputs", list(node.proto.input), schema.min_input, schema.max_input, schema.inputs),
        ("outputs", list(node.proto.output), schema.min_output, schema.max_output, schema.outputs),
    ):
        if not least <= len(names) <= most:
            expected = str(least) if least == most else f"{least} to {most}"
            yield node.sentence(got=f"{len(names)} {word}", expected=expected, remedy=_REMEDY)
            continue
        for parameter, name in zip(declared, names, strict=False):
            if not name and word == "inputs" and parameter.option == parameter.option.Single:
                yield node.sentence(got=f"no input {parameter.name}", expected="a tensor", remedy=_REMEDY)
