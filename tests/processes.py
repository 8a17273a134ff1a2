"""Fresh Python processes for tests of what happens once a process."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
CACHE = ROOT / ".pytest_cache" / "codl"
"""Where tests keep what codl caches, unless CODL_CACHE_DIR says another place."""
LIMITS = (
    "CODL_EMULATE_PAIR",
    "CL_CONFIG_CPU_TBB_NUM_WORKERS",
    "DPCPP_CPU_NUM_CUS",
    "POCL_MAX_PTHREAD_COUNT",
    "POCL_CPU_MAX_CU_COUNT",
    "POCL_AFFINITY",
    "POCL_CACHE_DIR",
    "CUDA_CACHE_PATH",
)


def clean_environment(**changes: str) -> dict[str, str]:
    """Return this process's environment without what the test session set, changed as asked."""
    kept = {name: value for name, value in os.environ.items() if name not in LIMITS}
    if kept.get("CODL_CACHE_DIR") == str(CACHE):
        del kept["CODL_CACHE_DIR"]
    return {**kept, "PYTHONPATH": str(ROOT), **changes}


def run_python(*arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
    """Run this Python with some arguments in a clean environment."""
    return subprocess.run(
        [sys.executable, *arguments],
        env=clean_environment(**changes),
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )


def evaluate(code: str, **changes: str) -> Any:
    """Run some code in a new process and return what its last line of output says, as JSON."""
    done = run_python("-W", "ignore", "-c", code, **changes)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
