"""How much the tuner's bounds prune, and what that costs: searches that prune beside ones that measure all.

Each shape is the heaviest of its class (kernel size, stride, grouping, minimal filtering or not) in the
layers that codl ships. Every candidate of it is measured; the search that prunes is then played on these
very measurements, and the winners of both are measured side by side.

With a log a study that is ended goes on where it was. Several processes may share the candidates of one, each
on cores of its own that are no threads of another's cores, or bounds come out too slow. Whoever comes after
them without a part measures what is left and tells the result.

Example:
    python tools/bench_tuner.py --device intel-cpu --shapes 5
    for k in 1 2 3; do python tools/bench_tuner.py --only 1 --log studies --part $k/3 & done; wait
    python tools/bench_tuner.py --only 1 --log studies
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from codl.cache.journal import read_journal
from codl.catalog.candidates import iterate_candidates
from codl.catalog.choose import choose
from codl.catalog.spec import Selection
from codl.devices.awake import attentive_host
from codl.devices.opencl import Device, open_device
from codl.devices.timing import Ratio
from codl.ir.graph import FloatArray
from codl.tuner.measurement import Measurement, MeasurementLog, read_measurement
from codl.tuner.prober import Prober, digest_candidate
from codl.tuner.reference import compute_reference
from codl.tuner.search import SearchLimits, search
from codl.tuner.trial import Trial
from codl.tuner.workbench import Workbench
from codl.tuner.workload import Shape, read_workload, workload_path

_GROUP = 4
"""Candidates of a part that share their rounds, as in a search."""


def main() -> int:
    """Print one row for each shape, and how many measurements lie below their bound."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="intel-cpu", metavar="D")
    parser.add_argument("--shapes", type=int, default=5, metavar="N")
    parser.add_argument("--only", type=int, metavar="I", help="only the I-th of these shapes, from 1")
    parser.add_argument("--log", type=Path, metavar="DIR", help="keep measurements here, take none twice")
    parser.add_argument("--part", type=read_part, metavar="K/N", help="only measure the K-th of N parts")
    args = parser.parse_args()
    if args.part is not None and args.log is None:
        parser.error("--part: got no --log, expected one that keeps what is measured")
    device = open_device(args.device)
    shapes = list(pick_shapes(args.shapes))[slice(args.only and args.only - 1, args.only)]
    with attentive_host(), open_log(args.log, args.part) as log:
        bench = Workbench.open(device)
        studies = (Study.open(shape, device, bench, log) for shape in shapes)
        if args.part is not None:
            for one in studies:
                one.measure_part(*args.part)
            return 0
        print(f"{device.info.name}: candidates, those a pruned search measures, times over the best of all")
        print(
            f"{'all':>5} {'pruned':>6} {'share':>6} {'pruned/best':>24} {'default/best':>24} {'s':>5}  shape"
        )
        rows = [one.run() for one in studies]
    total, measured, below = (sum(row[index] for row in rows) for index in (0, 1, 3))
    mean = geometric_mean(row[2] for row in rows)
    print(
        f"{total:5} {measured:6} {measured / total:6.2f} {mean:8.3f}; {below} measurements below their bound"
    )
    return 0


def read_part(text: str) -> tuple[int, int]:
    """Return K and N of a part K/N."""
    part, parts = map(int, text.split("/"))
    if not 1 <= part <= parts:
        raise ValueError(text)
    return part, parts


def open_log(folder: Path | None, part: tuple[int, int] | None) -> MeasurementLog | nullcontext[None]:
    """Return the log of this process in a folder of several."""
    if folder is None:
        return nullcontext()
    name = "all" if part is None else "{}-of-{}".format(*part)
    return MeasurementLog(folder / f"{name}.jsonl")


def pick_shapes(count: int) -> Iterator[Shape]:
    """Yield the heaviest shape of each class, classes with the heaviest first."""
    seen: set[tuple[object, ...]] = set()
    for shape in read_workload(workload_path()):
        if shape.key.family not in seen and len(seen) < count:
            seen.add(shape.key.family)
            yield shape


