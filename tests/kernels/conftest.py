"""Kernel tests run once for each OpenCL device: a test asks for `device`.

Drivers compile for most of their time, so of the many cases of a test a sample runs by default, the same one
each time. All of them run with `-m "heavy or not heavy"`.
"""

from collections import defaultdict
from hashlib import blake2s
from pathlib import Path

import pytest

from codl.devices.drivers import load
from codl.devices.opencl import Device, open_device
from codl.devices.probe import find_fault
from tests.conftest import CHOSEN

_LEAST_CASES, _SAMPLED = 4, 12
"""Cases of a test on a device that run by default: one of so many, and so many at least."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    groups: dict[tuple[str, object], list[pytest.Item]] = defaultdict(list)
    for item in items:
        if isinstance(item, pytest.Function) and item.path.is_relative_to(Path(__file__).parent):
            device = item.callspec.params.get("device") if hasattr(item, "callspec") else None
            groups[item.nodeid.partition("[")[0], device].append(item)
    for cases in groups.values():
        cases.sort(key=lambda item: blake2s(item.nodeid.encode()).digest())
        for item in cases[max(_LEAST_CASES, len(cases) // _SAMPLED) :]:
            item.add_marker("heavy")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "device" in metafunc.fixturenames:
        metafunc.parametrize("device", _device_names(), indirect=True)


@pytest.fixture(scope="session")
def device(request: pytest.FixtureRequest) -> Device:
    """One OpenCL device, opened."""
    return open_device(request.param)


def _device_names() -> list[str]:
    if CHOSEN not in {"", "all"}:
        return CHOSEN.split(",")
    return [opened.info.name for opened in load() if find_fault(opened.cl_device) is None]
