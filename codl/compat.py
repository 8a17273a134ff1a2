"""Functions of codl's and onnxruntime's modules that programs call in addition to a session."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from codl.devices.drivers import devices
from codl.errors import DriverError, InputError
from codl.machine import DeviceKind
from codl.values import HOST_PROVIDER, OrtValue, name_provider


def get_available_providers() -> list[str]:
    """Return one name for each OpenCL device, then `CPUExecutionProvider`, which is always there."""
    try:
        names = [name_provider(info.name) for info in devices()]
    except DriverError:
        names = []
    return [*names, HOST_PROVIDER]


def get_all_providers() -> list[str]:
    """Return what `get_available_providers` returns: codl knows devices only by finding them."""
    return get_available_providers()


def get_device() -> str:
    """Return `GPU` where there is one, else `CPU`."""
    try:
        kinds = {info.kind for info in devices()}
    except DriverError:
        kinds = set()
    return "GPU" if DeviceKind.GPU in kinds else "CPU"


def set_default_logger_severity(severity: int) -> None:
    """Accept a level; without effect, codl writes no log."""


def set_default_logger_verbosity(verbosity: int) -> None:
    """Accept a level; without effect, codl writes no log."""


def set_default_logger_callback(callback: Callable[..., object] | None, severity: int = 2) -> None:
    """Accept a function; without effect, codl writes no log."""


def set_global_thread_pool_sizes(intra_op_num_threads: int = 0, inter_op_num_threads: int = 0) -> None:
    """Accept sizes; without effect, each session has threads of its own."""


def create_and_register_allocator(mem_info: Any, arena_cfg: Any = None) -> None:
    """Accept an allocator; without effect, memory is planned before a run."""


def create_and_register_allocator_v2(
    provider_type: str, mem_info: Any, provider_options: Mapping[str, str], arena_cfg: Any = None
) -> None:
    """Accept an allocator; without effect, memory is planned before a run."""


def register_execution_provider_library(registration_name: str, library_path: str) -> None:
    """Accept a library; without effect, `SessionOptions.devices` says where to run."""


def unregister_execution_provider_library(registration_name: str) -> None:
    """Accept a name; without effect, no library was registered."""


def copy_tensors(src: Sequence[OrtValue], dst: Sequence[OrtValue], stream: Any = None) -> None:
    """Copy values into others of the same shapes and types; all are in host memory.

    Args:
        src: What is read.
        dst: What is written, one for each of ``src``.
        stream: Accepted without effect.

    Raises:
        InputError: The numbers of values, a shape or a type differ.
    """
    if len(src) != len(dst):
        raise InputError(f"copy_tensors: got {len(src)} sources, expected {len(dst)}")
    for source, target in zip(src, dst, strict=True):
        target.update_inplace(source.numpy())


def set_seed(seed: int) -> None:
    """Accept a seed; without effect, no operator of codl draws random numbers."""


def enable_telemetry_events() -> None:
    """Do nothing: codl sends no telemetry."""


def disable_telemetry_events() -> None:
    """Do nothing: codl sends no telemetry."""


def preload_dlls(
    cuda: bool = True, cudnn: bool = True, msvc: bool = True, directory: str | None = None
) -> None:
    """Do nothing: OpenCL drivers load when they are first asked for."""
