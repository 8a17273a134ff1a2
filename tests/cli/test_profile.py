"""`codl profile`: measures for real in seconds, writes a profile that `codl devices` knows."""

import argparse
import json
from dataclasses import replace
from pathlib import Path

import pytest

from codl.catalog.table import PAIRS
from codl.cli.flags import parse_seconds
from codl.cli.main import main
from codl.devices.drivers import OpenedDevice
from codl.latency.files import load_profile, save_profile
from codl.latency.profile import DeviceKey
from codl.latency.store import user_path
from codl.profiler.log import claim_machine, name_log
from codl.profiler.workload import load_pairs, share_out
from tests.latency.profiles import make_profile
from tests.profiler.layers import small_layers

FIGURES = {"name", "samples", "pm5", "pm10", "rmspe", "flops_pm10", "device"}


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("CODL_CACHE_DIR", str(tmp_path))
    return tmp_path


def measure_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `codl profile` measure small layers, and nothing over several nodes, in any time."""
    monkeypatch.setattr("codl.cli.profiling.LEAST_SECONDS", 1.0)
    monkeypatch.setattr("codl.cli.profiling.load_workload", small_layers)
    monkeypatch.setattr("codl.cli.profiling.load_pairs", tuple)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("5m", 300), ("1.5h", 5400), (" 2m", 120)]
)
def test_budgets_are_read(text: str, seconds: float) -> None:
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "-5s", "0", "5 days", "1e9", "30h", "nan"])
def test_budget_that_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="expected a time"):
        parse_seconds(text)


def test_budget_that_is_too_small_is_refused_before_anything_is_measured(
    cache: Path, devices: tuple[OpenedDevice, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    info = devices[0].info

    assert main(["profile", "--devices", info.name, "--budget", "19s"]) == 2

    assert "got 19 s for 1 devices, expected at least 20 s" in " ".join(capsys.readouterr().err.split())
    assert not user_path(info).exists()


def test_profile_is_measured_reported_and_found(
    cache: Path,
    devices: tuple[OpenedDevice, ...],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    info = devices[0].info
    measure_little(monkeypatch)
    command = ["profile", "--devices", info.name, "--budget", "3s", "--json"]

    assert main(command) == 0
    out, err = capsys.readouterr()
    told = json.loads(out)

    assert told["implementations"]
    for row in told["implementations"]:
        assert set(row) == FIGURES
        assert all(0 <= row[name] <= 1 for name in ("pm5", "pm10", "flops_pm10"))
    assert {"repeatability_pm10", "seconds", "devices"} <= set(told)
    assert str(user_path(info)) in err
    assert load_profile(user_path(info)).name == info.name

    assert main(["devices", "--json"]) == 0
    listed = {each["name"]: each for each in json.loads(capsys.readouterr().out)["devices"]}
    assert listed[info.name]["profile"]["origin"] == "measured"


def test_neighbours_are_reported_as_they_are_kept(
    cache: Path,
    devices: tuple[OpenedDevice, ...],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    infos = [opened.info for opened in devices[:2]]
    if len(infos) < 2:
        pytest.skip("one device")
    measure_little(monkeypatch)

    assert (
        main(["profile", "--devices", ",".join(info.name for info in infos), "--budget", "2s", "--json"]) == 0
    )

    told = json.loads(capsys.readouterr().out)["devices"]
    for each, info, other in zip(told, infos, infos[::-1], strict=True):
        kept = load_profile(user_path(info)).neighbours[other.name].meeting
        assert kept is not None
        assert each["neighbours"][other.name]["meeting"]["samples"] == kept.samples


def test_profile_is_written_below_a_folder_on_demand(
    cache: Path,
    devices: tuple[OpenedDevice, ...],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    info, folder = devices[0].info, tmp_path_factory.mktemp("profiles")
    measure_little(monkeypatch)

    assert main(["profile", "--devices", info.name, "--budget", "2s", "--output", str(folder), "--json"]) == 0

    own = user_path(info)
    assert load_profile(folder / own.parent.name / own.name).name == info.name
    assert not own.exists()


def test_unknown_device_is_told(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "--device", "abacus"]) == 2

    assert "abacus" in capsys.readouterr().err


@pytest.mark.usefixtures("no_shipped_profiles")
def test_stale_without_a_profile_of_its_own_is_told(
    cache: Path, devices: tuple[OpenedDevice, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["profile", "--devices", devices[0].info.name, "--stale"]) == 2

    assert "leave out --stale" in capsys.readouterr().err


def test_broken_profile_is_shown_as_unusable(
    cache: Path, devices: tuple[OpenedDevice, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    path = user_path(devices[0].info)
    path.parent.mkdir(parents=True)
    path.write_text("[" * 1000)

    assert main(["devices", "--json"]) == 0

    listed = {each["name"]: each for each in json.loads(capsys.readouterr().out)["devices"]}
    assert listed[devices[0].info.name]["profile"]["state"] == "unusable"


def test_stale_renews_only_what_has_changed(
    cache: Path,
    devices: tuple[OpenedDevice, ...],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    info = devices[0].info
    fresh = make_profile(info)
    row = "elementwise_unary__buffer"
    save_profile(fresh.with_rows({row: replace(fresh.rows[row], digest="0" * 32)}), user_path(info))
    measure_little(monkeypatch)

    assert main(["profile", "--devices", info.name, "--stale", "--budget", "2s", "--json"]) == 0

    renewed = load_profile(user_path(info))
    assert renewed.find_stale() == ()
    assert renewed.rows[row].model != fresh.rows[row].model
    others = {name: one for name, one in renewed.rows.items() if name != row}
    assert others == {name: one for name, one in fresh.rows.items() if name != row}

    capsys.readouterr()
    assert main(["profile", "--devices", info.name, "--stale"]) == 0
    assert "no kernel has changed" in capsys.readouterr().err


def test_stale_learns_rows_over_several_nodes_that_came_later(
    cache: Path, devices: tuple[OpenedDevice, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    info = devices[0].info
    later = "conv2d_patch_pool__buffer"
    pairs = [work.layers[0] for work in share_out(load_pairs(), info, PAIRS) if work.row.name == later]
    if not pairs:
        pytest.skip(f"{info.name} computes no pair in one launch")
    old = make_profile(info)
    save_profile(
        replace(old, rows={name: row for name, row in old.rows.items() if name != later}), user_path(info)
    )
    monkeypatch.setattr("codl.cli.profiling.LEAST_SECONDS", 1.0)
    monkeypatch.setattr("codl.cli.profiling.load_workload", tuple)
    monkeypatch.setattr("codl.cli.profiling.load_pairs", lambda: tuple(pairs))

    assert main(["profile", "--devices", info.name, "--stale", "--budget", "3s", "--json"]) == 0

    assert later in load_profile(user_path(info)).rows


def test_second_profiler_is_told(
    cache: Path, devices: tuple[OpenedDevice, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    info = devices[0].info
    with claim_machine(user_path(info).parents[1]):
        assert main(["profile", "--devices", info.name, "--quick"]) == 2

    assert "another profiler at work" in capsys.readouterr().err


def test_full_disk_is_told(
    cache: Path,
    devices: tuple[OpenedDevice, ...],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no full disk to write to")
    info = devices[0].info
    user_path(info).parent.mkdir(parents=True)
    name_log(user_path(info).parent, DeviceKey.of(info)).symlink_to("/dev/full")

    measure_little(monkeypatch)

    assert main(["profile", "--devices", info.name, "--budget", "2s"]) == 2

    assert "free space" in " ".join(capsys.readouterr().err.split())
