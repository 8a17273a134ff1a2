"""Profiling for real, in seconds: what is measured is learned, kept, and gone on with."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from codl.catalog.spec import Selection
from codl.devices.opencl import Device
from codl.errors import DeviceError
from codl.ir.boxes import Boxes, Region
from codl.latency.files import load_profile, save_profile
from codl.latency.predictor import Predictor
from codl.latency.profile import DeviceProfile
from codl.profiler.campaign import Campaign
from codl.profiler.case import Case, PreparedCase
from codl.profiler.log import SampleLog, read_log
from codl.profiler.sampler import Sampler
from codl.profiler.samples import keep_valid
from codl.profiler.workload import load_pairs, load_workload, share_out
from tests.processes import clean_environment
from tests.profiler.layers import small_layers

ROWS = ("elementwise_unary__buffer", "pool2d_direct__buffer")
CODE = """
import sys
from pathlib import Path
from tests.profiler.test_campaign import profile
from codl.devices.opencl import open_device
profile(open_device(sys.argv[1]), Path(sys.argv[2]), seconds=float(sys.argv[3]))
"""


def profile(device: Device, path: Path, *, seconds: float) -> DeviceProfile:
    with SampleLog(path) as log:
        campaign = Campaign(device, layers=small_layers(), log=log, budget_seconds=seconds, rows=ROWS)
        return campaign.run(neighbours={})


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory, device: Device) -> tuple[DeviceProfile, Path]:
    path = tmp_path_factory.mktemp("profile") / "samples.jsonl"
    return profile(device, path, seconds=4.0), path


def test_rows_are_learned(measured: tuple[DeviceProfile, Path]) -> None:
    found, _ = measured

    assert set(found.rows) == set(ROWS)
    for row in found.rows.values():
        assert row.quality.samples > 0
        assert row.model.coefficients
        assert all(value > 0 for value in row.model.coefficients.values())
        assert 0 <= row.error < 10
        assert row.longest_us > 0


def test_something_is_learned_in_no_time_at_all(tmp_path: Path, device: Device) -> None:
    assert profile(device, tmp_path / "samples.jsonl", seconds=1e-3).rows


def test_device_is_learned(measured: tuple[DeviceProfile, Path], device: Device) -> None:
    profile = measured[0]

    assert profile.wait_us > 0
    assert profile.bandwidth_bytes_per_us > 0
    assert set(profile.reference_us) == {"compute", "memory"}
    assert set(profile.sharing) == {"read", "write"} | ({"map", "unmap"} if device.info.is_unified else set())
    assert profile.repeatability_pm10 is None or 0 <= profile.repeatability_pm10 <= 1


def test_profile_survives_its_files_and_predicts(
    measured: tuple[DeviceProfile, Path], device: Device, tmp_path: Path
) -> None:
    save_profile(measured[0], tmp_path)
    predictor = Predictor(load_profile(tmp_path), device.info)
    layer = next(layer for layer in small_layers() if type(layer.op).__name__ == "Unary")
    graph = layer.make_graph()

    found = predictor.predict(graph.nodes[0], graph, Boxes.whole(layer.output, 3))

    assert (found.us > 0).all()
    assert len(set(found.us.tolist())) == 1


def test_second_start_measures_nothing_twice_but_to_see_how_well_it_repeats(
    measured: tuple[DeviceProfile, Path], device: Device
) -> None:
    _, path = measured
    before = read_log(path)

    profile(device, path, seconds=2.0)
    after = read_log(path)

    assert after.samples[: len(before.samples)] == before.samples
    assert len(after.samples) > len(before.samples)
    fresh = [one.key for one in after.samples if one.repeat_of is None]
    assert len(set(fresh)) == len(fresh)


def test_killed_profiler_loses_nothing_and_goes_on(device: Device, tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    command = [sys.executable, "-W", "ignore", "-c", CODE, device.info.name, str(path)]
    environment = clean_environment(CODL_EMULATE_PAIR=os.environ.get("CODL_EMULATE_PAIR", ""))
    with subprocess.Popen([*command, "120"], env=environment) as running:
        end = time.monotonic() + 90
        while time.monotonic() < end and (not path.exists() or path.read_bytes().count(b'{"sample"') < 9):
            assert running.poll() is None, "ended before it was killed"
            time.sleep(0.05)
        running.send_signal(signal.SIGKILL)
    before = read_log(path).samples

    profile(device, path, seconds=4.0)
    after = read_log(path).samples

    assert len(before) >= 8
    assert after[: len(before)] == before
    assert len(after) > len(before)


def test_changed_kernels_samples_are_not_used(measured: tuple[DeviceProfile, Path], tmp_path: Path) -> None:
    _, path = measured
    changed = tmp_path / "samples.jsonl"
    with SampleLog(changed) as log:
        for one in read_log(path).samples:
            log.add(replace(one, digest="of another kernel"))

    assert keep_valid(read_log(changed).samples) == []
    assert keep_valid(read_log(path).samples) == read_log(path).samples


@pytest.mark.heavy
def test_every_kernel_can_be_measured(device: Device) -> None:
    """One case of every row runs alone, slices included: operands of every kind are in place."""
    cases = []
    for work in share_out((*load_workload(), *load_pairs()), device.info):
        layer = min(work.layers, key=lambda one: np.prod(one.output) + sum(map(np.prod, one.inputs)))
        graph = layer.make_graph()
        parameters = work.row.accepts(graph.nodes[-1], graph, device.info)
        assert parameters is not None

        selection = Selection(implementation=work.row, parameters=parameters)
        cases.append(Case(layer=layer, selection=selection, region=Region.whole(layer.output)))

    samples = Sampler(device).measure(iter(cases))

    assert {sample.key for sample in samples} == {case.key for case in cases}


def test_lost_device_is_told(device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "samples.jsonl"
    calls = count(1)

    def fail(self: PreparedCase, *arguments: object, **options: object) -> object:
        if next(calls) % 500 == 0 and path.exists() and read_log(path).samples:
            raise DeviceError(f"{device.info.name}: lost")
        return read(self, *arguments, **options)

    read = PreparedCase.read
    monkeypatch.setattr(PreparedCase, "read", fail)

    with pytest.raises(DeviceError, match="lost"):
        profile(device, path, seconds=60.0)

    assert read_log(path).samples