@dataclass(frozen=True, kw_only=True)
class Study:
    """One shape whose candidates are all measured."""

    shape: Shape
    trial: Trial
    bench: Workbench
    expected: FloatArray
    """The right output."""
    candidates: tuple[Selection, ...]
    """Those that read the same packed constants beside each other."""
    default: Selection
    known: dict[str, Measurement]
    """Measurements of a few rounds by candidate."""
    taken: list[Measurement]
    """All of them, those of earlier processes too."""
    log: MeasurementLog | None

    @classmethod
    def open(cls, shape: Shape, device: Device, bench: Workbench, log: MeasurementLog | None) -> "Study":
        """Return the study of a shape, with what the folder of its log tells already."""
        candidates = tuple(iterate_candidates(shape.node, shape.graph, device.info))
        names = {str(one): digest_candidate(one.implementation, device.info) for one in candidates}
        taken = [
            one
            for one in ([] if log is None else read_folder(log.path.parent))
            if one.shape == str(shape.key) and names.get(one.candidate) == one.digest
        ]
        trial = Trial(shape.with_constants(), device)
        expected = compute_reference(trial.graph, trial.feeds)
        if expected is None:
            raise SystemExit(f"{shape.key}: got no reference, expected what ONNX Runtime computes")
        return cls(
            shape=shape,
            trial=trial,
            bench=bench,
            expected=expected,
            candidates=tuple(sorted(candidates, key=_packing)),
            default=choose(shape.node, shape.graph, device.info),
            known={one.candidate: one for one in taken if one.stage == "quick"},
            taken=taken,
            log=log,
        )

    def measure_part(self, part: int, parts: int) -> None:
        """Measure every `parts`-th candidate, from the `part`-th on."""
        judge = self._make_judge(self.known, self._record)
        mine = [one for one in self.candidates[part - 1 :: parts] if str(one) not in self.known]
        judge.prepare(mine)
        for begin in range(0, len(mine), _GROUP):
            judge.try_out(mine[begin : begin + _GROUP])

    def run(self) -> tuple[int, int, float, int]:
        """Print the row; return candidates, measured ones, pruned/best, measurements below their bound."""
        start = time.monotonic()
        judge = self._make_judge(self.known, self._record)
        judge.prepare(self.candidates)
        best = search(judge, self.candidates, default=self.default, limits=SearchLimits(prunes=False))
        replayed = self._make_judge(self.known, lambda _: None)
        pruned = search(replayed, self.candidates, default=self.default)
        names = {str(one): one for one in (best.winner, pruned.winner, self.default)}
        finals = judge.compare(tuple(names.values()))
        ratio, plain = (finals[str(one)].to_anchor for one in (pruned.winner, self.default))
        below = list(filter(_is_below, self.taken))
        count, share = len(self.candidates), pruned.measured / len(self.candidates)
        print(
            f"{count:5} {pruned.measured:6} {share:6.2f} {_format(ratio):>24} "
            f"{_format(plain):>24} {time.monotonic() - start:5.0f}  {self.shape.key}",
            flush=True,
        )
        print(f"{'':76}  {best.winner}; pruned {pruned.winner}", flush=True)
        for one in below:
            print(f"{'':76}  {one.ratio:.3f}, bound {one.bound_ratio:.3f}: {one.candidate}", flush=True)
        return count, pruned.measured, ratio.median, len(below)

    def _make_judge(self, known: dict[str, Measurement], record: Callable[[Measurement], None]) -> Prober:
        return Prober(
            self.trial,
            self.bench,
            expected=self.expected,
            default=self.default,
            shape=str(self.shape.key),
            known=known,
            record=record,
        )

    def _record(self, measurement: Measurement) -> None:
        self.taken.append(measurement)
        if measurement.stage == "quick":
            self.known[measurement.candidate] = measurement
        if self.log is not None:
            self.log.add(measurement)


def read_folder(folder: Path) -> Iterator[Measurement]:
    """Yield the measurements of all logs of a folder."""
    for path in sorted(folder.glob("*.jsonl")):
        for values in read_journal(path):
            found = read_measurement(values)
            if found is not None:
                yield found


def _packing(selection: Selection) -> list[tuple[str, str | int]]:
    """Return what the layout of constants may hang on; candidates in this order pack few of them twice."""
    row, parameters = selection.implementation.name, selection.parameters
    return [("", row), *sorted((name, value) for name, value in parameters.items() if name != "MR")]


def _is_below(one: Measurement) -> bool:
    return one.ratio is not None and one.bound_ratio is not None and one.ratio < one.bound_ratio


def _format(ratio: Ratio) -> str:
    return f"{ratio.median:.3f} [{ratio.low:.3f}, {ratio.high:.3f}]"


if __name__ == "__main__":
    sys.exit(main())
