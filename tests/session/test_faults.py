"""Every call of a driver or of ONNX Runtime may fail: the error is codl's own, and the next run is right.

Networks, drivers and ONNX Runtime are real: one call at a time fails before it does anything, or after it.
"""

import gc
import itertools
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import codl
from codl.cache.folders import FOLDERS, KERNELS
from codl.devices.opencl import open_devices
from tests.exactness import DEVICES
from tests.executor.mixed_models import MODELS
from tests.faults import FAULTS, Faults
from tests.oracle import random_feeds
from tests.test_leaks import count_descriptors, count_handles

MODEL = MODELS["gate"]()
"""Convolutions with a step of the host between them."""
DATA, FEEDS = MODEL.SerializeToString(), random_feeds(MODEL)
ARRANGEMENTS = {
    "first": (DEVICES[:1], ""),
    "second": (DEVICES[1:2], ""),
    "both": (DEVICES, ""),
    "both, mapped": (DEVICES, "mapped"),
    "both, copied": (DEVICES, "copied"),
}
"""Devices, and how they share memory."""
EACH = pytest.mark.parametrize("arrangement", ARRANGEMENTS)
RUN_STRIDE, BUILD_STRIDE = 23, 211
"""Of the faults every so many are tried outside of the whole campaign."""
Outputs = Sequence[np.ndarray[Any, Any]]

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Faults:
    return Faults(monkeypatch)


def open_session(arrangement: str, patch: pytest.MonkeyPatch) -> codl.InferenceSession:
    devices, sharing = ARRANGEMENTS[arrangement]
    patch.setenv("CODL_SHARING", sharing)
    options = codl.SessionOptions()
    options.devices, options.planner, options.max_chain_length = devices, "even", 2
    options.intra_op_num_threads = 1
    return codl.InferenceSession(DATA, options)


def forget_programs(arrangement: str) -> None:
    """Let the devices build or load all programs again."""
    for device in open_devices(ARRANGEMENTS[arrangement][0]):
        device._programs.clear()
        device._unstored.clear()


def is_equal(found: Outputs, expected: Outputs) -> bool:
    return [value.tobytes() for value in found] == [value.tobytes() for value in expected]


def draw_faults(count: int, stride: int) -> Iterator[tuple[int, str, bool]]:
    """Yield every ``stride``-th fault: which of ``count`` calls fails, with what, and whether late."""
    drawn = itertools.product(range(count), FAULTS, (False, True))
    return itertools.islice(drawn, 0, None, stride)


def check_runs(arrangement: str, faults: Faults, patch: pytest.MonkeyPatch, *, stride: int) -> None:
    with open_session(arrangement, patch) as session:
        expected = session.run(None, FEEDS)
        with faults.watched():
            assert is_equal(session.run(None, FEEDS), expected)
        names = faults.calls
        assert len(names) > 5
        for place, fault, is_late in draw_faults(len(names), stride):
            told = f"{fault} at {place}, {names[place]}, late: {is_late}"
            kind = KeyboardInterrupt if fault == "interrupt" else codl.CodlError
            with pytest.raises(kind), faults.watched(place, fault=fault, is_late=is_late):
                session.run(None, FEEDS)
            assert is_equal(session.run(None, FEEDS), expected), told


def check_builds(arrangement: str, faults: Faults, patch: pytest.MonkeyPatch, *, stride: int) -> None:
    with open_session(arrangement, patch) as session:
        expected = session.run(None, FEEDS)
    forget_programs(arrangement)
    with faults.watched(), open_session(arrangement, patch) as session:
        assert is_equal(session.run(None, FEEDS), expected)
    names = faults.calls
    for place, fault, is_late in draw_faults(len(names), stride):
        told = f"{fault} at {place}, {names[place]}, late: {is_late}"
        forget_programs(arrangement)
        with faults.watched(place, fault=fault, is_late=is_late):
            try:
                with open_session(arrangement, patch) as session:
                    assert is_equal(session.run(None, FEEDS), expected), told
            except codl.CodlError:
                assert fault != "interrupt", told
            except KeyboardInterrupt:
                assert fault == "interrupt", told
        with open_session(arrangement, patch) as session:
            assert is_equal(session.run(None, FEEDS), expected), told
    for folder in FOLDERS:
        assert list(folder.find_problems()) == []
        assert folder._temporaries() == ()


