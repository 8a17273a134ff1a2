"""Folders of sealed files below the cache folder: kernels, models, weights, plans.

A cache never stands in the way: what cannot be read is not there, what cannot be written is not kept. An
entry that is damaged or not the user's own is removed and made anew.
"""

import logging
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from codl.assets import cache_dir
from codl.cache.sealed import (
    About,
    Array,
    SealedFile,
    count_sealed_bytes,
    find_foreign,
    open_sealed,
    write_sealed,
)
from codl.errors import CacheError

_SUFFIX = ".codl"
_TEMPORARY = ".tmp"
_ABANDONED_SECONDS = 3600.0
"""A temporary file of this age belongs to no writer any more."""
_MOST_OF_DISK = 0.25
"""Share of the free disk space that one entry may take."""

Value = TypeVar("Value")
_LOG = logging.getLogger(__name__)
_said: list[str] = []


class CacheFolder:
    """One kind of entries, by key, in a folder that only the user can write; old ones make room for new ones.

    Args:
        name: Folder below the cache folder.
        limit_bytes: Size of all entries together that is never passed.
    """

    def __init__(self, name: str, *, limit_bytes: int) -> None:
        self.name = name
        self.limit_bytes = limit_bytes

    @property
    def path(self) -> Path:
        """Where the entries lie; the folder may not exist."""
        return cache_dir() / self.name

    def read(self, key: str, use: Callable[[SealedFile], Value]) -> Value | None:
        """Return what ``use`` makes of an entry, or None when there is none that can be trusted.

        An entry of which ``use`` raises `CacheError` is removed.
        """
        path = self._entry(key)
        try:
            self._check_folder()
            entry = open_sealed(path, key=key)
            value = use(entry)
        except FileNotFoundError:
            return None
        except CacheError:
            self.remove(key)
            return None
        except OSError:
            return None
        with suppress(OSError):
            os.utime(path)  # the oldest is the one longest not used
        return value

    def write(self, key: str, arrays: Mapping[str, Array], *, about: About) -> bool:
        """Keep an entry, complete or not at all; tell whether it was kept."""
        temporary: str | None = None
        try:
            self._make_folder()
            if not self._make_room(count_sealed_bytes(arrays, key=key, about=about)):
                return False
            descriptor, temporary = tempfile.mkstemp(prefix=".", suffix=_TEMPORARY, dir=self.path)
            with os.fdopen(descriptor, "wb") as file:
                write_sealed(file, key=key, arrays=arrays, about=about)
            os.replace(temporary, self._entry(key))
        except (OSError, CacheError) as error:
            _say_once(f"nothing is kept in {self.path} for later starts: {_tell(error)}; see CODL_CACHE_DIR")
            if temporary is not None:
                with suppress(OSError):
                    os.unlink(temporary)
            return False
        return True

    def __contains__(self, key: str) -> bool:
        return self._entry(key).exists()

    def remove(self, key: str) -> None:
        """Remove an entry that cannot be trusted, from a folder that can be."""
        with suppress(OSError, CacheError):
            self._check_folder()
            self._entry(key).unlink()

    def keys(self, prefix: str = "") -> tuple[str, ...]:
        """Return the keys of all entries that begin with ``prefix``, sorted."""
        return tuple(sorted(path.stem for path in self.files() if path.stem.startswith(prefix)))

    def files(self) -> tuple[Path, ...]:
        """Return the files of all entries."""
        try:
            return tuple(path for path in self.path.iterdir() if path.suffix == _SUFFIX)
        except OSError:
            return ()

    def find_problems(self) -> Iterator[str]:
        """Yield one sentence for the folder, or for each entry, that cannot be trusted."""
        try:
            self._check_folder()
        except FileNotFoundError:
            return
        except (OSError, CacheError) as error:
            yield str(error)
            return
        for path in sorted(self.files()):
            try:
                open_sealed(path, key=path.stem).check()
            except (OSError, CacheError) as error:
                yield str(error)

    def describe(self, path: Path) -> About:
        """Return what an entry says of itself; nothing when it cannot be trusted."""
        try:
            return open_sealed(path, key=path.stem).about
        except (OSError, CacheError):
            return {}

    def clear(self) -> int:
        """Remove every entry and return how many were removed."""
        count = 0
        for path in (*self.files(), *self._temporaries()):
            with suppress(OSError):
                path.unlink()
                count += path.suffix == _SUFFIX
        return count

    def _entry(self, key: str) -> Path:
        return self.path / f"{key}{_SUFFIX}"

    def _check_folder(self) -> None:
        found = os.lstat(self.path)
        problem = find_foreign(found, is_folder=True)
        if problem is not None:
            raise CacheError(f"{self.path}: {problem}; remove it")
        if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            with suppress(OSError):
                os.chmod(self.path, 0o700)

    def _make_folder(self) -> None:
        for folder in (cache_dir(), self.path):
            folder.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):
                folder.mkdir(mode=0o700)
        self._check_folder()

    def _make_room(self, wanted: int) -> bool:
        """Remove the entries longest not used until ``wanted`` bytes fit; tell whether they can."""
        for path in self._temporaries():
            with suppress(OSError):
                if time.time() - path.stat().st_mtime > _ABANDONED_SECONDS:
                    path.unlink()
        found = []
        for path in self.files():
            with suppress(OSError):
                facts = path.stat()
                found.append((facts.st_mtime_ns, facts.st_size, path))
        total = sum(size for _, size, _ in found)
        if wanted > self.limit_bytes or wanted > shutil.disk_usage(self.path).free * _MOST_OF_DISK:
            return False
        for _, size, path in sorted(found):
            if total + wanted <= self.limit_bytes:
                break
            with suppress(OSError):
                path.unlink()
                total -= size
        return True

    def _temporaries(self) -> tuple[Path, ...]:
        try:
            return tuple(path for path in self.path.iterdir() if path.suffix == _TEMPORARY)
        except OSError:
            return ()


def _tell(error: OSError | CacheError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _say_once(text: str) -> None:
    """Log a warning, unless this process has logged one before: one line says it for all folders."""
    if not _said:
        _said.append(text)
        _LOG.warning("%s", text)


KERNELS = CacheFolder("kernels", limit_bytes=256 << 20)
"""Programs as drivers compiled them."""
MODELS = CacheFolder("models", limit_bytes=4 << 30)
"""Graphs with their constants."""
WEIGHTS = CacheFolder("weights", limit_bytes=4 << 30)
"""Constants packed as kernels read them."""
PLANS = CacheFolder("plans", limit_bytes=64 << 20)
"""Plans that were measured to be the fastest."""
FOLDERS = (KERNELS, MODELS, WEIGHTS, PLANS)
