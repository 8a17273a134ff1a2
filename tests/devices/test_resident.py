"""Memory given back after compiling: what was written stays, what a file holds leaves memory."""

import ctypes
import mmap
import platform
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from codl.devices.resident import give_back_memory

BYTES = 8 << 20

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells it")


def map_file(folder: Path, *, flags: int, protection: int) -> tuple[mmap.mmap, np.ndarray]:
    """Return a mapped file of random bytes, and the bytes."""
    content = np.random.default_rng(0).integers(0, 256, BYTES, np.uint8)
    path = folder / "content"
    path.write_bytes(content.tobytes())
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), BYTES, flags=flags, prot=protection), content


def address_of(mapped: mmap.mmap) -> int:
    return np.frombuffer(mapped, np.uint8).ctypes.data


def count_resident(address: int) -> int:
    """Return the resident KiB of the mapping that begins at an address."""
    smaps = Path("/proc/self/smaps").read_text(encoding="utf-8", errors="replace")
    found = re.search(rf"^{address:x}-.*?^Rss: +(\d+)", smaps, re.MULTILINE | re.DOTALL)
    assert found is not None
    return int(found[1])


@pytest.mark.parametrize("flags", [mmap.MAP_SHARED, mmap.MAP_PRIVATE])
def test_what_a_file_holds_leaves_memory_and_comes_back(tmp_path: Path, flags: int) -> None:
    mapped, content = map_file(tmp_path, flags=flags, protection=mmap.PROT_READ)
    assert bytes(mapped) == content.tobytes()
    before = count_resident(address_of(mapped))
    give_back_memory()
    assert count_resident(address_of(mapped)) < before / 2
    assert bytes(mapped) == content.tobytes()


def test_what_was_written_stays(tmp_path: Path) -> None:
    mapped, content = map_file(tmp_path, flags=mmap.MAP_PRIVATE, protection=mmap.PROT_READ | mmap.PROT_WRITE)
    assert bytes(mapped) == content.tobytes()
    content[0] = content[0] ^ 255
    mapped[0] = int(content[0])
    address = address_of(mapped)
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(BYTES), mmap.PROT_READ) == 0
    give_back_memory()
    assert bytes(mapped) == content.tobytes()


def test_what_was_written_of_data_that_may_be_stays(tmp_path: Path) -> None:
    mapped, content = map_file(tmp_path, flags=mmap.MAP_PRIVATE, protection=mmap.PROT_READ | mmap.PROT_WRITE)
    assert bytes(mapped) == content.tobytes()
    content[0] = content[0] ^ 255
    mapped[0] = int(content[0])
    before = count_resident(address_of(mapped))
    give_back_memory()
    if kernel_version() >= (5, 4):
        assert count_resident(address_of(mapped)) < before / 2
    assert bytes(mapped) == content.tobytes()


def kernel_version() -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", platform.release())[:2])
