"""Runs ONNX models on all the OpenCL processors of a machine at once.

`InferenceSession` takes the place of onnxruntime's; `devices` lists what there
is to run on; `plan` decides without running. A name that codl does not have is
onnxruntime's: enumerations, descriptions of its devices, its compiler.
"""

from codl import _interrupts  # noqa: F401, I001  first: Ctrl-C may come while the rest is imported
from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any

from codl.runtime import onnxruntime as _onnxruntime

import codl.devices.forks  # before any fork
import codl.plan  # noqa: F401  two packages whose names stand for functions here, see the end
from codl.lazy import find_lazily as _find_lazily

if TYPE_CHECKING:
    from codl import capi
    from codl.compat import (
        copy_tensors,
        create_and_register_allocator,
        create_and_register_allocator_v2,
        disable_telemetry_events,
        enable_telemetry_events,
        get_all_providers,
        get_available_providers,
        get_device,
        preload_dlls,
        register_execution_provider_library,
        set_default_logger_callback,
        set_default_logger_severity,
        set_default_logger_verbosity,
        set_global_thread_pool_sizes,
        set_seed,
        unregister_execution_provider_library,
    )
    from codl.devices.drivers import devices, emulate_pair
    from codl.errors import (
        BuildError,
        CacheError,
        CodlError,
        DeviceError,
        DriverError,
        HostError,
        InputError,
        InputTypeError,
        MissingFileError,
        ModelError,
        ModelTypeError,
        PlanError,
        ProfileError,
        ProtobufError,
        StoppedError,
        UnsupportedError,
    )
    from codl.limits import Limits
    from codl.machine import DeviceInfo
    from codl.options import (
        ExecutionMode,
        ExecutionOrder,
        GraphOptimizationLevel,
        RunOptions,
        SessionOptions,
    )
    from codl.plan.steps import Plan
    from codl.session import InferenceSession, IOBinding, plan
    from codl.values import ModelMetadata, NodeArg, OrtValue

_HOMES = {
    "codl.compat": (
        "copy_tensors",
        "create_and_register_allocator",
        "create_and_register_allocator_v2",
        "disable_telemetry_events",
        "enable_telemetry_events",
        "get_all_providers",
        "get_available_providers",
        "get_device",
        "preload_dlls",
        "register_execution_provider_library",
        "set_default_logger_callback",
        "set_default_logger_severity",
        "set_default_logger_verbosity",
        "set_global_thread_pool_sizes",
        "set_seed",
        "unregister_execution_provider_library",
    ),
    "codl.devices.drivers": ("devices", "emulate_pair"),
    "codl.errors": (
        "BuildError",
        "CacheError",
        "CodlError",
        "DeviceError",
        "DriverError",
        "HostError",
        "InputError",
        "InputTypeError",
        "MissingFileError",
        "ModelError",
        "ModelTypeError",
        "PlanError",
        "ProfileError",
        "ProtobufError",
        "StoppedError",
        "UnsupportedError",
    ),
    "codl.limits": ("Limits",),
    "codl.machine": ("DeviceInfo",),
    "codl.options": (
        "ExecutionMode",
        "ExecutionOrder",
        "GraphOptimizationLevel",
        "RunOptions",
        "SessionOptions",
    ),
    "codl.plan.steps": ("Plan",),
    "codl.session": (
        "InferenceSession",
        "IOBinding",
        "plan",
    ),
    "codl.values": (
        "ModelMetadata",
        "NodeArg",
        "OrtValue",
    ),
}
"""Module -> names that are imported from it."""

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
    "InputTypeError",
    "Limits",
    "MissingFileError",
    "ModelError",
    "ModelMetadata",
    "ModelTypeError",
    "NodeArg",
    "OrtValue",
    "Plan",
    "PlanError",
    "ProfileError",
    "ProtobufError",
    "RunOptions",
    "SessionOptions",
    "StoppedError",
    "UnsupportedError",
    "capi",
    "copy_tensors",
    "create_and_register_allocator",
    "create_and_register_allocator_v2",
    "devices",
    "disable_telemetry_events",
    "emulate_pair",
    "enable_telemetry_events",
    "get_all_providers",
    "get_available_providers",
    "get_device",
    "plan",
    "preload_dlls",
    "register_execution_provider_library",
    "set_default_logger_callback",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
    "set_global_thread_pool_sizes",
    "set_seed",
    "unregister_execution_provider_library",
]


def _find_elsewhere(name: str) -> Any:
    if name == "capi":
        return _import_module("codl.capi")
    if name == "__version__":
        return _import_module("codl.assets").VERSION
    if name.startswith("_") or not hasattr(_onnxruntime, name):
        raise AttributeError(f"module 'codl' has no attribute {name!r}")
    return getattr(_onnxruntime, name)


__getattr__ = _find_lazily(__name__, _HOMES, _find_elsewhere)


def __dir__() -> list[str]:
    """Return the names of codl and those of onnxruntime."""
    names = (name for name in dir(_onnxruntime) if not name.startswith("_"))
    return sorted({*globals(), *__all__, "__version__", *names})


if not TYPE_CHECKING:
    del (
        devices,
        plan,
        TYPE_CHECKING,
    )  # as their packages are imported already, no later import takes the names again
