"""Products in tf32 and float16 on a GPU: every tile against float64, and what it takes.

Each tile computes convolutions and products with odd sizes, whole and cut into parts. Its values must be
those of rounded factors up to float32's order of sums, and those of exact ones up to the rounding. Then
every tile is timed on some layers in each precision, a step of a walk (as in tools/bench_tiles.py).

Example:
    python tools/check_matrix_units.py --device nvidia-gpu
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from codl.catalog.groups import choose_products
from codl.catalog.rows import conv2d_tile, matmul_tile
from codl.catalog.spec import Implementation, Selection
from codl.devices.opencl import Device, open_device
from codl.executor.weights import Weights
from codl.ir.graph import FloatArray, Graph
from codl.ir.ops import MatMul
from codl.machine import DeviceKind, Precision
from tests.kernels.convolutions import Case, build
from tests.kernels.harness import one_node_graph, random_array, run_node
from tools.bench_tiles import time_step

(CONVOLUTION,), (PRODUCT,) = conv2d_tile.IMPLEMENTATIONS, matmul_tile.IMPLEMENTATIONS
SUM_ERROR, ROUNDING = 1e-5, 2.0**-10
"""Of what the largest value is, and of the sum of the factors' absolute products."""
CASES = {
    "3x3": Case(image=(9, 31), inputs=5, outputs=67),
    "7x7 stride 2": Case(
        image=(17, 40), inputs=3, outputs=33, kernel=(7, 7), stride=(2, 2), pads=(3, 3, 3, 3)
    ),
    "1x1 deep": Case(image=(7, 9), inputs=1025, outputs=130, kernel=(1, 1), pads=(0, 0, 0, 0)),
    "3x3 aligned": Case(image=(13, 11), inputs=128, outputs=192, batch=2),
    "groups": Case(image=(6, 7), inputs=10, outputs=80, groups=2),
}
PRODUCTS = (((29, 37), (37, 45)), ((2, 131, 72), (2, 72, 76)), ((1, 4, 197, 64), (1, 4, 64, 197)))
TIMED = {
    "3x3 56x56 64": Case(image=(56, 56), inputs=64, outputs=64),
    "3x3 14x14 256": Case(image=(14, 14), inputs=256, outputs=256),
    "1x1 56x56 64-256": Case(image=(56, 56), inputs=64, outputs=256, kernel=(1, 1), pads=(0, 0, 0, 0)),
    "1x1 7x7 2048-512": Case(image=(7, 7), inputs=2048, outputs=512, kernel=(1, 1), pads=(0, 0, 0, 0)),
    "3x3 224x224 64": Case(image=(224, 224), inputs=64, outputs=64),
    "3x3 28x28 512": Case(image=(28, 28), inputs=512, outputs=512),
}


def main() -> int:
    """Check, time, and return 1 where a tile is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="nvidia-gpu")
    parser.add_argument("--no-times", action="store_true")
    args = parser.parse_args()
    plain = open_device(args.device).with_facts(kind=DeviceKind.GPU, is_unified=False)
    wrong = 0
    for precision in (Precision.TF32, Precision.FLOAT16):
        device = plain.with_facts(has_matrix_units=True, precision=precision)
        for name, is_right, text in check(device):
            wrong += not is_right
            print(f"{precision:8} {name:46} {'right' if is_right else 'WRONG'}  {text}", flush=True)
    print(f"{wrong} wrong", flush=True)
    if not args.no_times:
        measure(plain)
    return 1 if wrong else 0


def check(device: Device) -> Iterator[tuple[str, bool, str]]:
    """Yield each tile and case, whether it is right, and its errors."""
    for name, case in CASES.items():
        graph, feeds, _ = build(case)
        factors = feeds["x"], graph.constants["w"]
        for tile in conv2d_tile.UNIT_TILES:
            for parts in (1, 3):
                chosen = select(CONVOLUTION, device, BM=tile[0], BN=tile[1], parts=parts)
                multiply = lambda x, w, case=case: convolve(x, w, case)  # noqa: E731
                label = f"conv {name} {tile[0]}x{tile[1]} parts {parts}"
                yield label, *judge(device, graph, feeds, chosen, factors=factors, multiply=multiply)
    for left, right in PRODUCTS:
        feeds = {"a": random_array(*left), "b": random_array(*right, seed=1)}
        graph = one_node_graph(MatMul(has_bias=False), feeds, (*left[:-1], right[-1]))
        for size in matmul_tile.STEPS:
            chosen = select(PRODUCT, device, BM=size)
            label = f"product {left} {right} {size}"
            yield (
                label,
                *judge(device, graph, feeds, chosen, factors=(feeds["a"], feeds["b"]), multiply=np.matmul),
            )


def select(row: Implementation, device: Device, **parameters: int) -> Selection:
    """Return a row with some parameters and those of the device's products."""
    return Selection(implementation=row, parameters={**parameters, **choose_products(device.info)})