@EACH
def test_a_run_in_which_a_call_fails_raises_codls_error_and_the_next_one_is_right(
    arrangement: str, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_runs(arrangement, faults, monkeypatch, stride=RUN_STRIDE)


@EACH
def test_a_session_whose_making_fails_raises_codls_error_and_the_next_one_is_right(
    arrangement: str, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_builds(arrangement, faults, monkeypatch, stride=BUILD_STRIDE)


@pytest.mark.parametrize("fault", ["runtime", "interrupt"])
def test_a_device_that_cannot_be_waited_for_is_waited_for_again(
    fault: str, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A launch fails, and so does the first wait for each device that follows."""
    with open_session("both", monkeypatch) as session:
        expected = session.run(None, FEEDS)
        with faults.watched():
            session.run(None, FEEDS)
        launches = [place for place, name in enumerate(faults.calls) if name.endswith("nd_range_kernel")]
        for place in launches[:3]:
            failing = faults.watched(place, place + 1, place + 3, fault=fault)
            with pytest.raises((codl.DeviceError, KeyboardInterrupt)), failing:
                session.run(None, FEEDS)
            assert [name.rpartition(".")[2] for name in faults.calls[place + 1 :]] == ["finish"] * 4
            assert is_equal(session.run(None, FEEDS), expected)


def test_one_of_many_threads_sees_the_failure_and_all_others_right_numbers(
    faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_session("both", monkeypatch) as session, open_session("both", monkeypatch) as other:
        expected, right, failed = session.run(None, FEEDS), [], []
        other.run(None, FEEDS)

        def repeat(one: codl.InferenceSession) -> None:
            for _ in range(5):
                try:
                    right.append(is_equal(one.run(None, FEEDS), expected))
                except codl.DeviceError as error:
                    failed.append(error)

        threads = [threading.Thread(target=repeat, args=(one,)) for one in (session, other) * 3]
        with faults.watched(60):
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

    assert len(failed) == 1
    assert right == [True] * 29


def test_closing_waits_for_a_run_that_fails(faults: Faults, monkeypatch: pytest.MonkeyPatch) -> None:
    session = open_session("both", monkeypatch)
    session.run(None, FEEDS)
    told: list[BaseException] = []

    def repeat() -> None:
        try:
            while True:
                session.run(None, FEEDS)
        except codl.CodlError as error:
            told.append(error)

    threads = [threading.Thread(target=repeat) for _ in range(3)]
    with faults.watched(100):
        for thread in threads:
            thread.start()
        while len(faults.calls) <= 100:
            threads[0].join(0.01)
        session.close()
        for thread in threads:
            thread.join()

    assert sorted(type(error).__name__ for error in told) == ["DeviceError", "InputError", "InputError"]


@EACH
def test_sessions_that_fail_and_are_dropped_leave_nothing_behind(
    arrangement: str, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):  # the first one loads programs
        with faults.watched(), open_session(arrangement, monkeypatch) as session:
            session.run(None, FEEDS)
    del session
    with faults.watched():
        open_session(arrangement, monkeypatch).close()
    last = len(faults.calls) - 1
    gc.collect()
    before = count_handles(), count_descriptors()
    gc.disable()  # nothing waits for the collector of circles
    try:
        for place in range(50):
            with pytest.raises(codl.CodlError), faults.watched(last - place % last):
                open_session(arrangement, monkeypatch)
        assert count_handles() == before[0]
        for _ in range(5):
            session = open_session(arrangement, monkeypatch)
            session.run(None, FEEDS)
            with pytest.raises(codl.CodlError), faults.watched(5):
                session.run(None, FEEDS)
            del session
        assert (count_handles(), count_descriptors()) == before
    finally:
        gc.enable()


def test_a_program_that_could_not_be_built_is_not_kept(
    faults: Faults, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CODL_CACHE_DIR", str(tmp_path))
    forget_programs("first")
    with pytest.raises(codl.DeviceError, match="cannot build"), faults.watched(0, fault="runtime"):
        open_devices(DEVICES[:1])[0].kernel("layout/layout_copy__buffer.cl", "layout_copy__buffer", {})

    assert KERNELS.files() == ()
    assert open_devices(DEVICES[:1])[0].program_count == 0


@pytest.mark.heavy
@pytest.mark.timeout(7200)
@EACH
def test_every_fault_of_a_run(arrangement: str, faults: Faults, monkeypatch: pytest.MonkeyPatch) -> None:
    check_runs(arrangement, faults, monkeypatch, stride=1)


@pytest.mark.heavy
@pytest.mark.timeout(7200)
@EACH
def test_every_fault_of_making_a_session(
    arrangement: str, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_builds(arrangement, faults, monkeypatch, stride=1)
