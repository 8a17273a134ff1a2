"""What a run did when: one event for each launch, copy and wait, on one clock for all devices."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from codl.devices.boundary import driver_calls
from codl.plan.residency import HOST

_US_PER_NS = 1e-3
"""OpenCL counts nanoseconds."""


class EventKind(StrEnum):
    """What an event is."""

    LAUNCH = "launch"
    """A kernel that computes a node's output, or a part of it."""
    PUBLISH = "publish"
    """A kernel that copies a device's part of a tensor to where all devices see it."""
    READ = "read"
    """A copy from a device to the host, with the wait for it."""
    WRITE = "write"
    """The host enqueues a copy to a device."""
    MAP = "map"
    """The host maps a region of a device's memory, with the wait for it."""
    UNMAP = "unmap"
    """The host unmaps a region."""
    WAIT = "wait"
    """The host waits for a device."""
    MEET = "meet"
    """A kernel that waits until other devices have reached the same synchronization."""
    HOST = "host"
    """ONNX Runtime computes nodes on the CPU."""


KERNELS = (EventKind.LAUNCH, EventKind.PUBLISH)
"""What devices do; the rest is waiting, or the host's."""
_TIMED = (*KERNELS, EventKind.MEET)
"""What devices know the times of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """What a prepared call does, as traces show it."""

    kind: EventKind
    device: int
    """Index among the plan's devices; of a host call `HOST`."""
    name: str = ""
    """Node of a launch or host call, tensor of a copy; empty for a wait."""
    parts: tuple[tuple[str, float], ...] = ()
    """Nodes of a launch of several, in order, with their shares of its operations."""


Entry = tuple[Callable[[], object], Label | None]
"""A prepared call and what it does; None for one that no trace shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that a run did."""

    kind: EventKind
    device: str
    """Its name, `host` for a host call."""
    name: str
    """Node of a launch or host call, tensor of a copy; empty for a wait."""
    start_us: float
    """Since the first call of the run."""
    duration_us: float
    parts: tuple[tuple[str, float], ...] = ()
    """As those of its label."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """A run, call by call."""

    events: tuple[Event, ...]
    """By start. Launches of different devices overlap; launches of one do not."""
    begin_us: float
    """Of the first call, on the clock of `time.monotonic`."""
    duration_us: float
    """Of the whole run, without reading feeds and handing over outputs."""

    def device_us(self, device: str) -> float:
        """Return how long kernels ran on a device."""
        return sum(e.duration_us for e in self.events if e.device == device and e.kind in KERNELS)


_Played = tuple[Label, float, float, Any]
"""What was called, when, how long the call took, both in us, and what it returned."""


def play_traced(entries: Sequence[Entry], devices: Sequence[str]) -> Trace:
    """Return the trace of one run of prepared calls.

    Kernels are timed by their own device, everything else by the host.

    Args:
        entries: The calls; those of kernels return their event, of a queue with profiling.
        devices: Names of the plan's devices.

    Raises:
        DeviceError: A queue was opened without profiling.
    """
    played: list[_Played] = []
    begin_us = _now_us()
    for call, label in entries:
        start_us = _now_us()
        result = call()
        if label is not None:
            played.append((label, start_us - begin_us, _now_us() - start_us, result))
    duration_us = _now_us() - begin_us
    offsets = _find_offsets(played, devices)
    events = []
    for label, called_us, call_us, result in played:
        start_us, event_us = called_us, call_us
        if label.kind in _TIMED:
            _, kernel_us, event_us = _read_clock(result, devices[label.device])
            start_us = offsets[label.device] + kernel_us
        events.append(
            Event(
                kind=label.kind,
                device="host" if label.device == HOST else devices[label.device],
                name=label.name,
                start_us=start_us,
                duration_us=event_us,
                parts=label.parts,
            )
        )
    events.sort(key=lambda event: event.start_us)
    return Trace(events=tuple(events), begin_us=begin_us, duration_us=duration_us)


def _find_offsets(played: Sequence[_Played], devices: Sequence[str]) -> dict[int, float]:
    """Return what to add to each device's clock to have the host's.

    A kernel is queued after the host began to hand it over, so each kernel gives a
    lower bound, and the largest is the best.
    """
    offsets: dict[int, float] = {}
    for label, called_us, _, result in played:
        if label.kind in _TIMED:
            queued_us, _, _ = _read_clock(result, devices[label.device])
            bound = called_us - queued_us
            offsets[label.device] = max(bound, offsets.get(label.device, bound))
    return offsets


def _read_clock(event: Any, device: str) -> tuple[float, float, float]:
    """Return when a kernel was queued and started on the device's clock, and how long it ran, all in us."""
    with driver_calls(device, "no times of a kernel, which takes a queue with profiling"):
        profile = event.profile
        queued, start, end = profile.queued, profile.start, profile.end
    return queued * _US_PER_NS, start * _US_PER_NS, (end - start) * _US_PER_NS


def _now_us() -> float:
    return time.monotonic_ns() * _US_PER_NS
