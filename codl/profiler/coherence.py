"""Costs of cache coherence for memory that two devices use."""

from collections.abc import Callable, Sequence
from functools import partial

from codl.devices.loads import Call as Enqueue
from codl.devices.loads import prepare_read, prepare_sweep, prepare_write, round_read
from codl.devices.memory import arrange, place_shared
from codl.devices.opencl import Device
from codl.devices.script import Call, Played, play
from codl.ir.graph import FLOAT_BYTES
from codl.ir.regions import Region
from codl.latency.profile import KIB, Coherence
from codl.plan.sharing import Sharing
from codl.profiler.scripts import measure_scripts

_US = 1e6
SHARED_FLOATS = 1 << 17
"""As many as fit into a core's own cache together with the other operands of a layer."""


def measure_coherence(devices: Sequence[Device], *, seconds: float) -> tuple[Coherence, Coherence] | None:
    """Return for each of two devices how much longer it takes because the other one uses the same memory.

    It reads right after the other one wrote, instead of itself; and it writes right after the other one read.
    None where the devices, which are opened with profiling, do not both compute in the host's memory.

    Raises:
        DeviceError: A driver refused a kernel or memory, or its queues keep no times.
    """
    if arrange([device.info for device in devices], Sharing.COHERENT).modes != (Sharing.COHERENT,) * 2:
        return None
    floats = max(round_read(device, SHARED_FLOATS) for device in devices)
    whole = Region.whole((floats,))
    storages = place_shared(whole, devices)
    placed = list(zip(devices, storages, strict=True))
    writes = [prepare_write(device, storage, whole) for device, storage in placed]
    reads = [prepare_read(device, storage.buffer, SHARED_FLOATS) for device, storage in placed]
    rest = [(place, prepare_sweep(device)) for place, device in enumerate(devices)]
    rows: dict[str, Callable[[], Played]] = {}
    for own, other in ((0, 1), (1, 0)):
        for name, before, timed in (
            ("read own", [(own, writes[own])], reads[own]),
            ("fetch", [(other, writes[other])], reads[own]),
            ("write own", [(own, writes[own]), (own, reads[own]), *rest], writes[own]),
            ("reclaim", [(own, writes[own]), (other, reads[other]), *rest], writes[own]),
        ):
            rows[f"{own} {name}"] = partial(play, _script(devices, before, (own, timed)), devices)
    taken = measure_scripts(rows, seconds=seconds)

    def compare(own: int, name: str, alone: str) -> float:
        longer, usual = (taken[f"{own} {one}"].busy[own] for one in (name, alone))
        return count_us_per_kib(max(0.0, longer - usual), floats)

    first, second = (
        Coherence(fetch_us=compare(own, "fetch", "read own"), reclaim_us=compare(own, "reclaim", "write own"))
        for own in (0, 1)
    )
    return first, second


def count_us_per_kib(seconds: float, floats: int) -> float:
    """Return the us for each KiB of an amount of floats."""
    return seconds * _US / (floats * FLOAT_BYTES / KIB)


def _script(
    devices: Sequence[Device], before: Sequence[tuple[int, Enqueue]], timed: tuple[int, Enqueue]
) -> list[Call]:
    """Return calls that each wait for the one before; only the last one is timed."""
    script: list[Call] = []
    for place, call in before:
        script += [(None, call), (None, devices[place].finish)]
    return [*script, timed]
