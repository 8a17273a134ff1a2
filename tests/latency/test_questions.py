"""Many slices asked about at once: nothing else comes out than for each by itself."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from codl.catalog.joined import find_sort, join_batches, list_described_facts
from codl.catalog.spec import Implementation, LaunchBatch, Parameters
from codl.catalog.table import IMPLEMENTATIONS
from codl.ir.boxes import Boxes
from codl.ir.graph import Graph, Node
from codl.ir.ops import Affine, Concat, Conv2d, Op, Pool2d, PoolKind, Unary
from codl.ir.regions import OutputBoxes, Region, input_boxes
from codl.ir.stacking import find_stacked_sort, repeat_all, stack_nodes
from codl.latency.epilogues import Epilogues
from codl.latency.features import extract_features
from codl.latency.predictor import Predictor
from codl.latency.questions import Question, answer_questions
from codl.machine import DeviceInfo
from tests.catalog.nodes import NODES, device_info, sample
from tests.latency.profiles import make_profile

_KNOWN_LOCAL_BYTES = 256 << 10
"""Local memory beyond which descriptions do not change."""


def _predictor(info: DeviceInfo) -> Predictor:
    """Return a predictor that has measured every second kernel, each with another result."""
    profile = make_profile(info)
    rows = {
        name: replace(row, model=row.model.scaled({}, 1 + 0.1 * place), error=0.01 * place)
        for place, (name, row) in enumerate(profile.rows.items())
        if place % 2
    }
    return Predictor(replace(profile, rows=rows), info)


def _gather(graphs: Sequence[Graph]) -> Graph:
    """Return a graph of the nodes of several graphs."""
    nodes, tensors, constants = [], {}, {}
    for place, graph in enumerate(graphs):
        own = {name: f"{place}.{name}" for name in graph.tensors}
        for node in graph.nodes:
            inputs = tuple(own[name] for name in node.inputs)
            nodes.append(replace(node, name=f"{place}.{node.name}", inputs=inputs, output=own[node.output]))
        tensors.update({own[name]: replace(tensor, name=own[name]) for name, tensor in graph.tensors.items()})
        constants.update({own[name]: value for name, value in graph.constants.items()})
    outputs = tuple(node.output for node in nodes)
    inputs = tuple(tensors.keys() - constants.keys() - set(outputs))
    return Graph(
        name="many", nodes=tuple(nodes), inputs=inputs, outputs=outputs, tensors=tensors, constants=constants
    )


GRAPH = _gather([sample.graph for sample in NODES.values()] * 2)


def _slice(node: Node, graph: Graph = GRAPH) -> OutputBoxes:
    whole = Region.whole(graph.shape(node.output))
    axes = [axis for axis, length in enumerate(whole.end) if length > 1]
    out = Boxes.of([whole, *(whole.cut(axis, 0, 1 + whole.end[axis] // 3) for axis in axes)])
    return OutputBoxes.find(node, graph, out)


def _make_layer(kind: type[Op], kernel: int, channels: int, outputs: int, size: int) -> Graph:
    x, y = (1, channels, size, size), (1, outputs, size, size)
    window, pads = (kernel, kernel), (kernel // 2,) * 4
    if kind is Conv2d:
        weights = {"w": (outputs, channels, kernel, kernel), "b": (outputs,)}
        cell = 4 if kernel == 3 else 1
        conv = Conv2d(kernel=window, pads=pads, has_bias=True, tile=(cell, cell))
        return sample(conv, {"x": x, **weights}, ("w", "b"), y, "").graph
    if kind is Affine:
        return sample(Affine(), {"x": x, "s": (channels,), "b": (channels,)}, ("s", "b"), x, "").graph
    if kind is Concat:
        both = (1, channels + outputs, size, size)
        return sample(Concat(axis=1), {"x": x, "z": y}, (), both, "").graph
    op = Unary() if kind is Unary else Pool2d(kind=PoolKind.MAX, kernel=window, pads=pads)
    return sample(op, {"x": x}, (), x, "").graph


_SIZES = ((64, 64, 28), (48, 64, 28), (32, 48, 14), (512, 200, 7), (16, 512, 56), (32, 32, 14))
STACKING: dict[str, tuple[type[Op], int]] = {
    "conv2d_pointwise__buffer": (Conv2d, 1),
    "conv2d_gemm__buffer": (Conv2d, 3),
    "conv2d_blocked__buffer": (Conv2d, 3),
    "conv2d_winograd_fused__buffer": (Conv2d, 3),
    "conv2d_winograd_staged__buffer": (Conv2d, 3),
    "conv2d_winograd_streamed__buffer": (Conv2d, 3),
    "pool2d_direct__buffer": (Pool2d, 3),
    "elementwise_unary__buffer": (Unary, 1),
    "affine_channels__buffer": (Affine, 1),
    "layout_concat__buffer": (Concat, 1),
}
"""By row that describes several operators at once, the operators to try it with and their windows."""
LAYERS = {
    which: _gather([_make_layer(*which, *sizes) for sizes in _SIZES])
    for which in dict.fromkeys(STACKING.values())
}


def _find_parameters(
    row: Implementation, node: Node, graph: Graph, place: int, info: DeviceInfo
) -> Parameters:
    """Return what a row is built with: as it chooses, or other values where it takes no such node."""
    known = row.accepts(node, graph, info)
    return known or {name: values[place % len(values)] for name, values in row.allowed.items()}


def test_answers_are_those_of_each_question_by_itself() -> None:
    narrow, wide = device_info(8), device_info(16)
    infos = (narrow, replace(wide, name="wide"), replace(narrow, name="alike", driver="other"))
    predictors = [_predictor(info) for info in infos]
    questions = [
        Question(node=node, out=_slice(node), selections=tuple(one.choose(node, GRAPH) for one in predictors))
        for node in GRAPH.nodes
    ]

    found = answer_questions(questions, GRAPH, predictors)

    start = 0
    for place, question in enumerate(questions):
        part = slice(start, start + question.out.count)
        start, doubts = part.stop, []
        for device, predictor in enumerate(predictors):
            alone = predictor.predict(question.node, GRAPH, question.out)
            assert found.us[device, part] == pytest.approx(alone.us)
            assert found.memory_us[device, part] == pytest.approx(alone.us * alone.memory_share)
            doubts.append(alone.uncertainty)
        assert found.uncertainties[place] == max(doubts)
    assert found.us.shape == (len(infos), start)


def test_all_rows_that_stack_are_tried() -> None:
    assert {row.name for row in IMPLEMENTATIONS if row.stacks} == set(STACKING)


@pytest.mark.parametrize("driver", ["intel", "test"], ids=["asks-for-memory-ahead", "does-not"])
@pytest.mark.parametrize("name", STACKING)
def test_operators_side_by_side_are_described_as_each_by_itself(name: str, driver: str) -> None:
    graph, info = LAYERS[STACKING[name]], replace(device_info(16), driver=driver)
    (row,) = (row for row in IMPLEMENTATIONS if row.name == name)
    nodes = graph.nodes
    outs = [_slice(node, graph) for node in nodes]
    counts = [out.count for out in outs]
    known = [_find_parameters(row, node, graph, place, info) for place, node in enumerate(nodes)]
    apart = [
        row.describe(node, graph, out, info, one) for node, out, one in zip(nodes, outs, known, strict=True)
    ]

    stack = stack_nodes(nodes, graph, counts)
    parameters = repeat_all(known, counts)
    together = row.describe(stack.node, stack.graph, OutputBoxes.join(outs, stack), info, parameters)

    assert len({find_stacked_sort(node, graph) for node in nodes}) == 1
    for batch, parts in zip(together, zip(*apart, strict=True), strict=True):
        _assert_equal(batch, join_batches(parts))
    features = extract_features(together, parameters, info)
    start = 0
    for described, one, count in zip(apart, known, counts, strict=True):
        part, alone = slice(start, start + count), extract_features(described, one, info)
        start = part.stop
        assert np.array_equal(features.values[part], alone.values)
        assert np.array_equal(features.moved_bytes[part], alone.moved_bytes)
        assert np.array_equal(features.launches[part], alone.launches)


@pytest.mark.parametrize("graph", LAYERS.values(), ids=[f"{kind.__name__}-{size}" for kind, size in LAYERS])
def test_boxes_of_many_nodes_need_what_each_needs(graph: Graph) -> None:
    outs = [Boxes.whole(graph.shape(node.output), 2).with_axis(2, 1, 3) for node in graph.nodes]

    found = OutputBoxes.find_all(graph.nodes, graph, outs)

    for node, out, one in zip(graph.nodes, outs, found, strict=True):
        for needed, alone in zip(one.needs, input_boxes(node, graph, out), strict=True):
            assert np.array_equal(needed.begin, alone.begin)
            assert np.array_equal(needed.end, alone.end)


@pytest.mark.parametrize("name", NODES)
def test_joined_launches_have_the_features_of_each(name: str) -> None:
    graph, info = NODES[name].graph, device_info(16)
    (node,) = graph.nodes
    chosen = _predictor(info).choose(node, graph)
    whole = Region.whole(graph.shape(node.output))
    parts = [Boxes.of([whole, whole]), Boxes.of([whole.cut(len(whole.end) - 1, 0, 1)])]
    described = [chosen.implementation.describe(node, graph, part, info, chosen.parameters) for part in parts]

    joined = [join_batches(each) for each in zip(*described, strict=True)]

    alone = [
        extract_features(each, chosen.parameters, info, epilogues=Epilogues.of(node.epilogue))
        for each in described
    ]
    together = extract_features(joined, chosen.parameters, info, epilogues=Epilogues.of(node.epilogue))
    assert [find_sort(batch) for batch in joined] == [find_sort(batch) for batch in described[0]]
    assert np.array_equal(together.values, np.concatenate([one.values for one in alone]))
    assert np.array_equal(together.moved_bytes, np.concatenate([one.moved_bytes for one in alone]))


@pytest.mark.parametrize("name", NODES)
def test_descriptions_are_equal_where_all_facts_are_that_they_depend_on(name: str) -> None:
    graph, info = NODES[name].graph, device_info(16)
    (node,) = graph.nodes
    other = replace(
        info,
        name="other",
        driver="other",
        device_name="other",
        local_memory_bytes=_KNOWN_LOCAL_BYTES * 5,
        max_work_group_size=info.max_work_group_size * 2,
        work_group_multiple=info.work_group_multiple * 2,
        global_memory_bytes=info.global_memory_bytes * 2,
        has_fp16=not info.has_fp16,
        is_unified=not info.is_unified,
    )
    info = replace(info, local_memory_bytes=_KNOWN_LOCAL_BYTES)
    chosen = _predictor(info).choose(node, graph)
    found = [
        chosen.implementation.describe(
            node, graph, Boxes.whole(graph.shape(node.output), 1), one, chosen.parameters
        )
        for one in (info, other)
    ]

    assert list_described_facts(info) == list_described_facts(other)
    for one, another in zip(*found, strict=True):
        _assert_equal(one, another)


def _assert_equal(one: LaunchBatch, other: LaunchBatch) -> None:
    assert find_sort(one) == find_sort(other)
    assert np.array_equal(one.global_size, other.global_size)
    for left, right in ((one.scalars, other.scalars), (one.units, other.units)):
        assert {key: value.tolist() for key, value in left.items()} == {
            key: value.tolist() for key, value in right.items()
        }
    for mine, theirs in ((one.scratch, other.scratch), (one.local, other.local)):
        assert mine is None or (theirs is not None and np.array_equal(mine, theirs))
