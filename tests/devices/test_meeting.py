"""Meetings: devices that are slow to start are started first."""

from dataclasses import replace

from codl.devices.meeting import start_order
from tests.catalog.nodes import device_info

INFOS = [replace(device_info(8), driver=driver) for driver in ("intel", "pocl", "nobody-knows")]


def test_slowest_to_start_is_fed_first() -> None:
    assert start_order(INFOS) == (2, 1, 0)
