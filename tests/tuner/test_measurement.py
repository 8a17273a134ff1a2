"""The log of measurements: nothing is lost, nothing half-written is believed, one writer at a time."""

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from codl.errors import ProfileError
from codl.tuner.measurement import Measurement, MeasurementLog, read_measurement
from tests.disks import small_disk

ONE = Measurement(
    shape="Conv2d N=1",
    implementation="conv2d_gemm__buffer",
    digest="abc",
    parameters={"VECTOR": 16, "MR": 6},
    stage="quick",
    reference="compute",
    ratio=1.5,
    bound_ratio=1.25,
)


def test_measurements_come_back_in_order(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "log.jsonl"
    other = Measurement(**{**asdict(ONE), "ratio": None, "error": "no such kernel"})
    with MeasurementLog(path) as log:
        log.add(ONE)
        log.note("peaks", {"flops": 1})
    with MeasurementLog(path) as log:
        log.add(other)
        assert list(log.measurements()) == [ONE, other]


def test_candidate_reads_as_a_selection_does() -> None:
    assert ONE.candidate == "conv2d_gemm__buffer MR=6 VECTOR=16"


@pytest.mark.parametrize("cut", [1, 10, 100])
def test_a_torn_line_costs_itself_only(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "log.jsonl"
    with MeasurementLog(path) as log:
        log.add(ONE)
        log.add(ONE)
    os.truncate(path, path.stat().st_size - cut)

    with MeasurementLog(path) as log:
        log.add(ONE)
        assert list(log.measurements()) == [ONE] * (3 if cut == 1 else 2)


@pytest.mark.parametrize(
    "line", [b"\xff\xff", b"{", b"[" * 5000, b"null", b"3", b'{"what": "measurement"}', b"\0\0\0", b""]
)
def test_lines_that_are_no_measurement_are_passed_over(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "log.jsonl"
    with MeasurementLog(path) as log:
        log.add(ONE)
    path.write_bytes(line + b"\n" + path.read_bytes())

    with MeasurementLog(path) as log:
        assert list(log.measurements()) == [ONE]


@pytest.mark.parametrize(
    "change",
    [
        {"ratio": "fast"},
        {"ratio": -1.0},
        {"ratio": float("nan")},
        {"ratio": True},
        {"parameters": [1]},
        {"parameters": {"MR": 1.5}},
        {"shape": None},
        {"error": 3},
    ],
    ids=str,
)
def test_values_of_another_type_are_no_measurement(change: dict[str, Any]) -> None:
    assert read_measurement({**asdict(ONE), **change}) is None


def test_a_second_tuner_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    with MeasurementLog(path), pytest.raises(ProfileError, match="another `codl tune`"):
        MeasurementLog(path)
    with MeasurementLog(path) as log:
        log.add(ONE)


def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ProfileError, match="expected a log that can be written"):
        MeasurementLog(tmp_path / "file" / "log.jsonl")
    with pytest.raises(ProfileError, match="expected a log that can be written"):
        MeasurementLog(tmp_path)


def test_a_full_disk_keeps_what_was_measured_before(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    with MeasurementLog(path) as log:
        log.add(ONE)
        log.add(ONE)
        with (
            small_disk(path.stat().st_size + 100),
            pytest.raises(ProfileError, match="free or unlock its disk"),
        ):
            log.add(ONE)
        assert list(log.measurements()) == [ONE, ONE]
        assert path.read_bytes().splitlines()[-1].startswith(b'{"what":"measurement"')
    with MeasurementLog(path) as log:
        log.add(ONE)
        assert list(log.measurements()) == [ONE, ONE, ONE]
