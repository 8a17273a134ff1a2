"""Kernels that a session has built are taken for other shapes, where they take about as long."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest

import codl
from codl.catalog.choose import Rung, explain_choice
from codl.catalog.source import build_options
from codl.catalog.spec import Parameters, Selection
from codl.devices.launch import find_program
from codl.devices.opencl import Device
from codl.frontend import load_source
from codl.frontend.loading import open_model
from codl.ir.graph import Graph, Node
from codl.ir.regions import Boxes
from codl.latency.predictor import Predictor
from codl.session.built import _LITTLE, _LONGEST, BuiltKernels
from codl.session.request import PlanRequest
from codl.session.resolving import resolve_request
from tests.exactness import DEVICES
from tests.frontend.onnx_models import make_model, node, random_array
from tests.oracle import relative_error
from tests.session.test_shapes import open_onnxruntime

CHANNELS = (3, 32, 32, 64, 64, 128)
SIZES = (56, 30, 41, 72, 64, 27, 50, 35, 60, 44, 53, 39)
Program = tuple[str, str, str]
"""Device, source, options."""


def conv_model() -> bytes:
    """Return convolutions of images of any size, every second one with a stride."""
    nodes, constants = [], {}
    for place, (inputs, outputs) in enumerate(pairwise(CHANNELS)):
        constants[f"w{place}"] = random_array(outputs, inputs, 3, 3) / np.float32(3 * inputs**0.5)
        stride = 1 + place % 2
        x, y = f"x{place}" if place else "x", f"x{place + 1}" if place < len(CHANNELS) - 2 else "y"
        nodes.append(node("Conv", [x, f"w{place}"], [y], pads=[1] * 4, strides=[stride] * 2))
    model = make_model(nodes, inputs={"x": [1, 3, "H", "W"]}, constants=constants)
    data: bytes = model.SerializeToString()
    return data


@pytest.fixture(scope="module")
def graphs() -> list[Graph]:
    source = open_model(conv_model())
    return [load_source(source, shapes={"x": (1, 3, size, size)}).graph for size in SIZES]


@pytest.fixture
def request_() -> PlanRequest:
    return resolve_request(codl.SessionOptions(devices=DEVICES, planner="dynamic"))


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> set[Program]:
    """The programs that count as built."""
    known: set[Program] = set()

    def has(self: Device, source: str, parameters: Parameters) -> bool:
        return (self.info.name, source, build_options(parameters)) in known

    monkeypatch.setattr(Device, "has_program", has)
    return known


def list_programs(graph: Graph, request: PlanRequest) -> Iterator[Program]:
    for predictor in request.predictors:
        for each in graph.nodes:
            chosen = predictor.choose(each, graph)
            row, out = chosen.implementation, Boxes.whole(graph.shape(each.output), 1)
            for batch in row.describe(each, graph, out, predictor.info, chosen.parameters):
                source, parameters = find_program(batch, row.source, chosen.parameters, info=predictor.info)
                yield predictor.info.name, source, build_options(parameters)


def predict_us(predictor: Predictor, each: Node, graph: Graph, selection: Selection) -> float:
    out = Boxes.whole(graph.shape(each.output), 1)
    return float(predictor.predict(each, graph, out, selection=selection).us[0])


def test_later_shapes_build_few_programs(
    graphs: list[Graph], request_: PlanRequest, built: set[Program]
) -> None:
    usual = [set(list_programs(graph, request_)) for graph in graphs]
    kernels, new = BuiltKernels(), []
    for graph in graphs:
        wanted = set(list_programs(graph, kernels.prefer(graph, request_)))
        new.append(len(wanted - built))
        built |= wanted

    assert new[0] == len(usual[0])
    assert sum(new) < 0.6 * len(set().union(*usual))
    assert sum(new[6:]) == 0


def test_other_kernels_take_about_as_long(
    graphs: list[Graph], request_: PlanRequest, built: set[Program]
) -> None:
    kernels, named = BuiltKernels(), 0
    for graph in graphs:
        asked = kernels.prefer(graph, request_)
        for usual, other in zip(request_.predictors, asked.predictors, strict=True):
            best = {n.name: predict_us(usual, n, graph, usual.choose(n, graph)) for n in graph.nodes}
            for each in graph.nodes:
                choice = explain_choice(each, graph, other.info, other.database)
                named += choice.rung is Rung.NAMED
                assert choice.selection.implementation is usual.choose(each, graph).implementation
                taken_us = predict_us(usual, each, graph, choice.selection)
                spare_us = _LITTLE * sum(best.values())
                assert taken_us <= max(_LONGEST * best[each.name], best[each.name] + spare_us) * (1 + 1e-9)
        built |= set(list_programs(graph, asked))

    assert named > 0


def test_kernels_that_need_no_building_are_chosen_as_ever(
    graphs: list[Graph], request_: PlanRequest, built: set[Program]
) -> None:
    kernels = BuiltKernels()
    for graph in graphs:
        built |= set(list_programs(graph, request_))
        asked = kernels.prefer(graph, request_)

        assert not any(one.database.named for one in asked.predictors)


def test_requests_without_predictions_prefer_built_kernels_too(
    graphs: list[Graph], request_: PlanRequest, built: set[Program]
) -> None:
    bare, kernels = PlanRequest(devices=DEVICES[:1], planner=f"single:{DEVICES[0]}"), BuiltKernels()
    for graph in graphs:
        asked = kernels.prefer(graph, bare)
        built |= set(list_programs(graph, request_)) if graph is graphs[0] else set()

        assert asked.predictors == ()
        assert asked.find_databases(DEVICES).keys() == set(DEVICES)
    assert asked.databases[DEVICES[0]].named


def test_numbers_are_right_with_kernels_of_other_shapes(
    built: set[Program], monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare = Device.prepare

    def note(self: Device, source: str, parameters: Parameters) -> object:
        built.add((self.info.name, source, build_options(parameters)))
        return prepare(self, source, parameters)

    monkeypatch.setattr(Device, "prepare", note)
    data, counts = conv_model(), []
    reference = open_onnxruntime(data)
    with codl.InferenceSession(data, codl.SessionOptions(devices=DEVICES, planner="dynamic")) as session:
        for size in (56, 52, 60):
            feeds = {"x": random_array(1, 3, size, size)}
            (output,) = session.run(None, feeds)
            assert relative_error(output, reference.run(None, feeds)[0]) < 1e-4
            counts.append(len(built))

    assert counts[2] <= counts[0] + 2
