"""How many cores each CPU driver may use, and the emulated pair, which gives two drivers half of them each.

Drivers read their limits when they load, so everything here acts before that. Sub-devices isolate nothing on
either driver; these variables do.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from codl.assets import cache_dir, has_room
from codl.errors import DeviceError

PAIR_VARIABLE = "CODL_EMULATE_PAIR"
_INTEL_LIMITS = ("CL_CONFIG_CPU_TBB_NUM_WORKERS", "DPCPP_CPU_NUM_CUS")
_POCL_LIMITS = ("POCL_MAX_PTHREAD_COUNT", "POCL_CPU_MAX_CU_COUNT")
_INTEL_LOCAL_MEMORY = "CL_CONFIG_CPU_FORCE_LOCAL_MEM_SIZE"
_caller_cores: set[int] = set()
_DRIVER_LIMITS = {"intel": _INTEL_LIMITS, "pocl": _POCL_LIMITS}


def is_pair_wanted() -> bool:
    """Return whether this process asks for the emulated pair (`CODL_EMULATE_PAIR`, or `emulate_pair()`)."""
    return read_switch(PAIR_VARIABLE, default=False)


def read_switch(variable: str, *, default: bool) -> bool:
    """Return whether an environment variable turns something on; the default where it is not set."""
    text = os.environ.get(variable, "").strip().lower()
    return text not in {"0", "no", "false", "off"} if text else default


def want_pair() -> None:
    """Ask for the emulated pair, in this process and those it starts."""
    os.environ[PAIR_VARIABLE] = "1"


def count_cores() -> int:
    """Return the cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def effective_units(driver: str, reported: int) -> int:
    """Return the compute units of a CPU device that really work in parallel.

    Args:
        driver: Short driver family.
        reported: Compute units as the driver tells them; Intel's tells all cores whatever its limit, PoCL's
            tells its limit even above the cores there are, or may use.
    """
    limits = [_read_count(name) for name in _DRIVER_LIMITS.get(driver, ())]
    return max(1, min([reported, count_cores(), *(limit for limit in limits if limit)]))


def tell_limits(driver: str, units: int) -> str:
    """Return in words how a user gives a CPU driver so many cores."""
    variables = " ".join(f"{name}={units}" for name in _DRIVER_LIMITS.get(driver, ()))
    return (
        f"set {variables} before the program starts"
        if variables
        else "give the program fewer cores (taskset)"
    )


def limit_drivers_to_half() -> None:
    """Give each CPU driver half of the cores, at least one: PoCL the first ones, Intel the others.

    Raises:
        DeviceError: A CPU driver is in the process already, with all cores.
    """
    mapped = read_system_file("/proc/self/maps")
    loaded = [name for name in ("libintelocl", "libpocl") if name in mapped]
    if loaded:
        raise DeviceError(
            f"emulated pair: {' and '.join(loaded)} is already loaded and its number of cores is fixed; "
            f"set {PAIR_VARIABLE}=1, or call it before anything uses OpenCL"
        )
    half = max(1, count_cores() // 2)
    for name in (*_INTEL_LIMITS, *_POCL_LIMITS):
        os.environ[name] = str(half)
    if hasattr(os, "sched_getaffinity"):
        cores = os.sched_getaffinity(0)
        first = set(range(half))  # PoCL pins its threads to these, whatever the process may use
        if first < cores:
            os.environ["POCL_AFFINITY"] = "1"
            _caller_cores.update(cores - first)


@contextmanager
def pinned_caller() -> Iterator[None]:
    """Keep the calling thread off PoCL's cores while the block runs; does nothing without the emulated pair.

    A thread that waits on Intel's driver works for it, so it belongs on that driver's cores. On the same core
    as a PoCL thread it is not even scheduled until that one is done, and cannot start the other device. The
    driver's own threads look for work all the time, and take turns with PoCL's where they may.

    Source:
        Kernels of 0.35 to 1.4 ms on both drivers of a 2-core machine overlap by 0.5 to 0.65 without it, and
        by 0.95 to 1 with it. DenseNet-121 takes 0.94 of the time with Intel's threads kept off PoCL's core.
    """
    if not _caller_cores:
        yield
        return
    before = os.sched_getaffinity(0)
    with suppress(OSError):  # the system has taken these cores from the process
        os.sched_setaffinity(0, _caller_cores)
    try:
        yield
    finally:
        with suppress(OSError):
            os.sched_setaffinity(0, before)


@contextmanager
def widened_local_memory() -> Iterator[None]:
    """Make Intel's CPU runtime, if it loads in the block, grant a work-group local memory of a cache's size.

    On a CPU local memory is memory like any other, and kernels keep in it what should stay in a core's cache.
    The runtime's own limit is 256 KiB, PoCL's 1 MiB. What the user chose stays.
    """
    if _INTEL_LOCAL_MEMORY in os.environ:
        yield
        return
    os.environ[_INTEL_LOCAL_MEMORY] = "1MB"
    try:
        yield
    finally:
        os.environ.pop(_INTEL_LOCAL_MEMORY, None)


def move_driver_caches() -> None:
    """Put the cache of NVIDIA's driver under `CODL_CACHE_DIR` when that is set.

    A place that the user chose for it stays. PoCL's has a module of its own; Intel's CPU runtime keeps none.
    """
    folder = cache_dir() / "drivers" / "nvidia"
    if os.environ.get("CODL_CACHE_DIR") and "CUDA_CACHE_PATH" not in os.environ and has_room(folder):
        os.environ["CUDA_CACHE_PATH"] = str(folder)


def _read_count(variable: str) -> int:
    text = os.environ.get(variable, "").strip()
    return int(text) if text.isdecimal() else 0


def read_system_file(path: str) -> str:
    """Return a file in which Linux tells about itself; nothing on other systems."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
