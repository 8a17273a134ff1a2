"""Profiles survive their files unchanged, and no file can hold anything but a sane profile."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from codl.assets import profiles_dir
from codl.errors import ProfileError
from codl.latency.features import Counting
from codl.latency.files import DEVICE_FILE, PREDICTORS_FILE, load_profile, save_profile
from codl.latency.known import Effect
from codl.latency.profile import Origin
from tests.catalog.nodes import device_info
from tests.latency.profiles import QUALITY, make_profile

ROW = "conv2d_gemm__buffer"
MARK = "0123456abc"
SHIPPED = sorted(file.parent for file in profiles_dir().rglob(PREDICTORS_FILE))
Told = dict[str, Any]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_profile(make_profile(device_info(8)), tmp_path)
    return tmp_path


def test_profile_survives_its_files(folder: Path) -> None:
    profile = make_profile(device_info(8))

    assert load_profile(folder) == profile
    assert load_profile(folder).fingerprint == profile.fingerprint


def test_known_layers_survive_their_files(tmp_path: Path) -> None:
    profile = make_profile(device_info(8))
    row = replace(
        profile.rows[ROW], layers={MARK: Effect(0.125, -0.25), "f" * 10: Effect(-0.5, -0.5)}, known=QUALITY
    )
    row = replace(row, doubt=0.25, known_doubt=0.0625, counting=Counting.WORK, is_carried=True)
    taught = profile.with_rows({ROW: row})
    save_profile(taught, tmp_path)

    assert load_profile(tmp_path) == taught
    assert taught.fingerprint != profile.fingerprint


def test_layers_of_older_files_are_read(folder: Path) -> None:
    path = folder / PREDICTORS_FILE
    told = json.loads(path.read_text())
    told["rows"][ROW]["layers"] = {MARK: 0.125, "f" * 10: -0.5}
    path.write_text(json.dumps(told))

    assert load_profile(folder).rows[ROW].layers == {MARK: Effect(0.125, 0.125), "f" * 10: Effect(-0.5, -0.5)}


def test_layers_with_one_number_for_all_slices_are_read(folder: Path) -> None:
    path = folder / PREDICTORS_FILE
    told = json.loads(path.read_text())
    told["rows"][ROW]["layers"] = {"marks": MARK, "thousandths": [125]}
    path.write_text(json.dumps(told))

    assert load_profile(folder).rows[ROW].layers == {MARK: Effect(0.125, 0.125)}


@pytest.mark.parametrize("folder", SHIPPED, ids=lambda folder: folder.name)
def test_shipped_profiles_are_of_the_present_kernels(folder: Path) -> None:
    """Whoever edits a kernel or a feature measures anew, or renews digests where all features are equal."""
    profile = load_profile(folder)
    assert profile.origin is Origin.SIMULATED or profile.find_stale() == ()


@pytest.mark.parametrize("folder", SHIPPED, ids=lambda folder: folder.name)
def test_shipped_profiles_are_small(folder: Path) -> None:
    assert sum((folder / name).stat().st_size for name in (DEVICE_FILE, PREDICTORS_FILE)) <= 64 << 10


def test_profile_is_small(folder: Path) -> None:
    assert sum((folder / name).stat().st_size for name in (DEVICE_FILE, PREDICTORS_FILE)) <= 64 << 10


def test_no_temporary_file_stays(folder: Path) -> None:
    assert {path.name for path in folder.iterdir()} == {DEVICE_FILE, PREDICTORS_FILE}


@pytest.mark.parametrize("name", [DEVICE_FILE, PREDICTORS_FILE])
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
        '{"schema": 1}',
        '{"schema": 1, "launch_us": NaN}',
        "\0\0\0",
        '{"schema": 1, "rows": {"x": Infinity}}',
    ],
    ids=["empty", "no-json", "list", "null", "schema", "deep-list", "deep", "bare", "nan", "zeros", "inf"],
)
def test_file_that_is_no_profile_is_refused(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text)

    with pytest.raises(ProfileError, match=name):
        load_profile(folder)


@pytest.mark.parametrize("name", [DEVICE_FILE, PREDICTORS_FILE])
def test_missing_file_is_told_with_the_command(folder: Path, name: str) -> None:
    (folder / name).unlink()

    with pytest.raises(ProfileError, match="run `codl profile`"):
        load_profile(folder)


def test_bytes_that_are_no_text_are_refused(folder: Path) -> None:
    (folder / DEVICE_FILE).write_bytes(b'{"schema": "\xff\xfe"}')

    with pytest.raises(ProfileError, match=DEVICE_FILE):
        load_profile(folder)


@pytest.mark.parametrize("name", [DEVICE_FILE, PREDICTORS_FILE])
def test_endless_file_is_refused(folder: Path, name: str) -> None:
    (folder / name).unlink()
    (folder / name).symlink_to("/dev/zero")

    with pytest.raises(ProfileError, match="no plain file"):
        load_profile(folder)


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
        _set("rows", ROW, "us", value=[-1.0, 0.001]),
        _set("rows", ROW, "us", value=[1e308, 0.001]),
        _set("rows", ROW, "us", value=[1.0]),
        _set("rows", ROW, "us", value=["1", 2]),
        _set("rows", ROW, "us", value=[True, 2]),
        _set("rows", ROW, "us", value=[0, 0]),
        _set("rows", ROW, "us", value=None),
        _set("rows", ROW, "features", value=[]),
        _set("rows", ROW, "features", value=["launches", "launches"]),
        _set("rows", ROW, "features", value="launches"),
        _set("rows", ROW, "features", value=[["launches"], "written"]),
        _set("rows", ROW, "low", value=[0]),
        _set("rows", ROW, "high", value={}),
        _set("rows", ROW, "digest", value=1),
        _set("rows", ROW, "quality", "pm10", value=2),
        _set("rows", ROW, "quality", value=[]),
        _set("rows", ROW, "known_doubt", value=-0.1),
        _set("rows", ROW, "counting", value="guesses"),
        _set("rows", ROW, "counting", value=None),
        _set("rows", ROW, "counting", value=["work"]),
        _set("rows", ROW, "carried", value=1),
        _set("rows", ROW, "carried", value="yes"),
        _set("rows", ROW, "known", value=[]),
        _set("rows", ROW, "known", value={"samples": 1}),
        _set("rows", ROW, "layers", value=None),
        _set("rows", ROW, "layers", value=[0.1]),
        _set("rows", ROW, "layers", value={"not a mark": 0.1}),
        _set("rows", ROW, "layers", value={MARK.upper(): 0.1}),
        _set("rows", ROW, "layers", value={MARK: "0.1"}),
        _set("rows", ROW, "layers", value={MARK: True}),
        _set("rows", ROW, "layers", value={MARK: 1e308}),
        _set("rows", ROW, "layers", value={MARK: -50}),
        _set("rows", ROW, "layers", value={f"{place:010x}": 0.0 for place in range(5000)}),
        _set("rows", ROW, "layers", value={"marks": MARK, "thousandths": [1, 2]}),
        _set("rows", ROW, "layers", value={"marks": MARK, "thousandths": None}),
        _set("rows", ROW, "layers", value={"marks": MARK}),
        _set("rows", ROW, "layers", value={"marks": MARK, "cut_thousandths": [1]}),
        _set("rows", ROW, "layers", value={"marks": MARK, "thousandths": [1], "cut_thousandths": []}),
        _set("rows", ROW, "layers", value={"marks": MARK, "thousandths": [1], "cut_thousandths": [9999]}),
        _set("rows", ROW, "layers", value={"marks": [MARK], "thousandths": [1]}),
        _set("rows", ROW, "layers", value={"marks": MARK + MARK, "thousandths": [1, 2]}),
        _set("rows", ROW, "layers", value={"marks": MARK[:-1], "thousandths": [1]}),
        _set("rows", ROW, "layers", value={"marks": MARK, "thousandths": [0.5]}),
        _set("rows", ROW, "layers", value={"marks": MARK, "thousandths": [True]}),
        _set("rows", ROW, "layers", value={"marks": MARK, "thousandths": [10**400]}),
        _set("rows", ROW, "layers", value={"marks": MARK, "thousandths": [-50_000]}),
        _set("rows", ROW, value=7),
        _set("rows", value=[]),
        _set("device", "driver", value="another"),
        _set("device", value=None),
    ],
)
def test_hostile_predictors_are_refused(folder: Path, change: Callable[[Told], None]) -> None:
    _rewrite(folder / PREDICTORS_FILE, change)

    with pytest.raises(ProfileError, match="expected"):
        load_profile(folder)


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
        _set("device", "name", value=None),
        _set("device", "kind", value="abacus"),
        _set("device", "has_images", value=1),
        _set("device", "local_memory_bytes", value=-1),
        _set("date", value="x" * 2000),
        _set("seconds", value=None),
    ],
)
def test_hostile_device_is_refused(folder: Path, change: Callable[[Told], None]) -> None:
    _rewrite(folder / DEVICE_FILE, change)

    with pytest.raises(ProfileError, match="expected"):
        load_profile(folder)


def test_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")

    with pytest.raises(ProfileError, match="cannot write the profile"):
        save_profile(make_profile(device_info(8)), tmp_path / "file" / "below")


def _rewrite(path: Path, change: Callable[[Told], None]) -> None:
    told = json.loads(path.read_text())
    change(told)
    path.write_text(json.dumps(told))
