"""Runs the kernel tests on Oclgrind, an OpenCL device that finds data races and reads of unwritten memory.

Oclgrind comes from Debian: `apt-get install oclgrind`. All arguments go to pytest.

Example:
    python tools/sanitize.py -k conv2d
"""

import ctypes.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIBRARIES = ("/usr/lib/oclgrind/liboclgrind-rt-icd.so", "/usr/local/lib/liboclgrind-rt-icd.so")
"""Where distributions and Oclgrind's own build put the library that an ICD file names."""
IMAGES = "tests/kernels/test_images.py"
RUNS = (
    (("tests/kernels", f"--ignore={IMAGES}"), "1"),
    # Oclgrind 21.10 takes every texel for unwritten, even what the host wrote; these tests put NaN there.
    ((IMAGES,), "0"),
)
"""Tests, and whether they are checked for reads of unwritten memory."""
NO_TESTS = 5
"""What pytest returns when its arguments select none."""
SETTINGS = {
    "CODL_TEST_DEVICES": "oclgrind-gpu",
    "OCLGRIND_DATA_RACES": "1",
    "OCLGRIND_LOCAL_MEM_SIZE": "65536",  # as GPUs have it
    "OCLGRIND_BUILD_OPTIONS": "-O0",  # the optimiser's `freeze` stops the check for uninitialised values
}


def main() -> int:
    """Return 1 when a test fails or Oclgrind has anything to say, 2 when Oclgrind is missing."""
    library = find_library()
    if library is None:
        print("Oclgrind: not installed. What to do: as root, apt-get install oclgrind", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "oclgrind.log"
        (Path(folder) / "oclgrind.icd").write_text(library + "\n", encoding="utf-8")
        environment = os.environ | SETTINGS | {"OCL_ICD_VENDORS": folder, "OCLGRIND_LOG": str(log)}
        codes, said = [], ""
        for tests, looks_for_unwritten in RUNS:
            environment["OCLGRIND_UNINITIALIZED"] = looks_for_unwritten
            how = ["-p", "no:cacheprovider", "--timeout=0"]  # each work-item is interpreted: tests take long
            command = [sys.executable, "-m", "pytest", *how, *tests, *sys.argv[1:]]
            codes.append(subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode)
            said += log.read_text(encoding="utf-8", errors="replace").strip() if log.exists() else ""
            log.unlink(missing_ok=True)
    print(said or "Oclgrind: found nothing")
    return 1 if said or not set(codes) <= {0, NO_TESTS} else 0


def find_library() -> str | None:
    """Return Oclgrind's OpenCL driver, None where it is not installed."""
    installed = [path for path in LIBRARIES if Path(path).exists()]
    return installed[0] if installed else ctypes.util.find_library("oclgrind-rt-icd")


if __name__ == "__main__":
    sys.exit(main())
