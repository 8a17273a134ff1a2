"""Profiles survive their files unchanged, and no file can hold anything but a sane profile."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from codl.errors import ProfileError
from codl.latency.files import PROFILE_FILE, load_profile, save_profile
from codl.latency.linear import LinearModel
from codl.latency.profile import Origin
from tests.catalog.nodes import device_info
from tests.latency.profiles import make_profile

ROW = "conv2d_gemm__buffer"
Told = dict[str, Any]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    save_profile(make_profile(device_info(8)), tmp_path)
    return tmp_path / PROFILE_FILE


def test_profile_survives_its_file(path: Path) -> None:
    profile = make_profile(device_info(8))

    assert load_profile(path) == load_profile(path.parent) == profile
    assert load_profile(path).fingerprint == profile.fingerprint


def test_latency_model_survives_its_file(tmp_path: Path) -> None:
    profile = make_profile(device_info(8))
    row = replace(
        profile.rows[ROW],
        model=LinearModel({"flops": 1.2345e-05, "launches": 0.5}),
        digest="0123456789abcdef",
        version=7,
        error=0.125,
        flop_us=0.0,
        longest_us=1234.0,
    )
    taught = replace(profile.with_rows({ROW: row}), origin=Origin.ESTIMATED, neighbours={}, sharing={})
    save_profile(taught, tmp_path)

    assert load_profile(tmp_path) == taught
    assert taught.fingerprint != profile.fingerprint


def test_profile_takes_any_name_that_ends_in_json(tmp_path: Path) -> None:
    save_profile(make_profile(device_info(8)), tmp_path / "below" / "avx2.json")

    assert [one.name for one in (tmp_path / "below").iterdir()] == ["avx2.json"]
    assert load_profile(tmp_path / "below" / "avx2.json") == make_profile(device_info(8))


def test_features_that_take_no_time_are_left_out(tmp_path: Path) -> None:
    profile = make_profile(device_info(8))
    row = replace(profile.rows[ROW], model=LinearModel({"launches": 0.0, "flops": 1e-5}))
    save_profile(profile.with_rows({ROW: row}), tmp_path)

    assert load_profile(tmp_path).rows[ROW].model == LinearModel({"flops": 1e-5})


def test_profile_is_small(path: Path) -> None:
    assert path.stat().st_size <= 16 << 10


def test_no_temporary_file_stays(path: Path) -> None:
    assert [one.name for one in path.parent.iterdir()] == [PROFILE_FILE]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "not JSON",
        "[]",
        "null",
        '{"schema": 99}',
        "[" * 100_000,
        '{"a":' * 100_000,
        '{"schema": 2}',
        '{"schema": 2, "launch_us": NaN}',
        "\0\0\0",
        '{"schema": 2, "rows": {"x": Infinity}}',
    ],
    ids=["empty", "no-json", "list", "null", "schema", "deep-list", "deep", "bare", "nan", "zeros", "inf"],
)
def test_file_that_is_no_profile_is_refused(path: Path, text: str) -> None:
    path.write_text(text)

    with pytest.raises(ProfileError, match=PROFILE_FILE):
        load_profile(path)


def test_missing_file_is_told_with_the_command(path: Path) -> None:
    path.unlink()

    with pytest.raises(ProfileError, match="run `codl profile`"):
        load_profile(path)


def test_bytes_that_are_no_text_are_refused(path: Path) -> None:
    path.write_bytes(b'{"schema": "\xff\xfe"}')

    with pytest.raises(ProfileError, match=PROFILE_FILE):
        load_profile(path)


def test_endless_file_is_refused(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")

    with pytest.raises(ProfileError, match="no plain file"):
        load_profile(path)


def _set(*path: str | int, value: Any) -> Callable[[Told], None]:
    def change(told: Told) -> None:
        place: Any = told
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        _set("rows", ROW, "us", value={"launches": -1.0}),
        _set("rows", ROW, "us", value={"launches": 1e308}),
        _set("rows", ROW, "us", value={"launches": "1"}),
        _set("rows", ROW, "us", value={"launches": True}),
        _set("rows", ROW, "us", value={"launches": [1.0]}),
        _set("rows", ROW, "us", value={"launches": 0, "outputs": 0.0}),
        _set("rows", ROW, "us", value={"launches": 10**400}),
        _set("rows", ROW, "us", value={f"feature {place}": 1.0 for place in range(65)}),
        _set("rows", ROW, "us", value={}),
        _set("rows", ROW, "us", value=[1.0, 0.001]),
        _set("rows", ROW, "us", value=None),
        _set("rows", ROW, "digest", value=1),
        _set("rows", ROW, "digest", value="0" * 1001),
        _set("rows", ROW, "version", value=-1),
        _set("rows", ROW, "version", value=1.0),
        _set("rows", ROW, "version", value=True),
        _set("rows", ROW, "version", value=None),
        _set("rows", ROW, "quality", "pm10", value=2),
        _set("rows", ROW, "quality", "samples", value=-1),
        _set("rows", ROW, "quality", "rmspe", value=None),
        _set("rows", ROW, "quality", value=[]),
        _set("rows", ROW, "error", value=-0.1),
        _set("rows", ROW, "error", value=None),
        _set("rows", ROW, "flop_us", value="fast"),
        _set("rows", ROW, "flop_us", value=1e308),
        _set("rows", ROW, "longest_us", value=-1),
        _set("rows", ROW, value=7),
        _set("rows", value=[]),
        _set("rows", value={f"row {place}": {} for place in range(1025)}),
    ],
)
def test_hostile_latency_model_is_refused(path: Path, change: Callable[[Told], None]) -> None:
    _rewrite(path, change)

    with pytest.raises(ProfileError, match="expected"):
        load_profile(path)


@pytest.mark.parametrize(
    "change",
    [
        _set("origin", value="invented"),
        _set("origin", value=[]),
        _set("launch_us", value=-1),
        _set("launch_us", value=1e308),
        _set("bandwidth_bytes_per_us", value=0),
        _set("shared_cache_bytes", value=-1),
        _set("shared_cache_bytes", value=1.5),
        _set("repeatability_pm10", value="much"),
        _set("reference_us", value={"compute": 1}),
        _set("reference_us", "memory", value=0),
        _set("device", "units", value=0),
        _set("device", "units", value=2.5),
        _set("device", "driver", value=7),
        _set("sharing", "read", value={}),
        _set("neighbours", "other-cpu", "slowdown", value=[[1, 2], [3]]),
        _set("neighbours", "other-cpu", "slowdown", 0, value=[-1, 1]),
        _set("neighbours", "other-cpu", "slowdown", value=5),
        _set("neighbours", "other-cpu", "meeting", "median_us", value=None),
        _set("neighbours", "other-cpu", "signal", "p95_us", value=-1),
        _set("neighbours", "other-cpu", "coherence", value={"fetch_us": 0.5}),
        _set("neighbours", "other-cpu", "coherence", "reclaim_us", value=-0.1),
        _set("neighbours", "other-cpu", "coherence", "fetch_us", value=1e9),
        _set("neighbours", "other-cpu", "host", value={"input_us": 0.5}),
        _set("neighbours", "other-cpu", "host", "output_us", value=-0.1),
        _set("neighbours", "other-cpu", "handing_us", value=-1),
        _set("neighbours", "other-cpu", value=[]),
        _set("device", value=None),
        _set("device", "name", value=None),
        _set("device", "kind", value="abacus"),
        _set("device", "has_images", value=1),
        _set("device", "local_memory_bytes", value=-1),
        _set("date", value="x" * 2000),
        _set("seconds", value=None),
    ],
)
def test_hostile_device_is_refused(path: Path, change: Callable[[Told], None]) -> None:
    _rewrite(path, change)

    with pytest.raises(ProfileError, match="expected"):
        load_profile(path)


def test_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")

    with pytest.raises(ProfileError, match="cannot write the profile"):
        save_profile(make_profile(device_info(8)), tmp_path / "file" / "below")


def _rewrite(path: Path, change: Callable[[Told], None]) -> None:
    told = json.loads(path.read_text())
    change(told)
    path.write_text(json.dumps(told))
