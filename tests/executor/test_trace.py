"""Traces: every call of a run, on one clock, and nothing of it without profiling."""

from functools import cache
from itertools import pairwise

import numpy as np
import pytest

from codl.devices.opencl import open_devices
from codl.errors import DeviceError
from codl.executor.compile import compile_plan
from codl.executor.trace import EventKind, Trace
from codl.partitioner.even import plan_even
from codl.plan.sharing import Sharing
from tests.exactness import DEVICES, Case
from tools.networks import build

PAIR = DEVICES


@cache
def case() -> Case:
    return Case(build("mobilenet_v2", size=32, width=0.25))


@cache
def trace(sharing: Sharing) -> Trace:
    devices = tuple(device.with_profiling() for device in open_devices(PAIR))
    executable = compile_plan(case().graph, plan_even(case().graph, devices=PAIR), devices, sharing=sharing)
    traced, found = executable.run_traced(case().feeds)
    plain = executable.run(case().feeds)
    assert all(np.array_equal(traced[name], plain[name]) for name in plain)
    kernels = [e for e in found.events if e.kind in (EventKind.LAUNCH, EventKind.PUBLISH)]
    assert len(kernels) == executable.launch_count
    return found


@pytest.mark.parametrize("sharing", Sharing)
def test_events_follow_one_clock(sharing: Sharing) -> None:
    found = trace(sharing)

    starts = [event.start_us for event in found.events]
    ends = [event.start_us + event.duration_us for event in found.events]

    assert starts == sorted(starts)
    assert starts[0] >= 0
    assert max(ends) <= found.duration_us


@pytest.mark.parametrize("sharing", Sharing)
@pytest.mark.parametrize("device", PAIR)
def test_launches_of_one_device_do_not_overlap(sharing: Sharing, device: str) -> None:
    kernels = [
        e
        for e in trace(sharing).events
        if e.device == device and e.kind in (EventKind.LAUNCH, EventKind.PUBLISH)
    ]

    for before, after in pairwise(kernels):
        assert before.start_us + before.duration_us <= after.start_us + 1e-3


@pytest.mark.parametrize("device", PAIR)
def test_waits_end_after_what_they_wait_for(device: str) -> None:
    # A read, of a device with memory of its own, waits for itself.
    reading = EventKind.READ
    events = [e for e in trace(Sharing.COHERENT).events if e.device == device and e.kind is not reading]
    last_wait = max(e.start_us + e.duration_us for e in events if e.kind is EventKind.WAIT)

    assert all(e.start_us + e.duration_us <= last_wait for e in events)


def test_launches_name_their_nodes() -> None:
    names = {e.name for e in trace(Sharing.COHERENT).events if e.kind is EventKind.LAUNCH}

    assert names == {node.name for node in case().graph.nodes}


def test_copies_are_seen_where_memory_is_not_shared() -> None:
    kinds = {e.kind for e in trace(Sharing.COPIED).events}

    assert {EventKind.READ, EventKind.WRITE} <= kinds
    assert EventKind.PUBLISH not in kinds


def test_time_of_a_device_is_the_sum_of_its_kernels() -> None:
    found = trace(Sharing.COHERENT)

    for device in PAIR:
        assert 0 < found.device_us(device) <= found.duration_us


def test_queue_without_profiling_is_refused() -> None:
    graph = case().graph
    executable = compile_plan(graph, plan_even(graph, devices=PAIR), open_devices(PAIR))

    with pytest.raises(DeviceError, match="profiling"):
        executable.run_traced(case().feeds)
