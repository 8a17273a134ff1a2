"""Functions of codl's and onnxruntime's modules that programs call beside a session."""

from codl.devices import drivers
from codl.errors import DriverError
from codl.machine import DeviceInfo, DeviceKind

HOST_PROVIDER = "CPUExecutionProvider"
"""Listed last everywhere, as onnxruntime does."""


def devices() -> tuple[DeviceInfo, ...]:
    """Return every OpenCL device of this machine.

    Raises:
        DriverError: There is no usable OpenCL driver; the message says what to install.
    """
    return drivers.devices()


def emulate_pair() -> None:
    """Let two CPU drivers, each on half of the cores, stand for a CPU and a GPU; before any driver loads.

    Raises:
        DeviceError: A driver is loaded already, or one of the two is missing.
    """
    drivers.emulate_pair()


def name_provider(device: str) -> str:
    """Return the name under which a device stands in lists of execution providers."""
    return f"codl:{device}"


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
    del severity


def set_default_logger_verbosity(verbosity: int) -> None:
    """Accept a level; without effect, codl writes no log."""
    del verbosity


def set_seed(seed: int) -> None:
    """Accept a seed; without effect, no operator of codl draws random numbers."""
    del seed


def enable_telemetry_events() -> None:
    """Do nothing: codl sends nothing to anybody."""


def disable_telemetry_events() -> None:
    """Do nothing: codl sends nothing to anybody."""


def preload_dlls(
    cuda: bool = True, cudnn: bool = True, msvc: bool = True, directory: str | None = None
) -> None:
    """Do nothing: OpenCL drivers load when they are first asked for."""
    del cuda, cudnn, msvc, directory
