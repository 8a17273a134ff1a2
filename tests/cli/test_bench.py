"""`codl bench`: rows, ratios, keys and exit codes; what the times are is nobody's promise here."""

from collections import Counter
from pathlib import Path

import pytest

from codl.cli import bench
from codl.devices.timing import CONTROL_SUFFIX
from codl.errors import DeviceError
from codl.session import InferenceSession
from tests.cli.conftest import Codl
from tests.exactness import DEVICES
from tests.oracle import NETWORK_TOLERANCE

NAMES = ",".join(DEVICES)
EVEN = ("--devices", NAMES, "--planner", "even")
FEW = ("--rounds", "2", "--warmup", "1")
SINGLES = [f"single:{name}" for name in DEVICES]


@pytest.mark.parametrize("against", ["ort", "single", "ort,single"])
def test_rows_are_codl_its_peers_every_device_alone_and_the_best_again(
    codl: Codl, model: Path, against: str
) -> None:
    done = codl("bench", model, *EVEN, *FEW, "--against", against, "--json")

    assert (done.code, done.err) == (0, "")
    names = [row["name"] for row in done.values["rows"]]
    peers = ["ort"] if "ort" in against else []
    (control,) = (name for name in names if name.endswith(CONTROL_SUFFIX))
    assert names == [*peers, *SINGLES, control, "codl"]
    assert control.removesuffix(CONTROL_SUFFIX) in SINGLES
    ratios = ["ort/codl"] if peers else []
    assert list(done.values["ratios"]) == [*ratios, "best_single/codl", "a/a"]


def test_json_has_the_keys_of_the_interface(codl: Codl, model: Path) -> None:
    values = codl("bench", model, *EVEN, *FEW, "--json").values

    assert list(values) == ["model", "rounds", "machine", "rows", "ratios", "max_relative_error"]
    assert (values["model"], values["rounds"]) == ("small.onnx", 2)
    for row in values["rows"]:
        times = [row["p10_ms"], row["median_ms"], row["p90_ms"], row["p99_ms"]]
        assert row["per_second"] == pytest.approx(1e3 / row["median_ms"])
        assert times[0] > 0
        assert times == sorted(times)
    assert values["rows"][-1]["predicted_ms"] is None
    assert "even" in values["rows"][-1]["plan"]
    for ratio in values["ratios"].values():
        assert set(ratio) == {"median", "ci90"}
        low, high = ratio["ci90"]
        assert low <= ratio["median"] <= high
    assert 0 <= values["max_relative_error"] <= NETWORK_TOLERANCE


def test_plan_of_one_device_is_as_fast_as_that_device_alone(codl: Codl, model: Path) -> None:
    values = codl("bench", model, "--planner", f"single:{DEVICES[1]}", *FEW, "--json").values

    names = [row["name"] for row in values["rows"]]
    assert names == ["ort", SINGLES[1], SINGLES[1] + CONTROL_SUFFIX, "codl"]
    assert values["ratios"]["best_single/codl"] == {"median": 1.0, "ci90": [1.0, 1.0]}


def test_devices_that_are_asked_for_are_in_use_whatever_the_plan(codl: Codl, model: Path) -> None:
    flags = ("--devices", NAMES, "--planner", f"single:{DEVICES[0]}")
    values = codl("bench", model, *flags, *FEW, "--json").values

    assert set(SINGLES) <= {row["name"] for row in values["rows"]}


def test_text_has_a_line_for_each_row_and_ratio(codl: Codl, model: Path) -> None:
    title, header, *lines = codl("bench", model, *EVEN, *FEW).out.splitlines()

    assert title.startswith("small.onnx, 2 rounds")
    assert header.split() == ["row", "median", "ms", "p10", "p90", "p99", "a", "second", "predicted", "ms"]
    assert [line.split()[0] for line in lines[-5:]] == ["ort/codl", "best_single/codl", "a/a", "max", "a/a"]
    assert CONTROL_SUFFIX in lines[-1]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--rounds", "0"), "at least 1"),
        (("--rounds", "-3"), "at least 1"),
        (("--warmup", "-1"), "at least 0"),
        (("--against", "openvino"), "openvino"),
        (("--plan", "absent.json"), "absent.json"),
    ],
    ids=lambda value: "_".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_measured_is_exit_code_2(
    codl: Codl, model: Path, flags: tuple[str, ...], message: str
) -> None:
    done = codl("bench", model, *flags)

    assert (done.code, done.out) == (2, "")
    assert message in done.err.splitlines()[-1]


def test_failure_leaves_no_session_open(codl: Codl, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: Counter[str] = Counter()
    enter, leave = InferenceSession.__enter__, InferenceSession.__exit__

    def count_enter(self: InferenceSession) -> InferenceSession:
        ended["opened"] += 1
        return enter(self)

    def count_leave(self: InferenceSession, *error: object) -> None:
        ended["closed"] += 1
        leave(self, *error)

    def fail(*_: object, **__: object) -> None:
        raise DeviceError("a driver: got lost, expected to be there")

    monkeypatch.setattr(InferenceSession, "__enter__", count_enter)
    monkeypatch.setattr(InferenceSession, "__exit__", count_leave)
    monkeypatch.setattr(bench, "interleave", fail)
    done = codl("bench", model, *EVEN, *FEW)

    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines() == ["codl: a driver: got lost, expected to be there"]
    assert ended == {"opened": 3, "closed": 3}
