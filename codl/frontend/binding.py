"""Gives the free dimensions of a model numbers, and initializers that are inputs too other values."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from codl.errors import InputError, ModelError, suggest
from codl.frontend.declared import DeclaredShape, Values, name_open_dimension
from codl.frontend.reader import Source
from codl.frontend.shapes import INFERENCE_ERRORS


def find_shapes(source: Source, dimensions: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """Return the shape of every input.

    Args:
        source: The model.
        dimensions: Values of its free dimensions, by name.

    Raises:
        ModelError: A dimension or a rank stays free, or a dimension is none of the model's or negative.
    """
    label, free = source.label, source.free_dimensions
    for name, value in dimensions.items():
        if name not in free:
            raise ModelError(
                f"{label}: got a value for dimension {name!r}, expected one of {list(free) or 'none'}; "
                f"name a free dimension of an input{suggest(name, free)}"
            )
        if value < 0:
            raise ModelError(
                f"{label}: dimension {name!r}: got {value}, expected 0 or more; give another value"
            )
    missing = [name for name in free if name not in dimensions]
    if missing:
        owners = [a.name for a in source.inputs if set(a.shape) & set(missing)]
        given = ", ".join(f"{name!r}: 1" for name in missing)
        raise ModelError(
            f"{label}: inputs {owners}: got free dimensions {missing}, expected numbers; "
            f"bind them, for instance dimensions={{{given}}}"
        )
    shapeless = [argument.name for argument in source.inputs if not argument.has_rank]
    if shapeless:
        raise ModelError(
            f"{label}: inputs {shapeless}: got no shape, expected one to plan for; export the model with "
            "input shapes, or run it by a session, which plans for what it is fed"
        )
    return {
        a.name: tuple(dimensions[dim] if isinstance(dim, str) else dim for dim in a.shape)
        for a in source.inputs
    }


def bind(
    source: Source, *, shapes: Mapping[str, DeclaredShape | None], initializers: Values | None = None
) -> None:
    """Write shapes into the model's inputs and values into its initializers; forget shapes stated elsewhere.

    A later call starts from what the model declares, whatever an earlier one wrote.

    Args:
        source: The model; its `proto` is changed.
        shapes: Shape of every input; None for one of any rank.
        initializers: What takes the place of initializers, of their type.
    """
    graph = source.proto.graph
    for value in graph.input:
        if value.type.HasField("tensor_type"):
            _write_shape(value, shapes[value.name])
    del graph.value_info[:]
    for value in graph.output:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    given = initializers or {}
    for tensor in graph.initializer:
        name = tensor.name
        if name in given:
            if name not in source.originals:
                source.originals[name] = onnx.TensorProto()
                source.originals[name].CopyFrom(tensor)
            array = np.asarray(given[name], order="C")
            tensor.CopyFrom(numpy_helper.from_array(array, name))
        elif name in source.originals:
            tensor.CopyFrom(source.originals.pop(name))


def _write_shape(value: Any, shape: DeclaredShape | None) -> None:
    tensor = value.type.tensor_type
    tensor.ClearField("shape")
    if shape is None:
        return
    tensor.shape.SetInParent()
    for axis, length in enumerate(shape):
        dim = tensor.shape.dim.add()
        if isinstance(length, int):
            dim.dim_value = length
        elif length != name_open_dimension(value.name, axis):
            dim.dim_param = length


def check_initializers(source: Source, values: Values) -> None:
    """Raise `InputError` for a value that cannot take the place of an initializer, or return silently."""
    known = {tensor.name: tensor for tensor in source.proto.graph.initializer}
    for name, value in values.items():
        if name not in known:
            raise InputError(
                f"initializer {name!r}: got a value, expected none: {source.label} has no such initializer"
                f"{suggest(name, known)}"
            )
        shape, dtype = tuple(known[name].dims), onnx.helper.tensor_dtype_to_np_dtype(known[name].data_type)
        if value.shape != shape or value.dtype != dtype:
            raise InputError(
                f"initializer {name!r}: got {value.dtype} of shape {list(value.shape)}, "
                f"expected {dtype} of shape {list(shape)}"
            )


def infer_output_shapes(source: Source) -> dict[str, DeclaredShape]:
    """Return the shapes of outputs declared without one, as far as the inputs' dimensions determine them.

    Where nothing is known the shape is empty, as in onnxruntime.
    """
    missing = [name for name, shape in source.outputs.items() if shape is None]
    if not missing:
        return {}
    try:
        inferred = onnx.shape_inference.infer_shapes(source.proto)
    except INFERENCE_ERRORS:
        return dict.fromkeys(missing, ())
    known = {dim for argument in source.inputs for dim in argument.shape}
    found = {value.name: value.type.tensor_type.shape.dim for value in inferred.graph.output}
    return {
        name: tuple(
            _read_length(dim, known, name_open_dimension(name, axis)) for axis, dim in enumerate(found[name])
        )
        for name in missing
    }


def _read_length(dim: Any, known: set[int | str], otherwise: str) -> int | str:
    """Return a number or the name of an input's dimension; names that inference made up are not used."""
    if dim.HasField("dim_value"):
        return int(dim.dim_value)
    return str(dim.dim_param) if dim.dim_param in known else otherwise
