"""Writes the workload that `codl tune` works on when no model is named: the heavy shapes of all networks."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

if not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from codl.cli.output import print_message
from codl.frontend import load_graph
from codl.tuner.workload import find_shapes, format_workload, workload_path
from tools.networks import NAMES, build

KINDS = frozenset({"Conv2d", "ConvTranspose2d", "MatMul"})
"""Operators with a register tile; the others have next to nothing to choose from."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Build every network, collect its shapes and write the file."""
    parser = argparse.ArgumentParser(prog="tuning_workload.py", description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=workload_path(), metavar="FILE")
    args = parser.parse_args(arguments)
    graphs = []
    for name in sorted(NAMES):
        print_message(f"building {name} ...")
        graphs.append(load_graph(build(name).SerializeToString()))
    shapes = [shape for shape in find_shapes(graphs) if shape.key.kind in KINDS]
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(format_workload(shapes), encoding="utf-8")
    print(f"{args.output}: {len(shapes)} shapes")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
