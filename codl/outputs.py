"""Files that a user names for results: checked before the work begins, written whole where that can be.

A regular file is replaced by one that is complete. A symbolic link stays, and what it points to is written. A
device, a pipe, or a file that is another's or has other names is opened and written where it is.
"""

import errno
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

_IN_PLACE = os.O_WRONLY | os.O_TRUNC | getattr(os, "O_CLOEXEC", 0)
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)


def check_output(path: str | os.PathLike[str]) -> None:
    """Return when `write_output` may write there; nothing is opened or changed.

    Raises:
        OSError: It cannot.
    """
    target = _resolve(path)
    found = _find(target)
    if found is None:
        _check_folder(target.parent)
    elif stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    elif not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fspath(path))


def check_output_folder(path: str | os.PathLike[str]) -> None:
    """Return when files may be written in a folder, or the folder be made; nothing is made.

    Raises:
        OSError: They may not.
    """
    _check_name(path)
    folder = Path(os.path.abspath(path))
    while _find(folder) is None and folder != folder.parent:
        folder = folder.parent
    _check_folder(folder)


def write_output(path: str | os.PathLike[str], content: str | bytes, *, is_synced: bool = False) -> None:
    """Write a file, or into a device, a pipe or what a symbolic link points to.

    Args:
        path: Where.
        content: All of it; text is written as UTF-8.
        is_synced: Whether a regular file is on the disk before it takes the place of another.

    Raises:
        OSError: It cannot be written; a regular file in a folder of the user's is then as it was.
    """
    check_output(path)
    data = content.encode() if isinstance(content, str) else content
    target = _resolve(path)
    found = _find(target)
    if found is not None and not _may_replace(target, found):
        _write_in_place(target, data)
        return
    partial = target.with_name(f".{secrets.token_hex(8)}.partial")  # a name as long as the longest may be
    try:
        _write_new(partial, data, is_synced=is_synced)
        if found is not None:
            os.chmod(partial, stat.S_IMODE(found.st_mode))
        os.replace(partial, target)
    except BaseException:
        with suppress(OSError):
            partial.unlink()
        raise


def _resolve(path: str | os.PathLike[str]) -> Path:
    """Return a path whose last part is no link, but for links of the system's own such as /dev/stdout."""
    _check_name(path)
    real = Path(os.path.realpath(path))
    return Path(path) if real.is_relative_to("/proc") else real


def _check_name(path: str | os.PathLike[str]) -> None:
    """Return when a path is one for the system, whatever is there."""
    try:
        is_name = b"\0" not in os.fsencode(path)
    except ValueError:  # a character that no file name has
        is_name = False
    if not is_name:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), ascii(os.fspath(path)))


def _find(path: Path) -> os.stat_result | None:
    """Return the facts of what is there, None when nothing is."""
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _may_replace(path: Path, found: os.stat_result) -> bool:
    """Return whether another file may take the place of one: a plain one of the user's, with one name."""
    is_own = not hasattr(os, "geteuid") or found.st_uid == os.geteuid()
    is_plain = stat.S_ISREG(found.st_mode) and found.st_nlink == 1 and not path.is_symlink()
    return is_own and is_plain and os.access(path.parent, os.W_OK | os.X_OK)


def _check_folder(folder: Path) -> None:
    found = os.stat(folder)
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))


def _write_new(path: Path, data: bytes, *, is_synced: bool) -> None:
    with os.fdopen(os.open(path, _NEW, 0o666), "wb") as file:
        file.write(data)
        if is_synced:
            file.flush()
            os.fsync(file.fileno())


def _write_in_place(path: Path, data: bytes) -> None:
    """Write into what is there; a pipe without a reader is an error, no place to wait."""
    descriptor = os.open(path, _IN_PLACE | getattr(os, "O_NONBLOCK", 0))
    if hasattr(os, "set_blocking"):
        os.set_blocking(descriptor, True)
    with os.fdopen(descriptor, "wb", buffering=0) as file:
        view = memoryview(data)
        while view:
            view = view[file.write(view) or 0 :]
