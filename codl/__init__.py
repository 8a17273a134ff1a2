"""Runs ONNX models on all the OpenCL processors of a machine at once.

`InferenceSession` takes the place of onnxruntime's; `devices` lists what there
is to run on; `plan` decides without running.
"""

from codl import assets
from codl.compat import (
    devices,
    disable_telemetry_events,
    emulate_pair,
    enable_telemetry_events,
    get_all_providers,
    get_available_providers,
    get_device,
    preload_dlls,
    set_default_logger_severity,
    set_default_logger_verbosity,
    set_seed,
)
from codl.errors import (
    BuildError,
    CacheError,
    CodlError,
    DeviceError,
    DriverError,
    HostError,
    InputError,
    ModelError,
    PlanError,
    ProfileError,
    UnsupportedError,
)
from codl.limits import Limits
from codl.machine import DeviceInfo
from codl.options import ExecutionMode, ExecutionOrder, GraphOptimizationLevel, RunOptions, SessionOptions
from codl.plan.steps import Plan
from codl.session import InferenceSession, IOBinding, plan
from codl.values import ModelMetadata, NodeArg, OrtValue

__version__ = assets.VERSION
__all__ = [
    "BuildError",
    "CacheError",
    "CodlError",
    "DeviceError",
    "DeviceInfo",
    "DriverError",
    "ExecutionMode",
    "ExecutionOrder",
    "GraphOptimizationLevel",
    "HostError",
    "IOBinding",
    "InferenceSession",
    "InputError",
    "Limits",
    "ModelError",
    "ModelMetadata",
    "NodeArg",
    "OrtValue",
    "Plan",
    "PlanError",
    "ProfileError",
    "RunOptions",
    "SessionOptions",
    "UnsupportedError",
    "devices",
    "disable_telemetry_events",
    "emulate_pair",
    "enable_telemetry_events",
    "get_all_providers",
    "get_available_providers",
    "get_device",
    "plan",
    "preload_dlls",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
    "set_seed",
]
