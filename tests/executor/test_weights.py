"""Packed constants: packed once, kept between processes, placed once for all that read them."""

import os
from collections.abc import Callable, Mapping
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
from codl.executor.weights import Weights
from codl.frontend import load_graph
from codl.ir.graph import FloatArray, Graph
from codl.partitioner.even import plan_even
from codl.plan.single import plan_single
from tests.exactness import DEVICES
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
