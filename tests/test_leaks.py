"""Sessions made, run and closed again and again leave nothing behind: memory, files, driver handles."""

import ctypes
import gc
import multiprocessing
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import codl
from tests.exactness import DEVICES
from tests.oracle import random_feeds
from tools.networks import build

PAIR = DEVICES
DRIVER_MODULE = "pyopencl"
HANDLES = frozenset(
    {"Buffer", "Kernel", "Program", "_Program", "Context", "CommandQueue", "Event", "Image", "MemoryMap"}
)
"""Classes of pyopencl whose objects hold something of a driver's."""
STEPS = 20
"""Of a series: drivers take and give back some MiB in a few of them."""
MOST_GROWTH_BYTES = 4 << 20
"""In a series, by its median step: four copies of the smallest network's weights and activations."""
MOST_TRIES = 3
"""An allocator's new arena or a driver's cache grows memory in one series, a leak in every one."""
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads Linux's /proc")


def run_cycles(data: bytes, feeds: dict[str, Any], count: int) -> None:
    """Make, run and close a session over two devices, again and again."""
    for _ in range(count):
        options = codl.SessionOptions()
        options.devices = PAIR
        options.planner = "even"
        with codl.InferenceSession(data, options) as session:
            session.run(None, feeds)


def count_handles() -> Counter[str]:
    """Return how many objects of pyopencl are alive, by class."""
    return Counter(
        type(one).__name__
        for one in gc.get_objects()
        if type(one).__name__ in HANDLES and type(one).__module__.startswith(DRIVER_MODULE)
    )


def count_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def count_threads() -> int:
    return len(os.listdir("/proc/self/task"))


def measure_own_bytes() -> int:
    """Return the resident memory that is the process's alone, without pages of files and freed memory."""
    gc.collect()
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):  # glibc keeps what is freed
        trim(0)
    _, resident, shared, *_ = Path("/proc/self/statm").read_text(encoding="ascii").split()
    return (int(resident) - int(shared)) * PAGE_BYTES


def find_growth(data: bytes, feeds: dict[str, Any], *, warmup: int, count: int) -> list[str]:
    """Return one sentence for each thing of which there is more after ``count`` cycles than before."""
    run_cycles(data, feeds, warmup)
    counters = {"handles": count_handles, "descriptors": count_descriptors, "threads": count_threads}
    gc.collect()
    before = {name: counter() for name, counter in counters.items()}
    grown = []
    for _ in range(MOST_TRIES):
        grown = list(_find_memory_growth(data, feeds, count))
        if not grown:
            break
    for name, counter in counters.items():
        after = counter()
        if after != before[name]:
            grown.append(f"{name}: got {after}, expected {before[name]}")
    return grown


def _find_memory_growth(data: bytes, feeds: dict[str, Any], count: int) -> Iterator[str]:
    sizes = [measure_own_bytes()]
    for _ in range(STEPS):
        run_cycles(data, feeds, count // STEPS)
        sizes.append(measure_own_bytes())
    growth = STEPS * _typical_step(sizes)
    print(f"{count} cycles: memory {[round(size / 2**20, 1) for size in sizes]} MiB")
    if growth > MOST_GROWTH_BYTES:
        yield f"memory: grows by {growth:.0f} bytes in {count} cycles: {sizes}"


def find_growth_apart(data: bytes, feeds: dict[str, Any], *, warmup: int, count: int) -> list[str]:
    """Return what `find_growth` does in a new process, whose memory holds nothing of other tests.

    All its threads share one arena: glibc's own for each that compiles swing by 20 MiB.
    """
    with (
        pytest.MonkeyPatch.context() as patch,
        ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool,
    ):
        patch.setenv("MALLOC_ARENA_MAX", "1")
        return pool.submit(find_growth, data, feeds, warmup=warmup, count=count).result()


def _typical_step(values: Sequence[int]) -> float:
    """Return the median step: a leak grows in every one, an allocator's new arena in one."""
    return float(np.median(np.diff(values)))


def serialize(model: onnx.ModelProto) -> tuple[bytes, dict[str, Any]]:
    return model.SerializeToString(), random_feeds(model)


def test_short_series_leaves_nothing_behind() -> None:
    data, feeds = serialize(build("mobilenet_v2", size=32, width=0.35))

    assert find_growth_apart(data, feeds, warmup=8, count=60) == []


def test_close_gives_everything_back_at_once() -> None:
    """Nothing waits for the garbage collector: a closed session leaves no circle of references."""
    data, feeds = serialize(build("mobilenet_v2", size=32, width=0.35))
    run_cycles(data, feeds, 2)
    gc.collect()
    before = count_handles()
    gc.disable()
    try:
        run_cycles(data, feeds, 1)
        assert count_handles() == before
    finally:
        gc.enable()


@pytest.mark.parametrize("data", [b"no model", b""], ids=["garbage", "nothing"])
def test_sessions_that_fail_leave_nothing_behind(data: bytes) -> None:
    with pytest.raises(codl.ModelError):
        codl.InferenceSession(data)  # the first one measures devices' reference kernels, which stay
    before = count_handles(), count_descriptors()
    for _ in range(20):
        with pytest.raises(codl.ModelError):
            codl.InferenceSession(data)

    assert (count_handles(), count_descriptors()) == before


@pytest.mark.heavy
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("network", "sizes", "count"),
    [("mobilenet_v2", {"size": 32, "width": 0.35}, 1000), ("resnet50", {}, 20)],
    ids=["small", "resnet50"],
)
def test_long_series_leaves_nothing_behind(network: str, sizes: dict[str, Any], count: int) -> None:
    data, feeds = serialize(build(network, **sizes))

    assert find_growth_apart(data, feeds, warmup=max(3, count // 50), count=count) == []
