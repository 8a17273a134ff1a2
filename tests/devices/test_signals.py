"""Devices that wait for each other: what one wrote before a meeting the other reads behind it."""

import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyopencl as cl
import pytest

from codl.devices import meeting
from codl.devices.meeting import SIGNALS_VARIABLE, can_signal
from codl.devices.opencl import Device
from codl.devices.pages import allocate_host
from codl.devices.signals import Signals
from codl.errors import DeviceError
from codl.machine import DeviceKind
from tests.catalog.nodes import device_info
from tests.devices.loads import prepare_spin

ONE = replace(device_info(8), units=1)


@pytest.fixture
def many_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meeting, "count_cores", lambda: 8)
    monkeypatch.delenv(SIGNALS_VARIABLE, raising=False)


@pytest.mark.usefixtures("many_cores")
def test_processors_with_cores_of_their_own_may_wait() -> None:
    assert can_signal([ONE, replace(ONE, units=7)])
    assert not can_signal([ONE, replace(ONE, units=8)])
    assert not can_signal([ONE])
    assert not can_signal([ONE] * 32)


@pytest.mark.usefixtures("many_cores")
@pytest.mark.parametrize("change", [{"kind": DeviceKind.GPU}, {"is_unified": False}], ids=str)
def test_who_sees_writes_later_does_not_wait(change: dict[str, Any]) -> None:
    assert not can_signal([ONE, replace(ONE, **change)])


@pytest.mark.usefixtures("many_cores")
def test_nobody_waits_who_is_told_not_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SIGNALS_VARIABLE, "0")

    assert not can_signal([ONE, ONE])


@pytest.mark.usefixtures("many_cores")
def test_nobody_waits_where_writes_overtake_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")

    assert not can_signal([ONE, ONE])


def prepare_fill(device: Device, memory: Any, value: float) -> Callable[[], Any]:
    """Return what enqueues a slow kernel and then the writing of all of a memory."""
    spin, buffer = prepare_spin(device, rounds=2000), device.wrap(memory)

    def enqueue() -> None:
        spin()
        cl.enqueue_fill_buffer(device.queue, buffer, np.float32(value), 0, memory.nbytes)

    return enqueue


@pytest.mark.parametrize("writer", [0, 1])
def test_what_was_written_before_a_meeting_is_read_behind_it(
    signallers: tuple[Device, ...], writer: int
) -> None:
    reader = 1 - writer
    memory, copies = allocate_host(1 << 14), allocate_host(1 << 14)
    source, target = signallers[reader].wrap(memory), signallers[reader].wrap(copies)
    signals = Signals(signallers)
    says = signals.bind(writer, number=1, says=True, awaited=())
    waits = signals.bind(reader, number=1, says=False, awaited=(writer,))
    for value in range(1, 30):
        fill = prepare_fill(signallers[writer], memory, value)
        with signals.turn:
            signals.reset()
            waits()
            cl.enqueue_copy(signallers[reader].queue, target, source)
            signallers[reader].queue.flush()
            fill()
            says()
            signallers[writer].queue.flush()
            for device in signallers:
                device.finish()
            signals.check()
        assert (copies == value).all()


def test_who_has_come_already_is_not_waited_for(signallers: tuple[Device, ...]) -> None:
    signals = Signals(signallers)
    signals.bind(0, number=5, says=True, awaited=())()
    signallers[0].finish()
    signals.bind(1, number=4, says=True, awaited=(0,))()
    signallers[1].finish()
    signals.check()


def test_nobody_waits_for_itself(signallers: tuple[Device, ...]) -> None:
    signals = Signals(signallers)
    signals.bind(0, number=1, says=False, awaited=(0,))()
    signallers[0].finish()
    signals.check()


def test_giving_up_lets_everyone_go_on_and_is_an_error(signallers: tuple[Device, ...]) -> None:
    signals = Signals(signallers)
    signals.bind(0, number=1, says=True, awaited=(1,))()
    signallers[0].queue.flush()
    done = threading.Thread(target=partial(signallers[0].finish))
    done.start()
    done.join(0.1)
    assert done.is_alive()

    signals.give_up()
    done.join(30)

    assert not done.is_alive()
    with pytest.raises(DeviceError, match="CODL_SIGNALS=0"):
        signals.check()
    signals.reset()
    signals.check()
