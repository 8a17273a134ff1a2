"""A profile made by hand, for what needs no measurement."""

from codl.catalog.table import IMPLEMENTATIONS
from codl.latency.linear import LinearModel
from codl.latency.profile import (
    Coherence,
    DeviceProfile,
    HostCoherence,
    Meeting,
    Neighbour,
    Quality,
    RowModel,
    digest_implementation,
)
from codl.machine import DeviceInfo

QUALITY = Quality(samples=30, pm5=0.8, pm10=0.9, rmspe=0.07, flops_pm10=0.1)


def make_profile(info: DeviceInfo) -> DeviceProfile:
    """Return a profile of a device that takes 2 us a kernel and 1 us for each 1000 bytes it writes."""
    stages = ("", "strided.", "transforms.", "steps.", "outputs.")
    model = LinearModel(
        features=tuple(f"{stage}{name}" for stage in stages for name in ("launches", "written")),
        coefficients=(2.0, 1e-3) * len(stages),
        low=(0.0, 0.0) * len(stages),
        high=(1.0, 1e6) * len(stages),
    )
    copies = LinearModel(
        features=("calls", "bytes", "rows"),
        coefficients=(10.0, 1e-4, 0.01),
        low=(1.0, 4.0, 1.0),
        high=(1.0, 1e8, 1e4),
    )
    return DeviceProfile(
        info=info,
        date="2026-01-01T00:00:00+00:00",
        seconds=60.0,
        repeatability_pm10=0.95,
        reference_us={"compute": 1000.0, "memory": 2000.0},
        bandwidth_bytes_per_us=10000.0,
        shared_cache_bytes=1 << 30,
        launch_us=1.0,
        wait_us=11.0,
        rows={
            row.name: RowModel(digest=digest_implementation(row), model=model, quality=QUALITY)
            for row in IMPLEMENTATIONS
        },
        sharing={"read": copies, "write": copies},
        neighbours={
            "other-cpu": Neighbour(
                slowdown=((1.0, 1.2), (1.1, 2.0)),
                meeting=Meeting(median_us=50.0, p95_us=80.0, samples=400),
                signal=Meeting(median_us=7.0, p95_us=12.0, samples=900),
                coherence=Coherence(fetch_us=0.03, reclaim_us=0.4),
                host=HostCoherence(input_us=0.5, output_us=0.25),
                handing_us=2.5,
            )
        },
    )
