"""Builds a benchmark network with random weights and writes it as an ONNX file."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import onnx

if not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tools.networks import NAMES, build

EXAMPLE = "example: python tools/models.py resnet50 -o resnet50.onnx"


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit status: 0 when the file was written, 2 when it cannot be."""
    options = _parse(arguments)
    try:
        model = build(options.name, seed=options.seed, batch=options.batch)
        onnx.save(model, options.output)
    except (ValueError, OSError) as error:
        print(f"models.py: {error}", file=sys.stderr)
        return 2
    size_mib = Path(options.output).stat().st_size / 2**20
    print(f"{options.output}  {options.name}  {len(model.graph.node)} nodes  {size_mib:.1f} MiB")
    return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="models.py",
        description="Build a benchmark network with random weights.",
        epilog=f"networks: {', '.join(NAMES)}; {EXAMPLE}",
    )
    parser.add_argument("name", metavar="NAME", choices=NAMES, help="network to build")
    parser.add_argument("-o", "--output", metavar="FILE", required=True, help="ONNX file to write")
    parser.add_argument("--seed", type=int, default=0, help="seed of the weights (default 0)")
    parser.add_argument("--batch", type=int, default=1, help="images of an input (default 1)")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
