"""Reads an ONNX file or its bytes into a model whose inputs are all feeds of known shape."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError
from onnx.external_data_helper import load_external_data_for_model, uses_external_data

from codl.errors import ModelError, UnsupportedError
from codl.frontend.onnx_node import name_type

OLDEST_IR = 3
OLDEST_OPSET = 7
DEFAULT_DOMAINS = ("", "ai.onnx")

DeclaredShape = tuple[int | str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """An input or output as the model declares it."""

    name: str
    shape: DeclaredShape
    """A free dimension by its name; one without a name is `input[axis]`."""
    type: str
    """ONNX's words, such as `tensor(float)`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A parsed model and where it came from."""

    proto: Any
    """The `onnx.ModelProto`. Every input is a feed, every dimension of an input is a number."""
    label: str
    """The model in messages: its file name."""
    path: str | None
    """None for a model given as bytes."""
    inputs: tuple[Argument, ...]
    """Feeds as declared, before dimensions were bound."""
    outputs: Mapping[str, DeclaredShape | None]
    """Output name -> declared shape, None where the model declares none."""
    opset: int


def read_source(
    model: str | os.PathLike[str] | bytes, *, dimensions: Mapping[str, int] | None = None
) -> Source:
    """Return a model with its weights in memory, initializers taken out of its inputs, and dimensions bound.

    Args:
        model: Path of an ONNX file, or its content.
        dimensions: Values of free dimensions, by name.

    Raises:
        ModelError: The file cannot be read, is no ONNX model, is too old, or a dimension stays free.
        UnsupportedError: An input is no float32 tensor.
    """
    path = None if isinstance(model, bytes) else Path(model)
    label = name_model(model)
    data = model if isinstance(model, bytes) else _read_bytes(Path(model))
    proto = _parse(data, label)
    _check_versions(proto, label)
    _load_external_data(proto, label, path)
    _drop_initializer_inputs(proto)
    inputs = tuple(_describe_input(value, label) for value in proto.graph.input)
    outputs = {value.name: _declared_shape(value) for value in proto.graph.output}
    _bind(proto, inputs, dimensions or {}, label)
    return Source(
        proto=proto,
        label=label,
        path=None if path is None else str(path),
        inputs=inputs,
        outputs=outputs,
        opset=find_opset(proto),
    )


def name_model(model: str | os.PathLike[str] | bytes) -> str:
    """Return the words for a model in messages."""
    return "model (bytes)" if isinstance(model, bytes) else Path(model).name


def find_opset(proto: Any) -> int:
    """Return the version of the default operator set that a model imports; 0 where it imports none."""
    return max((o.version for o in proto.opset_import if o.domain in DEFAULT_DOMAINS), default=0)


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ModelError(
            f"{path}: got {error.strerror}, expected a readable ONNX file; check the path"
        ) from error


def _parse(data: bytes, label: str) -> Any:
    if not data:
        raise ModelError(f"{label}: got no bytes, expected an ONNX model; export or download it again")
    try:
        proto = onnx.ModelProto.FromString(data)
    except DecodeError as error:
        raise ModelError(
            f"{label}: got {len(data)} bytes that are no protobuf message, expected a whole ONNX model; "
            "export or download it again"
        ) from error
    if not proto.HasField("graph") or not proto.graph.output:
        raise ModelError(
            f"{label}: got {len(data)} bytes without a graph that has outputs, expected a whole ONNX model; "
            "export or download it again"
        )
    return proto


def _check_versions(proto: Any, label: str) -> None:
    if proto.ir_version < OLDEST_IR:
        raise ModelError(
            f"{label}: got IR version {proto.ir_version}, expected {OLDEST_IR} or later; export it again"
        )
    opset = find_opset(proto)
    if opset < OLDEST_OPSET:
        raise ModelError(
            f"{label}: got {f'opset {opset}' if opset else 'no default opset'}, "
            f"expected {OLDEST_OPSET} or later; convert it with onnx.version_converter"
        )


def _load_external_data(proto: Any, label: str, path: Path | None) -> None:
    outside = next((t for t in proto.graph.initializer if uses_external_data(t)), None)
    if outside is None:
        return
    if path is None:
        raise ModelError(
            f"{label}: got initializer {outside.name!r} that lies in another file, "
            "expected all weights in the bytes; give the model's path instead"
        )
    try:
        load_external_data_for_model(proto, str(path.parent))
    except (OSError, ValueError, onnx.checker.ValidationError) as error:
        raise ModelError(
            f"{label}: got {_one_line(error)}, expected the external weights beside the model; "
            "copy them there"
        ) from error


def _drop_initializer_inputs(proto: Any) -> None:
    """Make initializers constants: those of IR 3 are inputs too, later ones may be."""
    known = {tensor.name for tensor in proto.graph.initializer}
    feeds = [value for value in proto.graph.input if value.name not in known]
    del proto.graph.input[:]
    proto.graph.input.extend(feeds)
    proto.ir_version = max(proto.ir_version, 4)


def _describe_input(value: Any, label: str) -> Argument:
    kind = value.type.WhichOneof("value")
    element = value.type.tensor_type.elem_type
    name = f"tensor({name_type(element)})" if kind == "tensor_type" else str(kind)
    if name != "tensor(float)":
        raise UnsupportedError(
            f"{label}: input {value.name!r}: got {name}, expected tensor(float); convert the model to float32"
        )
    shape = _declared_shape(value)
    if shape is None:
        raise ModelError(
            f"{label}: input {value.name!r}: got no shape, expected one; export the model with input shapes"
        )
    return Argument(name=value.name, shape=shape, type=name)


def _declared_shape(value: Any) -> DeclaredShape | None:
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return None
    return tuple(
        dim.dim_value if dim.HasField("dim_value") else dim.dim_param or f"{value.name}[{axis}]"
        for axis, dim in enumerate(tensor.shape.dim)
    )


def _bind(proto: Any, inputs: tuple[Argument, ...], dimensions: Mapping[str, int], label: str) -> None:
    """Write the values of free dimensions into the model's inputs, and forget shapes stated elsewhere."""
    free = sorted({dim for argument in inputs for dim in argument.shape if isinstance(dim, str)})
    for name, value in dimensions.items():
        if name not in free:
            raise ModelError(
                f"{label}: got a value for dimension {name!r}, expected one of {free or 'none'}; "
                "name a free dimension of an input"
            )
        if value < 1:
            raise ModelError(
                f"{label}: dimension {name!r}: got {value}, expected 1 or more; give another value"
            )
    missing = [name for name in free if name not in dimensions]
    if missing:
        owners = [a.name for a in inputs if set(a.shape) & set(missing)]
        given = ", ".join(f"{name!r}: 1" for name in missing)
        raise ModelError(
            f"{label}: inputs {owners}: got free dimensions {missing}, expected numbers; "
            f"bind them, for instance dimensions={{{given}}}"
        )
    for value, argument in zip(proto.graph.input, inputs, strict=True):
        for dim, declared in zip(value.type.tensor_type.shape.dim, argument.shape, strict=True):
            dim.dim_value = dimensions[declared] if isinstance(declared, str) else declared
    del proto.graph.value_info[:]
    for value in proto.graph.output:
        value.type.tensor_type.ClearField("shape")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
