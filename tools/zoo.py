"""Modern networks, right and fast: exports them, runs each one in many ways, and writes the table of results.

`export` needs an environment of its own: pip install torch==2.13.0 torchvision timm transformers ultralytics
onnx onnxscript onnxruntime. `check` runs each network on one device, and on two under `even`, `dynamic` and
random plans, against ONNX Runtime. `time` measures it beside ONNX Runtime and each device alone.

Example:
    python tools/zoo.py export /tmp/zoo
    python tools/zoo.py check /tmp/zoo --output zoo.json
    python tools/zoo.py time /tmp/zoo --output zoo.json
    python tools/zoo.py page zoo.json >> docs/results.md
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from statistics import geometric_mean
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

TOLERANCE, TOLERANCE_FLOAT16 = 1e-4, 5e-3
RANDOM_PLANS = 5
_PAIR = "intel-cpu,pocl-cpu"
_LIMIT_SECONDS = 1800
"""For one network."""
_MOST_ID = 999
"""Inputs of integers are indices of words."""


def main() -> int:
    """Do one of the four; return 1 if a network failed or was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("verb", choices=["export", "check", "time", "page", "one"])
    parser.add_argument("path", type=Path, help="folder of ONNX files, or the JSON of a page")
    parser.add_argument("--networks", metavar="A,B", help="default: all")
    parser.add_argument("--devices", default=_PAIR, help=f"the first one also alone (default: {_PAIR})")
    parser.add_argument("--rounds", default="12", help="most rounds of a measurement (default: 12)")
    parser.add_argument("--output", type=Path, metavar="FILE", help="JSON that results are added to")
    args = parser.parse_args()
    if args.verb == "page":
        print("\n".join(format_page(json.loads(args.path.read_text(encoding="utf-8")))))
        return 0
    if args.verb == "one":
        print(json.dumps(check(args.path, args.devices.split(","))))
        return 0
    if args.verb == "export":
        return export_all(args.path, args.networks)
    files = {path.stem: path for path in sorted(args.path.glob("*.onnx"))}
    found = (
        json.loads(args.output.read_text(encoding="utf-8")) if args.output and args.output.exists() else {}
    )
    is_right = True
    for name in args.networks.split(",") if args.networks else files:
        row = check_apart(files[name], args.devices) if args.verb == "check" else time_both(files[name], args)
        found[name] = {**found.get(name, {}), **row}
        is_right &= "error" not in row
        print(name, json.dumps(row), flush=True)
        if args.output:
            args.output.write_text(json.dumps(found, indent=1), encoding="utf-8")
    return 0 if is_right else 1


def export_all(folder: Path, networks: str | None) -> int:
    """Write networks that are not there; return 1 if one of them cannot be exported."""
    from tools import zoo_export

    folder.mkdir(parents=True, exist_ok=True)
    failed = 0
    for name in networks.split(",") if networks else (*zoo_export.list_networks(), zoo_export.QUANTISED):
        path = folder / f"{name}.onnx"
        if path.exists():
            continue
        try:
            zoo_export.export(name, path)
            print(f"{name}: {path.stat().st_size >> 20} MiB", flush=True)
        except Exception as error:  # one network must not cost the others
            failed = 1
            path.unlink(missing_ok=True)
            print(f"{name}: {type(error).__name__}: {' '.join(str(error).split())[:200]}", flush=True)
    return failed


def check_apart(path: Path, devices: str) -> dict[str, Any]:
    """Return what `check` finds, in a process of its own."""
    command = [sys.executable, __file__, "one", str(path), "--devices", devices]
    return _run(command, {"CODL_EMULATE_PAIR": "1"} if devices == _PAIR else {})


def _run(command: list[str], changes: Mapping[str, str]) -> dict[str, Any]:
    """Return the JSON in the last line that a command prints, or its error."""
    environment, limit = {**os.environ, **changes}, _LIMIT_SECONDS
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, timeout=limit, capture_output=True, text=True, check=False
        )
        found: dict[str, Any] = json.loads(done.stdout[done.stdout.index("{") :])
    except subprocess.TimeoutExpired:
        return {"error": f"no end within {_LIMIT_SECONDS} s"}
    except ValueError:
        return {"error": (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1][:300]}
    return found


