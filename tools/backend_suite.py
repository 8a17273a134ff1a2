"""Runs ONNX's backend suite through codl and through ONNX Runtime, and tells where codl passes less.

    python tools/backend_suite.py                    # all cases on the CPU, counts at the end
    python tools/backend_suite.py --only resize      # cases whose name matches

Each backend runs in a process of its own, which is started again behind a case that ends it. Exit code 1
when ONNX Runtime passes a case that codl does not.
"""

import argparse
import importlib
import json
import re
import subprocess
import sys
import unittest
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BACKENDS = ("onnxruntime", "codl")
ROOT = Path(__file__).parents[1]
PASSED, SKIPPED, CRASHED = "passed", "skipped", "ended the process"


def main() -> int:
    """Return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", metavar="PATTERN", help="cases whose name matches")
    parser.add_argument("--worker", choices=BACKENDS, help=argparse.SUPPRESS)
    parser.add_argument("--skip", type=int, default=0, help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.worker:
        run_cases(flags.worker, only=flags.only, skip=flags.skip)
        return 0
    found = {backend: collect(backend, only=flags.only) for backend in BACKENDS}
    for backend, results in found.items():
        counts = Counter(_classify(said) for said in results.values())
        print(f"{backend:12}", ", ".join(f"{count} {word}" for word, count in sorted(counts.items())))
    theirs, own = found["onnxruntime"], found["codl"]
    lost = [name for name, said in theirs.items() if said == PASSED and own[name] != PASSED]
    print(f"passed by codl alone: {sum(own[n] == PASSED != said for n, said in theirs.items())}")
    print(f"passed by ONNX Runtime alone: {len(lost)}")
    for name in lost:
        print(f"  {name}: {own[name]}")
    return 1 if lost else 0


def collect(backend: str, *, only: str) -> dict[str, str]:
    """Return what became of each case: `PASSED`, `SKIPPED`, or what went wrong."""
    results: dict[str, str] = {}
    while True:
        command = [sys.executable, "-W", "ignore", str(Path(__file__).resolve()), "--worker", backend]
        command += ["--only", only, "--skip", str(len(results))]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as worker:
            assert worker.stdout is not None
            begun = None
            for line in worker.stdout:
                if not line.startswith('["'):
                    continue
                name, said = json.loads(line)
                begun = name if said is None else None
                if said is not None:
                    results[name] = said
        if worker.returncode == 0:
            return results
        if begun is None:
            raise SystemExit(f"{backend}: ended with {worker.returncode} outside of a case")
        results[begun] = CRASHED


def run_cases(backend: str, *, only: str, skip: int) -> None:
    """Run the cases behind the first ``skip``; print each as JSON, when it begins and when it is over."""
    for case in list(find_cases(backend, only=only))[skip:]:
        name = case._testMethodName
        print(json.dumps([name, None]), flush=True)
        result = unittest.TestResult()
        case.run(result)
        wrong = [text for _, text in (*result.failures, *result.errors)]
        said = PASSED if not result.skipped else SKIPPED
        if wrong:
            said = next((line for line in reversed(wrong[0].splitlines()) if line.strip()), "failed")
            said = next((x for x in wrong[0].splitlines() if re.match(r"[\w.]*(Error|Exception)\b", x)), said)
        print(json.dumps([name, said]), flush=True)


def find_cases(backend: str, *, only: str) -> Iterator[Any]:
    """Yield the suite's cases on the CPU, in the same order for every backend."""
    import onnx.backend.test

    sys.path.insert(0, str(ROOT))
    chosen = importlib.import_module(f"{backend}.backend")
    for case in onnx.backend.test.BackendTest(chosen, __name__).test_suite:
        name = case._testMethodName
        if name.endswith("_cpu") and re.search(only, name):
            yield case


def _classify(said: str) -> str:
    return said if said in (PASSED, SKIPPED, CRASHED) else "failed"


if __name__ == "__main__":
    sys.exit(main())
