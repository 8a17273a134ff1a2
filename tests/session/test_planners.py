"""Sessions that plan from profiles: the default, the numbers, what is kept and what is said."""

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import numpy_helper

import codl
from codl.devices.opencl import open_devices
from codl.latency import store
from codl.latency.files import load_profile, save_profile
from codl.latency.profile import Meeting, Neighbour
from codl.latency.store import shipped_path, user_path
from codl.partitioner.planner import Planner
from codl.partitioner.search import Method
from codl.plan.steps import Chain, Plan
from codl.profiler import first_use
from codl.profiler.sampler import Readings
from codl.session import predictors as session_predictors
from tests.exactness import DEVICES
from tests.frontend.onnx_models import make_model, node
from tests.latency.profiles import make_profile
from tests.oracle import random_feeds, relative_error, run_reference
from tools.networks import build

MODEL = build("mobilenet_v2", size=32, width=0.25)
DATA = MODEL.SerializeToString()
NEIGHBOUR = Neighbour(
    slowdown=((1.0, 1.0), (1.0, 1.0)), meeting=Meeting(median_us=1.0, p95_us=2.0, samples=400)
)


@pytest.fixture(autouse=True)
def _empty_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Nothing is kept; drivers are loaded before the cache moves."""
    open_devices(DEVICES)
    monkeypatch.setenv("CODL_CACHE_DIR", str(tmp_path / "cache"))
    session_predictors.say_once.cache_clear()
    yield
    session_predictors.say_once.cache_clear()


@pytest.fixture
def _profiles(_empty_cache: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a profile for every device: they are equally fast, and sharing costs next to nothing."""
    monkeypatch.delenv("CODL_SHARING", raising=False)
    for device in open_devices(DEVICES):
        others = {name: NEIGHBOUR for name in DEVICES if name != device.info.name}
        profile = replace(make_profile(device.info), neighbours=others, wait_us=1.0)
        save_profile(profile, user_path(device.info))


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[Method]:
    """The planners that had to work."""
    found: list[Method] = []
    rank = Planner.rank

    def note(self: Planner, method: Method, **options: int) -> list[Plan]:
        found.append(method)
        return rank(self, method, **options)

    monkeypatch.setattr(Planner, "rank", note)
    return found


def options(**values: object) -> codl.SessionOptions:
    found = codl.SessionOptions()
    found.devices = DEVICES
    for name, value in values.items():
        setattr(found, name, value)
    return found


@pytest.mark.usefixtures("_profiles")
@pytest.mark.parametrize("planner", [None, "greedy", "dynamic"])
def test_plans_a_network_of_constants_alone(planner: str | None) -> None:
    values = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)
    constant = node("Constant", [], ["y"], value=numpy_helper.from_array(values))
    data = make_model([constant], inputs={}).SerializeToString()

    with codl.InferenceSession(data, options(planner=planner)) as session:
        (found,) = session.run(None, {})

    assert np.array_equal(found, values)


@pytest.mark.usefixtures("_profiles")
@pytest.mark.parametrize("planner", [None, "greedy", "dynamic"])
def test_split_network_gives_the_same_numbers(planner: str | None) -> None:
    feeds = random_feeds(MODEL)
    with codl.InferenceSession(DATA, options(planner=planner)) as session:
        (output,) = session.run(None, feeds)
        plan = session.plan

    assert relative_error(output, run_reference(MODEL, feeds, ["output"])["output"]) < 1e-4
    assert plan.planner in {planner, "dynamic"}
    assert any(isinstance(step, Chain) for step in plan.steps)
    assert plan.predicted_us is not None
    assert plan.best_single_us is not None
    assert plan.predicted_us < plan.best_single_us


@pytest.mark.usefixtures("_profiles")
def test_plan_is_made_once_and_again_when_anything_changes(planned: list[Method]) -> None:
    plans = [codl.InferenceSession(DATA, options()).plan for _ in range(2)]
    assert planned == [Method.DYNAMIC]
    assert plans[0] == plans[1]

    codl.InferenceSession(DATA, options(max_chain_length=2))
    codl.InferenceSession(DATA, options(planner="greedy"))
    assert len(planned) == 3

    device = open_devices(DEVICES)[0]
    profile = replace(
        make_profile(device.info), launch_us=2.0, neighbours=dict.fromkeys(DEVICES[1:], NEIGHBOUR)
    )
    save_profile(profile, user_path(device.info))
    codl.InferenceSession(DATA, options())
    assert len(planned) == 4


