"""Runs ONNX models on all the OpenCL processors of a machine at once.

`InferenceSession` takes the place of onnxruntime's; `devices` lists what there
is to run on; `plan` decides without running.
"""

from codl.errors import (
    BuildError,
    CacheError,
    CodlError,
    DeviceError,
    DriverError,
    InputError,
    ModelError,
    PlanError,
    ProfileError,
    UnsupportedError,
)
from codl.machine import DeviceInfo
from codl.options import SessionOptions
from codl.plan.steps import Plan
from codl.session import InferenceSession, NodeArg, devices, emulate_pair, plan

__version__ = "0.1.0"
__all__ = [
    "BuildError",
    "CacheError",
    "CodlError",
    "DeviceError",
    "DeviceInfo",
    "DriverError",
    "InferenceSession",
    "InputError",
    "ModelError",
    "NodeArg",
    "Plan",
    "PlanError",
    "ProfileError",
    "SessionOptions",
    "UnsupportedError",
    "devices",
    "emulate_pair",
    "plan",
]
