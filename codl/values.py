"""What a session takes and returns other than plain arrays: descriptions of arguments, models and values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from codl.errors import InputError

Array = npt.NDArray[Any]

ELEMENT_TYPES: Mapping[int, tuple[str, str]] = {
    1: ("float", "float32"),
    2: ("uint8", "uint8"),
    3: ("int8", "int8"),
    4: ("uint16", "uint16"),
    5: ("int16", "int16"),
    6: ("int32", "int32"),
    7: ("int64", "int64"),
    8: ("string", "object"),
    9: ("bool", "bool"),
    10: ("float16", "float16"),
    11: ("double", "float64"),
    12: ("uint32", "uint32"),
    13: ("uint64", "uint64"),
}
"""By `onnx.TensorProto.DataType`: ONNX's word, and numpy's.

Source:
    onnx.proto, message TensorProto.
"""
_DTYPE_OF = {f"tensor({word})": np.dtype(numpy) for word, numpy in ELEMENT_TYPES.values()}
HOST_PROVIDER = "CPUExecutionProvider"
"""Listed last everywhere, as onnxruntime does."""


def name_provider(device: str) -> str:
    """Return the name under which a device stands in lists of execution providers."""
    return f"codl:{device}"


def is_tensor_type(onnx_type: str) -> bool:
    """Return whether values of a type in ONNX's words are numpy arrays."""
    return onnx_type in _DTYPE_OF


def find_dtype(onnx_type: str) -> np.dtype[Any]:
    """Return the numpy type of a tensor type in ONNX's words, such as `tensor(float)`."""
    return _DTYPE_OF[onnx_type]


def find_element_type(dtype: npt.DTypeLike) -> int:
    """Return `onnx.TensorProto.DataType` of a numpy type.

    Raises:
        InputError: ONNX has no such type.
    """
    wanted = np.dtype(dtype).newbyteorder("=")
    for number, (_, numpy) in ELEMENT_TYPES.items():
        if wanted == np.dtype(numpy) or (wanted.kind in "US" and numpy == "object"):
            return number
    raise InputError(f"value: got dtype {wanted}, expected one that ONNX has")


def read_element_type(told: Any) -> np.dtype[Any]:
    """Return the numpy type that numpy's type or ONNX's number stands for.

    Raises:
        InputError: ONNX has no such type.
    """
    number = told if isinstance(told, int) else find_element_type(told)
    if number not in ELEMENT_TYPES:
        raise InputError(f"value: got element type {number}, expected one of {list(ELEMENT_TYPES)}")
    return np.dtype(ELEMENT_TYPES[number][1])


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeArg:
    """An input or output of a model: its name, its shape as declared, its ONNX type."""

    name: str
    shape: list[int | str | None]
    """A free dimension by its name; None where it has none."""
    type: str
    """ONNX's words, such as `tensor(float)`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelMetadata:
    """What a model says about itself."""

    producer_name: str
    graph_name: str
    domain: str
    description: str
    graph_description: str
    version: int
    custom_metadata_map: dict[str, str]


class OrtValue:
    """A tensor in host memory under the interface of `onnxruntime.OrtValue`.

    It stands on the array it was made from: what is written to one is seen in the other.
    """

    def __init__(self, array: Array) -> None:
        self._array = array

    @classmethod
    def ortvalue_from_numpy(
        cls, numpy_obj: Array, device_type: str = "cpu", device_id: int = 0, vendor_id: int = -1
    ) -> "OrtValue":
        """Return a value over an array; where it should lie is accepted without effect."""
        find_element_type(numpy_obj.dtype)
        return cls(numpy_obj)

    @classmethod
    def ortvalue_from_shape_and_type(
        cls,
        shape: Sequence[int],
        element_type: Any,
        device_type: str = "cpu",
        device_id: int = 0,
        vendor_id: int = -1,
    ) -> "OrtValue":
        """Return a value of zeros; `element_type` is numpy's type or ONNX's number.

        Raises:
            InputError: ONNX has no such type.
        """
        return cls(np.zeros(tuple(shape), read_element_type(element_type)))

    def numpy(self) -> Array:
        """Return the array itself."""
        return self._array

    def shape(self) -> list[int]:
        """Return the shape."""
        return list(self._array.shape)

    def data_type(self) -> str:
        """Return the type in ONNX's words, such as `tensor(float)`."""
        return f"tensor({ELEMENT_TYPES[self.element_type()][0]})"

    def element_type(self) -> int:
        """Return the element's type as `onnx.TensorProto.DataType`."""
        return find_element_type(self._array.dtype)

    def device_name(self) -> str:
        """Return `cpu`: values handed over are in host memory."""
        return "cpu"

    def data_ptr(self) -> int:
        """Return the address of the first element."""
        return int(self._array.ctypes.data)

    def tensor_size_in_bytes(self) -> int:
        """Return the bytes of all elements."""
        return int(self._array.nbytes)

    def has_value(self) -> bool:
        """Return True: there are no empty optional values."""
        return True

    def is_tensor(self) -> bool:
        """Return True."""
        return True

    def is_sparse_tensor(self) -> bool:
        """Return False: all tensors are dense."""
        return False

    def is_tensor_sequence(self) -> bool:
        """Return False."""
        return False

    def update_inplace(self, data: Array) -> None:
        """Write other elements of the same shape and type.

        Raises:
            InputError: Shape or type differ.
        """
        if data.shape != self._array.shape or data.dtype != self._array.dtype:
            raise InputError(
                f"value: got {data.dtype} of shape {list(data.shape)}, "
                f"expected {self._array.dtype} of shape {self.shape()}"
            )
        np.copyto(self._array, data)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """Return the array, as numpy's functions ask for it."""
        if copy:
            return np.array(self._array, dtype=dtype)
        return np.asarray(self._array, dtype=dtype)
