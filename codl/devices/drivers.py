"""OpenCL drivers, loaded once a process, and the devices they bring, under codl's names.

Importing this loads no driver; `load` does. Everything a driver reads when it loads (limits, caches, the
private list of drivers) is in place before that, as long as codl is the first to ask OpenCL for platforms.
When the client was first, the drivers it has loaded are used.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pyopencl as cl

from codl.catalog.groups import takes_groups
from codl.devices import facts, forks, limits
from codl.devices.boundary import driver_calls
from codl.devices.installed import INSTALL_REMEDY, DriverProblem, find_icds, leave_out_pocl, private_vendors
from codl.devices.invokers import keep_invokers_in_memory
from codl.devices.pocl_cache import pocl_cache
from codl.devices.pocl_wheel import mend_processor_name
from codl.devices.probe import find_fault, tell_reason
from codl.errors import DeviceError, DriverError, suggest
from codl.machine import DeviceInfo, DeviceKind, split_units

PAIR_DRIVERS = ("intel", "pocl")
"""The emulated pair: the first plays the CPU, the second the GPU."""
_RANKS = {"pocl": 1.0, "rusticl": 8.0, "oclgrind": 9.0}
_LOCK = forks.make_lock()

Rank = Callable[[DeviceInfo], float]
"""Orders the drivers of one processor; the lowest is the default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedDevice:
    """A device that OpenCL can talk to."""

    info: DeviceInfo
    cl_device: Any
    """The `pyopencl.Device`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loaded:
    devices: tuple[OpenedDevice, ...]
    problems: tuple[DriverProblem, ...]
    is_pair: bool


def load() -> tuple[OpenedDevice, ...]:
    """Return every OpenCL device of the machine, loading the drivers when this is the first call.

    Raises:
        DriverError: There is no usable OpenCL driver; the message says what to install.
        DeviceError: The emulated pair is asked for and a CPU driver has loaded before, with all cores.
    """
    loaded = _load_all()
    if not loaded.devices:
        found = "".join(f"; {problem}" for problem in loaded.problems)
        raise DriverError(f"OpenCL: no device found{found}. What to do: {INSTALL_REMEDY}")
    return loaded.devices


def devices() -> tuple[DeviceInfo, ...]:
    """Return every OpenCL device of this machine.

    Raises:
        DriverError: There is no usable OpenCL driver; the message says what to install.
    """
    return tuple(opened.info for opened in load())


def find_problems() -> tuple[DriverProblem, ...]:
    """Return the drivers that are installed and could not be loaded; a lack of drivers raises nothing."""
    return _load_all().problems


def is_pair_emulated() -> bool:
    """Return whether two CPU drivers play two devices here, each on half of the cores; loads the drivers."""
    return _load_all().is_pair


def emulate_pair() -> None:
    """Let two CPU drivers, each on half of the cores, stand for a CPU and a GPU; before any driver loads.

    Raises:
        DeviceError: The drivers of this process are loaded already, with all cores.
    """
    with _LOCK:
        if not _load_once.cache_info().currsize:
            limits.want_pair()
        elif not _load_once().is_pair:
            raise DeviceError(
                "emulated pair: the drivers of this process are loaded and their cores fixed; "
                f"set {limits.PAIR_VARIABLE}=1, or call it before anything uses devices"
            )


def find_device(name_or_kind: str) -> OpenedDevice:
    """Return the device of this name, or the default device of this kind (`cpu`, `gpu`).

    `<name>:<units>` is the device with at most so many compute units, under that name; the device itself
    where it has no more.

    Raises:
        DeviceError: There is none, and the message lists what exists; or its units cannot be limited.
    """
    whole, units = split_units(name_or_kind)
    opened = _find_whole(whole)
    return opened if units is None else _limit(opened, units)


def _limit(opened: OpenedDevice, units: int) -> OpenedDevice:
    """Return a device with at most so many compute units: work-groups that share all work are as many."""
    whole, info = opened.info, opened.info.limit(units)
    if not info.is_part or takes_groups(info):
        return replace(opened, info=info)
    if info.kind is DeviceKind.CPU:
        remedy = limits.tell_limits(info.driver, units)
        reason = "a CPU driver's cores are fixed when it loads"
    else:
        remedy, reason = f"use {whole.name}", "it cannot run the kernels that keep to some of them"
    raise DeviceError(
        f"device {info.name}: got {units} of {whole.units} compute units, expected {whole.units} or more: "
        f"{reason}; {remedy}"
    )


def _find_whole(name_or_kind: str) -> OpenedDevice:
    """Return the device of a name or kind with all of its compute units; errors as in `find_device`."""
    for opened in load():
        if opened.info.name == name_or_kind:
            forks.check_not_lost([name_or_kind])
            return opened
    if name_or_kind in set(DeviceKind):
        for opened in default_devices():
            if _played_kind(opened.info) == name_or_kind:
                return opened
    names = [opened.info.name for opened in load()]
    raise DeviceError(
        f"device: got {name_or_kind!r}, expected one of {', '.join(names)}, or a kind that exists; "
        f"see `codl devices`{suggest(name_or_kind, names)}"
    )


def rank_without_profile(info: DeviceInfo) -> float:
    """Return the order of a driver among those of one processor as long as nothing was measured.

    Source:
        Cost of an empty launch and wait on CPUs: Intel 11 us, PoCL 42 to 54 us.
    """
    return _RANKS.get(info.driver, 0.0)


def default_devices(rank: Rank = rank_without_profile) -> tuple[OpenedDevice, ...]:
    """Return one working device for each physical processor; under the emulated pair, its two.

    Args:
        rank: Orders the drivers of one processor, lowest first; ties fall to the newer driver.

    Raises:
        DeviceError: No device works, or a driver of the emulated pair is missing.
    """
    if is_pair_emulated():
        return tuple(_find_pair_member(driver) for driver in PAIR_DRIVERS)
    chosen: list[OpenedDevice] = []
    faults: list[str] = []
    for processor in dict.fromkeys(opened.info.processor for opened in load()):
        candidates = (opened for opened in load() if opened.info.processor == processor)
        found = _find_working(sorted(candidates, key=lambda candidate: rank(candidate.info)), faults)
        if found is not None:
            chosen.append(found)
    if not chosen:
        raise DeviceError(f"devices: none works ({'; '.join(faults)}). What to do: {INSTALL_REMEDY}")
    return tuple(chosen)


def select_devices(
    names: Sequence[str] | None = None, *, rank: Rank = rank_without_profile
) -> tuple[OpenedDevice, ...]:
    """Return the devices of these names or kinds, in their order; without names the default ones.

    Raises:
        DeviceError: A name is unknown or given twice, or two drivers of one processor are asked for.
    """
    if names is None:
        return default_devices(rank)
    if not names:
        raise DeviceError(
            "devices: got an empty list, expected at least one name; leave it out for the defaults"
        )
    chosen = _find_all(names)
    for index, later in enumerate(chosen):
        for earlier in chosen[:index]:
            _check_together(earlier.info, later.info)
    return chosen


def _find_all(names: Sequence[str]) -> tuple[OpenedDevice, ...]:
    """Return the devices of these names or kinds; the error lists every one that does not exist."""
    found, problems = [], []
    for name in names:
        try:
            found.append(find_device(name))
        except DriverError:
            raise
        except DeviceError as error:
            problems.append(str(error))
    if problems:
        raise DeviceError("\n".join(problems))
    return tuple(found)


def _check_together(first: DeviceInfo, second: DeviceInfo) -> None:
    if split_units(first.name)[0] == split_units(second.name)[0]:
        names = " and ".join(dict.fromkeys([first.name, second.name]))
        raise DeviceError(f"devices: one device is asked for twice, as {names}; name each device once")
    is_pair = is_pair_emulated() and {first.driver, second.driver} == set(PAIR_DRIVERS)
    if first.processor == second.processor and not is_pair:
        raise DeviceError(
            f"devices: {first.name} and {second.name} are two drivers of one processor ({first.processor}); "
            "they share its cores and gain nothing together. Name one of them, or set "
            f"{limits.PAIR_VARIABLE}=1 for the emulated pair (intel-cpu and pocl-cpu)"
        )


def _find_pair_member(driver: str) -> OpenedDevice:
    """Return the newest working CPU device of one of the pair's drivers."""
    faults: list[str] = []
    kin = (one for one in load() if one.info.driver == driver and one.info.kind is DeviceKind.CPU)
    found = _find_working(kin, faults)
    if found is not None:
        return found
    remedy = "pip install 'codl[cpu]'" if driver == "intel" else "as root: apt-get install pocl-opencl-icd"
    reason = "; ".join(faults) or "not installed"
    raise DeviceError(f"emulated pair: no working {driver}-cpu ({reason}). What to do: {remedy}")


