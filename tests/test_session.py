"""The session as users see it: feeds checked, outputs theirs, plans honoured."""

import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import codl
from codl.plan.steps import Chain
from tests.exactness import DEVICES
from tests.oracle import FloatArray, random_feeds, relative_error, run_reference
from tests.session.models import relu_model
from tools.networks import build

PAIR = list(DEVICES)


@cache
def model() -> onnx.ModelProto:
    return build("resnet50", size=64, width=0.25)


@cache
def feeds() -> dict[str, Any]:
    return random_feeds(model())


@cache
def reference() -> FloatArray:
    found: FloatArray = run_reference(model(), feeds(), ["output"])["output"]
    return found


def even_options() -> codl.SessionOptions:
    options = codl.SessionOptions()
    options.devices = PAIR
    options.planner = "even"
    return options


@pytest.fixture(scope="module")
def session() -> codl.InferenceSession:
    return codl.InferenceSession(model().SerializeToString(), even_options())


@pytest.mark.usefixtures("no_shipped_profiles")
def test_session_runs_from_a_path_by_default(tmp_path: Path) -> None:
    onnx.save(model(), tmp_path / "model.onnx")
    with codl.InferenceSession(tmp_path / "model.onnx") as session:
        (output,) = session.run(None, feeds())
        assert set(session.plan.devices) <= set(PAIR)
        assert session.plan.predicted_us is not None
    assert relative_error(output, reference()) < 1e-4


def test_even_planner_splits_over_both_devices(session: codl.InferenceSession) -> None:
    (output,) = session.run(["output"], feeds())
    assert relative_error(output, reference()) < 1e-4
    assert session.plan.devices == tuple(PAIR)
    assert any(isinstance(step, Chain) for step in session.plan.steps)


def test_outputs_belong_to_the_caller(session: codl.InferenceSession) -> None:
    (first,) = session.run(None, feeds())
    kept = first.copy()
    first[:] = -1
    other = {"input": feeds()["input"] * 2}
    session.run(None, other)
    (again,) = session.run(None, feeds())
    assert np.array_equal(again, kept)


def test_inputs_of_any_memory_order_are_read_and_never_written(session: codl.InferenceSession) -> None:
    value = np.asfortranarray(feeds()["input"])
    value.flags.writeable = False
    (output,) = session.run(None, {"input": value})
    assert relative_error(output, reference()) < 1e-4


def test_inputs_and_outputs_are_described(session: codl.InferenceSession) -> None:
    (argument,) = session.get_inputs()
    assert (argument.name, argument.shape, argument.type) == ("input", [1, 3, 64, 64], "tensor(float)")
    assert [output.name for output in session.get_outputs()] == ["output"]


def test_plan_from_a_file_is_used(session: codl.InferenceSession, tmp_path: Path) -> None:
    session.plan.save(tmp_path / "plan.json")
    options = codl.SessionOptions()
    options.plan = tmp_path / "plan.json"
    with codl.InferenceSession(model().SerializeToString(), options) as other:
        assert other.plan == session.plan
        assert relative_error(other.run(None, feeds())[0], reference()) < 1e-4


def test_plan_of_another_model_is_refused(session: codl.InferenceSession) -> None:
    options = codl.SessionOptions()
    options.plan = session.plan
    with pytest.raises(codl.PlanError, match="fingerprint"):
        codl.InferenceSession(build("vgg16", size=64, width=0.25).SerializeToString(), options)


def test_plan_over_two_drivers_of_one_processor_is_refused() -> None:
    names = ("pocl-cpu", "pocl-cpu-2")
    if not set(names) <= {info.name for info in codl.devices()}:
        pytest.skip("needs two PoCL drivers; the wheel is a second")
    options = codl.SessionOptions()
    options.plan = codl.plan(model().SerializeToString(), devices=names, planner="even")
    with pytest.raises(codl.DeviceError, match="two drivers of one processor"):
        codl.InferenceSession(model().SerializeToString(), options)


