"""The errors of onnxruntime, from which codl's derive, and what else its module of this name has."""

from typing import Any

from onnxruntime.capi import onnxruntime_pybind11_state as _state
from onnxruntime.capi.onnxruntime_pybind11_state import (
    EPFail,
    Fail,
    InvalidArgument,
    InvalidGraph,
    InvalidProtobuf,
    NoModel,
    NoSuchFile,
    NotImplemented,
    RuntimeException,
)

from codl.options import ExecutionMode, ExecutionOrder, GraphOptimizationLevel, RunOptions, SessionOptions

__all__ = [
    "EPFail",
    "ExecutionMode",
    "ExecutionOrder",
    "Fail",
    "GraphOptimizationLevel",
    "InvalidArgument",
    "InvalidGraph",
    "InvalidProtobuf",
    "NoModel",
    "NoSuchFile",
    "NotImplemented",
    "RunOptions",
    "RuntimeException",
    "SessionOptions",
]


def __getattr__(name: str) -> Any:
    """Return what onnxruntime's module has under a name."""
    return getattr(_state, name)
