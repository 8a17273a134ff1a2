"""Benchmark networks as ONNX graphs with random, calibrated weights."""

from tools.networks.assembly import NAMES, build, outline

__all__ = ["NAMES", "build", "outline"]