def check(path: Path, names: list[str]) -> dict[str, Any]:
    """Return errors of a network relative to ONNX Runtime, by plan, and how many operators run where."""
    import numpy as np
    import onnxruntime

    from codl.devices.opencl import open_devices
    from codl.executor.compile import compile_plan
    from codl.executor.weights import Weights
    from codl.frontend import load_graph
    from codl.ir.ops import HostCall
    from tests.oracle import relative_error

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    feeds = {one.name: _draw(one, np.random.default_rng(0)) for one in session.get_inputs()}
    expected = dict(zip([one.name for one in session.get_outputs()], session.run(None, feeds), strict=True))
    graph, devices = load_graph(str(path)), list(open_devices(names))
    weights, errors, split = Weights(graph), {}, 0
    for what, plan in iterate_plans(graph, devices):
        used = devices if len(plan.devices) > 1 else devices[:1]
        outputs = compile_plan(graph, plan, used, weights=weights).run(feeds)
        errors[what] = max(relative_error(outputs[name], value) for name, value in expected.items())
        if what == "dynamic":
            split = sum(len(step.nodes) for step in plan.steps if hasattr(step, "cuts"))
    host = sum(isinstance(node.op, HostCall) for node in graph.nodes)
    reasons = sorted({reason for part in graph.host_models.values() for reason in part.reasons})
    is_half = any(value.dtype == np.float16 for value in expected.values())
    worst = max(errors.values())
    row: dict[str, Any] = {"errors": errors, "operators": len(graph.nodes), "host": host, "split": split}
    row |= {"reasons": reasons[:20]} if reasons else {}
    return row | (
        {} if worst <= (TOLERANCE_FLOAT16 if is_half else TOLERANCE) else {"error": f"off by {worst:.1e}"}
    )


def iterate_plans(graph: Any, devices: list[Any]) -> Iterator[tuple[str, Any]]:
    """Yield plans by name: the first device alone, and all devices by each planner and at random."""
    import numpy as np

    from codl.session.planning import make_plan
    from codl.session.predictors import find_predictors
    from tests.random_plans import draw_plan

    names = tuple(device.info.name for device in devices)
    yield "single", make_plan(graph, planner=f"single:{names[0]}", devices=names[:1])
    if len(names) == 1:
        return
    yield "even", make_plan(graph, planner="even", devices=names)
    predictors = find_predictors([device.info for device in devices])
    yield "dynamic", make_plan(graph, planner="dynamic", devices=names, predictors=predictors)
    for seed in range(RANDOM_PLANS):
        yield f"random {seed}", draw_plan(graph, names, np.random.default_rng(seed))


def time_both(path: Path, args: argparse.Namespace) -> dict[str, Any]:
    """Return ratios: ONNX Runtime by codl on the first device, and the best device alone by codl on all."""
    first, *others = args.devices.split(",")
    found: dict[str, Any] = {}
    bench = [sys.executable, "-m", "codl", "bench", str(path), "--json", "--rounds", args.rounds]
    for devices, against in ((first, "ort"), (args.devices, "single")) if others else ((first, "ort"),):
        pair = ["--emulate-pair"] if devices == _PAIR else []
        report = _run([*bench, "--devices", devices, "--against", against, *pair], {})
        if "error" in report:
            return report
        found |= {name: ratio["median"] for name, ratio in report["ratios"].items() if name != "a/a"}
    return {"ratios": found}


def _draw(one: Any, rng: Any) -> Any:
    """Return a value for an input of ONNX Runtime's."""
    import numpy as np

    shape = [size if isinstance(size, int) else 1 for size in one.shape]
    if one.type == "tensor(int64)":
        return rng.integers(0, _MOST_ID, shape, np.int64)
    return rng.standard_normal(shape, np.float32).astype(np.float16 if "float16" in one.type else np.float32)


def format_page(found: Mapping[str, Any]) -> Iterable[str]:
    """Return the table of all networks as Markdown."""
    keys = sorted({key for row in found.values() for key in row.get("ratios", ())})
    yield f"| network | operators | on the host | split | worst error | {' | '.join(keys)} |"
    yield "|---" * (5 + len(keys)) + "|"
    for name, row in found.items():
        worst = max(row["errors"].values()) if "errors" in row else None
        cells = [name, *(str(row.get(key, "")) for key in ("operators", "host", "split"))]
        cells += [row.get("error", "not checked") if worst is None else f"{worst:.0e}"]
        cells += [f"{row['ratios'][key]:.2f}" if key in row.get("ratios", ()) else "" for key in keys]
        yield f"| {' | '.join(cells)} |"
    means = [
        geometric_mean(row["ratios"][key] for row in found.values() if key in row.get("ratios", ()))
        for key in keys
    ]
    whole = sum(row.get("host") == 0 for row in found.values())
    cells = [f"{len(found)}, {whole} without the host", "", "", "", "geometric mean"]
    yield f"| {' | '.join([*cells, *(f'{one:.2f}' for one in means)])} |"


if __name__ == "__main__":
    sys.exit(main())
