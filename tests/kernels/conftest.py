"""Kernel tests run once for each OpenCL device: a test asks for `device`."""

import pytest

from codl.devices.drivers import load
from codl.devices.opencl import Device, open_device
from codl.devices.probe import find_fault
from tests.conftest import CHOSEN


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "device" in metafunc.fixturenames:
        metafunc.parametrize("device", _device_names(), indirect=True)


@pytest.fixture(scope="session")
def device(request: pytest.FixtureRequest) -> Device:
    """One OpenCL device, opened."""
    opened = open_device(request.param)
    # It is a GPU: as one too small for groups it runs all rows.
    return opened.with_facts(local_memory_bytes=1 << 15) if opened.info.driver == "oclgrind" else opened


def _device_names() -> list[str]:
    if CHOSEN not in {"", "all"}:
        return CHOSEN.split(",")
    return [opened.info.name for opened in load() if find_fault(opened.cl_device) is None]
