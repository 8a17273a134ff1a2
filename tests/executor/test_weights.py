"""Packed constants: packed once, kept between processes, placed once for all that read them."""

import gc
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyopencl as cl
import pytest

from codl.cache.folders import WEIGHTS
from codl.cache.sealed import PAGE_BYTES
from codl.devices.drivers import OpenedDevice
from codl.devices.opencl import Device, open_device, open_devices
from codl.executor.compile import compile_plan
from codl.executor.packed_cache import PackedCache
from codl.executor.run import Executable
from codl.executor.weights import SharedWeights, Weights
from codl.frontend import load_graph
from codl.ir.graph import FloatArray, Graph
from codl.partitioner.even import plan_even
from codl.plan.single import plan_single
from tests.exactness import DEVICES
from tests.frontend.onnx_models import make_model, node, random_array
from tests.oracle import random_feeds
from tools.networks import build

MODEL = build("mobilenet_v2", size=32, width=0.35)
FEEDS = random_feeds(MODEL)


@pytest.fixture(autouse=True, scope="module")
def opened() -> tuple[Device, ...]:
    """The devices, opened before a test moves the cache, and the drivers' own with it."""
    return open_devices(DEVICES)


@pytest.fixture
def graph(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Graph:
    """A network large enough to be kept, with an empty cache."""
    monkeypatch.setenv("CODL_CACHE_DIR", str(tmp_path / "cache"))
    return load_graph(MODEL.SerializeToString())


@pytest.fixture
def packed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The size of each constant that was packed, not loaded."""
    sizes: list[int] = []

    store = PackedCache.store

    def spy(self: PackedCache, arrays: Mapping[str, FloatArray]) -> None:
        sizes.extend(array.size for array in arrays.values())
        store(self, arrays)

    monkeypatch.setattr(PackedCache, "store", spy)
    return sizes


def run_pair(graph: Graph, weights: Weights | None = None) -> bytes:
    plan = plan_even(graph, devices=DEVICES, max_chain_length=4)
    executable = compile_plan(graph, plan, open_devices(DEVICES), weights=weights)
    executable.run(FEEDS)
    return bytes(executable.run(FEEDS)[graph.outputs[0]].tobytes())


def the_entry() -> Path:
    (path,) = WEIGHTS.files()
    return path


def test_second_executable_maps_what_the_first_has_packed(graph: Graph, packed: list[int]) -> None:
    first = run_pair(graph)
    assert len(packed) > 10
    packed.clear()

    assert run_pair(graph) == first
    assert packed == []
    assert the_entry().stat().st_size > 1 << 20


def test_only_what_is_new_is_added(graph: Graph, packed: list[int]) -> None:
    weights = Weights(graph)
    run_pair(graph, weights)
    before = the_entry()
    run_pair(graph, weights)
    run_pair(graph)

    assert the_entry() == before


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 64
    path.write_bytes(bytes(content))


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def be_writable_by_others(path: Path) -> None:
    path.chmod(0o666)


@pytest.mark.parametrize("damage", [flip_a_bit, truncate, be_writable_by_others])
def test_damaged_entry_is_packed_anew(graph: Graph, damage: Callable[[Path], None]) -> None:
    first = run_pair(graph)
    damage(the_entry())

    assert run_pair(graph) == first
    assert run_pair(graph) == first
    assert list(WEIGHTS.find_problems()) == []


def test_other_packing_code_is_other_weights(
    graph: Graph, packed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_pair(graph)
    count = len(packed)
    monkeypatch.setattr("codl.executor.packed_cache.digest_code", lambda *rooms: "newer")
    run_pair(graph)

    assert len(packed) == 2 * count


def test_graph_without_a_digest_is_not_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CODL_CACHE_DIR", str(tmp_path / "cache"))
    model = build("mobilenet_v2", size=32, width=0.1)
    graph = load_graph(model.SerializeToString())
    plan = plan_single(graph, device=DEVICES[0])
    compile_plan(graph, plan, open_devices(DEVICES[:1])).run(random_feeds(model))

    assert graph.digest is None
    assert WEIGHTS.files() == ()


def test_devices_compute_in_the_mapped_file_itself(devices: tuple[OpenedDevice, ...], graph: Graph) -> None:
    """A read-only mapping under a read-only buffer: nothing is copied, and nothing faults."""
    values = np.arange(1 << 16, dtype=np.float32)
    WEIGHTS.write("f" * 64, {"values": values}, about={})
    mapped = WEIGHTS.read("f" * 64, lambda entry: entry.floats("values"))
    assert mapped is not None
    assert mapped.ctypes.data % PAGE_BYTES == 0
    for opened in devices:
        device = Device(opened.info, opened.cl_device)
        buffer = device.upload(mapped)
        back = np.empty_like(values)
        cl.enqueue_copy(device.queue, back, buffer)
        device.finish()
        assert np.array_equal(back, values)
        if opened.info.is_unified:
            view, _ = cl.enqueue_map_buffer(
                device.queue, buffer, cl.map_flags.READ, 0, values.shape, values.dtype
            )
            assert view.ctypes.data == mapped.ctypes.data
            view.base.release(device.queue)
            device.finish()


def test_weights_of_one_graph_are_uploaded_once(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    device, weights = open_device(DEVICES[0]), Weights(graph)
    plan = plan_single(graph, device=DEVICES[0])
    compile_plan(graph, plan, (device,), weights=weights)
    uploads: list[object] = []
    monkeypatch.setattr(device, "upload", uploads.append)
    compile_plan(graph, plan, (device,), weights=weights)

    assert uploads == []


def load_size(size: int) -> Graph:
    """Return two convolutions of an image, one after the other, and a scale between them."""
    nodes = [
        node("Conv", ["x", "a"], ["p"], name="first", pads=[1, 1, 1, 1]),
        node("Mul", ["p", "s"], ["q"], name="scale"),
        node("Conv", ["q", "b"], ["y"], name="second", pads=[1, 1, 1, 1]),
    ]
    constants = {
        "a": random_array(32, 3, 3, 3),
        "b": random_array(48, 32, 3, 3),
        "s": random_array(1, 32, 1, 1),
    }
    model = make_model(nodes, inputs={"x": [1, 3, size, size]}, constants=constants)
    return load_graph(model.SerializeToString())


def compile_shared(graph: Graph, shared: SharedWeights) -> Executable:
    weights = Weights(graph, shared)
    plan = plan_even(weights.graph, devices=DEVICES)
    return compile_plan(weights.graph, plan, open_devices(DEVICES), weights=weights)


def run_shape(executable: Executable) -> bytes:
    x = random_array(*executable.graph.shape("x"))
    return bytes(executable.run({"x": x})["y"].tobytes())


def test_graphs_of_one_model_share_what_is_equal() -> None:
    graphs, shared = [load_size(size) for size in (24, 26)], SharedWeights()
    expected = [run_shape(compile_shared(graph, SharedWeights())) for graph in graphs]

    both = [compile_shared(graph, shared) for graph in graphs]

    assert [run_shape(one) for one in both] == expected
    for name, array in both[0].graph.constants.items():
        assert both[1].graph.constants[name] is array
    together = sum({key: n for one in both for key, n in one.constant_bytes.items()}.values())
    assert together == max(sum(one.constant_bytes.values()) for one in both)


def test_what_only_one_executable_needed_goes_with_it() -> None:
    shared = SharedWeights()
    kept, dropped = (compile_shared(load_size(size), shared) for size in (24, 6))
    run_shape(kept)
    run_shape(dropped)
    assert len(shared.pieces) > len(kept._pieces)
    del dropped
    gc.collect()

    sources = {piece.source for piece in kept._pieces if piece.source is not None}
    assert set(shared.pieces.values()) == {*kept._pieces, *sources}
    run_shape(kept)
    del kept, sources
    gc.collect()
    assert len(shared.pieces) == 0


def test_constants_of_one_name_and_other_values_are_not_mixed_up() -> None:
    graph, shared = load_size(24), SharedWeights()
    first = graph.nodes[0].inputs[1]
    other = replace(graph, constants={**graph.constants, first: 2 * graph.constants[first]})
    expected = [run_shape(compile_shared(one, SharedWeights())) for one in (graph, other)]

    both = [compile_shared(one, shared) for one in (graph, other)]

    assert [run_shape(one) for one in both] == expected
    assert expected[0] != expected[1]
    common = both[0].constant_bytes.keys() & both[1].constant_bytes.keys()
    assert 0 < len(common) < len(both[0].constant_bytes)
