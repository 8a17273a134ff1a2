"""Host memory on pages of its own, large ones where they pay."""

import mmap
from itertools import pairwise

import numpy as np
import pytest

from codl.devices.pages import LARGE_PAGE_BYTES, PAGE_BYTES, Chunks, allocate_host

LARGE = (1 << 20) // 4


@pytest.mark.parametrize(
    ("floats", "page"),
    [
        (0, PAGE_BYTES),
        (10, PAGE_BYTES),
        (LARGE - 1, PAGE_BYTES),
        (LARGE, LARGE_PAGE_BYTES),
        (3 * LARGE + 1, LARGE_PAGE_BYTES),
    ],
)
def test_memory_begins_on_a_page_and_is_all_there(floats: int, page: int) -> None:
    memory = allocate_host(floats)
    memory[:] = 1.0

    assert memory.ctypes.data % page == 0
    assert memory.size == max(1, floats)


@pytest.mark.parametrize("missing", ["MADV_HUGEPAGE", "mmap"])
def test_systems_without_large_pages_have_memory_all_the_same(
    missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if missing == "mmap":
        monkeypatch.setattr(mmap, "mmap", refuse)
    else:
        monkeypatch.delattr(mmap, missing, raising=False)
    memory = allocate_host(LARGE)
    memory[:] = 1.0

    assert memory.size == LARGE
    assert memory.ctypes.data % LARGE_PAGE_BYTES == 0


def refuse(*_: object, **__: object) -> None:
    raise OSError("no memory")


def test_chunks_hold_many_arrays_on_pages_of_their_own() -> None:
    chunks, rng = Chunks(), np.random.default_rng(0)
    values = [
        rng.random(shape).astype(np.float32) for shape in ((3, 5), (), (0,), (1025,), (9 << 20,), (2, 2))
    ]
    placed = [chunks.place(one) for one in values]

    for one, other in zip(values, placed, strict=True):
        np.testing.assert_array_equal(one, other)
        assert other.ctypes.data % PAGE_BYTES == 0
    starts = sorted((one.ctypes.data, one.nbytes) for one in placed if one.size)
    assert all(a + size <= b for (a, size), (b, _) in pairwise(starts))
