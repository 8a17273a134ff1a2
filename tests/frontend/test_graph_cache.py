"""Kept graphs: equal to what loading makes, and made anew when anything about them is wrong."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from codl.cache import folders
from codl.cache.folders import MODELS
from codl.frontend import Source, load_model
from codl.frontend.graph_text import format_graph, parse_graph
from codl.frontend.simplify import simplify
from codl.ir.graph import Graph
from codl.ir.ops import Activation, ActivationKind
from tests.frontend.onnx_models import make_model, node, random_array
from tools.networks import build
from tools.networks.assembly import OWN


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    """A network of 1.4 MiB, more than the least that is kept."""
    return build("mobilenet_v2", size=32, width=0.35)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """One label for each model that was simplified, with an empty cache."""
    labels: list[str] = []

    def spy(source: Source) -> object:
        labels.append(source.label)
        return simplify(source)

    monkeypatch.setattr("codl.frontend.loading.simplify", spy)
    monkeypatch.setenv("CODL_CACHE_DIR", str(tmp_path / "cache"))
    return labels


def the_entry() -> Path:
    (path,) = MODELS.files()
    return path


def assert_equal(found: Graph, expected: Graph) -> None:
    assert found.fingerprint == expected.fingerprint
    assert (found.inputs, found.outputs, found.name) == (expected.inputs, expected.outputs, expected.name)
    assert found.original_names == expected.original_names
    assert list(found.constants) == list(expected.constants)
    for name, value in expected.constants.items():
        assert found.constants[name].shape == value.shape
        assert found.constants[name].tobytes() == value.tobytes()


def test_second_load_finds_the_same_graph(made: list[str], model: onnx.ModelProto) -> None:
    data = model.SerializeToString()
    first, second = load_model(data), load_model(data)

    assert len(made) == 1
    assert_equal(second.graph, first.graph)
    assert second.graph.digest == first.graph.digest is not None
    assert (second.inputs, second.outputs) == (first.inputs, first.outputs)
    assert not next(iter(second.graph.constants.values())).flags.writeable


def test_constants_of_a_kept_graph_are_those_of_its_file(made: list[str], model: onnx.ModelProto) -> None:
    first, second = (load_model(model.SerializeToString()).graph for _ in range(2))

    assert len(made) == 1
    assert_equal(first, second)
    assert not any(value.flags.owndata or value.flags.writeable for value in first.constants.values())


def test_one_changed_weight_is_another_model(made: list[str], model: onnx.ModelProto) -> None:
    data = bytearray(model.SerializeToString())
    first = load_model(bytes(data))
    changed = onnx.ModelProto.FromString(bytes(data))
    weight = max(changed.graph.initializer, key=lambda tensor: len(tensor.raw_data))
    weight.raw_data = bytes([weight.raw_data[0] ^ 1]) + weight.raw_data[1:]
    second = load_model(changed.SerializeToString())

    assert len(made) == 2
    assert second.graph.digest != first.graph.digest


def test_other_dimensions_are_another_graph(made: list[str], model: onnx.ModelProto) -> None:
    free = onnx.ModelProto.FromString(model.SerializeToString())
    free.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    data = free.SerializeToString()
    for batch in (1, 2, 1):
        graph = load_model(data, dimensions={"batch": batch}).graph
        assert graph.shape(graph.inputs[0])[0] == batch

    assert len(made) == 2


def test_small_model_is_not_kept(made: list[str]) -> None:
    data = build("mobilenet_v2", size=32, width=0.1).SerializeToString()
    load_model(data)

    assert load_model(data).graph.digest is None
    assert len(made) == 2
    assert MODELS.files() == ()


def flip_a_weight(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 16
    path.write_bytes(bytes(content))


def flip_the_text(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content.replace(b'"kernel":[3,3]', b'"kernel":[3,2]', 1))


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 4096)


def be_writable_by_others(path: Path) -> None:
    path.chmod(0o666)


@pytest.mark.parametrize("damage", [flip_a_weight, flip_the_text, truncate, be_writable_by_others])
def test_damaged_entry_is_made_anew(
    made: list[str], model: onnx.ModelProto, damage: Callable[[Path], None]
) -> None:
    data = model.SerializeToString()
    loaded = load_model(data).graph  # its constants are the entry's own
    first = replace(loaded, constants={name: value.copy() for name, value in loaded.constants.items()})
    good = the_entry().read_bytes()
    damage(the_entry())
    second = load_model(data)

    assert len(made) == 2
    assert_equal(second.graph, first)
    assert the_entry().read_bytes() == good
    load_model(data)
    assert len(made) == 2


def test_unusable_folder_keeps_nothing(
    made: list[str], model: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CODL_CACHE_DIR", "/dev/null/cache")
    data = model.SerializeToString()

    assert_equal(load_model(data).graph, load_model(data).graph)
    assert len(made) == 2


def test_change_of_code_forgets_what_older_code_made(
    made: list[str], model: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = model.SerializeToString()
    load_model(data)
    monkeypatch.setattr("codl.frontend.graph_cache.digest_code", lambda *rooms: "newer")
    load_model(data)

    assert len(made) == 2


def test_weights_beside_the_model_count(
    made: list[str], model: onnx.ModelProto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codl.frontend.simplify._MESSAGE_LIMIT_BYTES", 1 << 16)  # as for a model above 2 GiB
    path = tmp_path / "model.onnx"
    copied = onnx.ModelProto.FromString(model.SerializeToString())  # saving moves its weights out
    onnx.save_model(copied, path, save_as_external_data=True, location="model.bin", size_threshold=0)
    first = load_model(path).graph
    assert_equal(load_model(path).graph, first)
    assert len(made) == 1

    beside = tmp_path / "model.bin"
    content = bytearray(beside.read_bytes())
    content[len(content) // 2] ^= 1
    beside.write_bytes(bytes(content))

    assert load_model(path).graph.digest != first.digest
    assert len(made) == 2


def test_bound_on_disk_use_holds(
    made: list[str], model: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_model(model.SerializeToString())
    size = the_entry().stat().st_size
    monkeypatch.setattr(folders.MODELS, "limit_bytes", size * 3 // 2)
    load_model(build("mobilenet_v2", size=32, width=0.35, seed=1).SerializeToString())

    assert len(MODELS.files()) == 1


@pytest.mark.parametrize("network", [*OWN, "squeezenet", "shufflenet"])
def test_network_survives_as_text(network: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODL_CACHE_DIR", "/dev/null/cache")
    small = build(network, size=64, width=0.25) if network in OWN else build(network)
    graph = load_model(small.SerializeToString()).graph
    found = parse_graph(format_graph(graph), graph.constants)

    assert_equal(found, graph)


def test_values_that_text_cannot_bring_back_are_refused(model: onnx.ModelProto) -> None:
    graph = load_model(model.SerializeToString()).graph
    odd = Activation(kind=ActivationKind.CLIP, alpha=np.float64(0))
    node = graph.nodes[0]
    object.__setattr__(node.epilogue, "activation", odd)

    with pytest.raises(TypeError, match="float64"):
        format_graph(graph)


@pytest.mark.parametrize(
    "text", ["{}", "[]", '{"Node":{}}', '{"system":"ls"}', '{"ActivationKind":"relu"}', "1"]
)
def test_text_of_something_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_graph(text, {})


def test_host_models_are_kept(made: list[str]) -> None:
    table = np.random.default_rng(0).standard_normal((1000, 300), np.float32)
    nodes = [node("Gather", ["table", "ids"], ["e"], axis=1), node("Relu", ["e"], ["y"])]
    types = {"ids": onnx.TensorProto.INT64}
    model = make_model(nodes, inputs={"ids": [5]}, constants={"table": table}, types=types)
    first, second = (load_model(model.SerializeToString()).graph for _ in range(2))

    assert len(made) == 1
    assert_equal(second, first)
    assert second.host_models == first.host_models
    assert len(second.host_models["host/1"].content) > table.nbytes


def test_weights_outside_the_model_are_part_of_its_identity(made: list[str], tmp_path: Path) -> None:
    path, found = tmp_path / "net.onnx", []
    for seed in (1, 2):
        value = numpy_helper.from_array(random_array(400, 800, seed=seed))
        nodes = [node("Constant", [], ["c"], value=value), node("Add", ["x", "c"], ["y"])]
        onnx.save_model(
            make_model(nodes, inputs={"x": [400, 800]}),
            path,
            save_as_external_data=True,
            location="net.bin",
            convert_attribute=True,
            size_threshold=0,
        )
        found.append(load_model(path).graph.constants["c"])
        (tmp_path / "net.bin").unlink()

    assert len(made) == 2
    assert np.array_equal(found[1], random_array(400, 800, seed=2))
