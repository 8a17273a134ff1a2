"""Networks of which ONNX Runtime computes a part: as exact as others, whatever the plan and the sharing."""

from functools import cache

import numpy as np
import pytest
from onnx import TensorProto

import codl
from codl.devices.opencl import open_devices
from codl.executor.compile import compile_plan
from codl.executor.host import HostSessions, prepare_store
from codl.ir.ops import HostCall
from codl.partitioner.even import plan_even
from codl.plan.sharing import Sharing
from codl.plan.single import plan_single
from codl.plan.steps import Host, Plan
from codl.plan.text import format_plan
from codl.tuner.workload import find_shapes
from tests.exactness import DEVICES, Case, cut_every_node, declare_discrete
from tests.executor.mixed_models import MODELS, draw_model
from tests.frontend.onnx_models import make_model, node, open_onnxruntime
from tests.oracle import NETWORK_TOLERANCE, random_feeds, relative_error
from tests.random_plans import draw_plan

EACH = pytest.mark.parametrize("name", MODELS)


@cache
def case(name: str) -> Case:
    return Case(MODELS[name]())


def check(name: str, plan: Plan) -> None:
    for sharing in Sharing:
        assert list(case(name).find_errors(plan, open_devices(plan.devices), sharing=sharing)) == [], sharing


@EACH
@pytest.mark.parametrize("device", DEVICES)
def test_mixed_network_is_exact_on_one_device(name: str, device: str) -> None:
    check(name, plan_single(case(name).graph, device=device))


@EACH
@pytest.mark.parametrize("length", [1, 8])
def test_mixed_network_is_exact_in_chains(name: str, length: int) -> None:
    check(name, plan_even(case(name).graph, devices=DEVICES, max_chain_length=length))


@EACH
@pytest.mark.parametrize("axis", [1, 2])
def test_mixed_network_is_exact_when_every_node_is_cut(name: str, axis: int) -> None:
    check(name, cut_every_node(case(name).graph, DEVICES, axis, None))


@EACH
@pytest.mark.parametrize("seed", range(3))
def test_mixed_network_is_exact_under_random_plans(name: str, seed: int) -> None:
    check(name, draw_plan(case(name).graph, DEVICES, np.random.default_rng(seed)))


@EACH
@pytest.mark.parametrize("index", [0, -1])
def test_mixed_network_is_exact_beside_a_device_with_memory_of_its_own(name: str, index: int) -> None:
    devices = declare_discrete(open_devices(DEVICES), index)
    plan = plan_even(case(name).graph, devices=DEVICES, max_chain_length=3)
    for sharing in (Sharing.COHERENT, Sharing.MAPPED):
        assert list(case(name).find_errors(plan, devices, sharing=sharing)) == [], sharing


@EACH
def test_session_returns_what_onnxruntime_returns(name: str) -> None:
    model = MODELS[name]()
    data, feeds = model.SerializeToString(), random_feeds(model)
    reference = open_onnxruntime(data)
    options = codl.SessionOptions()
    options.devices, options.planner, options.intra_op_num_threads = DEVICES, "even", 1
    with codl.InferenceSession(data, options) as session:
        first = session.run(None, feeds)
        again = session.run(None, feeds)
        assert [(a.name, a.type) for a in session.get_inputs()] == [
            (a.name, a.type) for a in reference.get_inputs()
        ]
        assert [(a.name, a.type) for a in session.get_outputs()] == [
            (a.name, a.type) for a in reference.get_outputs()
        ]
        assert any(isinstance(step, Host) for step in session.plan.steps)
    for value, same, expected in zip(first, again, reference.run(None, feeds), strict=True):
        assert relative_error(value, expected) <= NETWORK_TOLERANCE
        assert value.tobytes() == same.tobytes()


@pytest.mark.parametrize("seed", range(12))
def test_random_network_is_exact(seed: int) -> None:
    rng = np.random.default_rng(seed)
    drawn = Case(draw_model(rng))
    for _ in range(2):
        plan = draw_plan(drawn.graph, DEVICES, rng)
        for sharing in Sharing:
            assert list(drawn.find_errors(plan, open_devices(DEVICES), sharing=sharing)) == [], sharing


def test_threads_of_the_host_are_those_asked_for() -> None:
    sessions = HostSessions(case("gate").graph, threads=3)

    assert sessions.open("host/1").get_session_options().intra_op_num_threads == 3
    assert sessions.open("host/1") is sessions.open("host/1")


def test_what_the_host_refuses_is_an_error_of_the_run_and_the_next_one_is_right() -> None:
    gather = node("Gather", ["x", "i"], ["y"])
    model = make_model([gather], inputs={"x": [3], "i": [1]}, types={"i": TensorProto.INT64})
    x = np.array([1, 2, 3], np.float32)
    with codl.InferenceSession(model.SerializeToString()) as session:
        with pytest.raises(codl.HostError, match=r"host/1 of model: ONNX Runtime failed with .*Gather"):
            session.run(None, {"x": x, "i": np.array([7])})
        assert session.run(None, {"x": x, "i": np.array([2])})[0].tolist() == [3.0]


def test_a_value_of_another_shape_than_planned_is_an_error_of_the_run() -> None:
    view = np.zeros((1, 3), np.float32)
    store = prepare_store("f", view, "host/1 of model")

    with pytest.raises(
        codl.HostError, match=r"host/1 of model: got 'f' of shape \(1, 1\), expected \(1, 3\)"
    ):
        store(np.ones((1, 1), np.float32))
    store(np.ones((1, 3), np.float32))

    assert view.tolist() == [[1.0, 1.0, 1.0]]


@EACH
def test_plan_with_host_steps_survives_json_and_prints_reasons(name: str) -> None:
    graph = case(name).graph
    plan = plan_even(graph, devices=DEVICES)

    text = format_plan(plan, graph)

    assert Plan.from_json(plan.to_json()) == plan
    steps = [step for step in plan.steps if isinstance(step, Host)]
    assert f"{len(steps)} of them on the host" in text
    assert all(reason in text for step in steps for reason in step.reasons)


def test_branches_meet_in_one_host_step() -> None:
    graph = case("runtime_only").graph

    (model,) = graph.host_models.values()

    assert model.operators == ("com.microsoft.Gelu", "com.microsoft.QuickGelu")
    assert model.reasons == ("no kernel for com.microsoft.Gelu", "no kernel for com.microsoft.QuickGelu")


def test_what_only_the_host_touches_is_placed_on_no_device() -> None:
    graph = case("all_host").graph
    executable = compile_plan(graph, plan_single(graph, device=DEVICES[0]), open_devices(DEVICES[:1]))

    assert all(isinstance(node.op, HostCall) for node in graph.nodes)
    assert executable.launch_count == 0
    assert sum(executable.activation_bytes.values()) == 0


def test_what_the_host_computes_is_not_tuned() -> None:
    shapes = find_shapes([case("classifier").graph])

    assert {shape.node.kind for shape in shapes} == {"Conv2d", "RowSum", "CombineRows", "Reshape", "MatMul"}
