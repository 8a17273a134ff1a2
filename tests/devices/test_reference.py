"""The reference kernels compute what they say, and the peaks they tell are in order."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pyopencl as cl
import pytest

from codl.devices import reference
from codl.devices.drivers import OpenedDevice
from codl.devices.inner_loops import LOOPS, Loop, measure_loops
from codl.devices.opencl import Device, open_device
from codl.devices.reference import COMPUTE, LANES, MEMORY, READING, Ground, References, Walk, prepare_stream
from codl.machine import Peaks


@pytest.fixture(scope="module", params=[0, 1], ids=["first", "second"])
def device(request: pytest.FixtureRequest, devices: tuple[OpenedDevice, ...]) -> Device:
    if request.param >= len(devices):
        pytest.skip("one device only")
    return open_device(devices[request.param].info.name)


def launch(device: Device, source: str, parameters: dict[str, int], items: int, *args: Any) -> None:
    entry = source.partition("/")[2].removesuffix(".cl")
    kernel = device.kernel(source, entry, parameters)
    kernel.set_args(*args)
    cl.enqueue_nd_range_kernel(device.queue, kernel, (items, 1, 1), (1, 1, 1))
    device.finish()


def read(device: Device, buffer: Any, floats: int) -> Any:
    values = np.empty(floats, np.float32)
    cl.enqueue_copy(device.queue, values, buffer)
    return values


@pytest.mark.parametrize("lanes", LANES)
def test_fma_chains_converge_to_one(device: Device, lanes: int) -> None:
    dst = device.allocate(3)
    parameters = {"VECTOR": lanes, "GROUP": 1}
    source = "reference/reference_fma__buffer.cl"

    launch(device, source, parameters, 3, dst, np.float32(0.5), np.int32(100))

    np.testing.assert_allclose(read(device, dst, 3), 12 * lanes, rtol=1e-6)


@pytest.mark.parametrize(("copies", "streams"), [(0, 0), (0, 1), (1, 0)], ids=["reads", "streams", "copies"])
@pytest.mark.parametrize("lanes", LANES)
def test_stream_moves_every_float(device: Device, lanes: int, copies: int, streams: int) -> None:
    values = np.random.default_rng(0).integers(-8, 8, 512).astype(np.float32)
    src, dst = device.upload(values), device.allocate(512)
    parameters = {"VECTOR": lanes, "GROUP": 1, "COPIES": copies, "STREAMS": streams}
    source = "reference/reference_stream__buffer.cl"

    launch(device, source, parameters, 2, dst, src, np.int32(256), np.int32(3))

    if copies:
        np.testing.assert_array_equal(read(device, dst, 512), values)
    else:
        np.testing.assert_array_equal(read(device, dst, 2), 3 * values.reshape(2, 256).sum(axis=1))


def test_a_stream_walks_over_its_part_of_the_ground(device: Device) -> None:
    values = np.random.default_rng(0).integers(-8, 8, 1 << 20).astype(np.float32)
    ground = Ground(device.upload(values), device.allocate(1 << 19), values.nbytes)
    device.fill(ground.dst, -1.0)
    part = ground.part(1 << 20, 1 << 20, copies=True)

    prepare_stream(device, part, lanes=4, footprint=1 << 21, rounds=1, copies=True)()

    written = read(device, ground.dst, 1 << 19)
    np.testing.assert_array_equal(written[1 << 18 :], values[1 << 18 : 1 << 19])
    assert np.all(written[: 1 << 18] == -1.0)


def test_launches_of_a_walk_follow_each_other_and_are_as_long_as_asked(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, taken = [0.0], list[tuple[int, int]]()

    def prepare(device: Device, part: Ground, *, footprint: int, **_: Any) -> Any:
        def run() -> None:
            taken.append((part.src, footprint >> 26))
            clock[0] += footprint / (1 << 26)

        return run

    def take_part(ground: Ground, begin: int, size: int, *, copies: bool) -> Ground:
        return Ground(begin >> 26, None, size)

    monkeypatch.setattr(Ground, "part", take_part)
    monkeypatch.setattr(reference, "prepare_stream", prepare)
    monkeypatch.setattr(reference, "time", SimpleNamespace(perf_counter=lambda: clock[0]))
    walk = Walk(device, Ground(None, None, 8 << 26), lanes=4, copies=False)

    told = [walk(seconds) for seconds in (1.5, 0.0, 3.0, 4.5, 99.0)]

    assert told == [1.0] * 5
    assert taken[:5] == [(0, 1), (1, 1), (2, 1), (0, 4), (0, 8)]
    assert len(taken) == 5 + 13


TILES = {
    "reference/reference_tile__buffer.cl": [(1, 64, 16), (6, 16, 8), (14, 32, 16), (2, 4, 4)],
    "reference/reference_gemm_tile__buffer.cl": [(1, 5, 16), (6, 2, 8), (9, 3, 16), (2, 1, 4)],
}


@pytest.mark.parametrize(("source", "tile"), [(name, tile) for name in TILES for tile in TILES[name]])
def test_tile_is_a_matrix_product(device: Device, source: str, tile: tuple[int, int, int]) -> None:
    rows, channels, lanes = tile
    if "VECTORS" in LOOPS[source]:
        channels *= lanes
    depth, rng = 9, np.random.default_rng(0)
    left = rng.standard_normal((rows, depth), np.float32)
    right = rng.standard_normal((1 + depth, channels), np.float32)
    dst = device.allocate(rows * channels)
    args = dst, device.upload(left), device.upload(right), np.int32(depth), np.int32(2), np.int32(3)

    launch(device, source, dict(zip(LOOPS[source], tile, strict=True)), 1, *args)

    expected = right[0] + 2 * (left.astype(np.float64) @ right[1:])
    found = read(device, dst, rows * channels).reshape(rows, channels)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_peaks_are_positive_and_loops_below_them(device: Device) -> None:
    references = References(device)

    peaks = references.measure_peaks()
    loop = Loop.of("reference/reference_tile__buffer.cl", {"MR": 1, "NR": 4, "VECTOR": 4}, 256)
    (rate,) = measure_loops(references, [loop], peaks)

    assert set(peaks.flops) == set(LANES)
    assert set(peaks.reference_seconds) == {COMPUTE, MEMORY, READING}
    assert all(rate > 1e6 for rate in peaks.flops.values())
    assert all(rate > 1e6 for _, rate in peaks.bandwidth)
    assert max(size for size, _ in peaks.bandwidth) >= 1 << 27
    assert 1e6 < rate <= max(peaks.flops.values())


def test_bandwidth_of_a_footprint_is_the_best_of_any_as_large() -> None:
    peaks = Peaks(flops={16: 1.0}, bandwidth=((10, 9.0), (20, 5.0), (40, 6.0)), reference_seconds={})

    assert [peaks.find_bandwidth(size) for size in (1, 10, 15, 20, 30, 100)] == [9, 9, 9, 9, 6, 6]
