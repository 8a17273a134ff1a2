"""Outputs of a session beside those of ONNX Runtime."""

from collections.abc import Container, Mapping, Sequence
from typing import Any

import numpy as np

from codl.devices.limits import count_cores
from codl.errors import InputError
from codl.session import InferenceSession

Arrays = Mapping[str, Any]


def make_random_feeds(session: InferenceSession, seed: int, *, given: Container[str] = ()) -> dict[str, Any]:
    """Return normally distributed values for every input that is not given.

    Raises:
        InputError: An input leaves dimensions open.
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
                f"give values with `codl run --input {argument.name}=FILE.npy`"
            )
        feeds[argument.name] = rng.standard_normal(shape, np.float32)
    return feeds


def name_outputs(session: InferenceSession) -> list[str]:
    """Return the model's outputs, which the graph may know under other names."""
    return [output.name for output in session.get_outputs()]


def open_reference(model: str) -> Any:
    """Return ONNX Runtime's session with as many threads as this process has cores."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = count_cores()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def find_errors(names: Sequence[str], values: Arrays, references: Arrays) -> dict[str, float]:
    """Return max|error| / max|reference| of every output; infinite where the error is not finite."""
    errors = {}
    for name in names:
        reference = references[name]
        difference = np.abs(values[name].astype(np.float64) - reference).max(initial=0.0)
        scale = float(np.abs(reference).max(initial=0.0)) or 1.0
        errors[name] = float(difference / scale) if np.isfinite(difference) else float("inf")
    return errors
