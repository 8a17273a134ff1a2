"""Outputs of a session, compared with those of ONNX Runtime."""

from collections.abc import Container, Mapping, Sequence
from typing import Any

import numpy as np

from codl.devices.limits import count_cores
from codl.errors import InputError
from codl.runtime import onnxruntime
from codl.session import InferenceSession
from codl.values import NodeArg, find_dtype, is_tensor_type

Arrays = Mapping[str, Any]


def make_random_feeds(session: InferenceSession, seed: int, *, given: Container[str] = ()) -> dict[str, Any]:
    """Return values for every input that is not given: normally distributed, 0 and 1 where no floats.

    Raises:
        InputError: An input leaves dimensions open, or is no array.
    """
    rng = np.random.default_rng(seed)
    feeds = {}
    for argument in session.get_inputs():
        if argument.name in given:
            continue
        shape = [dim for dim in argument.shape if isinstance(dim, int)]
        if len(shape) < len(argument.shape):
            raise InputError(
                f"input {argument.name!r}: got open dimensions {argument.shape}, expected lengths; "
                f"give values with `codl run MODEL --input {argument.name}=FILE.npy`"
            )
        feeds[argument.name] = _draw(rng, argument, shape)
    return feeds


def _draw(rng: np.random.Generator, argument: NodeArg, shape: Sequence[int]) -> Any:
    if not is_tensor_type(argument.type):
        raise InputError(
            f"input {argument.name!r}: got {argument.type}, expected a type that numpy has; run it in Python"
        )
    dtype = find_dtype(argument.type)
    if dtype.kind == "f":
        return rng.standard_normal(shape, np.float32).astype(dtype)
    return rng.integers(0, 2, shape).astype(dtype)


def name_outputs(session: InferenceSession) -> list[str]:
    """Return the model's outputs, which the graph may know under other names."""
    return [output.name for output in session.get_outputs()]


def open_reference(model: str) -> Any:
    """Return ONNX Runtime's session with as many threads as this process has cores."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = count_cores()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def find_errors(names: Sequence[str], values: Arrays, references: Arrays) -> dict[str, float]:
    """Return max|error| / max|reference| of every output; infinite where not finite or of another shape.

    For other values than arrays of numbers it is 0 if they are equal, else infinite.
    """
    return {name: _find_error(values[name], references[name]) for name in names}


def _find_error(value: Any, reference: Any) -> float:
    if not is_numeric(value):
        return 0.0 if np.array_equal(value, reference) else float("inf")
    if value.shape != reference.shape:
        return float("inf")
    value, reference = value.astype(np.float64), reference.astype(np.float64)
    scale = float(np.abs(reference).max(initial=0.0)) or 1.0
    difference = np.abs(value - reference).max(initial=0.0)
    return float(difference / scale) if np.isfinite(difference) else float("inf")


def is_numeric(value: Any) -> bool:
    """Return whether an output is an array of numbers or truth values."""
    return isinstance(value, np.ndarray) and value.dtype.kind in "fiub"
