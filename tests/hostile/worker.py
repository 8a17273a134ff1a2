"""A process that runs cases one after another, and the watch over it."""

import contextlib
import multiprocessing
import os
import resource
import tempfile
import time
import warnings
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.hostile.judge import Outcome

LIMIT_S = 10.0
"""Of a processor's time; by the clock too on a quiet machine, longer by the load on a busy one."""
_IDLE_S = 20.0
"""A process that takes no processor's time for so long waits for something that does not come."""
LIMIT_BYTES = 2 << 30
JUDGE_S = 20.0
"""How long ONNX Runtime may take: where it hangs, codl has refused before."""
START_S = 600.0
_POLL_S = 0.1
_PAGE = resource.getpagesize()


def serve(connection: Connection, folder: str) -> None:
    """Run the cases whose names come in; say what codl made of each, then what ONNX Runtime says to that."""
    log = os.open(Path(folder) / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for descriptor in (1, 2):
        os.dup2(log, descriptor)
    warnings.simplefilter("ignore")
    from tests.hostile.families import make_case  # the drivers load in this process alone
    from tests.hostile.judge import judge, lay_out, run_codl

    for name in ("valid-0-0", "valid-0-1"):  # drivers load, and compile for the first time
        case = make_case(name)
        run_codl(case, lay_out(case, Path(folder)))
    connection.send("ready")
    while True:
        name, is_run = connection.recv()
        os.ftruncate(log, 0)
        case = make_case(name)
        model = lay_out(case, Path(folder))
        connection.send(("made", case.what))
        outcome, outputs = run_codl(case, model) if is_run else (Outcome(kind="crash"), [])
        connection.send(("ran", outcome))
        connection.send(("judged", judge(case, model, outcome, outputs)))


class _Clock:
    """Tells when a process has had its time, however busy the machine is with others."""

    def __init__(self, pid: int, limit_s: float) -> None:
        self._pid, self._limit_s = pid, limit_s
        self._begin = self._last = time.monotonic()
        self._first_cpu_s = self._cpu_s = self._count()

    def is_over(self) -> bool:
        """Return whether the process has computed too long, waits in vain, or takes too long altogether."""
        now, cpu_s = time.monotonic(), self._count()
        if cpu_s > self._cpu_s:
            self._last, self._cpu_s = now, cpu_s
        if cpu_s - self._first_cpu_s > self._limit_s or now - self._last > max(self._limit_s, _IDLE_S):
            return True
        return now - self._begin > self._limit_s * max(1.0, os.getloadavg()[0])

    def _count(self) -> float:
        with contextlib.suppress(OSError, IndexError):
            fields = Path(f"/proc/{self._pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return 0.0


class Worker:
    """A worker process; a context manager. It is started again when it dies, or is killed."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="codl-hostile-")
        self._process: Any = None
        self._connection: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()
        self._folder.cleanup()

    def run(self, name: str) -> tuple[str, Outcome]:
        """Return what a case is, and what became of it.

        What takes too long is run once more: the first time, kernels may have been compiled.
        """
        what, outcome = self._run(name, is_run=True)
        if outcome.kind == "time":
            what, outcome = self._run(name, is_run=True)
        if outcome.kind in ("crash", "memory"):
            _, alone = self._run(name, is_run=False)
            says = "dies too" if alone.kind == "unjudged" else "does not"
            outcome = Outcome(kind=outcome.kind, text=f"{outcome.text} (ONNX Runtime {says})")
        return what, outcome

    def _run(self, name: str, *, is_run: bool) -> tuple[str, Outcome]:
        self._start()
        self._connection.send((name, is_run))
        kind, what = self._await(START_S, 1 << 40)
        if kind != "made":
            return name, Outcome(kind="crash", text=f"while the model was made: {what}")
        kind, outcome = self._await(LIMIT_S, LIMIT_BYTES)
        if kind != "ran":
            return what, Outcome(kind=kind, text=outcome)
        kind, judged = self._await(JUDGE_S, LIMIT_BYTES)
        if kind == "judged":
            return what, judged
        return what, outcome if outcome.kind != "right" else Outcome(
            kind="alone", text=f"ONNX Runtime: {kind}"
        )

    def _await(self, limit_s: float, limit_bytes: int) -> tuple[str, Any]:
        """Return the worker's next message, or the kind of its end and words for it."""
        least, clock = self._count_bytes(), _Clock(self._process.pid, limit_s)
        while not self._connection.poll(_POLL_S):
            grown = self._count_bytes() - least
            if grown > limit_bytes:
                self._stop()
                return "memory", f"{grown / 2**30:.1f} GiB"
            if clock.is_over():
                self._stop()
                return "time", f"more than {limit_s:.0f} s"
            if not self._process.is_alive() and not self._connection.poll(_POLL_S):
                break
        try:
            message: tuple[str, Any] = self._connection.recv()
        except (EOFError, OSError):
            self._process.join()
            text = f"exit code {self._process.exitcode}: {self._read_log()}"
            self._stop()
            return "crash", text
        return message

    def _read_log(self) -> str:
        text = (Path(self._folder.name) / "log").read_text(errors="replace")
        return " | ".join(text.split("\n")[-6:])[-400:]

    def _count_bytes(self) -> int:
        with contextlib.suppress(OSError, IndexError):
            text = Path(f"/proc/{self._process.pid}/statm").read_text(encoding="ascii")
            return int(text.split()[1]) * _PAGE
        return 0

    def _start(self) -> None:
        if self._process is not None:
            return
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs, self._folder.name), daemon=True)
        self._process.start()
        theirs.close()
        if not self._connection.poll(START_S) or self._connection.recv() != "ready":
            raise RuntimeError(f"the worker does not start: {self._read_log()}")

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._connection.close()
            self._process = None
