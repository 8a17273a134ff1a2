"""What takes place when during a run, predicted or measured, as data."""

from dataclasses import dataclass

HOST_TRACK = "host"
"""The track of what the host itself does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Something that takes place on a device, or on the host, for a while."""

    track: str
    """Name of the device, or `HOST_TRACK`."""
    kind: str
    """`launch`, `publish`, `read`, `write`, `map`, `unmap`, `wait` or `host`.

    Of a prediction also `fetch` and `reclaim`: what a launch takes longer as it reads what another device
    wrote, and as it writes where another one has read. A device waits while the host hands over a run on its
    cores.
    """
    name: str
    """Operator or tensor; empty for a wait."""
    step: int | None
    start_us: float
    duration_us: float
    other: str | None = None
    """Of a transfer: who had it, or who gets it."""
    size_bytes: int | None = None
    """Of a transfer."""
