"""The bench table: `codl bench` for each benchmark network, as Markdown; it gets all other flags.

Example:
    python tools/bench_networks.py --devices intel-cpu
    python tools/bench_networks.py --devices intel-cpu,pocl-cpu --emulate-pair --planner even
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from statistics import geometric_mean
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import onnx

from tools.networks import NAMES, build

ROOT = Path(__file__).resolve().parents[1]
Ratios = Mapping[str, Any]


def main() -> int:
    """Measure and print one row for each network."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--networks", metavar="A,B", default=",".join(NAMES), help="default: all")
    parser.add_argument("--against", default="ort,single")
    parser.add_argument("--rounds", default="60", help="most rounds for each network (default: 60)")
    parser.add_argument("--page", type=Path, metavar="FILE", help="add the table to this page of Markdown")
    args, flags = parser.parse_known_args()
    names = args.networks.split(",")
    if unknown := [name for name in names if name not in NAMES]:
        parser.error(f"got network {unknown[0]!r}, expected one of {', '.join(NAMES)}")
    found: dict[str, Ratios] = {}
    lines: list[str] = []

    def show(line: str) -> None:
        lines.append(line)
        print(line, flush=True)

    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            path = Path(folder) / f"{name}.onnx"
            onnx.save(build(name), str(path))
            bench = ("--against", args.against, "--rounds", args.rounds, *flags)
            report = measure(path, bench)
            path.unlink()
            if not found:
                command = " ".join(["python tools/bench_networks.py", *sys.argv[1:]])
                show(f"## {report['machine']}, {date.today()}\n\n`{command}`\n")
                show(format_head(report["ratios"]))
            found[name] = report["ratios"]
            show(format_row(name, report))
    show(format_means(list(found.values())))
    if args.page:
        with args.page.open("a", encoding="utf-8") as page:
            page.write("\n" + "\n".join(lines) + "\n")
    return 0


def measure(path: Path, flags: Sequence[str]) -> dict[str, Any]:
    """Return the report of `codl bench --json` in a process of its own."""
    command = [sys.executable, "-m", "codl", "bench", str(path), "--json", *flags]
    done = subprocess.run(command, cwd=ROOT, check=False, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(done.returncode)
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def format_head(ratios: Ratios) -> str:
    """Return the table's two first lines."""
    return f"| network | {' | '.join(ratios)} | codl ms | error |\n|---{'|---' * len(ratios)}|---|---|"


def format_row(name: str, report: Mapping[str, Any]) -> str:
    """Return a network's ratios with their intervals, its median time and its largest error."""
    cells = [format_ratio(ratio) for ratio in report["ratios"].values()]
    (own,) = (row["median_ms"] for row in report["rows"] if row["name"] == "codl")
    cells += [f"{own:.1f}", f"{report['max_relative_error']:.0e}"]
    return f"| {name} | {' | '.join(cells)} |"


def format_means(found: Sequence[Ratios]) -> str:
    """Return the geometric mean of each ratio over all networks."""
    means = [f"{geometric_mean(ratios[key]['median'] for ratios in found):.2f}" for key in found[0]]
    return f"| geometric mean | {' | '.join(means)} | | |"


def format_ratio(ratio: Mapping[str, Any]) -> str:
    """Return a ratio as text, its 90 % interval in brackets."""
    low, high = ratio["ci90"]
    return f"{ratio['median']:.2f} [{low:.2f}, {high:.2f}]"


if __name__ == "__main__":
    sys.exit(main())
