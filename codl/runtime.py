"""ONNX Runtime itself: later on a program may have put codl in its place in `sys.modules`."""

import onnxruntime

__all__ = ["onnxruntime"]
