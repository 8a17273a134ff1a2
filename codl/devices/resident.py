"""What compiling leaves in memory is given back: free blocks of malloc, and pages of compilers' files.

Source:
    madvise(2): pages of a file that a process has not written come back from the file when they are needed.
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
_MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) r-\S\S \S+ \S+ [1-9]\d* +/(?!dev/)")
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
        for start, end in _find_unwritten(_SMAPS.read_text(encoding="utf-8", errors="replace")):
            libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), mmap.MADV_DONTNEED)


def _find_unwritten(smaps: str) -> Iterator[tuple[int, int]]:
    """Yield begin and end of mappings that cannot be written and hold nothing but a file's own pages."""
    place: tuple[int, int] | None = None
    sizes: dict[str, str] = {}
    for line in smaps.splitlines():
        if line[0].islower() or line[0].isdigit():  # a mapping begins
            found = _MAPPING.match(line)
            place = None if found is None else (int(found[1], 16), int(found[2], 16))
            continue
        name, _, size = line.partition(":")
        sizes[name] = size.removesuffix("kB").strip()
        if name == "Swap" and place is not None:
            is_written = sizes["Anonymous"] != "0" or sizes["Swap"] != "0"
            if not is_written and int(sizes["Rss"]) >= _LEAST_KIB:
                yield place
