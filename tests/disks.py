"""Disks that are full before a file ends."""

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def small_disk(limit: int) -> Iterator[None]:
    """Limit the size of files inside the block only: it fails as a full disk does, in the middle of one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