def test_plan_over_devices_that_do_not_exist_is_refused() -> None:
    options = codl.SessionOptions()
    options.plan = codl.plan(model().SerializeToString(), devices=["left", "right"], planner="even")
    with pytest.raises(codl.DeviceError, match="'left'"):
        codl.InferenceSession(model().SerializeToString(), options)


@pytest.mark.parametrize("names", [(), (DEVICES[0], DEVICES[0])], ids=["none", "twice"])
def test_plan_whose_devices_break_a_law_is_refused(names: tuple[str, ...]) -> None:
    options = codl.SessionOptions()
    options.plan = codl.Plan(devices=names, steps=())
    with pytest.raises(codl.PlanError, match="devices"):
        codl.InferenceSession(model().SerializeToString(), options)


def test_plan_is_made_without_a_device() -> None:
    plan = codl.plan(model().SerializeToString(), devices=["left", "right"], planner="even")
    assert plan.devices == ("left", "right")


WRONG_FEEDS = {
    "missing": ({}, "missing"),
    "extra": ({"input": np.zeros((1, 3, 64, 64), np.float32), "more": np.zeros(1, np.float32)}, "'more'"),
    "dtype": ({"input": np.zeros((1, 3, 64, 64), np.float64)}, "float64"),
    "rank": ({"input": np.zeros((3, 64, 64), np.float32)}, "rank 3"),
    "shape": ({"input": np.zeros((1, 3, 64, 65), np.float32)}, "65"),
    "empty": ({"input": np.zeros((0, 3, 64, 64), np.float32)}, r"shape \[0, 3, 64, 64\]"),
    "no array": ({"input": 1.0}, "float"),
    "ragged list": ({"input": [[1.0], [1.0, 2.0]]}, "list that is no array"),
    "pairs": ([("input", 1)], "dict"),
}


@pytest.mark.parametrize(("feed", "message"), WRONG_FEEDS.values(), ids=WRONG_FEEDS)
def test_wrong_feed_is_named(session: codl.InferenceSession, feed: dict[str, object], message: str) -> None:
    with pytest.raises(codl.InputError, match=message):
        session.run(None, feed)


def test_inputs_that_are_no_plain_arrays_are_read(session: codl.InferenceSession) -> None:
    value = feeds()["input"]
    others = (
        np.repeat(value, 2, axis=3)[..., ::2],
        value.astype(">f4"),
        value.tolist(),
        codl.OrtValue.ortvalue_from_numpy(value),
    )

    (expected,) = session.run(None, feeds())

    for other in others:
        assert np.array_equal(session.run(None, {"input": other})[0], expected)


def test_inputs_are_not_held(session: codl.InferenceSession) -> None:
    value = feeds()["input"].copy()
    held = weakref.ref(value)

    session.run(None, {"input": value})
    del value

    assert held() is None


def test_eight_threads_get_their_own_answers(session: codl.InferenceSession) -> None:
    inputs = [feeds()["input"] * scale for scale in (1.0, 0.5, -1.0, 2.0, 0.1, -0.3, 3.0, 0.0)]
    expected = [session.run(None, {"input": value})[0] for value in inputs]

    def compute(index: int) -> bool:
        answers = [session.run(None, {"input": inputs[index]})[0] for _ in range(5)]
        return all(np.array_equal(answer, expected[index]) for answer in answers)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(compute, range(8)))


def test_other_threads_work_while_one_runs(session: codl.InferenceSession) -> None:
    counts, done = [0], threading.Event()

    def count() -> None:
        while not done.is_set():
            counts[0] += 1

    counter = threading.Thread(target=count)
    counter.start()
    session.run(None, feeds())
    done.set()
    counter.join()

    assert counts[0] > 0


def test_closing_frees_what_was_compiled() -> None:
    session = codl.InferenceSession(model().SerializeToString(), even_options())
    session.run(None, feeds())
    assert session._tier is not None
    assert session._tier.variant is not None
    held = weakref.ref(session._tier.variant.executable)

    session.close()

    assert held() is None


def test_unknown_output_is_named(session: codl.InferenceSession) -> None:
    with pytest.raises(codl.InputError, match="'nothing'"):
        session.run(["nothing"], feeds())


