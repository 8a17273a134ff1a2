"""Layers survive their file; the shipped workload calls every kernel; relatives are sound operators."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from codl.catalog.layers import (
    Layer,
    fill_constants,
    format_layers,
    list_before,
    list_layers,
    load_layers,
    read_node,
)
from codl.catalog.pairs import list_pair_layers
from codl.catalog.table import IMPLEMENTATIONS, PAIRS
from codl.errors import ProfileError
from codl.frontend import load_model
from codl.frontend.tiling import mark_tiles
from codl.ir.check import check_graph
from codl.ir.regions import Boxes, input_boxes
from codl.machine import DeviceKind
from codl.profiler.mutation import mutate
from codl.profiler.workload import load_pairs, load_workload, share_out
from tests.catalog.nodes import device_info
from tests.graphs import residual_block
from tools.networks import build

WORKLOAD = load_workload()
NETWORKS = 16


def test_layers_survive_their_file(tmp_path: Path) -> None:
    layers = list_layers([("block", residual_block())])
    path = tmp_path / "layers.json"
    path.write_text(format_layers(layers))

    assert load_layers(path) == layers
    assert [layer.uses for layer in load_layers(path)] == [layer.uses for layer in layers]


def test_equal_layers_are_counted_not_listed() -> None:
    layers = list_layers([("one", residual_block()), ("two", residual_block())])

    assert [dict(layer.uses) for layer in layers] == [
        {"one": 2, "two": 2},
        {"one": 1, "two": 1},
        {"one": 1, "two": 1},
    ]


@pytest.mark.parametrize(
    "text", ["", "[]", '{"schema": 2, "layers": []}', '{"schema": 1, "layers": [{"op": {"Nothing": {}}}]}']
)
def test_file_that_holds_no_layers_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "layers.json"
    path.write_text(text)

    with pytest.raises(ProfileError, match=r"layers.json.*tools/make_workload.py"):
        load_layers(path)


def test_workload_is_of_all_networks() -> None:
    assert len({network for layer in WORKLOAD for network in layer.uses}) == NETWORKS


def test_workload_has_every_layer_once() -> None:
    assert len({layer.key for layer in WORKLOAD}) == len(WORKLOAD)


@pytest.mark.parametrize("width", [4, 8, 16])
def test_workload_calls_every_kernel_of_a_processor(width: int) -> None:
    info = device_info(width)
    called = {work.row.name for work in share_out(WORKLOAD, info)}

    assert {row.name for row in IMPLEMENTATIONS if row.suits(info)} == called


def test_workload_calls_every_kernel_over_images() -> None:
    info = replace(device_info(1), kind=DeviceKind.GPU, has_images=True)
    called = {work.row.name for work in share_out(WORKLOAD, info)}

    assert {row.name for row in IMPLEMENTATIONS if row.name.endswith("__image")} <= called


def test_every_layer_is_a_sound_graph() -> None:
    for layer in (*WORKLOAD, *load_pairs()):
        check_graph(layer.make_graph())


def test_layers_have_the_tiles_that_networks_are_given() -> None:
    for layer in WORKLOAD:
        graph = mark_tiles(layer.make_graph())
        assert read_node(graph.nodes[0], graph).op == layer.op, "run tools/make_workload.py"


def test_workload_calls_every_kernel_over_several_nodes() -> None:
    info = replace(device_info(8), units=1)
    works = {work.row.name: work for work in share_out((*WORKLOAD, *load_pairs()), info)}

    for row in PAIRS:
        assert {len(layer.before) for layer in works[row.name].layers} == {row.taken}


def test_operators_of_one_launch_are_a_layer(tmp_path: Path) -> None:
    light = load_model(build("mobilenet_v2", size=64).SerializeToString()).graph
    infos = [replace(device_info(16), units=units) for units in (1, 4)]
    layers = list_pair_layers([("block", residual_block()), ("light", light)], infos)
    path = tmp_path / "pairs.json"

    path.write_text(format_layers(layers))

    assert load_layers(path) == layers
    assert {len(layer.before) for layer in layers} == {1, 2}
    for layer in layers:
        outline = layer.make_graph()
        check_graph(outline)
        assert len(outline.nodes) == 1 + len(layer.before)
        last = outline.nodes[-1]
        assert read_node(last, outline, list_before(last, outline, len(layer.before)) or ()) == layer
        assert len({layer.key, replace(layer, before=()).key}) == 2


def test_relatives_are_sound_operators() -> None:
    rng = np.random.default_rng(0)
    kinds = set()
    for layer in WORKLOAD:
        relative = mutate(layer, rng)
        if relative is not None:
            graph = relative.make_graph()
            check_graph(graph)
            for boxes, shape in zip(
                input_boxes(graph.nodes[0], graph, Boxes.whole(relative.output, 1)),
                relative.inputs,
                strict=True,
            ):
                assert (boxes.end <= np.array(shape, np.int64)).all(), relative.key
            kinds.add(type(layer.op).__name__)

    assert kinds >= {"Conv2d", "Pool2d", "MatMul", "Binary", "Unary", "Affine", "Concat"}


def test_constants_have_the_layers_shapes() -> None:
    layer = next(layer for layer in WORKLOAD if layer.constants)

    values = fill_constants(layer.make_graph())

    assert [values[f"x{place}"].shape for place in layer.constants] == [
        layer.inputs[place] for place in layer.constants
    ]


def test_outlines_take_no_memory() -> None:
    big: Layer = max(WORKLOAD, key=lambda one: max(int(np.prod(shape)) for shape in one.inputs))

    assert all(value.strides == (0,) * value.ndim for value in big.make_graph().constants.values())
