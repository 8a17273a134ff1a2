"""Runs published applications, unchanged, under ONNX Runtime and under codl: compares answers and wall time.

    python tools/clients/compare.py                            # all of them
    python tools/clients/compare.py silero-vad --environments DIR

Each application gets a virtual environment of its own below ``DIR`` (default ``.clients`` in the checkout),
made at the first use from PyPI: magika, rapidocr-onnxruntime, rapidocr, silero-vad; their models come in
their wheels. Speech is spoken by ``espeak-ng`` (Debian's package). Under codl the only change is
``sys.modules["onnxruntime"] = codl`` before the application is imported. Prints a row of a table for each,
as docs/clients.md has it: seconds of a whole process under ONNX Runtime, under codl with an empty cache and
under codl with what this left there, each the least of several; exit code 1 where answers differ.
Not for CI: it installs a gigabyte.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
WORKER = Path(__file__).with_name("worker.py")
RUNTIMES = ("onnxruntime", "codl", "codl")
"""The second codl finds what the first one left in its cache."""
OWN = (
    "numpy",
    "pyopencl",
    "onnx",
    "onnxruntime",
    "platformdirs",
    "rich",
    "intel-opencl-rt",
    "intel-cmplr-lib-rt",
)
"""What codl itself needs; it runs from the checkout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """An application and how it is installed."""

    packages: Sequence[Sequence[str]]
    """Arguments of one ``pip install`` after the other."""
    tolerance: float
    """Most that numbers of its answer may differ by."""


CLIENTS = {
    "magika": Client(packages=[["magika"]], tolerance=1e-3),
    "rapidocr-onnxruntime": Client(packages=[["rapidocr-onnxruntime"]], tolerance=1e-3),
    "rapidocr": Client(packages=[["rapidocr"]], tolerance=1e-3),
    "silero-vad": Client(packages=[["torch==2.13.0"], ["silero-vad"]], tolerance=1e-3),
}


def main() -> int:
    """Return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("clients", nargs="*", metavar="CLIENT", help=f"of {', '.join(CLIENTS)}")
    parser.add_argument("--environments", type=Path, default=ROOT / ".clients", metavar="DIR")
    parser.add_argument("--rounds", type=int, default=3, help="processes of each kind (default: 3)")
    flags = parser.parse_args()
    if unknown := set(flags.clients) - set(CLIENTS):
        parser.error(f"got {sorted(unknown)}, expected some of {list(CLIENTS)}")
    print(
        "| application | version | answer | codl | largest difference | ONNX Runtime, s | codl, s | again |"
    )
    print("|---|---|---|---|--:|--:|--:|--:|")
    rows = [compare(name, flags.environments, flags.rounds) for name in flags.clients or CLIENTS]
    return 0 if all(rows) else 1


def compare(name: str, folder: Path, rounds: int) -> bool:
    """Print the row of an application; return whether its answers are the same."""
    client = CLIENTS[name]
    python = prepare(folder / name, client)
    ask(python, name, "onnxruntime", folder)  # files come into memory
    seconds: list[tuple[float, ...]] = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as cache:
            theirs, *own = (ask(python, name, runtime, Path(cache)) for runtime in RUNTIMES)
        seconds.append((theirs["seconds"], *(one["seconds"] for one in own)))
    differences = [find_difference(theirs["answer"], one["answer"]) for one in own]
    difference = None if None in differences else max(d for d in differences if d is not None)
    is_same = difference is not None and difference <= client.tolerance
    verdict = "same" if is_same else "different"
    largest = "-" if difference is None else f"{difference:.1e}"
    least = " | ".join(f"{min(times):.2f}" for times in zip(*seconds, strict=True))
    print(
        f"| {name} | {theirs['version']} | {theirs['summary']} | {verdict} | {largest} | {least} |",
        flush=True,
    )
    if not is_same:
        print(f"onnxruntime: {theirs['answer']}\ncodl: {[one['answer'] for one in own]}", file=sys.stderr)
    return is_same


def prepare(folder: Path, client: Client) -> Path:
    """Return the interpreter of an application's environment, made now if it is not there."""
    python, done = folder / "bin" / "python", folder / "installed"
    if not done.exists():
        venv.create(folder, with_pip=True)
        for packages in (*client.packages, OWN):
            subprocess.run([python, "-m", "pip", "install", "-q", *packages], check=True)
        done.touch()
    return python


def ask(python: Path, name: str, runtime: str, cache: Path) -> Any:
    """Return what an application answers, with its version, a summary and the seconds that all took."""
    start = time.perf_counter()
    done = subprocess.run(
        [python, "-W", "ignore", WORKER, name, runtime, ROOT],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={**os.environ, "CODL_CACHE_DIR": str(cache)},
    )
    return {**json.loads(done.stdout.splitlines()[-1]), "seconds": time.perf_counter() - start}


def find_difference(first: Any, second: Any) -> float | None:
    """Return the largest difference of numbers in two answers; None where they differ otherwise."""
    if isinstance(first, list) and isinstance(second, list):
        if len(first) != len(second):
            return None
        found = [find_difference(a, b) for a, b in zip(first, second, strict=True)]
        return None if None in found else max((d for d in found if d is not None), default=0.0)
    if isinstance(first, int | float) and isinstance(second, int | float):
        return abs(first - second)
    return 0.0 if first == second else None


if __name__ == "__main__":
    sys.exit(main())
