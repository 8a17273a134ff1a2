"""Matrix products of codl beside numpy's BLAS on the same cores, in interleaved rounds, and of the peak.

Shapes are a square and those of layers: 1x1 and 7x7 convolutions over their pixels, fully connected layers at
batch 1. The peak is what the device's own multiply-adds were seen to reach (codl/devices/reference.py).

Example:
    python tools/bench_gemm.py --devices intel-cpu,pocl-cpu
"""

import argparse
import os
import sys
from functools import partial
from pathlib import Path
from statistics import geometric_mean

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from codl.devices.limits import count_cores

# The library reads this when numpy loads it: as many threads as codl's drivers have cores.
os.environ.setdefault("OPENBLAS_NUM_THREADS", str(count_cores()))

import numpy as np

from codl.catalog.choose import choose
from codl.devices.launch import time_launches
from codl.devices.opencl import Device, open_devices
from codl.devices.reference import References
from codl.devices.timing import CONTROL_SUFFIX, Rounds, interleave, lead_in, time_call
from codl.ir.graph import FloatArray, Graph, Node, Tensor
from codl.ir.ops import MatMul
from codl.tuner.trial import Trial

SHAPES = {
    "square": (1024, 1024, 1024),
    "resnet stage 1": (3136, 64, 256),
    "resnet stage 2": (784, 128, 512),
    "resnet stage 3": (196, 1024, 256),
    "resnet stage 4": (49, 2048, 512),
    "resnet stem": (12544, 147, 64),
    "densenet": (784, 256, 128),
    "mobilenet": (196, 96, 576),
    "squeezenet head": (169, 512, 1000),
    "resnet head": (1, 2048, 1000),
    "vgg head": (1, 4096, 4096),
}
"""Rows, depth and columns of a matrix product with constant right operand, by where it comes from."""
_SAMPLE_SECONDS = 1e-3
"""What a sample lasts at the least: launches are repeated for it."""


def main() -> int:
    """Measure and print one table for each device."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--devices", default="intel-cpu", metavar="A,B")
    parser.add_argument("--rounds", type=int, default=200, help="most rounds for each shape (default: 200)")
    args = parser.parse_args()
    for device in open_devices(args.devices.split(",")):
        peaks = References(device).measure_peaks()
        measure(device, peak=max(peaks.flops.values()), most_rounds=args.rounds)
    return 0


def measure(device: Device, *, peak: float, most_rounds: int) -> None:
    """Print how the products of all shapes compare.

    Args:
        device: Where codl runs.
        peak: Floating-point operations a second that the device reaches at best.
        most_rounds: Rounds after which a shape is done in any case.
    """
    print(f"{device.info.name}: {count_cores()} cores, peak {peak / 1e9:.0f} GFLOP/s in multiply-adds")
    print("| product | M K N | blas/codl | a/a | GFLOP/s | of the peak | error |")
    print("|---|---|---|---|---|---|---|")
    medians = []
    for name, (rows, depth, columns) in SHAPES.items():
        rounds, error = compare(device, rows, depth, columns, most_rounds=most_rounds)
        ratio, noise = rounds.ratio("blas", "codl"), rounds.ratio(f"codl{CONTROL_SUFFIX}", "codl")
        rate = 2.0 * rows * depth * columns / rounds.median("codl")
        medians.append(ratio.median)
        print(
            f"| {name} | {rows} {depth} {columns} | {ratio.median:.2f} [{ratio.low:.2f}, {ratio.high:.2f}] "
            f"| {noise.median:.2f} | {rate / 1e9:.0f} | {rate / peak:.0%} | {error:.0e} |",
            flush=True,
        )
    print(f"| geometric mean | | {geometric_mean(medians):.2f} | | | | |")


def compare(device: Device, rows: int, depth: int, columns: int, *, most_rounds: int) -> tuple[Rounds, float]:
    """Return the times of both for one shape, and max|error| / max|value| of what codl computes."""
    rng = np.random.default_rng(0)
    right: FloatArray = rng.standard_normal((depth, columns), np.float32)
    trial = Trial(build_product(rows, right), device)
    selection = choose(trial.node, trial.graph, device.info)
    left, out = trial.feeds["a"], np.empty((rows, columns), np.float32)
    blas = time_call(partial(np.matmul, left, right, out=out))
    launches = trial.bind(selection)
    own = time_launches(device, launches)
    own(), blas()
    repeats = max(1, round(_SAMPLE_SECONDS / max(own(), 1e-6)))
    rounds = interleave(
        {
            "codl": lead_in(time_launches(device, launches * repeats, plays=repeats)),
            "blas": lead_in(lambda: sum(blas() for _ in range(repeats)) / repeats),
        },
        watch=[("blas", "codl")],
        control="codl",
        most_rounds=most_rounds,
    )
    exact = left.astype(np.float64) @ right
    error = np.abs(trial.compute(selection) - exact).max() / np.abs(exact).max()
    return rounds, float(error)


def build_product(rows: int, right: FloatArray) -> Graph:
    """Return the graph of one product `y = a b` with constant ``right``."""
    shapes = {"a": (rows, right.shape[0]), "b": right.shape, "y": (rows, right.shape[1])}
    return Graph(
        name="product",
        nodes=(Node(name="product", op=MatMul(has_bias=False), inputs=("a", "b"), output="y"),),
        inputs=("a",),
        outputs=("y",),
        tensors={name: Tensor(name=name, shape=shape) for name, shape in shapes.items()},
        constants={"b": right},
    )


if __name__ == "__main__":
    sys.exit(main())
