"""Files are opened for reading here: only regular ones, and none larger than its reader expects.

A device node or a pipe in the place of a file would be read for ever, or block for ever.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

MOST_TEXT_BYTES = 64 << 20
"""No plan, profile or log that codl writes is larger."""
_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_NONBLOCK", 0)
)
Path = str | os.PathLike[str]


@contextmanager
def open_regular(path: Path, *, follows_links: bool = True) -> Iterator[tuple[int, os.stat_result]]:
    """Yield the descriptor of a regular file and its facts; opening it never waits.

    Args:
        path: The file.
        follows_links: Whether the last part of the path may be a symbolic link.

    Raises:
        OSError: It cannot be opened, or it is a folder, a device node or a pipe.
    """
    flags = _FLAGS if follows_links else _FLAGS | getattr(os, "O_NOFOLLOW", 0)
    try:
        descriptor = os.open(path, flags)
    except ValueError as error:  # a null character, or half of a surrogate pair
        raise OSError(errno.EINVAL, str(error), os.fspath(path)) from error
    try:
        yield descriptor, _check_regular(descriptor, path)
    finally:
        os.close(descriptor)


def _check_regular(descriptor: int, path: Path) -> os.stat_result:
    found = os.fstat(descriptor)
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "no plain file", os.fspath(path))
    return found


def read_file(path: Path, *, most_bytes: int) -> bytes:
    """Return the content of a regular file.

    Args:
        path: The file.
        most_bytes: A larger file is not read at all.

    Raises:
        OSError: It cannot be read, is no regular file, or is larger.
    """
    with open_regular(path) as (descriptor, found):
        if found.st_size > most_bytes:
            raise OSError(
                errno.EFBIG, f"{found.st_size} bytes, more than the limit of {most_bytes}", os.fspath(path)
            )
        parts, left = [], found.st_size
        while left and (part := os.read(descriptor, left)):  # one call returns 2 GiB at the most
            parts.append(part)
            left -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def read_text(path: Path, *, most_bytes: int = MOST_TEXT_BYTES, errors: str = "strict") -> str:
    """Return the text of a regular file of UTF-8.

    Raises:
        OSError: It cannot be read, is no regular file, or is larger than ``most_bytes``.
        UnicodeDecodeError: It holds something else.
    """
    return read_file(path, most_bytes=most_bytes).decode("utf-8", errors=errors)
