"""A device without a profile of its own gets one in seconds: a shipped one scaled to it, or an estimate."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from codl.devices.drivers import OpenedDevice
from codl.devices.opencl import Device
from codl.errors import ProfileError
from codl.latency import store
from codl.latency.files import save_profile
from codl.latency.profile import DeviceProfile, Meeting, Neighbour, Origin
from codl.latency.store import borrow, shipped_path, user_path
from codl.machine import DeviceKind
from codl.profiler import first_use
from codl.profiler.first_use import find_profiles
from codl.profiler.sampler import STREAM_BYTES, Readings
from tests.latency.profiles import make_profile

QUICK, START_US = {"compute": 500.0, "memory": 4000.0}, 3.0


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

    def measure(devices: Sequence[Device]) -> list[Readings]:
        asked.extend(device.info.name for device in devices)
        return [Readings(QUICK, START_US) for _ in devices]

    monkeypatch.setattr(first_use, "measure_references", measure)
    return asked


def find_one(device: Device) -> DeviceProfile:
    return find_profiles([device.info])[device.info.name]


def test_references_are_measured_once_and_said(
    device: Device, shipped: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = find_one(device).reference_us

    assert set(first) == {"compute", "memory"}
    assert all(us > 0 for us in first.values())
    assert find_one(device).reference_us == first
    (told,) = [record.getMessage() for record in caplog.records if "codl profile" in record.getMessage()]
    assert told.startswith(f"{device.info.name}: no profile yet")


def test_shipped_profile_is_scaled_by_what_references_take(
    device: Device, relative: DeviceProfile, measured: list[str]
) -> None:
    profile = find_one(device)

    assert profile.origin is Origin.BORROWED
    assert profile == borrow(relative, device.info, QUICK, start_us=START_US)
    assert find_one(device) == profile
    assert measured == [device.info.name]


def test_cpu_drivers_are_scaled_alike(
    devices: tuple[OpenedDevice, ...], shipped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    infos = [replace(opened.info, units=2) for opened in devices[:2] if opened.info.kind is DeviceKind.CPU]
    if len(infos) < 2:
        pytest.skip("one CPU driver")
    neighbour = Neighbour(slowdown=((1.0, 1.0), (1.0, 1.0)))
    monkeypatch.setattr(first_use, "_recall_neighbours", lambda one, other: (neighbour, neighbour))
    for info in infos:
        save_profile(make_profile(info), shipped_path(info))
    usual = make_profile(infos[0]).reference_us
    readings = [Readings({kind: us * factor for kind, us in usual.items()}, 0.0) for factor in (2.0, 4.5)]
    monkeypatch.setattr(first_use, "measure_references", lambda devices: readings)

    found = find_profiles(infos)

    assert [profile.reference_us for profile in found.values()] == [
        pytest.approx({kind: 3.0 * us for kind, us in usual.items()})
    ] * 2


def test_device_without_a_shipped_profile_is_estimated(
    device: Device, shipped: Path, measured: list[str]
) -> None:
    profile = find_one(device)

    assert profile.origin is Origin.ESTIMATED
    assert profile.info == device.info
    assert profile.reference_us == QUICK
    assert profile.bandwidth_bytes_per_us == STREAM_BYTES / QUICK["memory"]
    assert profile.rows == {}
    assert find_one(device) == profile
    assert measured == [device.info.name]


def test_own_profile_is_taken_as_it_is(device: Device, relative: DeviceProfile, measured: list[str]) -> None:
    own = make_profile(device.info)
    save_profile(own, user_path(device.info))

    assert find_one(device) == own
    assert measured == []


def test_own_profile_that_is_broken_is_an_error(device: Device, relative: DeviceProfile) -> None:
    user_path(device.info).parent.mkdir(parents=True)
    user_path(device.info).write_text("[", encoding="utf-8")

    with pytest.raises(ProfileError, match="run `codl profile`"):
        find_one(device)


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
        ("start_us", -1),
        ("device", {"driver": "another"}),
    ],
)
def test_damaged_references_are_measured_again(
    device: Device, relative: DeviceProfile, measured: list[str], damage: str | tuple[str, object]
) -> None:
    find_one(device)
    path = user_path(device.info).parent / "references.json"
    sound = path.read_text()
    changed = damage if isinstance(damage, str) else json.dumps({**json.loads(sound), damage[0]: damage[1]})
    path.write_text(changed, encoding="utf-8")

    assert find_one(device).reference_us == QUICK
    assert path.read_text() == sound
    assert len(measured) == 2


def test_cache_that_cannot_be_written_is_no_error(
    device: Device, relative: DeviceProfile, measured: list[str]
) -> None:
    user_path(device.info).parent.parent.mkdir(parents=True)
    user_path(device.info).parent.write_text("in the way", encoding="utf-8")

    assert find_one(device).origin is Origin.BORROWED


def test_devices_that_never_met_are_measured_together(
    devices: tuple[OpenedDevice, ...], shipped: Path
) -> None:
    infos = [opened.info for opened in devices[:2]]
    if len(infos) < 2:
        pytest.skip("one device")
    for info in infos:
        save_profile(replace(make_profile(info), neighbours={}), user_path(info))

    found = find_profiles(infos)

    names = [info.name for info in infos]
    for name, other in (names, names[::-1]):
        meeting = found[name].neighbours[other].meeting
        assert meeting is not None
        assert meeting.median_us > 0


@pytest.mark.parametrize(("p95_us", "measurements"), [(90.0, 1), (9000.0, 2)])
def test_what_other_programs_disturbed_is_measured_again_by_the_next_process(
    devices: tuple[OpenedDevice, ...],
    shipped: Path,
    monkeypatch: pytest.MonkeyPatch,
    p95_us: float,
    measurements: int,
) -> None:
    infos = [opened.info for opened in devices[:2]]
    if len(infos) < 2:
        pytest.skip("one device")
    for info in infos:
        save_profile(replace(make_profile(info), neighbours={}), user_path(info))
    meeting = Meeting(median_us=30.0, p95_us=p95_us, samples=200)
    neighbour, made = Neighbour(slowdown=((1.0, 1.0), (1.0, 1.0)), meeting=meeting), []

    def measure(first: Device, second: Device, *, seconds: float) -> tuple[Neighbour, Neighbour]:
        made.append((first, second))
        return neighbour, neighbour

    monkeypatch.setattr(first_use, "measure_neighbours", measure)
    monkeypatch.setattr(first_use, "_disturbed", {})

    found = [find_profiles(infos), find_profiles(infos)]

    assert len(made) == 1
    monkeypatch.setattr(first_use, "_disturbed", {})  # as another process begins
    found.append(find_profiles(infos))
    assert len(made) == measurements
    assert all(profile.neighbours for one in found for profile in one.values())


def test_devices_without_any_profile_have_one_each(
    devices: tuple[OpenedDevice, ...], shipped: Path, measured: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    infos = [opened.info for opened in devices[:2]]
    neighbour = Neighbour(slowdown=((1.0, 1.0), (1.0, 1.0)))
    monkeypatch.setattr(first_use, "_recall_neighbours", lambda one, other: (neighbour, neighbour))

    found = find_profiles(infos)

    assert list(found) == [info.name for info in infos]
    assert {profile.origin for profile in found.values()} == {Origin.ESTIMATED}
