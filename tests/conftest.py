"""Tests run under the emulated pair; `CODL_TEST_DEVICES=all`, or names with commas, tests without it.

Drivers compile for most of the time in some rooms, so of the many cases of a test there a sample runs by
default, the same one each time. All of them run with `-m "heavy or not heavy"`.
"""

import os
from collections import defaultdict
from hashlib import blake2s

import pytest

from tests.processes import CACHE

CHOSEN = os.environ.get("CODL_TEST_DEVICES", "")
if not CHOSEN:
    os.environ["CODL_EMULATE_PAIR"] = "1"
# What the user has tuned or kept decides nothing here; what tests compile is kept for the next time.
os.environ.setdefault("CODL_CACHE_DIR", str(CACHE))
os.environ.setdefault("CODL_WARM_UP", "block")

from codl.devices.drivers import OpenedDevice, find_device, load  # noqa: E402
from codl.devices.meeting import can_signal  # noqa: E402
from codl.devices.opencl import Device, open_devices  # noqa: E402
from codl.devices.probe import find_fault  # noqa: E402
from tests.exactness import DEVICES  # noqa: E402

SAMPLES = {"tests/kernels/": 60, "tests/executor/": 6, "tests/catalog/test_table.py::test_compiles_alone": 25}
"""By how ids of tests begin: of how many cases of a test one runs."""
_LEAST_CASES = 2
"""Of a test, that run at least."""
_NETWORKS = ("mobilenet_v2", "fast_style_transfer")
"""Of the networks that tests have as a parameter, those that count as a sample."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is more than a sample as heavy."""
    groups: dict[tuple[str, str], list[pytest.Item]] = defaultdict(list)
    for item in items:
        start = next((start for start in SAMPLES if item.nodeid.startswith(start)), None)
        if start is None or not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
            continue
        if item.callspec.params.get("network", _NETWORKS[0]) in _NETWORKS:
            groups[start, item.nodeid.partition("[")[0]].append(item)
        else:
            item.add_marker("heavy")
    for (start, _), cases in groups.items():
        cases.sort(key=lambda item: blake2s(item.nodeid.encode()).digest())
        for item in cases[max(_LEAST_CASES, len(cases) // SAMPLES[start]) :]:
            item.add_marker("heavy")


@pytest.fixture
def no_shipped_profiles(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Let no profile ship with codl, as on a machine that none is of."""
    monkeypatch.setattr("codl.latency.store.profiles_dir", lambda: tmp_path_factory.mktemp("shipped"))


@pytest.fixture(scope="session")
def devices() -> tuple[OpenedDevice, ...]:
    """Every OpenCL device that works, or those that CODL_TEST_DEVICES names."""
    if CHOSEN not in {"", "all"}:
        return tuple(find_device(name) for name in CHOSEN.split(","))
    return tuple(opened for opened in load() if find_fault(opened.cl_device) is None)


@pytest.fixture
def signallers() -> tuple[Device, ...]:
    """The devices that networks are split over, if they can wait for each other."""
    opened = open_devices(DEVICES)
    if not can_signal([device.info for device in opened]):
        pytest.skip("devices that cannot wait for each other")
    return opened
