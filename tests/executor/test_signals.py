"""Runs whose devices wait for each other: the bits of those where the host waits, also of several at once."""

import threading
from functools import cache

import numpy as np
import pytest

from codl.devices.meeting import SIGNALS_VARIABLE
from codl.devices.opencl import Device
from codl.errors import DeviceError
from codl.executor.compile import compile_plan
from codl.executor.run import Executable
from codl.executor.trace import EventKind
from codl.partitioner.even import plan_even
from tests.exactness import DEVICES, Case
from tests.random_plans import draw_plan
from tools.networks import build
from tools.plan_ideal import split_at_meetings


@cache
def case(name: str = "mobilenet_v2") -> Case:
    return Case(build(name, size=32, width=0.25))


def compile_both(
    signallers: tuple[Device, ...], monkeypatch: pytest.MonkeyPatch, *, seed: int, name: str = "mobilenet_v2"
) -> tuple[Executable, Executable]:
    """Return a plan whose devices wait for each other, and the same one where the host waits."""
    graph = case(name).plain_graph
    plan = draw_plan(graph, DEVICES, np.random.default_rng(seed))
    signalled = compile_plan(graph, plan, signallers)
    with monkeypatch.context() as patch:
        patch.setenv(SIGNALS_VARIABLE, "0")
        return signalled, compile_plan(graph, plan, signallers)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", ["mobilenet_v2", "retinaface"])
def test_bits_are_those_of_meetings_of_the_host(
    signallers: tuple[Device, ...], monkeypatch: pytest.MonkeyPatch, name: str, seed: int
) -> None:
    signalled, hosted = compile_both(signallers, monkeypatch, seed=seed, name=name)
    signalled.poison(float("nan"))
    runs = [executable.run(case(name).feeds) for executable in (signalled, hosted, signalled)]

    for output in runs[0]:
        assert len({run[output].tobytes() for run in runs}) == 1


def test_the_host_waits_at_the_end_only(
    signallers: tuple[Device, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = [
        [label.kind for _, label in executable.entries if label is not None]
        for executable in compile_both(signallers, monkeypatch, seed=0)
    ]

    assert EventKind.MEET in kinds[0]
    assert EventKind.WAIT not in kinds[0][: -len(signallers)]
    assert EventKind.MEET not in kinds[1]
    assert EventKind.WAIT in kinds[1][: -len(signallers)]


@pytest.mark.parametrize("seed", range(3))
def test_parts_between_meetings_are_the_same(
    signallers: tuple[Device, ...], monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    signalled, hosted = (
        [
            {(label.name, label.device) for _, label in part if label is not None}
            for part in split_at_meetings(executable.entries)
        ]
        for executable in compile_both(signallers, monkeypatch, seed=seed)
    )

    assert [part for part in signalled if part] == [part for part in hosted if part]


def test_runs_of_several_threads_do_not_wait_for_each_other_for_ever(signallers: tuple[Device, ...]) -> None:
    graph, feeds = case().plain_graph, case().feeds
    plans = [plan_even(graph, devices=DEVICES, max_chain_length=length) for length in (1, 2, 3)]
    executables = [compile_plan(graph, plan, signallers) for plan in plans]
    expected = [executable.run(feeds) for executable in executables]
    failed: list[str] = []

    def repeat(executable: Executable, wanted: dict[str, np.ndarray]) -> None:
        for _ in range(20):
            found = executable.run(feeds)
            failed.extend(name for name in wanted if not np.array_equal(found[name], wanted[name]))

    threads = [threading.Thread(target=repeat, args=both) for both in zip(executables, expected, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert not failed


def test_a_run_that_fails_leaves_nobody_waiting(signallers: tuple[Device, ...]) -> None:
    graph, feeds = case().plain_graph, case().feeds
    executable = compile_plan(graph, plan_even(graph, devices=DEVICES, max_chain_length=2), signallers)
    expected = executable.run(feeds)
    calls = executable._script
    labels = [label for _, label in executable.entries]
    place = next(place for place, label in enumerate(labels) if label and label.kind is EventKind.MEET)

    def fail() -> None:
        raise DeviceError("test: got a failure, expected this one")

    executable._script = (*calls[: place + 1], fail)
    with pytest.raises(DeviceError, match="expected this one"):
        executable.run(feeds)
    executable._script = calls

    found = executable.run(feeds)
    assert all(np.array_equal(found[name], expected[name]) for name in expected)


def test_meetings_of_devices_are_traced(signallers: tuple[Device, ...]) -> None:
    graph = case().plain_graph
    devices = tuple(device.with_profiling() for device in signallers)
    executable = compile_plan(graph, plan_even(graph, devices=DEVICES, max_chain_length=2), devices)
    executable.run(case().feeds)
    events = executable.run_traced(case().feeds)[1].events

    meetings = [event for event in events if event.kind is EventKind.MEET]
    assert {event.device for event in meetings} == set(DEVICES)
    assert all(event.duration_us > 0 for event in meetings)
