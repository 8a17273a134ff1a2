"""What programs import from `onnxruntime.capi`: the errors that they catch, and onnxruntime's own classes."""

from codl.capi import _pybind_state, onnxruntime_pybind11_state

__all__ = ["_pybind_state", "onnxruntime_pybind11_state"]
