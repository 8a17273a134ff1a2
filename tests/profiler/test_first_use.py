"""A device without a profile of its own gets one in seconds: a shipped one scaled to it, or an estimate."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from codl.devices.drivers import OpenedDevice
from codl.devices.opencl import Device
from codl.errors import ProfileError
from codl.latency import store
from codl.latency.files import save_profile
from codl.latency.profile import DeviceProfile, Neighbour, Origin
from codl.latency.store import borrow, shipped_path, user_path
from codl.profiler import first_use
from codl.profiler.first_use import find_or_borrow, find_profiles, recall_references
from codl.profiler.sampler import STREAM_BYTES
from tests.latency.profiles import make_profile

QUICK = {"compute": 500.0, "memory": 4000.0}


@pytest.fixture
def shipped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(store, "profiles_dir", lambda: tmp_path)
    return tmp_path


@pytest.fixture
def relative(device: Device, shipped: Path) -> DeviceProfile:
    """Return the profile that ships for the device's driver."""
    profile = make_profile(replace(device.info, device_name="", units=7))
    save_profile(profile, shipped_path(device.info))
    return profile


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let reference kernels take what they take at no device; return the devices that were asked."""
    asked: list[str] = []

    def measure(device: Device) -> dict[str, float]:
        asked.append(device.info.name)
        return dict(QUICK)

    monkeypatch.setattr(first_use, "measure_references", measure)
    return asked


def test_references_are_measured_once_and_said(
    device: Device, shipped: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = recall_references(device.info)

    assert set(first) == {"compute", "memory"}
    assert all(us > 0 for us in first.values())
    assert recall_references(device.info) == first
    (told,) = [record.getMessage() for record in caplog.records if "codl profile" in record.getMessage()]
    assert told.startswith(f"{device.info.name}: no profile yet")


def test_shipped_profile_is_scaled_by_what_references_take(
    device: Device, relative: DeviceProfile, measured: list[str]
) -> None:
    profile = find_or_borrow(device.info)

    assert profile.origin is Origin.BORROWED
    assert profile == borrow(relative, device.info, QUICK)
    assert find_or_borrow(device.info) == profile
    assert measured == [device.info.name]


def test_device_without_a_shipped_profile_is_estimated(
    device: Device, shipped: Path, measured: list[str]
) -> None:
    profile = find_or_borrow(device.info)

    assert profile.origin is Origin.ESTIMATED
    assert profile.info == device.info
    assert profile.reference_us == QUICK
    assert profile.bandwidth_bytes_per_us == STREAM_BYTES / QUICK["memory"]
    assert profile.rows == {}
    assert find_or_borrow(device.info) == profile
    assert measured == [device.info.name]


def test_own_profile_is_taken_as_it_is(device: Device, relative: DeviceProfile, measured: list[str]) -> None:
    own = make_profile(device.info)
    save_profile(own, user_path(device.info))

    assert find_or_borrow(device.info) == own
    assert measured == []


def test_own_profile_that_is_broken_is_an_error(device: Device, relative: DeviceProfile) -> None:
    user_path(device.info).parent.mkdir(parents=True)
    user_path(device.info).write_text("[", encoding="utf-8")

    with pytest.raises(ProfileError, match="run `codl profile`"):
        find_or_borrow(device.info)


@pytest.mark.parametrize(
    "damage",
    [
        "",
        "[",
        "[]",
        "[" * 100_000,
        '{"device": 1}',
        '{"reference_us": {"compute": NaN}}',
        ("reference_us", {"compute": -1}),
        ("reference_us", {"compute": "1"}),
        ("reference_us", []),
        ("device", {"driver": "another"}),
    ],
)
def test_damaged_references_are_measured_again(
    device: Device, relative: DeviceProfile, measured: list[str], damage: str | tuple[str, object]
) -> None:
    find_or_borrow(device.info)
    path = user_path(device.info).parent / "references.json"
    sound = path.read_text()
    changed = damage if isinstance(damage, str) else json.dumps({**json.loads(sound), damage[0]: damage[1]})
    path.write_text(changed, encoding="utf-8")

    assert find_or_borrow(device.info).reference_us == QUICK
    assert path.read_text() == sound
    assert len(measured) == 2


def test_cache_that_cannot_be_written_is_no_error(
    device: Device, relative: DeviceProfile, measured: list[str]
) -> None:
    user_path(device.info).parent.parent.mkdir(parents=True)
    user_path(device.info).parent.write_text("in the way", encoding="utf-8")

    assert find_or_borrow(device.info).origin is Origin.BORROWED


def test_devices_that_never_met_are_measured_together_once(
    devices: tuple[OpenedDevice, ...], shipped: Path
) -> None:
    infos = [opened.info for opened in devices[:2]]
    if len(infos) < 2:
        pytest.skip("one device")
    for info in infos:
        save_profile(replace(make_profile(info), neighbours={}), user_path(info))

    first = find_profiles(infos)
    again = find_profiles(infos)

    names = [info.name for info in infos]
    for name, other in (names, names[::-1]):
        meeting = first[name].neighbours[other].meeting
        assert meeting is not None
        assert meeting.median_us > 0
        assert again[name].neighbours[other].meeting == meeting


def test_devices_without_any_profile_have_one_each(
    devices: tuple[OpenedDevice, ...], shipped: Path, measured: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    infos = [opened.info for opened in devices[:2]]
    neighbour = Neighbour(slowdown=((1.0, 1.0), (1.0, 1.0)))
    monkeypatch.setattr(first_use, "_recall_neighbours", lambda one, other: (neighbour, neighbour))

    found = find_profiles(infos)

    assert list(found) == [info.name for info in infos]
    assert {profile.origin for profile in found.values()} == {Origin.ESTIMATED}