@pytest.mark.usefixtures("_profiles")
def test_verified_plan_is_one_of_those_that_were_found() -> None:
    plan = codl.InferenceSession(DATA, options(verify_plan=True)).plan

    assert plan.planner in {"dynamic", *(f"single:{name}" for name in DEVICES)}


@pytest.fixture
def _first_use(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let no profile ship; devices are measured at first use, and equally fast."""
    monkeypatch.delenv("CODL_SHARING", raising=False)
    monkeypatch.setattr(store, "profiles_dir", lambda: tmp_path / "shipped")
    taken = {"compute": 1000.0, "memory": 2000.0}
    monkeypatch.setattr(
        first_use, "measure_references", lambda devices: [Readings(taken, 0.0) for _ in devices]
    )
    monkeypatch.setattr(first_use, "_recall_neighbours", lambda one, other: (NEIGHBOUR, NEIGHBOUR))


@pytest.mark.usefixtures("_first_use")
def test_default_borrows_where_a_profile_ships(caplog: pytest.LogCaptureFixture) -> None:
    for device in open_devices(DEVICES):
        save_profile(make_profile(replace(device.info, device_name="", units=7)), shipped_path(device.info))

    with caplog.at_level(logging.WARNING, logger="codl"):
        plan = codl.InferenceSession(DATA, options()).plan

    assert plan.planner in {"dynamic", *(f"single:{name}" for name in DEVICES)}
    assert all(f"{name}: no profile yet" in caplog.text for name in DEVICES)
    assert "codl profile" in caplog.text


@pytest.mark.usefixtures("_first_use")
def test_devices_without_any_profile_work_together_by_estimates(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="codl"):
        plan = codl.InferenceSession(DATA, options()).plan

    assert plan.planner in {"dynamic", *(f"single:{name}" for name in DEVICES)}
    assert plan.predicted_us is not None
    assert all(f"{name}: no profile yet" in caplog.text for name in DEVICES)


def test_broken_profile_is_named_where_it_is_asked_for() -> None:
    path = user_path(open_devices(DEVICES)[0].info)
    path.parent.mkdir(parents=True)
    path.write_text('{"schema": 2, "device": NaN}', encoding="utf-8")

    with pytest.raises(codl.ProfileError, match="codl profile"):
        codl.InferenceSession(DATA, options(planner="dynamic"))
    assert codl.InferenceSession(DATA, options()).plan.planner == f"single:{DEVICES[0]}"


@pytest.mark.usefixtures("_profiles")
def test_plans_by_name_touch_no_device() -> None:
    plan = codl.plan(DATA, devices=DEVICES, planner="dynamic")

    assert plan.devices == DEVICES
    assert plan.predicted_us is not None


def forget_kernels(known: str) -> None:
    """Leave profiles with no latency models, with some, or with those of other sources."""
    for device in open_devices(DEVICES):
        own = load_profile(user_path(device.info))
        rows = {
            name: replace(row, digest="older") if known == "older" else row
            for name, row in own.rows.items()
            if known == "older" or (known != "none" and not name.startswith("conv2d"))
        }
        save_profile(replace(own, rows=rows), user_path(device.info))


@pytest.mark.usefixtures("_profiles")
@pytest.mark.parametrize("planner", ["dynamic", "greedy"])
@pytest.mark.parametrize("known", ["none", "all but convolutions", "older"])
def test_kernels_without_a_model_never_keep_the_work_on_one_device(planner: str, known: str) -> None:
    forget_kernels(known)
    data = build("mobilenet_v2", size=64, width=0.5).SerializeToString()  # where even single operators pay

    plan = codl.plan(data, devices=DEVICES, planner=planner)

    assert any(isinstance(step, Chain) for step in plan.steps)
    assert plan.predicted_us is not None
    assert plan.best_single_us is not None
    assert plan.predicted_us < plan.best_single_us


@pytest.mark.usefixtures("_profiles")
def test_default_session_plans_kernels_without_a_model_as_the_planner_does() -> None:
    forget_kernels("none")

    plan = codl.InferenceSession(DATA, options()).plan

    assert any(isinstance(step, Chain) for step in plan.steps)
    assert plan.steps == codl.plan(DATA, devices=DEVICES, planner="dynamic").steps