def test_closed_session_says_so_and_closes_twice() -> None:
    session = codl.InferenceSession(model().SerializeToString(), even_options())
    session.close()
    session.close()
    with pytest.raises(codl.CodlError, match="close"):
        session.run(None, feeds())


@pytest.mark.usefixtures("no_shipped_profiles")
@pytest.mark.parametrize(
    ("devices", "planner", "error"),
    [
        (["no-such-device"], None, codl.DeviceError),
        (PAIR, "clever", codl.PlanError),
        (PAIR, "single:", codl.PlanError),
        (None, "even", codl.DeviceError),
    ],
)
def test_options_that_cannot_be_met_are_refused(
    devices: list[str] | None, planner: str | None, error: type[Exception]
) -> None:
    options = codl.SessionOptions()
    options.devices = devices
    options.planner = planner
    with pytest.raises(error):
        codl.InferenceSession(model().SerializeToString(), options)


@pytest.mark.usefixtures("no_shipped_profiles")
def test_planners_without_profiles_name_the_command() -> None:
    with pytest.raises(codl.ProfileError, match="codl profile"):
        codl.plan(model().SerializeToString(), devices=PAIR, planner="dynamic")


def test_verified_plan_gives_right_numbers() -> None:
    options = even_options()
    options.verify_plan = True
    with codl.InferenceSession(model().SerializeToString(), options) as session:
        (output,) = session.run(None, feeds())
        assert session.plan.planner in {"even", *(f"single:{name}" for name in PAIR), "single"}
    assert relative_error(output, reference()) < 1e-4


@pytest.mark.parametrize("wrong", [3, bytearray(b"x"), None])
def test_no_model_is_refused(wrong: object) -> None:
    with pytest.raises(codl.ModelError, match="expected a path or the bytes"):
        codl.InferenceSession(wrong)  # type: ignore[arg-type]


ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "number for names": (5, {"x": np.ones(3, "f4")}),
    "text for names": ("y", {"x": np.ones(3, "f4")}),
    "numbers among names": ([5], {"x": np.ones(3, "f4")}),
    "dict for names": ({"y": 1}, {"x": np.ones(3, "f4")}),
    "no feeds": (None, None),
    "list of feeds": (None, [np.ones(3, "f4")]),
    "number for options": (None, {"x": np.ones(3, "f4")}, 5),
}


@pytest.mark.parametrize("arguments", ARGUMENTS.values(), ids=ARGUMENTS)
def test_arguments_of_another_kind_are_type_errors(arguments: tuple[Any, ...]) -> None:
    session = codl.InferenceSession(relu_model([3]))

    with pytest.raises(codl.InputTypeError) as caught:
        session.run(*arguments)

    assert isinstance(caught.value, TypeError | ValueError)


def test_a_number_of_numpys_is_a_tensor_without_axes() -> None:
    session = codl.InferenceSession(relu_model([]))

    (y,) = session.run(None, {"x": np.float32(3)})

    assert y == 3
    assert y.shape == ()
    with pytest.raises(codl.InputError, match="got dtype float64"):
        session.run(None, {"x": np.float64(3)})


def test_names_may_be_any_collection() -> None:
    session = codl.InferenceSession(relu_model([3]))

    for names in (("y",), {"y"}, (name for name in ["y"])):
        (output,) = session.run(names, {"x": np.ones(3, "f4")})  # type: ignore[arg-type]
        assert output.tolist() == [1.0] * 3


def test_options_of_another_library_are_refused() -> None:
    with pytest.raises(codl.InputError, match=r"codl\.SessionOptions"):
        codl.InferenceSession(b"", object())  # type: ignore[arg-type]


def test_option_given_as_an_argument_is_an_error_and_other_arguments_are_ignored() -> None:
    data = relu_model([3])
    assert codl.InferenceSession(data, disabled_optimizers=["any"]).get_inputs()[0].name == "x"
    with pytest.raises(codl.InputTypeError, match=r"devices: got an argument.*SessionOptions\(devices=...\)"):
        codl.InferenceSession(data, devices=["pocl-cpu"])
