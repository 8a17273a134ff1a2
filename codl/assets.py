"""Where codl's own files are: kernel sources, shipped profiles, and the user's cache.

`kernels/` and `profiles/` are next to the package in a checkout and inside it (`codl/_data/`) in a wheel.
This module alone knows the difference.
"""

import hashlib
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

import platformdirs

from codl.errors import CodlError

VERSION = "0.2.0"
_PACKAGE = Path(__file__).resolve().parent
_TRIED_BYTES = 1 << 20


def kernels_dir() -> Path:
    """Return the folder of the OpenCL kernel sources."""
    return _find_folder("kernels")


def profiles_dir() -> Path:
    """Return the folder of the shipped device profiles and workloads."""
    return _find_folder("profiles")


@cache
def read_kernel(relative: str) -> str:
    """Return the text of one kernel source; it is read once a process.

    Args:
        relative: Path below `kernels/` with forward slashes, such as `pool2d/pool2d_direct__buffer.cl`.

    Raises:
        CodlError: There is no such file, or the path leaves the folder.
    """
    root = str(kernels_dir())
    path = os.path.normpath(os.path.join(root, relative))
    try:
        if not path.startswith(root + os.sep):
            raise FileNotFoundError(path)
        with open(path, "rb", buffering=0) as file:
            return file.readall().decode()
    except OSError as error:
        raise CodlError(
            f"kernel source: got {relative!r}, expected a file below {root}; reinstall codl"
        ) from error


@cache
def read_report_asset(name: str) -> str:
    """Return the text of a file that reports are made of, such as `page.css`."""
    return (_PACKAGE / "report" / "assets" / name).read_text(encoding="utf-8")


def cache_dir() -> Path:
    """Return the folder of codl's caches, which may not exist yet; `CODL_CACHE_DIR` moves it."""
    moved = os.environ.get("CODL_CACHE_DIR")
    return Path(moved).expanduser().absolute() if moved else platformdirs.user_cache_path("codl")


def find_scratch_folder(room_bytes: int) -> Path | None:
    """Return a folder for temporary files, with room for so many bytes; None without one."""
    try:
        usual = [Path(tempfile.gettempdir())]
    except OSError:  # none of the usual ones can be written
        usual = []
    places = (*usual, Path("/dev/shm"), cache_dir())
    return next((place for place in places if has_room(place, room_bytes)), None)


def has_room(folder: Path, room_bytes: int = 0, *, is_tried: bool = True) -> bool:
    """Return whether files of so many bytes can be written in a folder, which is made if need be.

    Args:
        folder: Where.
        room_bytes: Free space on its disk.
        is_tried: Whether to write a file: only that shows a user's own quota.
    """
    try:
        if is_tried:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder) as file:
                file.write(bytes(min(room_bytes, _TRIED_BYTES)))
                file.flush()
        return shutil.disk_usage(folder).free >= room_bytes
    except OSError:
        return False


@cache
def digest_code(*rooms: str) -> str:
    """Return a SHA-256 over codl's version and the Python sources of some of its rooms.

    Caches of derived data have it in their keys, so that changed code never reads what older code wrote.

    Args:
        rooms: Folders of the package, such as `frontend`.
    """
    digest = hashlib.sha256(VERSION.encode())
    for room in rooms:
        for path in sorted((_PACKAGE / room).rglob("*.py")):
            digest.update(str(path.relative_to(_PACKAGE)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


@cache
def _find_folder(name: str) -> Path:
    for candidate in (_PACKAGE / "_data" / name, _PACKAGE.parent / name):
        if candidate.is_dir():
            return candidate
    raise CodlError(f"codl's {name}/ folder: got none in or next to {_PACKAGE}, expected it; reinstall codl")
