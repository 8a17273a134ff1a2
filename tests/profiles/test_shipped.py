"""What ships below profiles/ can be read, is small, and says what it is."""

from dataclasses import replace
from pathlib import Path

import pytest

from codl.assets import profiles_dir
from codl.ir.boxes import Boxes
from codl.latency.files import load_profile
from codl.latency.predictor import Predictor
from codl.latency.profile import DeviceProfile, Origin
from codl.latency.store import SIMULATED, find_shipped, shipped_path
from codl.profiler.workload import load_workload


def name_path(path: Path) -> str:
    """Return the last two names of a path, such as `intel/avx512`."""
    return f"{path.parent.name}/{path.stem}"


PATHS = sorted(path for path in profiles_dir().glob("*/*.json") if path.parent.name != "workloads")
SIMULATED_PATHS = [path for path in PATHS if path.parent.name == SIMULATED]
MEASURED_PATHS = [path for path in PATHS if path.parent.name != SIMULATED]
MOST_BYTES = 16 << 10
TOTALS_MS = {
    "snapdragon-cpu": {"retinaface": 1127, "yolov2": 231, "vgg16": 219, "posenet": 450},
    "snapdragon-gpu": {"retinaface": 993, "yolov2": 209, "vgg16": 216, "posenet": 341},
}
"""Published latencies on one processor alone; the fifth network's is left to the fit."""


@pytest.mark.parametrize("path", PATHS, ids=name_path)
def test_profile_can_be_read_and_is_small(path: Path) -> None:
    profile = load_profile(path)

    assert path.stat().st_size <= MOST_BYTES
    assert (profile.origin is Origin.SIMULATED) == (path.parent.name == SIMULATED)


@pytest.mark.parametrize("path", MEASURED_PATHS, ids=name_path)
def test_measured_profile_is_of_the_present_kernels(path: Path) -> None:
    """An edited kernel or feature asks for a new profile."""
    assert all(row.is_of(name) for name, row in load_profile(path).rows.items())


@pytest.mark.parametrize("path", MEASURED_PATHS, ids=name_path)
def test_measured_profile_is_found_by_its_driver_and_instruction_set(path: Path) -> None:
    info = load_profile(path).info

    assert shipped_path(info) == path
    assert (info.device_name, info.processor, info.generation) == ("", "", "")
    assert find_shipped(replace(info, device_name="mine", units=7)) == load_profile(path)


def test_simulated_pair_ships() -> None:
    assert {load_profile(path).name for path in SIMULATED_PATHS} == set(TOTALS_MS)


@pytest.mark.parametrize("path", SIMULATED_PATHS, ids=name_path)
def test_simulated_device_takes_about_as_long_as_published(path: Path) -> None:
    profile = load_profile(path)

    for network, expected in TOTALS_MS[profile.name].items():
        assert 0.5 < _predict_ms(profile, network) / expected < 1.6, network


@pytest.mark.parametrize("path", SIMULATED_PATHS, ids=name_path)
def test_simulated_devices_know_each_other(path: Path) -> None:
    profile = load_profile(path)
    (other,) = set(TOTALS_MS) - {profile.name}

    assert Predictor(profile, profile.info).find_meeting(other).p95_us == 1000


def _predict_ms(profile: DeviceProfile, network: str) -> float:
    predictor = Predictor(profile, profile.info)
    total = 0.0
    for layer in load_workload():
        if count := layer.uses.get(network, 0):
            graph = layer.make_graph()
            found = predictor.predict(graph.nodes[0], graph, Boxes.whole(layer.output, 1))
            total += count * float(found.us[0])
    return total / 1e3
