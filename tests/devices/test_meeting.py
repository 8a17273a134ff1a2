"""Meetings: everyone is fed before anyone is waited for, slowest to start first."""

from dataclasses import replace

from codl.devices.meeting import Turn, take_turns
from tests.catalog.nodes import device_info

INFOS = [replace(device_info(8), driver=driver) for driver in ("intel", "pocl", "nobody-knows")]


def test_slowest_to_start_is_fed_first() -> None:
    turns = list(take_turns(INFOS, fed=[0, 1, 2], awaited=[0, 2]))

    assert turns == [
        (Turn.FEED, 2),
        (Turn.FEED, 1),
        (Turn.FEED, 0),
        (Turn.WAIT, 0),
        (Turn.WAIT, 2),
    ]


def test_idle_devices_are_not_fed() -> None:
    assert list(take_turns(INFOS, fed=[0], awaited=[1])) == [(Turn.FEED, 0), (Turn.WAIT, 1)]
