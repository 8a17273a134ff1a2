"""Latency models for kernels that were not measured: the roofline, and the efficiency of the nearest kernels.

An estimate never blocks a plan and is never zero. It is marked, and its error is wide.
"""

from statistics import median

from codl.latency.features import FLOPS, VERSION
from codl.latency.linear import LinearModel
from codl.latency.profile import COMPUTE, DeviceProfile, Meeting, Quality, RowModel

ERROR = 0.5
"""Relative error of an estimate."""
STALE_ERROR = 0.25
"""Least relative error of the model of a kernel that was edited since."""
COMPUTE_REFERENCE_FLOPS = 2.0e8
"""FLOPs of one compute unit in the compute-bound reference kernel, roughly."""
_EFFICIENCY = 0.25
"""Share of the reference kernel's FLOPs that a kernel reaches of which no relative was measured."""
_BYTES = ("inputs", "constants", "outputs", "residuals")
_COPY_BYTES_PER_US, _CALL_US = 5e3, 20.0
"""Of a copy between host and device that was never measured."""
_MEETING_US = 50.0
_UNKNOWN = Quality(samples=0, pm5=0.0, pm10=0.0, rmspe=1.0, flops_pm10=0.0)


def estimate_row(name: str, profile: DeviceProfile) -> RowModel:
    """Return a latency model of a kernel that a profile has none of.

    Bytes move at the device's bandwidth. Arithmetic takes as long as in the nearest kernels: those of the
    same operator, else all that compute. Without any it runs at a usual share of the reference kernel's rate.

    Args:
        name: The kernel.
        profile: Of the device.
    """
    operator = name.partition("_")[0]
    known = {other: row.flop_us for other, row in profile.rows.items() if row.flop_us > 0}
    near = [us for other, us in known.items() if other.partition("_")[0] == operator]
    flop_us = median(near or known.values() or [_guess_flop_us(profile)])
    byte_us = profile.info.units / max(profile.bandwidth_bytes_per_us, 1.0)
    coefficients = {"launches": 1.0, FLOPS: flop_us, **dict.fromkeys(_BYTES, byte_us)}
    return RowModel(
        model=LinearModel(coefficients),
        digest="",
        version=VERSION,
        quality=_UNKNOWN,
        error=ERROR,
        flop_us=flop_us,
        longest_us=0.0,
    )


def _guess_flop_us(profile: DeviceProfile) -> float:
    return profile.reference_us.get(COMPUTE, 1e5) / COMPUTE_REFERENCE_FLOPS / _EFFICIENCY


def estimate_sharing(profile: DeviceProfile) -> LinearModel:
    """Return the cost of making a region visible in a way that was not measured."""
    known = list(profile.sharing.values())
    if known:
        return known[0]
    return LinearModel({"calls": max(profile.wait_us, _CALL_US), "bytes": 1 / _COPY_BYTES_PER_US})


def estimate_meeting(profile: DeviceProfile) -> Meeting:
    """Return the synchronization cost with a device that this one was not measured with."""
    us = max(2 * profile.wait_us, _MEETING_US)
    return Meeting(median_us=us, p95_us=2 * us, samples=0)
