"""Reads an ONNX file or its bytes: weights are in memory then, and every input is a feed."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError

from codl.errors import MissingFileError, ModelError, ProtobufError
from codl.files import read_file
from codl.frontend.declared import Argument, DeclaredShape, name_model, name_open_dimension
from codl.frontend.external import NOTHING, InMemory, find_tensors, load_external_data
from codl.frontend.types import name_type, name_value_type
from codl.limits import DEFAULT_LIMITS, Limits
from codl.values import ModelMetadata

OLDEST_IR = 3
OLDEST_OPSET = 7
"""Operators of older opsets differ from what kernels compute: they run on the host."""
NEWEST_OPSET = 28
"""Operators that later opsets redefine may differ, too."""
_OVERRIDABLE_IR = 4
"""Older models list every initializer as an input, though it is a constant."""
DEFAULT_DOMAINS = ("", "ai.onnx")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A parsed model and where it came from."""

    proto: Any
    """The `onnx.ModelProto`. Every input is a feed; `codl.frontend.binding` gives its dimensions numbers."""
    label: str
    """The model in messages: its file name."""
    path: str | None
    """None for a model given as bytes."""
    inputs: tuple[Argument, ...]
    """Feeds as declared, before dimensions were bound."""
    overridable: tuple[Argument, ...]
    """Initializers that are inputs too: a feed takes their place."""
    denotations: Mapping[str, str]
    """What free dimensions of the inputs mean, by their name, such as `DATA_BATCH`."""
    output_names: tuple[str, ...]
    """As declared: a model may list an output twice."""
    outputs: Mapping[str, DeclaredShape | None]
    """Output name -> declared shape, None where the model declares none."""
    output_types: Mapping[str, str]
    """Output name -> type in ONNX's words, empty where the model declares none."""
    metadata: ModelMetadata
    opset: int
    digest: str
    """SHA-256 of the model and of its external weights."""
    limits: Limits = DEFAULT_LIMITS
    """Bounds on what the model may ask for."""
    originals: dict[str, Any] = field(default_factory=dict)
    """Initializers, `onnx.TensorProto` by name, as the model has them where `proto` has another value now."""

    @property
    def free_dimensions(self) -> tuple[str, ...]:
        """Names of the dimensions of inputs that the model leaves open, sorted."""
        return tuple(sorted({d for a in self.inputs for d in a.shape if isinstance(d, str)}))


def read_source(
    model: str | os.PathLike[str] | bytes, *, limits: Limits = DEFAULT_LIMITS, memory: InMemory = NOTHING
) -> Source:
    """Return a model with its weights in memory and initializers taken out of its inputs.

    Args:
        model: Path of an ONNX file, or its content.
        limits: Bounds on what it may ask for.
        memory: External data that is not read from files.

    Raises:
        ModelError: The file cannot be read, is no ONNX model, is too old, or passes a limit.
    """
    path = None if isinstance(model, bytes) else Path(model)
    label = name_model(model)
    data = _read_bytes(model, label, limits)
    proto = _parse(data, label)
    _check_versions(proto, label)
    outside = load_external_data(proto, label, path, most_bytes=limits.initializer_bytes, memory=memory)
    for tensor in find_tensors(proto):
        tensor.ClearField("segment")  # ONNX Runtime does not look at it, onnx reads no tensor that has it
    overridable = _find_overridable(proto)
    _drop_initializer_inputs(proto)
    _open_negative_dimensions(proto)
    output_names = tuple(value.name for value in proto.graph.output)
    _drop_repeated_outputs(proto)
    return Source(
        proto=proto,
        label=label,
        path=None if path is None else str(path),
        inputs=tuple(_describe_input(value, label) for value in proto.graph.input),
        output_names=output_names,
        overridable=tuple(overridable.values()),
        denotations=_read_denotations(proto),
        outputs={value.name: _declared_shape(value) for value in proto.graph.output},
        output_types={value.name: name_value_type(value.type) for value in proto.graph.output},
        metadata=_read_metadata(proto),
        opset=find_opset(proto),
        digest=_digest(data, outside),
        limits=limits,
    )


def find_opset(proto: Any) -> int:
    """Return the version of the default operator set that a model imports; 0 where it imports none."""
    return max((o.version for o in proto.opset_import if o.domain in DEFAULT_DOMAINS), default=0)


