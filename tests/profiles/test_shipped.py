"""What ships below profiles/ can be read, is small, and says what it is."""

from pathlib import Path

import pytest

from codl.assets import profiles_dir
from codl.ir.boxes import Boxes
from codl.latency.files import DEVICE_FILE, load_profile
from codl.latency.predictor import Predictor
from codl.latency.profile import DeviceProfile, Origin
from codl.latency.store import SIMULATED
from codl.profiler.workload import load_workload

FOLDERS = sorted(path.parent for path in profiles_dir().rglob(DEVICE_FILE))
SIMULATED_FOLDERS = [folder for folder in FOLDERS if folder.parent.name == SIMULATED]
TOTALS_MS = {
    "snapdragon-cpu": {"retinaface": 1127, "yolov2": 231, "vgg16": 219, "posenet": 450},
    "snapdragon-gpu": {"retinaface": 993, "yolov2": 209, "vgg16": 216, "posenet": 341},
}
"""Published latencies on one processor alone; the fifth network's is left to the fit."""


@pytest.mark.parametrize("folder", FOLDERS, ids=[folder.name for folder in FOLDERS])
def test_profile_can_be_read_and_is_small(folder: Path) -> None:
    profile = load_profile(folder)

    assert load_profile(folder / DEVICE_FILE) == profile
    assert (
        sum(path.stat().st_size for path in folder.glob("*.json") if path.name != "kernels.json") <= 64 << 10
    )
    assert (profile.origin is Origin.SIMULATED) == (folder.parent.name == SIMULATED)


def test_simulated_pair_ships() -> None:
    assert {load_profile(folder).name for folder in SIMULATED_FOLDERS} == set(TOTALS_MS)


@pytest.mark.parametrize("folder", SIMULATED_FOLDERS, ids=[folder.name for folder in SIMULATED_FOLDERS])
def test_simulated_device_takes_about_as_long_as_published(folder: Path) -> None:
    profile = load_profile(folder)

    for network, expected in TOTALS_MS[profile.name].items():
        assert 0.5 < _predict_ms(profile, network) / expected < 1.6, network


@pytest.mark.parametrize("folder", SIMULATED_FOLDERS, ids=[folder.name for folder in SIMULATED_FOLDERS])
def test_simulated_devices_know_each_other(folder: Path) -> None:
    profile = load_profile(folder)
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
