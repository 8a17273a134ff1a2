"""ONNX Runtime's sessions on the CPU."""

from typing import Any

from codl.errors import UnsupportedError
from codl.runtime import onnxruntime


def open_host_session(model: str | bytes, options: Any, *, label: str) -> Any:
    """Return ONNX Runtime's session of a model, which writes nothing to the log.

    Args:
        model: Path of an ONNX file, or its content.
        options: ONNX Runtime's own.
        label: How an error begins.

    Raises:
        UnsupportedError: ONNX Runtime refuses it.
    """
    options.log_severity_level = 4
    try:
        return onnxruntime.InferenceSession(
            model, options, providers=["CPUExecutionProvider"], enable_fallback=0
        )
    except Exception as error:  # ONNX Runtime's errors have no common base but this one
        raise UnsupportedError(
            f"{label} that ONNX Runtime refuses ({' '.join(str(error).split())}), "
            "expected one that it runs; export the model again"
        ) from error
