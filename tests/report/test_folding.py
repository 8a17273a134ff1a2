"""What one ONNX node became is one row of a table, where a plan leaves it in one place."""

import pytest
from onnx import TensorProto, helper

from codl.frontend import load_graph
from codl.ir.graph import Graph
from codl.partitioner.even import plan_even
from codl.plan.sharing import Sharing
from codl.plan.single import plan_single
from codl.plan.steps import Plan
from codl.plan.text import find_whole, list_plan
from codl.report.folding import fold_parts
from tests.report.samples import NAMES, inspect, measure

OWN = ("pool", "squash", "norm", "mean")


def make_network() -> Graph:
    """Return a network of ONNX nodes that become several operators each."""
    nodes = [
        helper.make_node("InstanceNormalization", ["x", "scale", "shift"], ["n"], name="norm"),
        helper.make_node("GlobalAveragePool", ["n"], ["p"], name="pool"),
        helper.make_node("Softmax", ["p"], ["s"], name="squash"),
        helper.make_node("ReduceMean", ["n"], ["m"], name="mean", axes=[2, 3], keepdims=0),
    ]
    ones = helper.make_tensor("scale", TensorProto.FLOAT, [8], [1.0] * 8)
    zeros = helper.make_tensor("shift", TensorProto.FLOAT, [8], [0.0] * 8)
    graph = helper.make_graph(
        nodes,
        "parts",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8, 32, 32])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("s", "m")],
        [ones, zeros],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 12)], ir_version=8)
    return load_graph(model.SerializeToString())


GRAPH = make_network()
PLANS = {
    "single": plan_single(GRAPH, device="left", devices=NAMES),
    "chains": plan_even(GRAPH, devices=NAMES, max_chain_length=8),
    "steps": plan_even(GRAPH, devices=NAMES, max_chain_length=1),
}


def test_every_operator_bears_the_name_of_an_onnx_node_or_is_a_part_of_one() -> None:
    names = [node.name for node in GRAPH.nodes]

    assert len(names) > len(OWN)
    assert {find_whole(name, names) or name for name in names} == set(OWN)
    assert find_whole("block/conv", ["block"]) is None


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_folded_operators_take_what_their_parts_take(plan: Plan) -> None:
    found = measure(inspect(GRAPH, plan))

    folded = fold_parts(found)

    assert set(OWN) <= {operator.name for operator in folded.operators}
    for field in ("predicted_us", "measured_us", "of_total"):
        before, after = (
            sum(getattr(one, field) or 0.0 for one in each.operators) for each in (found, folded)
        )
        assert after == pytest.approx(before)
    assert all(one.place < one.length for one in folded.operators)


def test_all_parts_on_one_device_are_one_row() -> None:
    plan = PLANS["single"]

    folded = fold_parts(inspect(GRAPH, plan, sharing=Sharing.COHERENT))
    header, *lines = list_plan(plan, GRAPH)

    assert sorted(one.name for one in folded.operators) == sorted(OWN)
    assert sorted(line.split()[1] for line in lines) == sorted(OWN)
    assert "RowSum+CombineRows" in "\n".join(lines)
    assert header.startswith(f"plan: {len(GRAPH.nodes)} nodes")


def test_parts_in_steps_of_their_own_are_rows_under_the_name_of_their_node() -> None:
    _, *lines = list_plan(PLANS["steps"], GRAPH)

    assert {line.split()[1] for line in lines} == {node.name for node in GRAPH.nodes}
