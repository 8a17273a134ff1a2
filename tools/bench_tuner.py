"""How much the tuner's bounds prune, and what that costs: searches that prune beside ones that measure all.

Each shape is the heaviest of its class (kernel size, stride, grouping, minimal filtering or not) in the
layers that codl ships. Every candidate of it is measured; the search that prunes is then played on these
very measurements, and the winners of both are measured side by side.

Example:
    python tools/bench_tuner.py --device intel-cpu --shapes 5
"""

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import geometric_mean

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from codl.catalog.candidates import iterate_candidates
from codl.catalog.choose import choose
from codl.devices.awake import attentive_host
from codl.devices.opencl import Device, open_device
from codl.devices.timing import Ratio
from codl.tuner.measurement import Measurement
from codl.tuner.prober import Prober
from codl.tuner.reference import compute_reference
from codl.tuner.search import SearchLimits, search
from codl.tuner.trial import Trial
from codl.tuner.workbench import Workbench
from codl.tuner.workload import Shape, read_workload, workload_path


def main() -> int:
    """Print one row for each shape, and how many measurements lie below their bound."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="intel-cpu", metavar="D")
    parser.add_argument("--shapes", type=int, default=5, metavar="N")
    args = parser.parse_args()
    device = open_device(args.device)
    print(f"{device.info.name}: candidates, those a pruned search measures, times over the best of all")
    print(f"{'all':>5} {'pruned':>6} {'share':>6} {'pruned/best':>24} {'default/best':>24} {'s':>5}  shape")
    with attentive_host():
        bench = Workbench.open(device)
        rows = [study(shape, device, bench) for shape in pick_shapes(args.shapes)]
    total, measured, below = (sum(row[index] for row in rows) for index in (0, 1, 3))
    mean = geometric_mean(row[2] for row in rows)
    print(
        f"{total:5} {measured:6} {measured / total:6.2f} {mean:8.3f}; {below} measurements below their bound"
    )
    return 0


def pick_shapes(count: int) -> Iterator[Shape]:
    """Yield the heaviest shape of each class, classes with the heaviest first."""
    seen: set[tuple[object, ...]] = set()
    for shape in read_workload(workload_path()):
        if shape.key.family not in seen and len(seen) < count:
            seen.add(shape.key.family)
            yield shape


def study(shape: Shape, device: Device, bench: Workbench) -> tuple[int, int, float, int]:
    """Print a shape's row; return candidates, measured ones, pruned/best, measurements below their bound."""
    start = time.monotonic()
    trial = Trial(shape.with_constants(), device)
    expected = compute_reference(trial.graph, trial.feeds)
    if expected is None:
        raise SystemExit(f"{shape.key}: got no reference, expected an operator that ONNX Runtime computes")
    candidates = tuple(iterate_candidates(shape.node, shape.graph, device.info))
    default = choose(shape.node, shape.graph, device.info)
    taken: list[Measurement] = []

    def make_judge(known: dict[str, Measurement]) -> Prober:
        return Prober(
            trial,
            bench,
            expected=expected,
            default=default,
            shape=str(shape.key),
            known=known,
            record=taken.append,
        )

    judge = make_judge({})
    judge.prepare(candidates)
    best = search(judge, candidates, default=default, limits=SearchLimits(prunes=False))
    known = {one.candidate: one for one in taken if one.stage == "quick"}
    pruned = search(make_judge(known), candidates, default=default)
    names = {str(one): one for one in (best.winner, pruned.winner, default)}
    finals = judge.compare(tuple(names.values()))
    ratio, plain = (finals[str(one)].to_anchor for one in (pruned.winner, default))
    below = sum(
        one.ratio is not None and one.bound_ratio is not None and one.ratio < one.bound_ratio for one in taken
    )
    share = pruned.measured / len(candidates)
    print(
        f"{len(candidates):5} {pruned.measured:6} {share:6.2f} {_format(ratio):>24} "
        f"{_format(plain):>24} {time.monotonic() - start:5.0f}  {shape.key}",
        flush=True,
    )
    print(f"{'':76}  {best.winner}; pruned {pruned.winner}", flush=True)
    return len(candidates), pruned.measured, ratio.median, below


def _format(ratio: Ratio) -> str:
    return f"{ratio.median:.3f} [{ratio.low:.3f}, {ratio.high:.3f}]"


if __name__ == "__main__":
    sys.exit(main())
