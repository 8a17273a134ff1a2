"""A device without a profile borrows one in seconds."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from codl.devices.drivers import OpenedDevice
from codl.devices.opencl import Device
from codl.latency import store
from codl.latency.files import save_profile
from codl.latency.profile import DeviceProfile, Origin
from codl.latency.store import borrow, user_folder
from codl.profiler import calibration
from codl.profiler.first_use import find_or_borrow, find_profiles
from tests.latency.profiles import make_profile

CARRIED = "elementwise_unary__buffer"
"""The kernel that was edited since a profile was made."""


def _damage(path: Path, damage: str | tuple[str, object]) -> dict[str, object]:
    """Write a text over what a file keeps, or a value over one of its values; return what it kept."""
    sound: dict[str, object] = json.loads(path.read_text())
    path.write_text(damage if isinstance(damage, str) else json.dumps({**sound, damage[0]: damage[1]}))
    return sound


@pytest.fixture
def shipped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(store, "profiles_dir", lambda: tmp_path)
    return tmp_path


def test_without_any_profile_there_is_none(device: Device, shipped: Path) -> None:
    assert find_or_borrow(device.info) is None


@pytest.fixture
def relative(device: Device, shipped: Path) -> DeviceProfile:
    profile = make_profile(replace(device.info, device_name="another", units=7))
    save_profile(profile, shipped / "another")
    return profile


def test_relative_is_scaled_by_what_references_and_kernels_take(
    device: Device, relative: DeviceProfile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibration, "_MOST", 4)

    profile = find_or_borrow(device.info)

    assert profile is not None
    assert profile.origin is Origin.BORROWED
    by_references = borrow(relative, device.info, profile.reference_us)
    factors = {
        name: row.model.coefficients[0] / by_references.rows[name].model.coefficients[0]
        for name, row in profile.rows.items()
    }
    assert all(factor > 0 for factor in factors.values())
    distinct = {round(factor, 6) for factor in factors.values()}
    four_rows_and_all_others = 5
    assert len(distinct - {1.0}) == four_rows_and_all_others  # 1: suits no device here


def test_own_profile_is_taken_as_it_is(device: Device, shipped: Path) -> None:
    own = make_profile(device.info)
    save_profile(own, user_folder(device.info))

    assert find_or_borrow(device.info) == own


@pytest.fixture
def in_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out all kernels but the references."""
    monkeypatch.setattr(calibration, "BUDGET_SECONDS", 0.0)


def test_a_device_is_compared_with_a_relative_once(
    device: Device, relative: DeviceProfile, in_a_moment: None, caplog: pytest.LogCaptureFixture
) -> None:
    assert find_or_borrow(device.info) == find_or_borrow(device.info)
    (told,) = [record.getMessage() for record in caplog.records if "codl profile" in record.getMessage()]
    assert "that of another is scaled" in told


@pytest.mark.parametrize(
    "damage",
    [
        "",
        "[",
        "[]",
        '{"device": 1}',
        '{"reference_us": {"compute": NaN}}',
        ("factors", []),
        ("factors", {"conv2d_gemm__buffer": -1}),
        ("reference_us", {}),
        ("relative", "another"),
    ],
)
def test_damaged_comparison_is_made_again(
    device: Device, relative: DeviceProfile, in_a_moment: None, damage: str | tuple[str, object]
) -> None:
    find_or_borrow(device.info)
    path = user_folder(device.info) / "borrowed.json"
    sound = _damage(path, damage)

    profile = find_or_borrow(device.info)

    assert profile is not None
    assert all(value > 0 for value in profile.reference_us.values())
    assert json.loads(path.read_text()).keys() == sound.keys()


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


@pytest.fixture
def carried(device: Device, shipped: Path) -> DeviceProfile:
    """Return a profile that ships, of which one kernel was edited since."""
    profile = make_profile(device.info)
    profile = profile.with_rows({CARRIED: replace(profile.rows[CARRIED], is_carried=True)})
    save_profile(profile, shipped / user_folder(device.info).name)
    return profile


def test_edited_kernels_of_a_shipped_profile_are_measured_once(
    device: Device, carried: DeviceProfile, caplog: pytest.LogCaptureFixture
) -> None:
    settled = find_or_borrow(device.info)

    assert settled is not None
    assert (settled.origin, settled.find_carried()) == (Origin.MEASURED, ())
    old, new = carried.rows[CARRIED], settled.rows[CARRIED]
    factors = {one / two for one, two in zip(new.model.coefficients, old.model.coefficients, strict=True)}
    assert max(factors) == pytest.approx(min(factors))
    assert max(factors) != 1.0
    assert new.find_uncertainty("") >= old.find_uncertainty("")
    others = {name: row for name, row in settled.rows.items() if name != CARRIED}
    assert others == {name: row for name, row in carried.rows.items() if name != CARRIED}
    assert find_or_borrow(device.info) == settled
    (told,) = [record.getMessage() for record in caplog.records if "codl profile" in record.getMessage()]
    assert f"before {CARRIED} changed" in told


def test_edited_kernels_that_nobody_measured_stay_carried(
    device: Device, carried: DeviceProfile, in_a_moment: None
) -> None:
    assert find_or_borrow(device.info) == carried


@pytest.mark.parametrize(
    "damage",
    [
        "",
        "[]",
        ("edits", []),
        ("edits", {CARRIED: 1}),
        ("edits", {CARRIED: {"factor": -1, "doubt": 0}}),
        ("profile", "x"),
    ],
)
def test_damaged_measurement_of_edits_is_made_again(
    device: Device, carried: DeviceProfile, in_a_moment: None, damage: str | tuple[str, object]
) -> None:
    find_or_borrow(device.info)
    path = user_folder(device.info) / "carried.json"
    sound = _damage(path, damage)

    assert find_or_borrow(device.info) == carried
    assert json.loads(path.read_text()) == sound
