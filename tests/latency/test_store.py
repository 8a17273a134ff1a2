"""Which profile a device gets: its own, a shipped one, a relative's; never one of another driver unasked."""

from dataclasses import replace
from pathlib import Path

import pytest

from codl.catalog.table import IMPLEMENTATIONS
from codl.errors import ProfileError
from codl.latency import store
from codl.latency.files import save_profile
from codl.latency.profile import DeviceKey, Origin
from codl.latency.store import borrow, find_profile, find_relative, user_folder
from tests.catalog.nodes import device_info
from tests.latency.profiles import make_profile

INFO = device_info(8)
QUICK = {"compute": 500.0, "memory": 4000.0}


@pytest.fixture
def shipped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty cache, and a folder of shipped profiles."""
    monkeypatch.setenv("CODL_CACHE_DIR", str(tmp_path / "cache"))
    folder = tmp_path / "profiles"
    folder.mkdir()
    monkeypatch.setattr(store, "profiles_dir", lambda: folder)
    return folder


def test_no_profile_is_none(shipped: Path) -> None:
    assert find_profile(INFO) is None
    assert find_relative(INFO) is None


def test_own_profile_wins_over_the_shipped_one(shipped: Path) -> None:
    own = replace(make_profile(INFO), wait_us=99.0)
    save_profile(make_profile(INFO), shipped / user_folder(INFO).name)
    assert find_profile(INFO) == make_profile(INFO)

    save_profile(own, user_folder(INFO))

    assert find_profile(INFO) == own


def test_changed_kernels_are_predicted_as_shipped(shipped: Path) -> None:
    fresh = make_profile(INFO)
    save_profile(fresh, shipped / user_folder(INFO).name)
    changed, lost, *_ = (row.name for row in IMPLEMENTATIONS if row.suits(INFO))
    rows = {name: row for name, row in fresh.rows.items() if name != lost}
    rows[changed] = replace(rows[changed], digest="older")
    own = replace(fresh, wait_us=99.0, rows=rows)
    assert set(own.find_stale()) == {changed, lost}
    save_profile(own, user_folder(INFO))

    assert find_profile(INFO) == replace(fresh, wait_us=99.0)


def test_own_profile_of_another_driver_is_an_error(shipped: Path) -> None:
    save_profile(make_profile(replace(INFO, driver_version="0.9")), user_folder(INFO))

    with pytest.raises(ProfileError, match=r"driver_version '0.9'.*codl profile --device test-cpu"):
        find_profile(INFO)


def test_shipped_profile_of_another_driver_is_a_relative(shipped: Path) -> None:
    save_profile(make_profile(replace(INFO, driver_version="0.9")), shipped / user_folder(INFO).name)

    assert find_profile(INFO) is None
    relative = find_relative(INFO)
    assert relative is not None
    assert relative.key.driver_version == "0.9"


def test_generations_of_one_name_are_told_apart_where_both_are_known(shipped: Path) -> None:
    save_profile(make_profile(replace(INFO, generation="25.17")), shipped / user_folder(INFO).name)

    found = find_profile(replace(INFO, generation="25.17"))

    assert found is not None
    assert found.key.generation == found.info.generation == "25.17"
    assert find_profile(replace(INFO, generation="26.2")) is None
    assert find_profile(INFO) == found


def test_generations_of_one_name_have_shipped_profiles_each(shipped: Path) -> None:
    name = user_folder(INFO).name
    save_profile(make_profile(INFO), shipped / name)
    save_profile(make_profile(replace(INFO, generation="6.167")), shipped / f"{name}_g6-167")

    found = [find_profile(replace(INFO, generation=generation)) for generation in ("6.167", "6.207", "")]

    assert [profile and profile.info.generation for profile in found] == ["6.167", "", ""]


def test_relative_has_the_same_driver_and_kind_and_the_nearest_width(shipped: Path) -> None:
    for name, info in (
        ("a", replace(INFO, driver="other")),
        ("b", replace(INFO, vector_width=16, device_name="b")),
        ("c", replace(INFO, units=64, device_name="c")),
        ("d", replace(INFO, units=6, device_name="d")),
    ):
        save_profile(make_profile(info), shipped / name)

    relative = find_relative(replace(INFO, device_name="mine"))

    assert relative is not None
    assert relative.key.device_name == "d"


def test_relative_is_the_same_processor_where_one_is_known(shipped: Path) -> None:
    for name, generation, units in (("a", "25.17", 2), ("mine", "25.1", 1), ("mine", "25.17", 1)):
        info = replace(INFO, device_name=name, generation=generation, units=units)
        save_profile(make_profile(info), shipped / f"{name}-{generation}")

    relative = find_relative(replace(INFO, device_name="mine", generation="25.17", units=2))

    assert relative is not None
    assert (relative.key.device_name, relative.key.generation) == ("mine", "25.17")


def test_borrowed_profile_is_scaled_by_the_references() -> None:
    relative = make_profile(replace(INFO, device_name="another"))

    borrowed = borrow(relative, INFO, QUICK)

    model = borrowed.rows["conv2d_gemm__buffer"].model
    assert borrowed.origin is Origin.BORROWED
    assert borrowed.key == DeviceKey.of(INFO)
    assert model.features[:2] == ("launches", "written")
    assert model.coefficients == pytest.approx((1.0, 2e-3) * (len(model.coefficients) // 2))
    assert borrowed.bandwidth_bytes_per_us == relative.bandwidth_bytes_per_us / 2
    assert borrowed.launch_us == relative.launch_us / 2
    assert borrowed.neighbours == {}


def test_borrowed_profile_is_scaled_by_what_single_kernels_take_too() -> None:
    relative = make_profile(replace(INFO, device_name="another"))

    plain, scaled = borrow(relative, INFO, QUICK), borrow(relative, INFO, QUICK, {"conv2d_gemm__buffer": 3.0})

    one, other = (profile.rows["conv2d_gemm__buffer"].model.coefficients for profile in (plain, scaled))
    assert other == pytest.approx([3 * value for value in one])
    assert plain.rows["softmax_rows__buffer"] == scaled.rows["softmax_rows__buffer"]


def test_profile_without_references_cannot_be_borrowed() -> None:
    with pytest.raises(ProfileError, match="no reference"):
        borrow(replace(make_profile(INFO), reference_us={}), INFO, QUICK)
