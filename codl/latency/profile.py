"""A device's profile as a value: latency models of kernels, costs of copies, effects of neighbours."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from codl.catalog.source import digest_row
from codl.catalog.table import IMPLEMENTATIONS, PAIRS
from codl.errors import ProfileError
from codl.latency.features import VERSION
from codl.latency.linear import LinearModel
from codl.machine import DeviceInfo

COMPUTE, MEMORY = "compute", "memory"
"""The two reference kernels; also the two kinds of work that neighbours slow down differently."""
Slowdown = tuple[tuple[float, float], tuple[float, float]]
"""[own work][the neighbour's work], each compute-bound or memory-bound: time together over time alone."""
Share = TypeVar("Share", float, npt.NDArray[np.float64])
KIB = 1024
_STEADY = 10
"""Largest ratio of the 95th percentile to the median of undisturbed synchronizations."""
_FACTS = (
    "driver",
    "device_name",
    "driver_version",
    "units",
    "vector_width",
    "work_group_multiple",
    "generation",
)
_MAY_BE_UNKNOWN = ("generation",)
ROWS = {row.name: row for row in (*IMPLEMENTATIONS, *PAIRS)}
"""The catalog, by name."""


class Origin(StrEnum):
    """Where a profile comes from."""

    MEASURED = "measured"
    """On this device, with this driver."""
    BORROWED = "borrowed"
    """On another device of the same driver and kind, scaled by the reference kernels."""
    ESTIMATED = "estimated"
    """From the reference kernels alone: no kernel was measured."""
    SIMULATED = "simulated"
    """From printed figures of a device that is not here."""


def mix_slowdown(slowdown: Slowdown, own: Share, other: Share) -> Share:
    """Return by what factor a device is slower while another one works.

    Args:
        slowdown: What the other one does to it.
        own: Share of the device's own work that memory limits, in [0, 1].
        other: The same of the other one's work.
    """
    (neither, others), (mine, both) = slowdown
    free = 1 - other
    return (1 - own) * (neither * free + others * other) + own * (mine * free + both * other)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceKey:
    """The facts that bind a profile to a device and its driver."""

    kind: str
    driver: str
    device_name: str
    driver_version: str
    units: int
    vector_width: int
    work_group_multiple: int
    generation: str = ""

    @classmethod
    def of(cls, info: DeviceInfo) -> "DeviceKey":
        """Return the key of a device."""
        return cls(kind=str(info.kind), **{name: getattr(info, name) for name in _FACTS})

    def find_difference(self, other: "DeviceKey") -> str | None:
        """Return in words the first fact in which another key differs, or None.

        A fact that one of them does not know is no difference.
        """
        for name in ("kind", *_FACTS):
            got, expected = getattr(self, name), getattr(other, name)
            if name in _MAY_BE_UNKNOWN and not (got and expected):
                continue
            if got != expected:
                return f"{name} {got!r}, expected {expected!r}"
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """How well a latency model predicts layers that it was not fitted to; shares in [0, 1]."""

    samples: int
    """Held out of each split, on average."""
    pm5: float
    """Share of the held-out samples that are predicted within 5 %."""
    pm10: float
    rmspe: float
    """Root of the mean squared relative error."""
    flops_pm10: float
    """Share within 10 % of a regression on FLOPs alone, fitted to the same samples."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowModel:
    """The latency model of one kernel."""

    model: LinearModel
    digest: str
    """Of the preprocessed kernel that was measured."""
    version: int = VERSION
    """Of the features."""
    quality: Quality
    error: float
    """Relative error that two of three held-out samples stay within."""
    flop_us: float
    """Time of one FLOP of the busiest compute unit in a typical sample; 0: the kernel has none."""
    longest_us: float
    """Longest time of a sample."""

    def is_of(self, name: str) -> bool:
        """Return whether the model was fitted to the kernel of this name as it is now."""
        row = ROWS.get(name)
        return self.version == VERSION and (row is None or self.digest == digest_row(row))


@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
    """Synchronization cost of two devices that begin together and wait for each other."""

    median_us: float
    p95_us: float
    samples: int

    @property
    def is_steady(self) -> bool:
        """Whether few synchronizations took much longer than most: other programs did not disturb them.

        Source:
            Two CPU drivers on a core each: 95 of 100 meetings take at most 2 to 5 times the median; beside
            two busy programs 60 times.
        """
        return self.p95_us <= _STEADY * self.median_us


@dataclass(frozen=True, slots=True, kw_only=True)
class Coherence:
    """Costs of cache coherence for a device whose memory another one uses too, in us for each KiB.

    Source:
        Two cores of a Zen 4: reading what the other one wrote takes 0.03 longer where they share no cache,
        and writing over what the other one has read 0.45; 0.003 and 0.09 where they do.
    """

    fetch_us: float
    """Of reading what the other device wrote last."""
    reclaim_us: float
    """Of writing where the other device has read since this one wrote."""


NO_COHERENCE = Coherence(fetch_us=0.0, reclaim_us=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCoherence:
    """Costs of cache coherence for memory that the host uses too, beyond copying, in us for each KiB.

    Source:
        Two cores of a Zen 4, the host on the other one: 0.4 for inputs as for outputs where they share no
        cache, 0.003 where they do; on the device's own core 0.002.
    """

    input_us: float
    """Where the device reads what the host writes."""
    output_us: float
    """Where the host reads what the device writes."""


NO_HOST_COHERENCE = HostCoherence(input_us=0.0, output_us=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """Effects of another device on this one."""

    slowdown: Slowdown
    """1 is undisturbed."""
    meeting: Meeting | None = None
    """Where the host starts both and waits for both."""
    signal: Meeting | None = None
    """Where their kernels wait for each other; None where they cannot."""
    coherence: Coherence | None = None
    """Where both compute in the host's memory; None: not measured."""
    host: HostCoherence | None = None
    """Of this device and the host; None: not measured."""
    handing_us: float = 0.0
    """By how many us this device begins later for each launch that is enqueued on the other one.

    The host may enqueue whole runs on cores of this device.
    """

    @property
    def is_steady(self) -> bool:
        """Whether synchronizations were steady, that is, other programs did not disturb the measurement."""
        return self.meeting is None or self.meeting.is_steady


@dataclass(frozen=True, kw_only=True)
class DeviceProfile:
    """The speed of a device, as it was measured, borrowed, estimated or simulated."""

    info: DeviceInfo
    """The device, with all facts that planning needs when the device is not present."""
    origin: Origin = Origin.MEASURED
    date: str = ""
    """When it was measured, ISO 8601."""
    seconds: float = 0.0
    """How long measuring took."""
    repeatability_pm10: float | None = None
    """Share of samples that came out within 10 % when they were measured again; bounds any model's."""
    reference_us: Mapping[str, float] = field(default_factory=dict)
    """Times of the reference kernels, corrected for background load."""
    bandwidth_bytes_per_us: float = 0.0
    """Of the memory-bound reference kernel."""
    shared_cache_bytes: int = 0
    """Kept from one run to the next by a cache that cores share; 0: not known, or memory is as fast."""
    launch_us: float = 0.0
    """Time that one more launch adds to a queue, beyond its kernel."""
    wait_us: float = 0.0
    """Time of starting some launches and waiting for them, beyond themselves."""
    rows: Mapping[str, RowModel] = field(default_factory=dict)
    """Kernel -> latency model."""
    sharing: Mapping[str, LinearModel] = field(default_factory=dict)
    """`read`, `write`, `map`, `unmap` -> time over bytes, rows and calls."""
    neighbours: Mapping[str, Neighbour] = field(default_factory=dict)
    """Name of another device -> its effects on this one."""

    @property
    def name(self) -> str:
        """As codl names the device: `intel-cpu`."""
        return self.info.name

    @property
    def key(self) -> DeviceKey:
        """The facts that a device must share for the profile to be valid."""
        return DeviceKey.of(self.info)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over everything that predictions depend on."""
        told = (
            self.origin,
            self.key,
            self.bandwidth_bytes_per_us,
            self.shared_cache_bytes,
            self.launch_us,
            self.wait_us,
            *(sorted(table.items()) for table in (self.rows, self.sharing, self.neighbours)),
        )
        return hashlib.sha256(repr(told).encode()).hexdigest()

    def check_device(self, info: DeviceInfo) -> None:
        """Raise an error when the profile is of another device or driver, or return silently.

        Raises:
            ProfileError: It is; the message names the fact and the command that helps.
        """
        difference = self.key.find_difference(DeviceKey.of(info))
        if difference is not None:
            raise ProfileError(
                f"profile of {self.name}: got one for {difference} of {info.name}; "
                f"run `codl profile --device {info.name}`"
            )

    def find_stale(self) -> tuple[str, ...]:
        """Return the kernels of the catalog without a latency model, or with one of another source.

        Kernels over several nodes are left out: they are used only where they have a model.
        """
        rows = [row.name for row in IMPLEMENTATIONS if row.suits(self.info)]
        return tuple(name for name in rows if name not in self.rows or not self.rows[name].is_of(name))

    def with_rows(self, rows: Mapping[str, RowModel]) -> "DeviceProfile":
        """Return the profile with some latency models replaced or added."""
        return replace(self, rows={**self.rows, **rows})
