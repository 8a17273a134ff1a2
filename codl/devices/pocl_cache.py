"""Where PoCL keeps what it compiles: never where a full disk or a damaged file would end this process.

PoCL ends the whole process when a file cannot be written ("LLVM ERROR: IO failure"), and again at every
later start when a file that it kept is cut short. So its folder is one with room to spare, and each process
that uses the kept one leaves a mark while it runs. A mark without its process shows that one ended
abnormally: then everything that was kept is removed.
"""

import atexit
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from codl.assets import cache_dir, find_scratch_folder, has_room
from codl.errors import DeviceError
from codl.machine import DeviceInfo

try:
    import fcntl
except ImportError:  # no such locks on this system: PoCL gets a folder that goes with the process
    fcntl = None  # type: ignore[assignment]

VARIABLE = "POCL_CACHE_DIR"
_ROOM_BYTES = 256 << 20
"""Free space with which a folder is kept between processes: a large network takes some 20 MB."""
_OWN_ROOM_BYTES = 48 << 20
"""Free space with which a folder goes with the process."""
_LEAST_BYTES = 32 << 20
"""Free space without which nothing is compiled any more."""
_used: list[Path] = []
"""The folder of this process, once it is chosen."""


def kept_folder() -> Path:
    """Return the folder that codl keeps for PoCL between processes, which may not exist."""
    return cache_dir() / "drivers" / "pocl"


def find_pocl_cache() -> Path:
    """Return where PoCL keeps what it compiles, or would if it were loaded now and there is room."""
    chosen = os.environ.get(VARIABLE)
    return _used[0] if _used else Path(chosen) if chosen else kept_folder()


@contextmanager
def pocl_cache() -> Iterator[str | None]:
    """Choose PoCL's folder and show it to PoCL while the block loads drivers.

    Yields why PoCL must not be loaded, None when it has a folder.
    """
    before = os.environ.get(VARIABLE)
    folder = _choose()
    if folder is None:
        yield f"no folder with {_OWN_ROOM_BYTES >> 20} MiB of free space for what it compiles"
        return
    _used[:] = [folder]
    os.environ[VARIABLE] = str(folder)
    try:
        yield None
    finally:
        if before is not None:
            os.environ[VARIABLE] = before
        elif not (os.environ.get("CODL_CACHE_DIR") and folder == kept_folder()):
            del os.environ[VARIABLE]


def check_room(info: DeviceInfo) -> None:
    """Return when a device's driver may compile something.

    Raises:
        DeviceError: Its disk is full: PoCL would end the process.
    """
    if info.driver == "pocl" and _used and not has_room(_used[0], _LEAST_BYTES, is_tried=False):
        raise DeviceError(
            f"{info.name}: got a full disk at {_used[0]}, expected {_LEAST_BYTES >> 20} MiB of free space "
            f"for what PoCL compiles; free some, or set {VARIABLE}"
        )


def _choose() -> Path | None:
    chosen = os.environ.get(VARIABLE)
    kept = kept_folder()
    if chosen and Path(chosen) != kept:
        if has_room(Path(chosen), _ROOM_BYTES):
            return Path(chosen)
    elif has_room(kept, _ROOM_BYTES) and _claim(kept):
        return kept
    place = find_scratch_folder(_OWN_ROOM_BYTES)
    if place is None:
        return None
    folder = Path(tempfile.mkdtemp(prefix="codl-pocl-", dir=place))
    atexit.register(_remove_own, folder, os.getpid())
    return folder


def _remove_own(folder: Path, process: int) -> None:
    if os.getpid() == process:  # a child leaves it to its parent
        shutil.rmtree(folder, ignore_errors=True)


def _claim(kept: Path) -> bool:
    """Mark a folder as used by this process, emptied first if need be; tell whether it can be used."""
    marks = cache_dir() / "running"
    try:
        marks.mkdir(mode=0o700, exist_ok=True)
        with _locked(marks / "lock"):
            return _mark(kept, marks)
    except OSError:
        return False


def is_kept_folder_used() -> bool:
    """Return whether a process that runs has marked PoCL's kept folder as its own."""
    marks = cache_dir() / "running"
    with suppress(OSError), _locked(marks / "lock"):
        return _read_marks(marks)[1]
    return False


def _read_marks(marks: Path) -> tuple[list[Path], bool]:
    """Return the marks of processes that ended abnormally, and whether others run."""
    dead, alive = [], False
    for mark in marks.glob("*.mark"):
        descriptor = os.open(mark, os.O_RDWR)
        if _try_lock(descriptor):
            dead.append(mark)
        else:
            alive = True
        os.close(descriptor)
    return dead, alive


def _mark(kept: Path, marks: Path) -> bool:
    dead, alive = _read_marks(marks)
    if dead and alive:  # a process uses what would have to go
        return False
    if dead:
        trash = kept.with_name(f"{kept.name}.{secrets.token_hex(8)}")
        kept.rename(trash)
        kept.mkdir(mode=0o700)
        shutil.rmtree(trash, ignore_errors=True)
        for mark in dead:
            mark.unlink()
    own = marks / f"{secrets.token_hex(8)}.mark"
    descriptor = os.open(own, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    if not _try_lock(descriptor):
        raise OSError(f"{own}: locked by another")
    atexit.register(_unmark, own, os.getpid())
    return True


def _unmark(mark: Path, process: int) -> None:
    if os.getpid() == process:
        with suppress(OSError):
            mark.unlink()


def _try_lock(descriptor: int) -> bool:
    """Lock a file until this process, or a child that lives longer, ends; tell whether it was free."""
    if fcntl is None:
        raise OSError("no locks on this system")
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Keep other processes waiting that want the same while the block runs."""
    if fcntl is None:
        raise OSError("no locks on this system")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
