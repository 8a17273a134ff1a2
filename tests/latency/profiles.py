"""A profile made by hand, for what needs no measurement."""

from codl.catalog.source import digest_row
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
)
from codl.machine import DeviceInfo

QUALITY = Quality(samples=30, pm5=0.8, pm10=0.9, rmspe=0.07, flops_pm10=0.1)


def make_profile(info: DeviceInfo) -> DeviceProfile:
    """Return a profile of a device that takes 2 us a launch and 1 us for each 1000 bytes a unit writes."""
    model = LinearModel({"launches": 2.0, "outputs": 1e-3})
    copies = LinearModel({"calls": 10.0, "bytes": 1e-4, "rows": 0.01})
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
            row.name: RowModel(
                model=model,
                digest=digest_row(row),
                quality=QUALITY,
                error=0.07,
                flop_us=1e-4,
                longest_us=1e6,
            )
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