def _read_bytes(model: str | os.PathLike[str] | bytes, label: str, limits: Limits) -> bytes:
    if not isinstance(model, bytes):
        try:
            return read_file(model, most_bytes=limits.model_bytes)
        except OSError as error:
            kind = MissingFileError if isinstance(error, FileNotFoundError) else ModelError
            raise kind(
                f"{os.fspath(model)}: got {error.strerror}, expected a readable ONNX file; check the path"
            ) from error
    if len(model) > limits.model_bytes:
        raise ModelError(
            f"{label}: got {len(model)} bytes, expected at most {limits.model_bytes}; "
            "raise Limits.model_bytes if you trust the model"
        )
    return model


def _parse(data: bytes, label: str) -> Any:
    if not data:
        raise ModelError(f"{label}: got no bytes, expected an ONNX model; export or download it again")
    try:
        proto = onnx.ModelProto.FromString(data)
    except DecodeError as error:
        raise ProtobufError(
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
    is_used = any(node.domain in DEFAULT_DOMAINS for node in proto.graph.node)
    if opset < 1 and is_used:
        raise ModelError(f"{label}: got no default opset, expected 1 or later; export it again")


def _digest(data: bytes, outside: Sequence[Any]) -> str:
    digest = hashlib.sha256(data)
    for tensor in outside:
        digest.update(tensor.raw_data)
    return digest.hexdigest()


def _drop_initializer_inputs(proto: Any) -> None:
    """Make initializers constants: those of IR 3 are inputs too, later ones may be."""
    known = {tensor.name for tensor in proto.graph.initializer}
    feeds = [value for value in proto.graph.input if value.name not in known]
    del proto.graph.input[:]
    proto.graph.input.extend(feeds)
    proto.ir_version = max(proto.ir_version, 4)


def _open_negative_dimensions(proto: Any) -> None:
    """Leave dimensions of inputs and outputs open that are declared as -1 or less, as ONNX Runtime does."""
    for value in (*proto.graph.input, *proto.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_value < 0:
                dim.ClearField("value")


def _drop_repeated_outputs(proto: Any) -> None:
    outputs = {value.name: value for value in reversed(proto.graph.output)}
    if len(outputs) < len(proto.graph.output):
        unique = list(reversed(outputs.values()))
        del proto.graph.output[:]
        proto.graph.output.extend(unique)


def _find_overridable(proto: Any) -> dict[str, Argument]:
    """Return the initializers that a feed may replace: from IR 4 on, those that are inputs too."""
    known = {tensor.name: tensor for tensor in proto.graph.initializer}
    if proto.ir_version < _OVERRIDABLE_IR:
        return {}
    return {
        value.name: Argument(
            name=value.name,
            shape=_declared_shape(value) or tuple(known[value.name].dims),
            type=f"tensor({name_type(known[value.name].data_type)})",
        )
        for value in proto.graph.input
        if value.name in known
    }


def _read_denotations(proto: Any) -> dict[str, str]:
    found: dict[str, str] = {}
    for value in proto.graph.input:
        shape = _declared_shape(value) or ()
        for dim, declared in zip(value.type.tensor_type.shape.dim, shape, strict=True):
            if isinstance(declared, str) and dim.denotation:
                found[declared] = dim.denotation
    return found


def _read_metadata(proto: Any) -> ModelMetadata:
    return ModelMetadata(
        producer_name=proto.producer_name,
        domain=proto.domain,
        description=proto.doc_string,
        version=proto.model_version,
        graph_name=proto.graph.name,
        graph_description=proto.graph.doc_string,
        custom_metadata_map={entry.key: entry.value for entry in proto.metadata_props},
    )


def _describe_input(value: Any, label: str) -> Argument:
    name, shape = name_value_type(value.type), _declared_shape(value)
    if not name:
        raise ModelError(f"{label}: input {value.name!r}: got no type, expected one; export the model again")
    has_rank = shape is not None or not name.startswith("tensor(")
    return Argument(name=value.name, shape=shape or (), type=name, has_rank=has_rank)


def _declared_shape(value: Any) -> DeclaredShape | None:
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return None
    return tuple(
        dim.dim_value if dim.HasField("dim_value") else dim.dim_param or name_open_dimension(value.name, axis)
        for axis, dim in enumerate(tensor.shape.dim)
    )
