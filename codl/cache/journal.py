"""Journals: files of JSON lines that only grow, so that a process that is killed loses one line at most."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Self

from codl.errors import ProfileError
from codl.files import read_text

try:
    import fcntl
except ImportError:  # no such locks on this system: two writers at once are the user's to avoid
    fcntl = None  # type: ignore[assignment]

_MOST_BYTES = 512 << 20
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_NONBLOCK", 0)


class Journal:
    """A journal open for appending by one process at a time; a context manager.

    Args:
        path: The file; its folder is made.
        sync_every: Lines between two synchronisations: a killed process loses none, a lost machine these.

    Raises:
        BlockingIOError: Another process has it open.
        OSError: It cannot be written.
    """

    def __init__(self, path: Path, *, sync_every: int = 1) -> None:
        self.path = path
        self._sync_every, self._unsynced = sync_every, 0
        path.parent.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(path, _FLAGS, 0o644)
        try:
            self._lock()
            self._end_cut_line()
        except BaseException:
            os.close(self._descriptor)
            raise
        self._is_open = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def append(self, values: Mapping[str, Any]) -> None:
        """Write one line.

        Raises:
            OSError: It cannot be written.
        """
        line = json.dumps(values, separators=(",", ":")).encode() + b"\n"
        while line:
            line = line[os.write(self._descriptor, line) :]
        self._unsynced += 1
        if self._unsynced >= self._sync_every:
            self._sync()

    def close(self) -> None:
        """Synchronise and close; a second call does nothing.

        Raises:
            OSError: The disk did not take the last lines.
        """
        if self._is_open:
            self._is_open = False
            try:
                if self._unsynced:
                    self._sync()
            finally:
                os.close(self._descriptor)

    def _sync(self) -> None:
        os.fsync(self._descriptor)
        self._unsynced = 0

    def _lock(self) -> None:
        if fcntl is None:
            return
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError:  # a file system without locks
            return

    def _end_cut_line(self) -> None:
        """Put what was killed in the middle of a line on a line of its own."""
        size = os.fstat(self._descriptor).st_size
        if size and os.pread(self._descriptor, 1, size - 1) != b"\n":
            os.write(self._descriptor, b"\n")


class ExplainedJournal(Journal):
    """A journal of measurements whose errors say what users can do; arguments as of `Journal`.

    Raises:
        ProfileError: Another process has it open, or it cannot be written.
    """

    busy: ClassVar[str]
    """What to say where another process has it open."""
    failed: ClassVar[str]
    """What to say where it cannot be read or written, with the place of the `problem`."""

    def __init__(self, path: Path, *, sync_every: int = 1) -> None:
        with self._explained(path):
            super().__init__(path, sync_every=sync_every)

    def append(self, values: Mapping[str, Any]) -> None:
        """Write one line; see `Journal`."""
        with self._explained(self.path):
            super().append(values)

    def close(self) -> None:
        """Synchronise and close; see `Journal`."""
        with self._explained(self.path):
            super().close()

    def lines(self) -> Iterator[Mapping[str, Any]]:
        """Yield what the lines say, oldest first; a line that is none, or torn, is left out."""
        with self._explained(self.path):
            yield from read_journal(self.path)

    @contextmanager
    def _explained(self, path: Path) -> Iterator[None]:
        try:
            yield
        except BlockingIOError as error:
            raise ProfileError(f"{path}: {self.busy}") from error
        except OSError as error:
            raise ProfileError(f"{path}: {self.failed.format(problem=error.strerror or error)}") from error


def read_journal(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yield what the lines of a journal say, oldest first; a line that is damaged or cut short is left out.

    Raises:
        OSError: The file is there and cannot be read, or is too large for a journal.
    """
    if not path.is_file():
        return
    for line in read_text(path, most_bytes=_MOST_BYTES, errors="replace").splitlines():
        try:
            values = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(values, dict):
            yield values
