"""Models that leave dimensions open: described as onnxruntime describes them, compiled for what is fed."""

from typing import Any

import numpy as np
import onnxruntime
import pytest

import codl
from codl.executor.compile import compile_plan
from codl.session import tiers, variants
from tests.frontend.onnx_models import make_model, node, random_array
from tests.oracle import relative_error
from tests.session.models import relu_model

DECLARATIONS: dict[str, tuple[list[int | str | None], list[int | str | None] | None]] = {
    "named": (["N", 3], ["N", 3]),
    "unnamed": ([None, 3], [None, 3]),
    "undeclared output": (["N", 3, "H", "W"], None),
    "another name in the output": (["N", 3], ["B", 3]),
    "fixed input and named output": ([2, 3], ["B", 3]),
    "fixed": ([2, 3], None),
}


def open_onnxruntime(data: bytes, options: Any = None) -> Any:
    given = options or onnxruntime.SessionOptions()
    given.log_severity_level = 4
    return onnxruntime.InferenceSession(data, given, providers=["CPUExecutionProvider"])


def describe(session: Any) -> list[tuple[str, list[Any], str]]:
    arguments = (*session.get_inputs(), *session.get_outputs(), *session.get_overridable_initializers())
    return [(argument.name, argument.shape, argument.type) for argument in arguments]


@pytest.mark.parametrize(("shape", "output"), DECLARATIONS.values(), ids=DECLARATIONS)
def test_arguments_are_described_as_onnxruntime_describes_them(
    shape: list[int | str | None], output: list[int | str | None] | None
) -> None:
    data = relu_model(shape, output=output)

    assert describe(codl.InferenceSession(data)) == describe(open_onnxruntime(data))


def test_open_lengths_that_inference_finds_no_name_for_are_none() -> None:
    pool = node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2])
    data = make_model([pool], inputs={"x": ["N", 3, "H", "W"]}).SerializeToString()

    assert describe(codl.InferenceSession(data)) == describe(open_onnxruntime(data))


@pytest.mark.parametrize("by", ["name", "denotation"])
def test_open_dimensions_are_set_by_the_options(by: str) -> None:
    model = make_model([node("Relu", ["x"], ["y"])], inputs={"x": ["N", 3]})
    model.graph.input[0].type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    data = model.SerializeToString()
    described = []
    for module in (codl, onnxruntime):
        options = module.SessionOptions()
        if by == "name":
            options.add_free_dimension_override_by_name("N", 2)
            options.add_free_dimension_override_by_name("not in this model", 7)
        else:
            options.add_free_dimension_override_by_denotation("DATA_BATCH", 2)
        described.append(describe(module.InferenceSession(data, options)))

    assert described[0] == described[1]
    assert described[0][0][1] == [2, 3]


def test_each_shape_is_computed_rightly() -> None:
    nodes = [
        node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        node("Relu", ["c"], ["r"]),
        node("GlobalAveragePool", ["r"], ["y"]),
    ]
    constants = {"w": random_array(4, 3, 3, 3)}
    data = make_model(nodes, inputs={"x": ["N", 3, "H", "W"]}, constants=constants).SerializeToString()
    reference = open_onnxruntime(data)
    with codl.InferenceSession(data) as session:
        for shape in ((1, 3, 8, 8), (2, 3, 5, 9), (1, 3, 8, 8)):
            feeds = {"x": random_array(*shape)}
            (output,) = session.run(None, feeds)
            assert relative_error(output, reference.run(None, feeds)[0]) < 1e-5
            assert session.graph.shape("x") == shape


def test_inputs_that_share_a_name_may_differ_as_in_onnxruntime() -> None:
    data = make_model([node("Add", ["x", "z"], ["y"])], inputs={"x": ["N"], "z": ["N"]}).SerializeToString()

    (output,) = codl.InferenceSession(data).run(None, {"x": np.ones(1, "f4"), "z": np.ones(3, "f4")})

    assert output.tolist() == [2.0, 2.0, 2.0]


@pytest.mark.parametrize("shape", [(2, 4), (0, 4), (3,), (1, 2, 3)])
def test_shapes_that_cannot_be_are_refused(shape: tuple[int, ...]) -> None:
    session = codl.InferenceSession(relu_model(["N", 3]))

    with pytest.raises(codl.InputError, match=r"'x'.*expected float32 of shape \['N', 3\]"):
        session.run(None, {"x": np.zeros(shape, np.float32)})


def test_plan_is_known_after_the_first_run() -> None:
    session = codl.InferenceSession(relu_model(["N", 3]))
    for attribute in ("plan", "graph"):
        with pytest.raises(codl.PlanError, match=r"\['N'\].*run it once"):
            getattr(session, attribute)

    session.run(None, {"x": np.zeros((2, 3), np.float32)})

    assert session.plan.fingerprint == session.graph.fingerprint


def test_shapes_are_kept_as_long_as_their_memory_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def count(graph: Any, *rest: Any, **options: Any) -> Any:
        made.append(graph.shape("x")[0])
        return compile_plan(graph, *rest, **options)

    monkeypatch.setattr(variants, "compile_plan", count)
    monkeypatch.setattr(tiers, "_MOST_BYTES", 3)
    monkeypatch.setattr(tiers, "_count_bytes", len)
    with codl.InferenceSession(relu_model(["N", 3])) as session:
        for rows in (1, 2, 3, 4, 1, 5, 1, 2):
            session.run(None, {"x": np.zeros((rows, 3), np.float32)})
            assert len(session._tiers) <= 4

    assert made == [1, 2, 3, 4, 5, 2]


def test_fixed_model_is_not_held_after_it_was_compiled() -> None:
    session = codl.InferenceSession(relu_model([2, 3]))

    assert session._opening.source is None


def test_weights_of_several_shapes_are_held_once() -> None:
    nodes = [
        node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        node("Relu", ["c"], ["r"]),
        node("Conv", ["r", "v"], ["y"], pads=[1, 1, 1, 1]),
    ]
    constants = {"w": random_array(32, 3, 3, 3), "v": random_array(32, 32, 3, 3)}
    data = make_model(nodes, inputs={"x": ["N", 3, "H", "W"]}, constants=constants).SerializeToString()
    held = []
    with codl.InferenceSession(data, codl.SessionOptions(devices=["intel-cpu"])) as session:
        for size in (24, 26):
            session.run(None, {"x": random_array(1, 3, size, size)})
            made = [tier.variant for tier in session._tiers._tiers.values() if tier.variant is not None]
            held.append({key: n for one in made for key, n in one.executable.constant_bytes.items()})
        taken, activations = tiers._count_bytes(made), [one.executable.plan.memory for one in made]

    assert held[0] == held[1]
    apart = sum(one.activation_bytes for memory in activations for one in memory)
    assert taken == apart + sum(held[0].values())
