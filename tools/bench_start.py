"""What a program sees that changes one import: first result, change-over, speed, memory; ONNX Runtime too.

Each row is a process of its own with ONNX Runtime, codl with an empty cache, or codl with the cache that this
one left. Seconds count from the process's first import. When all have settled, the two are run by turns, some
runs each, and `speed` is ONNX Runtime's median by codl's.

Example:
    python tools/bench_start.py model.onnx other.onnx
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

_FLAG = "--serve"
_LIBRARIES = ("onnxruntime", "codl")
_SETTLING_RUNS, _SETTLING_SECONDS = 60, 2.0
"""After codl's kernels are ready: its trial of ONNX Runtime and the plan ends within so many runs."""
_TURN_SECONDS, _PAUSE_SECONDS = 0.25, 0.1
"""The pause lets threads of the other process come to rest."""
_HEAD = """| model | by | first result | ready | RSS, MiB | ms a run | speed | served by |
|---|---|--:|--:|--:|--:|--:|---|"""


class Program:
    """A process that runs a model.

    Args:
        library: Which module it imports.
        model: The ONNX file.
        size: Length of dimensions that the model leaves open.
        cache: codl's cache folder.
    """

    def __init__(self, library: str, model: Path, size: int, cache: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, _FLAG, library, str(model), str(size)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "CODL_CACHE_DIR": cache},
        )

    def ask(self, order: str) -> dict[str, Any]:
        """Return what the process answers to an order: `start` or `turn`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(order, file=self._process.stdin, flush=True)
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        return found

    def end(self) -> None:
        """Let the process end."""
        self._process.communicate()


def main() -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", type=Path, metavar="MODEL")
    parser.add_argument("--turns", type=int, default=15, help="of each at the end (default: 15)")
    parser.add_argument("--size", type=int, default=1, help="of dimensions that are open (default: 1)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything to this file, too")
    args = parser.parse_args()
    print(_HEAD)
    found = {}
    for model in args.models:
        try:
            found[model.stem] = rows = measure_model(model, args.size, args.turns)
        except ValueError:
            print(f"| {model.stem} | failed | | | | | | |", flush=True)
            continue
        for by, row in rows.items():
            print(format_row(model.stem, by, row), flush=True)
        if args.json is not None:
            args.json.write_text(json.dumps(found, indent=1))
    speeds = [rows["codl, warm"]["speed"] for rows in found.values()]
    if speeds:
        mean, least = geometric_mean(speeds), min(speeds)
        print(f"\n{len(speeds)} models, speed: geometric mean {mean:.3f}, least {least:.3f}")
    return 0


def measure_model(model: Path, size: int, turns: int) -> dict[str, dict[str, Any]]:
    """Return a row for each way to run a model."""
    with tempfile.TemporaryDirectory() as cache:
        host = Program("onnxruntime", model, size, cache)
        rows = {"ONNX Runtime": host.ask("start")}
        cold = Program("codl", model, size, cache)
        rows["codl, empty cache"] = cold.ask("start")
        cold.end()
        warm = Program("codl", model, size, cache)
        rows["codl, warm"] = warm.ask("start")
        taken: dict[str, list[float]] = {"ONNX Runtime": [], "codl, warm": []}
        programs = [("ONNX Runtime", host), ("codl, warm", warm)]
        for _ in range(turns):
            for by, program in programs:
                time.sleep(_PAUSE_SECONDS)
                taken[by].append(program.ask("turn")["seconds"])
            programs.reverse()
        for by, times in taken.items():
            rows[by]["run"] = median(times)
        ratios = [a / b for a, b in zip(*taken.values(), strict=True)]
        rows["codl, warm"]["speed"] = median(ratios)
        rows["codl, warm"]["speeds"] = sorted(ratios)
        host.end()
        warm.end()
    return rows


def format_row(model: str, by: str, row: dict[str, Any]) -> str:
    """Return one row of the table."""
    run, speed = (
        f"{row[key] * factor:.3f}" if key in row else "" for key, factor in (("run", 1e3), ("speed", 1))
    )
    return (
        f"| {model} | {by} | {row['first']:.2f} | {row['ready']:.2f} | {row['rss']} | {run} | {speed} "
        f"| {row['served_by']} |"
    )


def serve(library: str, model: str, size: int) -> int:
    """Answer orders that come by stdin."""
    start = time.perf_counter()
    runtime = __import__(library)
    input()
    session = runtime.InferenceSession(model)
    import numpy as np

    generator = np.random.default_rng(0)
    feeds = {}
    for entry in session.get_inputs():
        shape = [length if isinstance(length, int) and length > 0 else size for length in entry.shape]
        word = entry.type.removeprefix("tensor(").removesuffix(")")
        dtype = np.dtype({"float": "float32", "double": "float64"}.get(word, word))
        drawn = generator.standard_normal(shape) if dtype.kind == "f" else np.ones(shape)
        feeds[entry.name] = drawn.astype(dtype)
    session.run(None, feeds)
    first = ready = time.perf_counter() - start
    if library == "codl":
        session.wait()
        ready = time.perf_counter() - start
        settle(lambda: session.run(None, feeds))
    print(
        json.dumps(
            {
                "first": first,
                "ready": ready,
                "rss": read_resident(),
                "served_by": session.served_by if library == "codl" else library,
            }
        ),
        flush=True,
    )
    for _ in sys.stdin:
        print(json.dumps({"seconds": take_turn(lambda: session.run(None, feeds))}), flush=True)
    return 0


def settle(run: Any) -> None:
    """Run until a trial is over, and what follows from it."""
    end = time.perf_counter() + _SETTLING_SECONDS
    for _ in range(_SETTLING_RUNS):
        run()
    while time.perf_counter() < end:
        time.sleep(0.1)
    run()


def take_turn(run: Any) -> float:
    """Return the median seconds of runs after a first one, for a quarter of a second."""
    run()
    times: list[float] = []
    end = time.perf_counter() + _TURN_SECONDS
    while not times or time.perf_counter() < end:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return median(times)


def read_resident() -> int:
    """Return the resident MiB of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) >> 10


if __name__ == "__main__":
    arguments = sys.argv[1:]
    sys.exit(serve(arguments[1], arguments[2], int(arguments[3])) if arguments[:1] == [_FLAG] else main())
