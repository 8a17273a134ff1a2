"""Where codl's own files are: kernel sources, shipped profiles, and the user's cache.

`kernels/` and `profiles/` stand beside the package in a checkout and inside it (`codl/_data/`) in a wheel.
This module alone knows the difference.
"""

import hashlib
import os
from functools import cache
from pathlib import Path

import platformdirs

from codl.errors import CodlError

VERSION = "0.1.0"
_PACKAGE = Path(__file__).resolve().parent


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


@cache
def digest_code(*rooms: str) -> str:
    """Return a SHA-256 over codl's version and the Python sources of some of its rooms.

    What is derived by code and kept between processes is kept under this, so that no change of the code meets
    what an older one made.

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
    raise CodlError(f"codl's {name}/ folder: not beside nor inside {_PACKAGE}; reinstall codl")
