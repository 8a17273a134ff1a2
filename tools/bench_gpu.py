"""Networks on a GPU: codl beside PyTorch, in one process and in turns.

PyTorch computes in exact float32 (and, for comparison, in tf32 and float16), contiguous and channels last,
each as a CUDA graph with cuDNN's own choice of kernels; the better layout counts. Its time is that of the
graph by CUDA events, and the wall time of a replay with the wait for it. codl computes in the precision that
is asked for, and its ratio is to PyTorch's time in the same. codl's times are that of its
kernels by OpenCL events, and the wall time of `run`, copies of input and output included. Medians. Errors
are relative to ONNX Runtime.

Example:
    python tools/bench_gpu.py --networks resnet50,vgg16 --output gpu.json
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import onnxruntime

from codl.devices.opencl import Device, open_device
from codl.executor.compile import compile_plan
from codl.executor.weights import Weights
from codl.frontend import load_graph
from codl.ir.graph import Graph
from codl.machine import Precision
from codl.plan.single import plan_single
from tools.networks import NAMES, build

_LONGEST = 110
_PUBLISHED = ("googlenet", "efficientnet_b0", "convnext_tiny", "vit_b_16", "swin_t", "bert_base")
"""Modules of torchvision and transformers, which PyTorch exports first."""


def main() -> int:
    """Measure, print a row for each network, write a JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--networks", default="resnet50,vgg16,squeezenet,mobilenet_v2,densenet121")
    parser.add_argument("--device", default="nvidia-gpu")
    parser.add_argument("--precision", type=Precision, choices=list(Precision), default=Precision.FLOAT32)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--no-torch", action="store_true", help="measure codl alone")
    parser.add_argument("--output", type=Path, metavar="FILE")
    args = parser.parse_args()
    names = args.networks.split(",")
    known = (*NAMES, *_PUBLISHED)
    if unknown := [name for name in names if name not in known]:
        parser.error(f"got network {unknown[0]!r}, expected one of {', '.join(known)}")
    device, found = open_device(args.device, precision=args.precision), {}
    for name in names:
        try:
            found[name] = measure(
                name, device, batch=args.batch, runs=args.runs, with_torch=not args.no_torch
            )
        except Exception as error:  # one network must not cost the others
            found[name] = {"error": f"{type(error).__name__}: {error}"[:2000]}
        print(format_row(name, found[name]), flush=True)
        if args.output:
            facts = {"device": device.info.device_name, "driver": device.info.driver_version}
            facts |= {"precision": args.precision}
            args.output.write_text(json.dumps({**facts, "batch": args.batch, "networks": found}, indent=1))
    ratios = [row["speedup"] for row in found.values() if "speedup" in row]
    if ratios:
        print(
            f"geometric mean of PyTorch {args.precision} / codl, device times: {geometric_mean(ratios):.2f}"
        )
    return 0 if all("error" not in row for row in found.values()) else 1


def measure(name: str, device: Device, *, batch: int, runs: int, with_torch: bool) -> dict[str, Any]:
    """Return all times of a network in ms, and the errors."""
    if name in _PUBLISHED:
        from tools.torch_modules import export_module

        model = export_module(name, batch=batch)
    else:
        model = build(name, batch=batch).SerializeToString()
    graph = load_graph(model)
    rng = np.random.default_rng(0)
    feeds = {one: rng.standard_normal(graph.shape(one), np.float32) for one in graph.inputs}
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    reference = session.run(None, feeds)[0]
    row: dict[str, Any] = {"codl": measure_codl(graph, device, feeds, reference, runs=runs)}
    if with_torch:
        from tools.torch_graph import UntranslatedError, make_function
        from tools.torch_modules import make_module_function

        make = partial(make_module_function, name) if name in _PUBLISHED else partial(make_function, graph)
        try:
            row["torch"] = measure_torch(make, feeds, reference, runs=runs)
        except UntranslatedError as error:
            row["torch_skipped"] = str(error)
            return row
        peer = row["torch"].get(device.info.precision, {}).get("device_ms")
        if peer:
            row["speedup"] = peer / row["codl"]["device_ms"]
    return row


