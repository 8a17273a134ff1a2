"""The shapes that are tuned: each once, the heaviest first, shipped ones as good as a model's."""

from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from codl.catalog.candidates import iterate_candidates
from codl.catalog.choose import choose
from codl.catalog.layers import format_layers, list_layers
from codl.errors import ProfileError
from codl.frontend import load_graph
from codl.tuner.workload import find_shapes, read_workload, workload_path
from tests.catalog.nodes import NODES, conv, device_info
from tools.networks import build

GRAPH = load_graph(build("mobilenet_v2", size=32, width=0.35).SerializeToString())
SHAPES = find_shapes([GRAPH])


def test_every_node_is_counted_once() -> None:
    assert sum(shape.count for shape in SHAPES) == len(GRAPH.nodes)
    assert len({shape.key for shape in SHAPES}) == len(SHAPES)


def test_two_networks_share_their_shapes() -> None:
    twice = find_shapes([GRAPH, GRAPH])

    assert {shape.key: shape.count for shape in twice} == {s.key: 2 * s.count for s in SHAPES}


def test_heavy_shapes_come_first() -> None:
    small, large = conv(16, 16, 7), conv(64, 64, 56)
    found = find_shapes([small.graph, large.graph])

    assert [dict(shape.key.sizes)["IC"] for shape in found] == [64, 16]


def test_a_file_of_layers_holds_the_same_shapes(tmp_path: Path) -> None:
    path = tmp_path / "layers.json"
    path.write_text(format_layers(list_layers([("network", GRAPH)])))

    again = read_workload(path)

    assert {one.key: one.count for one in again} == {one.key: one.count for one in SHAPES}
    info = device_info(16)
    known = {one.key: one for one in SHAPES}
    for two in again:
        one = known[two.key]
        assert choose(one.node, one.graph, info) == choose(two.node, two.graph, info)


def test_constants_that_were_left_out_are_made_when_needed(tmp_path: Path) -> None:
    path = tmp_path / "layers.json"
    path.write_text(format_layers(list_layers([("network", NODES["conv-large"].graph)])))
    (shape,) = read_workload(path)

    (before,) = shape.graph.constants.values()
    (made,) = shape.with_constants().constants.values()

    assert not any(before.strides)
    assert made.shape == before.shape
    assert np.unique(made).size > made.size // 2


def test_a_models_own_constants_stay() -> None:
    shape = next(shape for shape in SHAPES if shape.graph.constants)

    assert all(
        value is shape.graph.constants[name] for name, value in shape.with_constants().constants.items()
    )


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": 2, "layers": []}'])
def test_refuses_what_is_no_workload(tmp_path: Path, text: str) -> None:
    path = tmp_path / "layers.json"
    path.write_text(text)

    with pytest.raises(ProfileError, match="expected the layers of a workload"):
        read_workload(path)


def test_the_shipped_workload_has_something_to_choose_from() -> None:
    shapes = read_workload(workload_path())
    info = device_info(16)

    heavy = [shape for shape in shapes if shape.key.kind in {"Conv2d", "MatMul"}]
    assert len(heavy) > 100
    for shape in heavy:
        assert len(list(islice(iterate_candidates(shape.node, shape.graph, info), 2))) == 2
