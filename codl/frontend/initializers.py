"""Problems of a model's initializers: types, dimensions, and as many values as the dimensions ask for."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import TensorProto, numpy_helper
from onnx.external_data_helper import uses_external_data

from codl.errors import ModelError
from codl.frontend.reader import Source
from codl.frontend.types import count_tensor_bytes, name_type

_TYPED_FIELDS = {
    TensorProto.FLOAT: "float_data",
    TensorProto.DOUBLE: "double_data",
    TensorProto.INT64: "int64_data",
    TensorProto.INT32: "int32_data",
    TensorProto.BOOL: "int32_data",
    TensorProto.STRING: "string_data",
}
_REMEDY = "export or download the model again"


def read_array(tensor: Any, *, label: str) -> npt.NDArray[Any]:
    """Return the values of an `onnx.TensorProto`.

    Args:
        tensor: With all of its values in the message.
        label: The model in messages.

    Raises:
        ModelError: ONNX cannot read it.
    """
    try:
        return np.asarray(numpy_helper.to_array(tensor))
    except (TypeError, ValueError) as error:
        raise ModelError(
            f"{label}: initializer {tensor.name!r}: got {' '.join(str(error).split())}, "
            f"expected values for shape {list(tensor.dims)}; {_REMEDY}"
        ) from error


def find_initializer_problems(source: Source) -> Iterator[str]:
    """Yield one sentence for each initializer that does not hold what it declares."""
    for tensor in source.proto.graph.initializer:
        problem = _find_problem(tensor)
        if problem is not None:
            got, expected = problem
            yield f"{source.label}: initializer {tensor.name!r}: got {got}, expected {expected}; {_REMEDY}"


def _find_problem(tensor: Any) -> tuple[str, str] | None:
    """Return what is wrong with a tensor, and what would be right."""
    kind, dims = tensor.data_type, list(tensor.dims)
    if kind not in TensorProto.DataType.values() or kind == TensorProto.UNDEFINED:
        return name_type(kind), "an element type of ONNX"
    if any(length < 0 for length in dims):
        return f"dimensions {dims}", "lengths of 0 or more"
    if uses_external_data(tensor):
        return None
    count, field = math.prod(dims), _TYPED_FIELDS.get(kind)
    stated = len(getattr(tensor, field)) if field else 0
    if tensor.HasField("raw_data"):
        size = len(tensor.raw_data)
        if stated and size:
            return f"values both as bytes and in {field}", "one of them"
        if kind != TensorProto.STRING and not stated:
            wanted = count_tensor_bytes(kind, dims)
            return None if size == wanted else (f"{size} bytes", f"{wanted} for shape {dims}")
    if field and stated != count:
        return f"{stated} values", f"{count} for shape {dims}"
    return None
