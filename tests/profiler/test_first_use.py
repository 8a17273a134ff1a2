"""A device without a profile borrows one in seconds."""

from dataclasses import replace
from pathlib import Path

import pytest

from codl.devices.drivers import OpenedDevice
from codl.devices.opencl import Device
from codl.latency import store
from codl.latency.files import save_profile
from codl.latency.profile import Origin
from codl.latency.store import user_folder
from codl.profiler.first_use import find_or_borrow, find_profiles, measure_references
from tests.latency.profiles import make_profile


@pytest.fixture
def shipped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(store, "profiles_dir", lambda: tmp_path)
    return tmp_path


def test_without_any_profile_there_is_none(device: Device, shipped: Path) -> None:
    assert find_or_borrow(device.info) is None


def test_relative_is_scaled_by_what_the_references_take(device: Device, shipped: Path) -> None:
    save_profile(make_profile(replace(device.info, device_name="another", units=7)), shipped / "another")

    profile = find_or_borrow(device.info)

    assert profile is not None
    assert profile.origin is Origin.BORROWED
    assert profile.reference_us == measure_references(device)


def test_own_profile_is_taken_as_it_is(device: Device, shipped: Path) -> None:
    own = make_profile(device.info)
    save_profile(own, user_folder(device.info))

    assert find_or_borrow(device.info) == own


def test_references_are_measured_once(device: Device) -> None:
    first = measure_references(device)

    assert measure_references(device) == first
    assert all(value > 0 for value in first.values())


@pytest.mark.parametrize("text", ["", "[", "[]", '{"device": 1}', '{"reference_us": {"compute": NaN}}'])
def test_damaged_references_are_measured_again(device: Device, text: str) -> None:
    measure_references(device)
    path = user_folder(device.info) / "reference.json"
    path.write_text(text)

    assert all(value > 0 for value in measure_references(device).values())


def test_devices_that_never_met_are_measured_together_once(
    devices: tuple[OpenedDevice, ...], shipped: Path
) -> None:
    infos = [opened.info for opened in devices[:2]]
    if len(infos) < 2:
        pytest.skip("one device")
    for info in infos:
        save_profile(replace(make_profile(info), neighbours={}), user_folder(info))

    first = find_profiles(infos)
    again = find_profiles(infos)

    names = [info.name for info in infos]
    for name, other in (names, names[::-1]):
        meeting = first[name].neighbours[other].meeting
        assert meeting is not None
        assert meeting.median_us > 0
        assert again[name].neighbours[other].meeting == meeting


def test_devices_without_profiles_are_left_out(device: Device, shipped: Path) -> None:
    assert find_profiles([device.info]) == {}