def measure_codl(graph: Graph, device: Device, feeds: Any, reference: Any, *, runs: int) -> dict[str, Any]:
    """Return codl's times in ms, its launches, its error, and whether its bits stay the same."""
    weights, plan = Weights(graph), plan_single(graph, device=device.info.name)
    start = time.perf_counter()
    executable = compile_plan(graph, plan, [device], weights=weights)
    outputs = executable.run(feeds)
    first = time.perf_counter() - start
    walls, same = [], True
    (expected,) = outputs.values()
    for _ in range(runs):
        start = time.perf_counter()
        (value,) = executable.run(feeds).values()
        walls.append(time.perf_counter() - start)
        same = same and value.tobytes() == expected.tobytes()
    traced = compile_plan(graph, plan, [device.with_profiling()], weights=weights)
    times = [traced.run_traced(feeds)[1].device_us(device.info.name) for _ in range(max(10, runs // 2))]
    return {
        "device_ms": median(times) / 1e3,
        "wall_ms": 1e3 * median(walls),
        "first_s": first,
        "launches": executable.launch_count,
        "error": find_error(expected, reference),
        "same_bits": same,
    }


def measure_torch(make: Callable[..., Any], feeds: Any, reference: Any, *, runs: int) -> dict[str, Any]:
    """Return by precision the better layout's times in ms and its error.

    Args:
        make: Returns a function on the GPU, for `dtype` and `is_channels_last`.
        feeds: The only input.
        reference: What it should compute.
        runs: Of each.
    """
    import torch

    torch.backends.cudnn.benchmark = True
    (x,) = feeds.values()
    found: dict[str, Any] = {}
    for precision, dtype, has_tf32 in (
        ("float32", torch.float32, False),
        ("tf32", torch.float32, True),
        ("float16", torch.float16, False),
    ):
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = has_tf32
        for layout in ("contiguous", "channels_last")[: 2 if x.ndim == 4 else 1]:
            is_last = layout == "channels_last"
            compute = make(dtype=dtype, is_channels_last=is_last)
            image = torch.from_numpy(x).cuda().to(dtype)
            if is_last:
                image = image.contiguous(memory_format=torch.channels_last)
            with torch.inference_mode():
                times = time_graph(torch, partial(compute, image), runs=runs)
            value = times.pop("value").float().cpu().numpy()
            row = {**times, "layout": layout, "error": find_error(value, reference)}
            if precision not in found or row["device_ms"] < found[precision]["device_ms"]:
                found[precision] = row
    return found


def time_graph(torch: Any, compute: Callable[[], Any], *, runs: int) -> dict[str, Any]:
    """Return the times of a CUDA graph in ms, and what it computes."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            compute()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        value = compute()
    for _ in range(5):
        graph.replay()
    torch.cuda.synchronize()
    events, walls = [], []
    for _ in range(runs):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start = time.perf_counter()
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        walls.append(time.perf_counter() - start)
        events.append(begin.elapsed_time(end))
    return {"device_ms": median(events), "wall_ms": 1e3 * median(walls), "value": value}


def find_error(value: Any, reference: Any) -> float:
    """Return max|value - reference| / max|reference|."""
    return float(np.abs(value - reference).max() / np.abs(reference).max())


def format_row(name: str, row: dict[str, Any]) -> str:
    """Return a line of the table."""
    if "error" in row:
        return f"{name:14} {row['error'][:_LONGEST]}"
    own, other = row["codl"], row.get("torch", {})
    text = f"{name:14} codl {own['device_ms']:.3f} (wall {own['wall_ms']:.3f}, {own['launches']} launches, "
    text += f"error {own['error']:.1e}, same bits {own['same_bits']})"
    for precision, times in other.items():
        text += f"  {precision} {times['device_ms']:.3f} ({times['layout']})"
    text += f"  no PyTorch: {row['torch_skipped']}" if "torch_skipped" in row else ""
    return text + (f"  ratio {row['speedup']:.2f}" if "speedup" in row else "")


if __name__ == "__main__":
    sys.exit(main())
