"""Writes profiles/workloads: the distinct layers of the benchmark networks, some more, and pairs.

Run it again when the frontend or a network has changed; it takes a few minutes.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import onnx

if not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from codl.assets import profiles_dir
from codl.catalog.layers import format_layers, list_layers
from codl.catalog.pairs import list_pair_layers
from codl.frontend import load_model
from codl.ir.graph import Graph
from codl.latency.files import load_profile
from codl.latency.store import SIMULATED
from codl.machine import DeviceInfo
from tools.networks import NAMES, build
from tools.workload_extras import EXTRAS

TARGET = profiles_dir() / "workloads"
_UNITS, _WIDTHS = (1, 2, 8, 64), (4, 8, 16)
"""Of processors that may compute several operators in one launch: it depends on them whether that pays."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit status: 0 when the file was written."""
    parser = argparse.ArgumentParser(
        prog="make_workload.py",
        description="Write the layers that devices are profiled on.",
        epilog="example: python tools/make_workload.py",
    )
    parser.add_argument("-o", "--output", type=Path, default=TARGET, metavar="DIR")
    parser.add_argument("--networks", default=",".join(NAMES), metavar="A,B")
    options = parser.parse_args(arguments)
    networks = list(iterate_networks(options.networks.split(",")))
    found = {
        "layers.json": (*list_layers(networks), *EXTRAS),
        "pairs.json": list_pair_layers(networks, list_processors()),
    }
    options.output.mkdir(parents=True, exist_ok=True)
    for name, layers in found.items():
        (options.output / name).write_text(format_layers(layers), encoding="utf-8")
        print(f"{options.output / name}  {len(layers)} layers")
    return 0


def list_processors() -> list[DeviceInfo]:
    """Return the facts of processors of some sizes, with room for what lies between operators."""
    known = load_profile(profiles_dir() / SIMULATED / "snapdragon-855-cpu.json").info
    return [
        replace(known, units=units, vector_width=width, local_memory_bytes=1 << 20)
        for units in _UNITS
        for width in _WIDTHS
    ]


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
