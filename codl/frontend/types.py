"""Types of values in ONNX's words, such as `tensor(float)` or `seq(tensor(int64))`, and as protobuf."""

import math
import re
from collections.abc import Sequence
from typing import Any

from onnx import TensorProto, TypeProto, helper

from codl.ir.graph import Shape

_PACKED = re.compile(r"(?:u?int|float)([246])(?:e|$)")
"""Names of types with less than a byte for a value, and its bits: values follow each other without gaps."""

_UNKNOWN = "unknown type "


def name_type(kind: int) -> str:
    """Return ONNX's word for an element type (`onnx.TensorProto.DataType`), such as `float`."""
    known = kind in TensorProto.DataType.values()
    return str(TensorProto.DataType.Name(kind)).lower() if known else f"{_UNKNOWN}{kind}"


def _find_type(name: str) -> int:
    """Return the element type of a word."""
    if name.startswith(_UNKNOWN):
        return int(name.removeprefix(_UNKNOWN))
    return int(TensorProto.DataType.Value(name.upper()))


def count_tensor_bytes(kind: int, dims: Sequence[int]) -> int:
    """Return the size of a tensor's raw data.

    Raises:
        ValueError: The type has no fixed size, or a length is negative.
    """
    if kind not in TensorProto.DataType.values() or kind in (TensorProto.UNDEFINED, TensorProto.STRING):
        raise ValueError(f"{name_type(kind)}, whose values have no fixed size")
    if min(dims, default=0) < 0:
        raise ValueError(f"shape {list(dims)}")
    packed = _PACKED.match(name_type(kind))
    bits = int(packed[1]) if packed else 8 * helper.tensor_dtype_to_np_dtype(kind).itemsize
    return -(-math.prod(dims) * bits // 8)


def name_value_type(value: Any) -> str:
    """Return ONNX's words for an `onnx.TypeProto`; empty where it says nothing."""
    match value.WhichOneof("value"):
        case "tensor_type":
            element = value.tensor_type.elem_type
            return f"tensor({name_type(element)})" if element != TensorProto.UNDEFINED else ""
        case "sparse_tensor_type":
            return f"sparse_tensor({name_type(value.sparse_tensor_type.elem_type)})"
        case "sequence_type":
            return f"seq({name_value_type(value.sequence_type.elem_type)})"
        case "optional_type":
            return f"optional({name_value_type(value.optional_type.elem_type)})"
        case "map_type":
            key, inner = value.map_type.key_type, value.map_type.value_type
            return f"map({name_type(key)},{name_value_type(inner)})"
        case _:
            return ""


def make_value_type(words: str, shape: Shape | None = None) -> Any:
    """Return the `onnx.TypeProto` of a type in ONNX's words, without a type where they are empty.

    Args:
        words: What `name_value_type` returns.
        shape: Of a tensor, where it is known.
    """
    outer, _, inner = words.removesuffix(")").partition("(")
    match outer:
        case "tensor":
            return helper.make_tensor_type_proto(_find_type(inner), shape)
        case "sparse_tensor":
            return helper.make_sparse_tensor_type_proto(_find_type(inner), None)
        case "seq":
            return helper.make_sequence_type_proto(make_value_type(inner))
        case "optional":
            return helper.make_optional_type_proto(make_value_type(inner))
        case "map":
            key, _, content = inner.partition(",")
            return helper.make_map_type_proto(_find_type(key), make_value_type(content))
        case _:
            return TypeProto()
