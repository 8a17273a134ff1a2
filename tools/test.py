"""Sets up `.venv` and passes the tests: ruff, mypy, then pytest, which gets the arguments given here.

With --quick first, only ruff and a few tests of each room run, in a minute. On two cores or more pytest runs
in two processes: most of the time drivers compile, each in one thread.

Example:
    python3 tools/test.py -k regions
"""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

if sys.version_info < (3, 11):  # noqa: UP036  (the one line that an older Python gets to see)
    FOUND = f"{sys.version_info[0]}.{sys.version_info[1]}"
    sys.stderr.write(f"Python {FOUND} is too old. What to do: start it with Python 3.11 or newer\n")
    sys.exit(2)

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tools.setup_env import enter_environment, install_browser  # noqa: E402

QUICK = (
    "tests/test_layers.py",
    "tests/ir",
    "tests/test_files.py",
    "tests/plan/test_check.py",
    "tests/latency/test_store.py",
    "tests/session/test_shapes.py",
    "tests/test_session.py",
)
"""Tests that show within a minute whether something basic is broken."""
PARALLEL = ("-n", "2", "--dist", "worksteal") if (os.cpu_count() or 1) > 1 else ()


def main() -> int:
    """Run every step and return the exit code of the first that fails."""
    arguments = sys.argv[1:]
    enter_environment(__file__, arguments)
    if arguments[:1] == ["--quick"]:
        return run_quickly(arguments[1:])
    install_browser()
    steps = (
        ("ruff check", ["ruff", "check", "."]),
        ("ruff format", ["ruff", "format", "--check", "."]),
        ("mypy", ["mypy"]),
        ("pytest", ["pytest", *PARALLEL, *arguments]),
    )
    took = []
    code = 0
    for name, command in steps:
        print(f"== {name}", flush=True)
        start = time.monotonic()
        code = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, check=False).returncode
        took.append(f"{name} {time.monotonic() - start:.0f} s")
        if code:
            print(f"{name} failed with exit code {code}", file=sys.stderr)
            break
    print(f"== {', '.join(took)}")
    return code


def run_quickly(arguments: Sequence[str]) -> int:
    """Return the exit code of ruff and of a few tests of each room."""
    for command in (["ruff", "check", "."], ["pytest", "-x", *PARALLEL, *QUICK, *arguments]):
        code = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, check=False).returncode
        if code:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
