"""Cold start: from a model's file to its first result in a process of its own, imports left out, caches warm.

Example:
    python tools/bench_start.py --devices intel-cpu
    CODL_EMULATE_PAIR=1 python tools/bench_start.py --devices intel-cpu,pocl-cpu
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

_FLAG = "--in-process"


def main() -> int:
    """Measure and print seconds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", default="resnet50")
    parser.add_argument("--rounds", type=int, default=10, help="processes that count (default: 10)")
    parser.add_argument("--devices", default="intel-cpu", help="one, or more to split evenly over")
    args = parser.parse_args()
    planner = "even" if "," in args.devices else f"single:{args.devices}"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{args.network}.onnx"
        root = Path(__file__).resolve().parents[1]
        build = [sys.executable, str(root / "tools" / "models.py"), args.network, "-o", str(path)]
        subprocess.run(build, check=True, stdout=subprocess.DEVNULL)
        command = [sys.executable, __file__, _FLAG, str(path), args.devices, planner]
        taken = [start_once(command) for _ in range(args.rounds + 1)][1:]  # the first one fills the caches
    names = {"load": "file to session", "first": "first run", "second": "second run"}
    print(f"{args.network}, {len(taken)} processes, median of seconds (least to most)")
    for key, name in names.items():
        times = sorted(each[key] for each in taken)
        print(f"{name:16s} {median(times):6.3f} ({times[0]:.3f} to {times[-1]:.3f})")
    totals = sorted(each["load"] + each["first"] for each in taken)
    print(f"{'file to result':16s} {median(totals):6.3f} ({totals[0]:.3f} to {totals[-1]:.3f})")
    return 0


def start_once(command: list[str]) -> dict[str, float]:
    """Return the seconds of each part, in a new process."""
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def measure(arguments: list[str]) -> int:
    """Load a model for devices with a planner, run it twice, print the seconds as JSON."""
    import numpy as np

    from codl import InferenceSession, SessionOptions

    model, devices, planner = arguments
    options = SessionOptions(warm_up="block")
    options.devices, options.planner = devices.split(","), planner
    start = time.perf_counter()
    session = InferenceSession(model, options)
    loaded = time.perf_counter()
    feeds = {
        entry.name: np.zeros([size if isinstance(size, int) else 1 for size in entry.shape], np.float32)
        for entry in session.get_inputs()
    }
    begins = [time.perf_counter()]
    for _ in range(2):
        session.run(None, feeds)
        begins.append(time.perf_counter())
    print(
        json.dumps({"load": loaded - start, "first": begins[1] - begins[0], "second": begins[2] - begins[1]})
    )
    return 0


if __name__ == "__main__":
    sys.exit(measure(sys.argv[2:]) if sys.argv[1:2] == [_FLAG] else main())
