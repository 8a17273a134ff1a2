"""Builds the programs of a plan, each driver in a thread of its own: compilers take most of a first start."""

import os
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress

from codl.catalog.spec import Parameters
from codl.devices.launch import find_program
from codl.devices.opencl import Device
from codl.errors import StoppedError
from codl.executor.images import Work

_LOW_PRIORITY = 5
"""Of threads that compile while others answer, as niceness: on busy cores they get a quarter of one."""


def build_programs(
    devices: Sequence[Device], works: Iterable[tuple[int, Work]], *, stop: threading.Event | None = None
) -> None:
    """Let devices load or build the programs of their work, all devices at once.

    Args:
        devices: The devices.
        works: Work with the place of its device; programs that a device has already cost nothing.
        stop: Given where other threads have something better to do: the work is done with low priority, and
            ends once the event is set.

    Raises:
        BuildError: A driver refused a source.
        StoppedError: `stop` was set.
    """
    is_over, errors = stop or threading.Event(), list[BaseException]()

    def build(device: Device, programs: Iterable[tuple[str, Parameters]]) -> None:
        if stop is not None:
            lower_priority()
        try:
            for source, parameters in programs:
                if is_over.is_set():
                    raise StoppedError(f"{device.info.name}: kernels are not wanted any more")
                device.prepare(source, parameters)
        except BaseException as error:  # the caller's thread raises it
            errors.append(error)

    threads = [
        threading.Thread(target=build, args=(device, programs), name="codl builder", daemon=True)
        for device, programs in zip(devices, _list_programs(devices, works), strict=True)
    ]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except BaseException:
        is_over.set()
        raise
    if errors:
        raise errors[0]


def _list_programs(
    devices: Sequence[Device], works: Iterable[tuple[int, Work]]
) -> list[list[tuple[str, Parameters]]]:
    """Return sources with parameters by device."""
    found: list[list[tuple[str, Parameters]]] = [[] for _ in devices]
    for place, work in works:
        row, parameters = work.selection.implementation, work.selection.parameters
        for batch in work.batches:
            program = find_program(batch, row.source, parameters, info=devices[place].info)
            if program not in found[place]:
                found[place].append(program)
    return found


def lower_priority() -> None:
    """Let the calling thread work only when no other one wants to, where the system knows such threads."""
    with suppress(OSError, AttributeError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOW_PRIORITY)
