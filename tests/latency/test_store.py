"""Which profile a device gets: the user's own, a shipped one scaled to it; never one of another driver."""

from dataclasses import replace
from pathlib import Path

import pytest

from codl.errors import ProfileError
from codl.latency import store
from codl.latency.features import FLOPS, MEMORY_FEATURES
from codl.latency.files import save_profile
from codl.latency.linear import LinearModel
from codl.latency.profile import DeviceKey, DeviceProfile, Origin
from codl.latency.store import (
    borrow,
    estimate,
    find_profile,
    find_profile_named,
    find_shipped,
    shipped_path,
    user_path,
)
from codl.machine import DeviceKind
from tests.catalog.nodes import device_info
from tests.latency.profiles import make_profile

INFO = device_info(8)
ROW = "conv2d_gemm__buffer"
QUICK = {"compute": 500.0, "memory": 4000.0}
"""Half and twice of what the profile of tests says."""


@pytest.fixture
def shipped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty cache, and a folder of shipped profiles."""
    monkeypatch.setenv("CODL_CACHE_DIR", str(tmp_path / "cache"))
    folder = tmp_path / "profiles"
    folder.mkdir()
    monkeypatch.setattr(store, "profiles_dir", lambda: folder)
    return folder


def make_gpu() -> DeviceProfile:
    """Return a profile of a GPU of sixteen units."""
    return make_profile(replace(INFO, name="test-gpu", kind=DeviceKind.GPU, units=16))


def test_a_part_has_a_profile_of_its_own(shipped: Path) -> None:
    gpu, part = make_gpu(), make_profile(make_gpu().info.limit(4))
    save_profile(gpu, user_path(gpu.info))

    assert find_profile(part.info) is None

    save_profile(part, user_path(part.info))

    assert find_profile(gpu.info) == gpu
    assert find_profile(part.info) == part
    assert find_profile_named("test-gpu:4") == part


def test_a_part_by_name_has_the_profile_of_the_device_scaled(shipped: Path) -> None:
    gpu = make_gpu()
    save_profile(gpu, shipped / "test" / "gpu.json")

    part = find_profile_named("test-gpu:4")

    assert part is not None
    assert (part.name, part.info.units, part.origin) == ("test-gpu:4", 4, Origin.BORROWED)
    assert part.bandwidth_bytes_per_us == gpu.bandwidth_bytes_per_us / 4
    assert part.rows == gpu.rows  # of each unit
    assert (part.sharing, part.neighbours) == (gpu.sharing, gpu.neighbours)
    assert find_profile_named("test-gpu:16") == gpu
    assert find_profile_named("other-gpu:4") is None


def test_the_second_of_a_name_has_the_profile_of_the_first(shipped: Path) -> None:
    gpu = make_gpu()
    save_profile(gpu, shipped / "test" / "gpu.json")

    second, part = find_profile_named("test-gpu-2"), find_profile_named("test-gpu-2:4")

    assert second == replace(gpu, info=replace(gpu.info, name="test-gpu-2"))
    assert part is not None
    assert (part.name, part.info.units) == ("test-gpu-2:4", 4)


def make_anonymous(vector_width: int, kind: DeviceKind = DeviceKind.CPU) -> DeviceProfile:
    """Return a profile as it ships: of one unit of a device without a name."""
    return make_profile(
        replace(INFO, device_name="", processor="", units=1, vector_width=vector_width, kind=kind)
    )


def test_no_profile_is_none(shipped: Path) -> None:
    assert find_profile(INFO) is None
    assert find_shipped(INFO) is None
    assert find_profile_named(INFO.name) is None


def test_own_profile_is_found(shipped: Path) -> None:
    save_profile(make_profile(INFO), user_path(INFO))

    assert find_profile(INFO) == make_profile(INFO)
    assert find_profile_named(INFO.name) == make_profile(INFO)


def test_own_profile_with_changed_kernels_is_used_as_it_is(shipped: Path) -> None:
    fresh = make_profile(INFO)
    own = fresh.with_rows({ROW: replace(fresh.rows[ROW], digest="older")})
    save_profile(own, user_path(INFO))
    save_profile(make_anonymous(8), shipped_path(INFO))

    assert find_profile(INFO) == own
    assert own.find_stale() == (ROW,)


def test_own_profile_of_another_driver_is_an_error(shipped: Path) -> None:
    save_profile(make_profile(replace(INFO, driver_version="0.9")), user_path(INFO))

    with pytest.raises(ProfileError, match=r"driver_version '0.9'.*codl profile --device test-cpu"):
        find_profile(INFO)


def test_own_profile_of_an_older_schema_is_an_error_with_the_command(shipped: Path) -> None:
    user_path(INFO).parent.mkdir(parents=True)
    user_path(INFO).write_text('{"schema": 1}', encoding="utf-8")

    with pytest.raises(ProfileError, match=r"schema 1 instead of 2.*remove it and run `codl profile`"):
        find_profile(INFO)


def test_generations_of_one_name_are_told_apart_where_both_are_known(shipped: Path) -> None:
    known, other = (replace(INFO, generation=generation) for generation in ("25.17", "26.2"))
    save_profile(make_profile(known), user_path(INFO))
    save_profile(make_profile(known), user_path(other))

    assert find_profile(INFO) == make_profile(known)
    with pytest.raises(ProfileError, match=r"generation '25\.17', expected '26\.2'"):
        find_profile(other)


@pytest.mark.parametrize(("vector_width", "name"), [(4, "sse"), (8, "avx2"), (16, "avx512"), (2, "v2")])
def test_shipped_profiles_are_named_by_driver_and_instruction_set(vector_width: int, name: str) -> None:
    path = shipped_path(device_info(vector_width))

    assert (path.parent.name, path.name) == ("test", f"{name}.json")
    gpu = shipped_path(replace(device_info(vector_width), kind=DeviceKind.GPU))
    assert (gpu.parent.name, gpu.name) == ("test", "gpu.json")


def test_shipped_profile_has_the_same_driver_and_instruction_set(shipped: Path) -> None:
    for width in (4, 8, 16):
        save_profile(make_anonymous(width), shipped_path(device_info(width)))
    found = [find_shipped(device_info(width)) for width in (4, 8, 16)]

    assert [one and one.info.vector_width for one in found] == [4, 8, 16]
    assert find_shipped(replace(INFO, driver="other")) is None


def test_shipped_profile_of_another_instruction_set_will_do_but_not_of_another_kind(shipped: Path) -> None:
    gpu = replace(INFO, kind=DeviceKind.GPU)
    save_profile(make_anonymous(8, DeviceKind.GPU), shipped_path(gpu))
    assert find_shipped(INFO) is None

    save_profile(make_anonymous(16), shipped_path(device_info(16)))

    found = find_shipped(INFO)
    assert found is not None
    assert (found.info.vector_width, found.info.kind) == (16, DeviceKind.CPU)


def test_profiles_that_ship_are_found_by_name(shipped: Path) -> None:
    simulated = replace(make_profile(INFO), origin=Origin.SIMULATED)
    save_profile(simulated, shipped / "simulated" / "one.json")
    (shipped / "simulated" / "broken.json").write_text("{", encoding="utf-8")

    assert find_profile_named(INFO.name) == simulated
    save_profile(make_profile(INFO), user_path(INFO))
    assert find_profile_named(INFO.name) == make_profile(INFO)


def test_of_several_profiles_of_a_name_that_for_the_widest_vectors_counts(shipped: Path) -> None:
    for width in (16, 4, 8):
        save_profile(make_anonymous(width), shipped_path(device_info(width)))

    found = find_profile_named(INFO.name)

    assert found is not None
    assert found.info.vector_width == 16


def test_borrowed_profile_is_scaled_by_the_references() -> None:
    relative = make_profile(replace(INFO, device_name="another"))

    borrowed = borrow(relative, INFO, QUICK, start_us=4.0)

    assert borrowed.origin is Origin.BORROWED
    assert borrowed.key == DeviceKey.of(INFO)
    assert borrowed.reference_us == QUICK
    assert borrowed.bandwidth_bytes_per_us == relative.bandwidth_bytes_per_us / 2
    assert borrowed.launch_us == relative.launch_us / 2 + 4
    assert borrowed.neighbours == {}
    row, old = borrowed.rows[ROW], relative.rows[ROW]
    assert (row.digest, row.quality, row.flop_us) == (old.digest, old.quality, old.flop_us / 2)


@pytest.mark.parametrize(("units", "growth"), [(1, 1.0), (4, 4.0)])
def test_memory_is_shared_by_the_units_of_a_device(units: int, growth: float) -> None:
    """Bytes of the busiest unit take longer where others read as well, at the same bandwidth of all."""
    memory = dict.fromkeys(MEMORY_FEATURES, 1e-4)
    model = LinearModel({"launches": 2.0, FLOPS: 1e-5, "products": 1e-4, **memory})
    one = make_anonymous(8)
    shipped = one.with_rows({ROW: replace(one.rows[ROW], model=model)})
    info = replace(INFO, units=units)

    found = borrow(shipped, info, {"compute": 500.0, "memory": 2000.0})

    coefficients = found.rows[ROW].model.coefficients
    assert [coefficients[name] for name in MEMORY_FEATURES] == pytest.approx([1e-4 * growth] * len(memory))
    assert [coefficients[name] for name in ("launches", FLOPS, "products")] == pytest.approx(
        [1.0, 0.5e-5, 0.5e-4]
    )
    assert found.info == info


def test_faster_memory_of_more_units_takes_as_long_for_each() -> None:
    one = make_anonymous(8)

    found = borrow(one, INFO, {"compute": 1000.0, "memory": 500.0})

    old, new = one.rows[ROW].model.coefficients, found.rows[ROW].model.coefficients
    assert INFO.units == 4
    assert new == pytest.approx(old)
    assert found.bandwidth_bytes_per_us == 4 * one.bandwidth_bytes_per_us


@pytest.mark.parametrize("missing", ["compute", "memory"])
def test_profile_without_references_cannot_be_borrowed(missing: str) -> None:
    less = {name: us for name, us in QUICK.items() if name != missing}

    with pytest.raises(ProfileError, match=f"no reference .*{missing}"):
        borrow(replace(make_profile(INFO), reference_us=less), INFO, QUICK)
    with pytest.raises(ProfileError, match=f"no reference .*{missing}"):
        borrow(make_profile(INFO), INFO, less)


@pytest.mark.parametrize("kind", DeviceKind)
def test_estimated_profile_knows_the_references_and_no_kernel(kind: DeviceKind) -> None:
    info = replace(INFO, kind=kind)

    found = estimate(info, QUICK, bandwidth_bytes_per_us=1e4)

    assert (found.origin, found.info, found.reference_us) == (Origin.ESTIMATED, info, QUICK)
    assert found.rows == {}
    assert 0 < found.launch_us < found.wait_us
