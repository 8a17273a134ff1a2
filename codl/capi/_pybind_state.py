"""The same as `codl.capi.onnxruntime_pybind11_state`, as onnxruntime has it under two names."""

from typing import Any

from codl.capi import onnxruntime_pybind11_state
from codl.capi.onnxruntime_pybind11_state import *  # noqa: F403


def __getattr__(name: str) -> Any:
    """Return what onnxruntime's module has under a name."""
    return getattr(onnxruntime_pybind11_state, name)
