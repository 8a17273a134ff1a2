"""Measuring tests use one device, and a cache of their own."""

from pathlib import Path

import pytest

from codl.devices.drivers import OpenedDevice
from codl.devices.opencl import Device, open_device


@pytest.fixture(scope="session")
def device(devices: tuple[OpenedDevice, ...]) -> Device:
    """The first device."""
    return open_device(devices[0].info.name)


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Keep profiles away from the user's."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("CODL_CACHE_DIR", str(folder))
    return folder