def _find_working(candidates: Iterable[OpenedDevice], faults: list[str]) -> OpenedDevice | None:
    """Return the first device that works; what is wrong with those before it is added to ``faults``."""
    for opened in candidates:
        forks.check_not_lost([opened.info.name])
        fault = find_fault(opened.cl_device)
        if fault is None:
            return opened
        faults.append(f"{opened.info.name}: {fault}")
    return None


def _played_kind(info: DeviceInfo) -> DeviceKind:
    """Return the kind a device stands for: in the emulated pair the second CPU driver plays the GPU."""
    if is_pair_emulated() and info.driver == PAIR_DRIVERS[1]:
        return DeviceKind.GPU
    return info.kind


def _load_all() -> _Loaded:
    with _LOCK:
        return _load_once()


@cache
def _load_once() -> _Loaded:
    is_pair = limits.is_pair_wanted()
    if is_pair:
        limits.limit_drivers_to_half()
    keep_invokers_in_memory()
    limits.move_driver_caches()
    icds, problems = find_icds()
    with pocl_cache() as obstacle:
        if obstacle is not None:
            icds, left = leave_out_pocl(icds, obstacle)
            problems = (*problems, *left)
        with private_vendors(icds), limits.widened_local_memory():
            cl_devices, more = _enumerate_devices()
    for device in cl_devices:
        mend_processor_name(device)
    named = facts.describe_devices(cl_devices)
    opened = tuple(OpenedDevice(info=info, cl_device=device) for info, device in named)
    forks.note_loaded([(info.name, info.driver) for info, _ in named])
    return _Loaded(devices=opened, problems=(*problems, *more), is_pair=is_pair)


def _enumerate_devices() -> tuple[list[Any], list[DriverProblem]]:
    """Return each device once, and a problem for each platform that brings none."""
    try:
        with driver_calls("OpenCL", "the loader failed", kind=DriverError):
            platforms = cl.get_platforms()
    except DriverError as error:
        if getattr(error.__cause__, "code", None) != cl.status_code.PLATFORM_NOT_FOUND_KHR:
            raise
        return [], []
    found: dict[int, Any] = {}
    problems: list[DriverProblem] = []
    for platform in platforms:
        name = "a platform"
        try:
            name = str(platform.name).strip()
            if "FPGA" in name:
                continue
            brought = {device.int_ptr: device for device in platform.get_devices()}
            facts.describe_devices(tuple(brought.values()))  # a device that does not answer is none
            found |= brought
        except Exception as error:  # whatever a driver raises is its fault
            message = f"platform without a device ({tell_reason(error)})"
            problems.append(
                DriverProblem(source=name, message=message, remedy="see the driver's documentation")
            )
    return list(found.values()), problems
