"""What compiling leaves in memory is given back: free blocks of malloc, and pages of compilers' files.

Source:
    madvise(2): pages of a file that a process has not written come back from the file when they are needed.
    MADV_PAGEOUT (Linux 5.4) keeps what was written, too. Intel's compiler has 51 MiB of data that are read
    when it is loaded.
"""

import ctypes
import mmap
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

_SMAPS = Path("/proc/self/smaps")
"""Only Linux tells which pages a process has written."""
_MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) r(-\S\S|w\Sp) \S+ \S+ [1-9]\d* +/(?!dev/)")
_PAGE_OUT = 21
"""MADV_PAGEOUT, which Python's `mmap` does not name."""
_MOST_WRITTEN = 16
"""A mapping that may be written is paged out when no more than one page of so many was."""
_LEAST_KIB = 1024
"""Smaller mappings are left alone."""


@cache
def _open_libc() -> ctypes.CDLL:
    return ctypes.CDLL(None)


def give_back_memory() -> None:
    """Give back free memory, and unwritten pages of files: these come back where they are used.

    Where the system has no such calls nothing happens.
    """
    with suppress(OSError, AttributeError):  # another system or another C library
        libc = _open_libc()
        libc.malloc_trim(0)
        for start, end, advice in _find_unwritten(_SMAPS.read_text(encoding="utf-8", errors="replace")):
            libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), advice)


def _find_unwritten(smaps: str) -> Iterator[tuple[int, int, int]]:
    """Yield begin, end and advice of mappings that hold nothing, or little, but a file's own pages."""
    place: tuple[int, int, bool] | None = None
    sizes: dict[str, str] = {}
    for line in smaps.splitlines():
        if line[0].islower() or line[0].isdigit():  # a mapping begins
            found = _MAPPING.match(line)
            place = None if found is None else (int(found[1], 16), int(found[2], 16), found[3][0] == "w")
            continue
        name, _, size = line.partition(":")
        sizes[name] = size.removesuffix("kB").strip()
        if name == "Swap" and place is not None:
            start, end, may_be_written = place
            resident, written = int(sizes["Rss"]), int(sizes["Anonymous"]) + int(sizes["Swap"])
            if resident >= _LEAST_KIB and written * _MOST_WRITTEN <= resident * may_be_written:
                yield start, end, _PAGE_OUT if may_be_written else mmap.MADV_DONTNEED
