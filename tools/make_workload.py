"""Writes profiles/workloads/layers.json: the distinct layers of the benchmark networks, and some more.

Run it again when the frontend or a network has changed; it takes a few minutes.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import onnx

if not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from codl.assets import profiles_dir
from codl.catalog.layers import format_layers, list_layers
from codl.frontend import load_model
from codl.ir.graph import Graph
from tools.networks import NAMES, build
from tools.workload_extras import EXTRAS

TARGET = profiles_dir() / "workloads" / "layers.json"


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit status: 0 when the file was written."""
    parser = argparse.ArgumentParser(
        prog="make_workload.py",
        description="Write the layers that devices are profiled on.",
        epilog="example: python tools/make_workload.py",
    )
    parser.add_argument("-o", "--output", type=Path, default=TARGET, metavar="FILE")
    parser.add_argument("--networks", default=",".join(NAMES), metavar="A,B")
    options = parser.parse_args(arguments)
    layers = (*list_layers(iterate_networks(options.networks.split(","))), *EXTRAS)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(format_layers(layers), encoding="utf-8")
    print(f"{options.output}  {len(layers)} layers")
    return 0


def iterate_networks(names: Sequence[str]) -> Iterator[tuple[str, Graph]]:
    """Yield each network as the session would run it."""
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.onnx"
            onnx.save(build(name), path)
            yield name, load_model(path).graph
        print(name, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
