"""Work behind a session: in one thread, and none after the session or the process ends."""

import atexit
import queue
import threading
import time
import weakref
from collections.abc import Callable

Job = Callable[[threading.Event], object]
"""Does something, and looks at the event now and then: it is set when that is not wanted any more."""
_REST = 9.0
"""How many times as long as a job took the thread rests before the next one, unless it is hurried."""
_EXIT_SECONDS = 60.0
"""How long the end of a process waits for what a driver has begun, at most."""
_workers: "weakref.WeakSet[Worker]" = weakref.WeakSet()


class Worker:
    """A thread that does jobs in turn.

    Args:
        delay: Seconds before it begins its first job, unless it is hurried: programs that end soon, and those
            that are still being set up, are left alone.
    """

    def __init__(self, *, delay: float) -> None:
        self._delay = delay
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._is_wanted_now, self._is_stopped = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        _workers.add(self)

    def submit(self, job: Job) -> None:
        """Do a job after those that were submitted before; it must not raise."""
        self._jobs.put(job)
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="codl background", daemon=True)
            self._thread.start()

    def hurry(self) -> None:
        """Begin the next job at once."""
        self._is_wanted_now.set()

    def stop(self) -> None:
        """Begin no further job, and let the one at work end soon."""
        self._is_stopped.set()
        self._is_wanted_now.set()
        self._jobs.put(None)

    def join(self, seconds: float) -> None:
        """Wait until the thread has ended, or for so long."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(seconds)

    def _work(self) -> None:
        pause = self._delay
        while (job := self._jobs.get()) is not None:
            self._is_wanted_now.wait(pause)
            self._is_wanted_now.clear()
            if self._is_stopped.is_set():
                return
            start = time.monotonic()
            job(self._is_stopped)
            pause = _REST * (time.monotonic() - start)


@atexit.register
def _stop_all() -> None:
    for worker in list(_workers):
        worker.stop()
    for worker in list(_workers):
        worker.join(_EXIT_SECONDS)
