"""Writes profiles/simulated/: CPU and GPU of a Snapdragon 855, from printed figures alone.

No such device was measured: the profiles let planners be run on the published case and say nothing about
the device itself. Arithmetic has one coefficient for windows and one for everything else, or one for both,
fitted to the times of five networks on each processor alone; transfers cost what is printed.

Source:
    CoDL (MobiSys 2022): latencies on one processor read off its figure, +-15 ms; steps of one co-executed
    operator: transform 0.05 ms for half of a 112 x 112 x 32 input, map 0.07, waiting 0.85, unmap 0.003.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

if not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

from codl.assets import profiles_dir
from codl.catalog.candidates import describe_whole
from codl.catalog.choose import choose
from codl.catalog.table import IMPLEMENTATIONS
from codl.ir.ops import Conv2d, ConvTranspose2d
from codl.latency.features import FLOPS
from codl.latency.files import save_profile
from codl.latency.linear import LARGEST_US, LinearModel
from codl.latency.profile import DeviceProfile, Meeting, Neighbour, Origin, Quality, RowModel
from codl.latency.store import SIMULATED
from codl.machine import DeviceInfo, DeviceKind
from codl.profiler.fit import solve_non_negative
from codl.profiler.workload import load_workload

NETWORKS = ("retinaface", "yolov2", "vgg16", "posenet", "fast_style_transfer")
TOTALS_MS: Mapping[DeviceKind, Sequence[float]] = {
    DeviceKind.CPU: (1127, 231, 219, 450, 1020),
    DeviceKind.GPU: (993, 209, 216, 341, 413),
}
"""Of `NETWORKS`, on one processor alone."""
_TRANSFORM_BYTES_PER_US = 112 * 112 * 32 * 4 / 2 / 50
_MAP_US, _UNMAP_US, _MEETING_US, _MEETING_BOUND_US = 70.0, 3.0, 850.0, 1000.0
WINDOWS = (
    "conv2d_gemm",
    *(f"conv2d_winograd_{way}" for way in ("fused", "staged", "streamed")),
    "conv_transpose2d",
)
"""Beginnings of the names of rows whose arithmetic is mostly that of windows of several pixels, but for those
over few channels.
"""

MOVES = ("layout_", "reshape_")
"""Beginnings of the names of rows that compute nothing."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit status: 0 when the profiles were written."""
    parser = argparse.ArgumentParser(
        prog="make_simulated.py",
        description="Write profiles of a device from printed figures.",
        epilog="example: python tools/make_simulated.py",
    )
    parser.add_argument("-o", "--output", type=Path, default=profiles_dir() / SIMULATED, metavar="DIR")
    options = parser.parse_args(arguments)
    for kind in TOTALS_MS:
        path = options.output / f"snapdragon-855-{kind}.json"
        save_profile(make_profile(kind), path)
        print(path)
    return 0


def make_profile(kind: DeviceKind) -> DeviceProfile:
    """Return the simulated profile of one of the processors."""
    info = _describe_device(kind)
    amounts = np.array([_count_flops(name, info) for name in NETWORKS])
    totals = np.array(TOTALS_MS[kind]) * 1e3
    relative = amounts / totals[:, None]
    scales = np.linalg.norm(relative, axis=0)
    found = solve_non_negative(relative / scales, np.ones(len(totals))) / scales
    if not found.all():  # five totals do not tell the two apart
        relative = relative.sum(axis=1)
        found = np.full(2, relative.sum() / np.square(relative).sum())
    windows, others = found
    errors = amounts @ found / totals - 1
    quality = Quality(
        samples=len(totals),
        pm5=float(np.mean(np.abs(errors) <= 0.05)),
        pm10=float(np.mean(np.abs(errors) <= 0.10)),
        rmspe=float(np.sqrt(np.mean(errors**2))),
        flops_pm10=float(np.mean(np.abs(errors) <= 0.10)),
    )
    other = _describe_device(DeviceKind.GPU if kind is DeviceKind.CPU else DeviceKind.CPU)
    return DeviceProfile(
        info=info,
        origin=Origin.SIMULATED,
        date="2022-06-27",
        bandwidth_bytes_per_us=2 * _TRANSFORM_BYTES_PER_US,
        rows={
            row.name: RowModel(
                digest=SIMULATED,
                model=_make_model(row.name, windows if row.name.startswith(WINDOWS) else others),
                quality=quality,
                error=quality.rmspe,
                flop_us=windows if row.name.startswith(WINDOWS) else others,
                longest_us=LARGEST_US,
            )
            for row in IMPLEMENTATIONS
        },
        sharing={name: LinearModel({"calls": us}) for name, us in (("map", _MAP_US), ("unmap", _UNMAP_US))},
        neighbours={
            other.name: Neighbour(
                slowdown=((1.0, 1.0), (1.0, 1.0)),
                meeting=Meeting(median_us=_MEETING_US, p95_us=_MEETING_BOUND_US, samples=1),
            )
        },
    )


def _make_model(row: str, us_per_flop: float) -> LinearModel:
    """Return the time of arithmetic, or of moving bytes as fast as the printed transform does."""
    if row.startswith(MOVES):
        return LinearModel({"outputs": 1 / _TRANSFORM_BYTES_PER_US})
    return LinearModel({FLOPS: us_per_flop})


def _count_flops(network: str, info: DeviceInfo) -> tuple[float, float]:
    """Return the arithmetic of windows of several pixels and of everything else in a network."""
    windows = others = 0.0
    for layer in load_workload():
        count = layer.uses.get(network, 0)
        if not count:
            continue
        graph = layer.make_graph()
        chosen = choose(graph.nodes[0], graph, info)
        batches = describe_whole(chosen, graph.nodes[0], graph, info)
        flops = count * float(sum(batch.flops[0] for batch in batches))
        is_window = isinstance(layer.op, Conv2d | ConvTranspose2d)
        if is_window and chosen.implementation.name.startswith(WINDOWS):
            windows += flops
        else:
            others += flops
    return windows, others


def _describe_device(kind: DeviceKind) -> DeviceInfo:
    is_cpu = kind is DeviceKind.CPU
    return DeviceInfo(
        name=f"snapdragon-{kind}",
        kind=kind,
        driver="simulated",
        device_name="Kryo 485" if is_cpu else "Adreno 640",
        platform_name="simulated",
        platform_version="OpenCL 2.0",
        driver_version="simulated",
        processor=f"snapdragon 855 {kind}",
        units=1,  # the printed speeds are those of the whole processor
        vector_width=4,
        work_group_multiple=1 if is_cpu else 64,
        max_work_group_size=1024,
        local_memory_bytes=32768,
        global_memory_bytes=1 << 32,
        alignment_bytes=128,
        has_images=not is_cpu,
        has_fp16=not is_cpu,
        is_unified=True,
    )


if __name__ == "__main__":
    sys.exit(main())
