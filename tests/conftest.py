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

from codl.devices.drivers import OpenedDevice, find_device, load  # noqa: E402
from codl.devices.meeting import can_signal  # noqa: E402
from codl.devices.opencl import Device, open_devices  # noqa: E402
from codl.devices.probe import find_fault  # noqa: E402
from tests.exactness import DEVICES  # noqa: E402

SAMPLES = {
    "tests/kernels/": (2, 25),
    "tests/executor/": (2, 4),
    "tests/catalog/test_table.py::test_compiles_alone": (2, 6),
}
"""By how ids of tests begin: how many cases of a test on a device run at least, and of how many one runs."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is more than a sample as heavy."""
    groups: dict[tuple[str, str, object], list[pytest.Item]] = defaultdict(list)
    for item in items:
        start = next((start for start in SAMPLES if item.nodeid.startswith(start)), None)
        if start is not None and isinstance(item, pytest.Function) and hasattr(item, "callspec"):
            groups[start, item.nodeid.partition("[")[0], item.callspec.params.get("device")].append(item)
    for (start, _, _), cases in groups.items():
        least, sampled = SAMPLES[start]
        cases.sort(key=lambda item: blake2s(item.nodeid.encode()).digest())
        for item in cases[max(least, len(cases) // sampled) :]:
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