def judge(
    device: Device,
    graph: Graph,
    feeds: Any,
    chosen: Selection,
    *,
    factors: tuple[FloatArray, FloatArray],
    multiply: Callable[[Any, Any], Any],
) -> tuple[bool, str]:
    """Return whether values lie near those of rounded and of exact factors, and how near."""
    value = run_node(device, graph, feeds, gap=0, selection=chosen).astype(np.float64)
    again = run_node(device, graph, feeds, gap=0, selection=chosen)
    bias = graph.constants.get("b", np.zeros(1)).astype(np.float64)
    bias = bias[:, None, None] if value.ndim == 4 and bias.size > 1 else bias
    exact = multiply(*(one.astype(np.float64) for one in factors)) + bias
    rounded = multiply(*(round_to(one, device.info.precision) for one in factors)) + bias
    sizes = multiply(*(np.abs(one.astype(np.float64)) for one in factors))
    order = float(np.abs(value - rounded).max() / np.abs(rounded).max())
    rounding = float((np.abs(value - exact) / (sizes + 1e-30)).max())
    is_right = order <= SUM_ERROR and rounding <= ROUNDING + SUM_ERROR
    is_same = bool((again == value.astype(np.float32)).all())
    return is_right and is_same, f"sums {order:.1e}, rounding {rounding:.1e}, same bits {is_same}"


def round_to(value: FloatArray, precision: Precision) -> Any:
    """Return rounded values as float64."""
    if precision is Precision.FLOAT16:
        return value.astype(np.float16).astype(np.float64)
    bits = np.ascontiguousarray(value).view(np.uint32)
    return ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)


def convolve(x: Any, w: Any, case: Case) -> Any:
    """Return a convolution [N, OC, OH, OW] in float64."""
    (top, left, bottom, right), (stride_h, stride_w) = case.pads, case.stride
    padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, case.kernel, axis=(2, 3))
    windows = windows[:, :, ::stride_h, ::stride_w]
    inputs, outputs = case.inputs // case.groups, case.outputs // case.groups
    found = []
    for group in range(case.groups):
        some = windows[:, group * inputs : (group + 1) * inputs]
        weights = w[group * outputs : (group + 1) * outputs]
        found.append(np.einsum("nchwyx,ocyx->nohw", some, weights, optimize=True))
    return np.concatenate(found, axis=1)


def measure(plain: Device) -> None:
    """Print what each layer takes in each tile and precision, in us, with the best of some parts."""
    for name, case in TIMED.items():
        graph, _, _ = build(case)
        (node,) = graph.nodes
        print(name)
        for precision in Precision:
            device = plain.with_facts(has_matrix_units=True, precision=precision).with_profiling()
            weights, texts = Weights(graph), []
            for tile in conv2d_tile.UNIT_TILES:
                times = {}
                for parts in (1, 2, 4, 8):
                    chosen = select(CONVOLUTION, device, BM=tile[0], BN=tile[1], parts=parts)
                    assert CONVOLUTION.fits is not None
                    if CONVOLUTION.fits(node, graph, device.info, chosen.parameters):
                        times[time_step(node, graph, device, chosen, weights)] = parts
                best = min(times)
                texts.append(f"{tile[0]}x{tile[1]} {best:.1f} ({times[best]})")
            print(f"  {precision:8} {'   '.join(texts)}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
