"""Files that an inspection becomes: trace, annotated model, picture; and what two plans do differently."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from codl.errors import ModelError
from codl.frontend import load_graph
from codl.ir.graph import Graph
from codl.partitioner.even import plan_even
from codl.plan.text import draw_bracket
from codl.report.annotate import annotate_model
from codl.report.difference import compare, list_difference
from codl.report.inspection import Inspection
from codl.report.perfetto import list_trace_events
from codl.report.picture import draw_timeline
from codl.report.table import list_columns, list_rows, list_totals, shorten
from tests.graphs import residual_block
from tests.report.samples import NAMES, count_colours, hostile_graph, inspect, long_graph, measure

GRAPH = residual_block(height=64)


def test_trace_has_the_keys_of_onnxruntime_and_a_track_for_each_queue() -> None:
    events = list_trace_events(measure(inspect(GRAPH)))

    nodes = [event for event in events if event.get("cat") == "Node"]
    tracks = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert {"cat", "pid", "tid", "dur", "ts", "ph", "name", "args"} <= set(nodes[0])
    assert nodes[0]["name"] == "conv_a_kernel_time"
    assert {"provider", "op_name", "node_index", "output_type_shape"} <= set(nodes[0]["args"])
    assert set(NAMES) <= tracks
    assert {event["pid"] for event in nodes} == {1, 2}
    json.loads(json.dumps(events))


@pytest.mark.parametrize("graph", [GRAPH, hostile_graph(), long_graph(40)], ids=["small", "hostile", "long"])
def test_picture_of_a_timeline_shows_something(graph: Graph) -> None:
    assert count_colours(draw_timeline(inspect(graph))) > 20


def test_picture_of_nothing_is_a_picture() -> None:
    found = inspect(GRAPH)
    bare = Inspection(
        model="m",
        planner="",
        devices=NAMES,
        origins=(None, None),
        operators=found.operators,
        steps=found.steps,
        totals=found.totals,
    )

    assert draw_timeline(bare).startswith(b"\x89PNG")


def test_table_has_a_row_for_each_operator_and_brackets_for_chains() -> None:
    found = measure(inspect(GRAPH))

    rows = list_rows(found)

    assert [len(row) for row in rows] == [len(list_columns(found))] * len(GRAPH.nodes)
    assert [row[0].split()[1] for row in rows] == [node.name for node in GRAPH.nodes]
    assert rows[0][0].startswith("┌")
    assert [draw_bracket(place, 3) for place in range(3)] == ["┌", "│", "└"]
    text = "\n".join(list_totals(found))
    assert "best single device" in text
    assert "no-overhead ideal" in text
    assert "prediction off by -20 %" in text


def test_measured_kernels_are_compared_with_their_own_prediction_only() -> None:
    found = measure(inspect(GRAPH), factor=1.0)
    predicted_us = found.totals.predicted_us
    assert predicted_us is not None
    slow = replace(found, totals=replace(found.totals, measured_us=10 * predicted_us))
    quick = replace(found, totals=replace(found.totals, measured_us=0.1 * predicted_us))
    foreign = replace(slow, operators=tuple(replace(one, predicted_us=None) for one in slow.operators))

    slow_text, quick_text, foreign_text = ("\n".join(list_totals(one)) for one in (slow, quick, foreign))

    assert "prediction off by +0 %" in slow_text
    assert slow_text.count("off by") == quick_text.count("off by") == 1
    assert "between kernels" in slow_text
    assert "side by side     " in quick_text
    assert "off by" not in foreign_text
    assert "of operators without a prediction" in foreign_text


def test_names_are_printed_without_control_characters() -> None:
    assert shorten("a\x1b[31m\nb", 20) == "a?[31m?b"
    assert shorten("x" * 50, 11) == "xxxxx…xxxxx"


def test_difference_tells_what_changed_and_its_price() -> None:
    before = inspect(GRAPH, plan_even(GRAPH, devices=NAMES, max_chain_length=3))
    after = inspect(GRAPH, plan_even(GRAPH, devices=NAMES, max_chain_length=3, ratios=(0.7, 0.3)))

    found = compare(before, after)

    assert compare(before, before).operators == ()
    assert {one.node for one in found.operators} == {node.name for node in GRAPH.nodes}
    first = next(list_difference(found))
    assert first.startswith("predicted")
    assert "%" in first


@pytest.fixture
def fused_model(tmp_path: Path) -> Path:
    """A convolution, a batch norm and an activation that become one operator, weights in a file beside it."""
    random = np.random.default_rng(0)
    weights = {
        "w": random.standard_normal((16, 8, 3, 3)),
        **{name: np.ones(16) for name in ("scale", "bias", "mean", "var")},
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c", "scale", "bias", "mean", "var"], ["n"], name="norm"),
        helper.make_node("Relu", ["n"], ["r"], name="relu"),
        helper.make_node("MaxPool", ["r"], ["y"], name="pool", kernel_shape=[2, 2], strides=[2, 2]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8, 16, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 16, 8, 8])],
        [numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = tmp_path / "model.onnx"
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    return path


def test_decisions_are_in_the_metadata_of_each_node(fused_model: Path, tmp_path: Path) -> None:
    graph = load_graph(fused_model)
    found = inspect(graph)
    target = tmp_path / "elsewhere" / "copy.onnx"
    target.parent.mkdir()

    count = annotate_model(fused_model, target, found, {node.output: node.name for node in graph.nodes})

    copy = onnx.load(target)
    told = {node.name: {p.key: p.value for p in node.metadata_props} for node in copy.graph.node}
    assert count == len(told) == 4
    assert told["conv"] == told["norm"] == told["relu"]
    assert told["conv"]["codl.cut"].startswith("left 0:")
    assert told["pool"]["codl.operator"] != told["conv"]["codl.operator"]
    onnx.checker.check_model(copy)
    feeds = {"x": np.ones((1, 8, 16, 16), np.float32)}
    results = [onnxruntime.InferenceSession(path).run(None, feeds)[0] for path in (fused_model, target)]
    assert np.array_equal(*results)


def test_annotating_again_replaces_what_was_told(fused_model: Path, tmp_path: Path) -> None:
    graph = load_graph(fused_model)
    outputs = {node.output: node.name for node in graph.nodes}
    first, second = tmp_path / "first.onnx", tmp_path / "second.onnx"
    annotate_model(fused_model, first, inspect(graph), outputs)

    annotate_model(first, second, inspect(graph), outputs)

    assert first.read_bytes() == second.read_bytes()


def test_model_is_never_replaced_by_its_copy(fused_model: Path) -> None:
    graph = load_graph(fused_model)

    with pytest.raises(ModelError, match="another file"):
        annotate_model(fused_model, fused_model, inspect(graph), {})
