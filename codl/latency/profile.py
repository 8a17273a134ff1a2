"""A device's profile as a value: what was learned of its kernels, its copies, and its neighbours."""

import hashlib
import os
import sys
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache, cached_property, partial
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

from codl.catalog.source import read_source
from codl.catalog.spec import Implementation
from codl.catalog.table import IMPLEMENTATIONS, PAIRS
from codl.latency import amounts, features
from codl.latency.features import Counting
from codl.latency.known import Effect
from codl.latency.linear import LinearModel
from codl.machine import DeviceInfo

SCHEMA = 1
COMPUTE, MEMORY = "compute", "memory"
"""The two reference kernels; also the two sorts of work that neighbours slow down differently."""
Slowdown = tuple[tuple[float, float], tuple[float, float]]
"""[own work][the other's work], each compute-bound or memory-bound: time beside the other over time alone."""
KIB = 1024
_COUNTING = (
    features,
    *(import_module(f"{amounts.__name__}.{found.name}") for found in iter_modules(amounts.__path__)),
)
"""Modules that say what the time of a launch depends on."""
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


class Origin(StrEnum):
    """Where a profile comes from."""

    MEASURED = "measured"
    """On this device, with this driver."""
    BORROWED = "borrowed"
    """On another device of the same driver and kind, scaled by the reference kernels."""
    SIMULATED = "simulated"
    """From printed figures of a device that nobody here has."""


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
    """How well a predictor does on samples it has not seen; shares in [0, 1]."""

    samples: int
    """Held out of each split into those that teach and those that examine, on average."""
    pm5: float
    """Share of the samples of all splits that are predicted within 5 %."""
    pm10: float
    rmspe: float
    """Root of the mean squared relative error."""
    flops_pm10: float
    """Share within 10 % of a regression on FLOPs alone, fitted to the same samples."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowModel:
    """The predictor of one implementation."""

    digest: str
    """Of the kernel and its launch description; a predictor of other ones is stale."""
    model: LinearModel
    quality: Quality
    """For layers that nobody measured."""
    layers: Mapping[str, Effect] = field(default_factory=dict)
    """Mark of a layer that was measured itself -> what it takes over the model's time."""
    known: Quality | None = None
    """For other slices of layers that were measured; None where nobody knows."""
    doubt: float | None = None
    """Relative error that two of three slices of layers stay within that nobody measured; None: not known."""
    known_doubt: float | None = None
    """As `doubt`, for other slices of layers that were measured."""
    counting: Counting = Counting.ITEMS
    """What the model means by work."""
    is_carried: bool = False
    """Whether the kernel was edited since it was measured: it may be faster or slower by some factor."""

    def find_uncertainty(self, mark: str) -> float:
        """Return the typical relative error for slices of a layer: less where it was measured itself.

        Where it is not known how far two of three lie away, the root of the mean squared error stands for
        that, which a few samples that were measured wrongly make many times larger.
        """
        if self.known is not None and mark in self.layers:
            return self.known.rmspe if self.known_doubt is None else self.known_doubt
        return self.quality.rmspe if self.doubt is None else self.doubt


@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
    """What it costs that two devices begin together and each waits for the other, beyond the longest work."""

    median_us: float
    p95_us: float
    samples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Coherence:
    """What it costs a device that caches keep memory coherent which another one uses too, in us for a KiB.

    Source:
        Two cores of a Zen 4: reading what the other one wrote takes 0.03 longer where they share no cache,
        and writing over what the other one has read 0.45; 0.003 and 0.09 where they do.
    """

    fetch_us: float
    """What reading takes longer where the other one has written last."""
    reclaim_us: float
    """What writing takes longer where the other one has read since this one wrote."""


NO_COHERENCE = Coherence(fetch_us=0.0, reclaim_us=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCoherence:
    """What it costs beyond copying that caches keep memory coherent which the host uses too, us for a KiB.

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
    """What another device does to this one while both work."""

    slowdown: Slowdown
    """1 is undisturbed."""
    meeting: Meeting | None = None
    """Where the host starts both and waits for both."""
    signal: Meeting | None = None
    """Where their kernels wait for each other; None where they cannot."""
    coherence: Coherence | None = None
    """Where both compute in the host's memory; None: nobody knows."""
    host: HostCoherence | None = None
    """Of this device and the host, which is kept where it is best beside both devices; None: nobody knows."""
    handing_us: float = 0.0
    """By how much this device begins later for each launch that is handed over to the other one.

    A host that hands over whole runs may do so on cores of this device.
    """


@dataclass(frozen=True, kw_only=True)
class DeviceProfile:
    """All that is known of a device's speed."""

    info: DeviceInfo
    """The device, and enough of it to plan for it where it is not."""
    origin: Origin = Origin.MEASURED
    date: str = ""
    """When it was measured, ISO 8601."""
    seconds: float = 0.0
    """How long measuring took."""
    repeatability_pm10: float | None = None
    """Share of samples that came out within 10 % when they were measured again; bounds any predictor's."""
    reference_us: Mapping[str, float] = field(default_factory=dict)
    """What the reference kernels take in a quiet minute."""
    bandwidth_bytes_per_us: float = 0.0
    """Of the memory-bound reference kernel."""
    shared_cache_bytes: int = 0
    """As much may be read again and again and comes from a cache, not from memory; 0: nobody knows."""
    launch_us: float = 0.0
    """What one more launch adds to a queue, beyond its kernel."""
    wait_us: float = 0.0
    """What starting some launches and waiting for them takes, beyond themselves."""
    rows: Mapping[str, RowModel] = field(default_factory=dict)
    """Implementation -> predictor."""
    sharing: Mapping[str, LinearModel] = field(default_factory=dict)
    """`read`, `write`, `map`, `unmap` -> time over bytes, rows and calls."""
    neighbours: Mapping[str, Neighbour] = field(default_factory=dict)
    """Name of another device -> what meeting it and working beside it costs."""

    @property
    def name(self) -> str:
        """As codl names the device: `intel-cpu`."""
        return self.info.name

    @property
    def key(self) -> DeviceKey:
        """What the device must be for the profile to hold."""
        return DeviceKey.of(self.info)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over everything that predictions depend on."""
        words, numbers = [str(self.origin)], list[float]()
        for value in (
            self.key,
            self.bandwidth_bytes_per_us,
            self.shared_cache_bytes,
            self.launch_us,
            self.wait_us,
        ):
            _tell(value, words, numbers)
        for table in (self.rows, self.sharing, self.neighbours):
            words.append(f"{len(table)}")
            for name in sorted(table):
                words.append(name)
                _tell(table[name], words, numbers)
        return hashlib.sha256("\0".join(words).encode() + array("d", numbers).tobytes()).hexdigest()

    def find_stale(self) -> tuple[str, ...]:
        """Return the implementations of the catalog that have no predictor, or one of another source.

        Those over several nodes can be done without: they count where there is a predictor.
        """
        known = {name: row.digest for name, row in self.rows.items()}
        rows = [row for row in IMPLEMENTATIONS if row.suits(self.info)]
        rows += [row for row in PAIRS if row.name in known]
        return tuple(row.name for row in rows if known.get(row.name) != digest_implementation(row))

    def find_carried(self) -> tuple[str, ...]:
        """Return the implementations whose predictors were measured with an earlier kernel."""
        return tuple(name for name, row in self.rows.items() if row.is_carried)

    def with_rows(self, rows: Mapping[str, RowModel], *, shared_cache_bytes: int = 0) -> "DeviceProfile":
        """Return the profile with some predictors replaced or added.

        Args:
            rows: The predictors by implementation.
            shared_cache_bytes: What was measured together with them; 0 keeps what the profile says.
        """
        cached = shared_cache_bytes or self.shared_cache_bytes
        return replace(self, rows={**self.rows, **rows}, shared_cache_bytes=cached)


def _tell(value: Any, words: list[str], numbers: list[float]) -> None:
    """Add what a value of a profile says to words and numbers, in the order of its fields.

    There are thousands of numbers: as bytes they are told ten times as fast as in digits.
    """
    if isinstance(value, str) or value is None:
        words.append(str(value))
    elif isinstance(value, float | int):
        numbers.append(value)
    elif isinstance(value, tuple):
        words.append(f"{len(value)}")
        if value and isinstance(value[0], float):
            numbers += value
        elif value and isinstance(value[0], str):
            words += value
        else:
            for one in value:
                _tell(one, words, numbers)
    elif isinstance(value, dict):
        words += [f"{len(value)}", *value]
        for effect in value.values():
            numbers += (effect.whole, effect.cut)
    else:
        for name in value.__slots__:
            _tell(getattr(value, name), words, numbers)


def digest_implementation(row: Implementation) -> str:
    """Return a SHA-256 over all that a predictor depends on: kernel source, launch description, features."""
    return _digest((row.source, *row.other_sources), _list_modules(row), _COUNTING)


def digest_launches(row: Implementation) -> str:
    """Return a SHA-256 over all that a row's time depends on: kernel source and launch description."""
    return _digest((row.source, *row.other_sources), _list_modules(row), ())


def _list_modules(row: Implementation) -> tuple[str, ...]:
    """Return the names of what describes a row's launch: its module, and those of rows it is made of."""
    if not isinstance(row.describe, partial):
        return (row.describe.__module__,)
    parts = [value for value in row.describe.keywords.values() if isinstance(value, Implementation)]
    return (row.describe.func.__module__, *(name for part in parts for name in _list_modules(part)))


@cache
def _digest(sources: tuple[str, ...], described: tuple[str, ...], counting: tuple[ModuleType, ...]) -> str:
    digest = hashlib.sha256("".join(map(read_source, sources)).encode())
    for module in described:
        for path in _list_files(sys.modules[module], counting):
            digest.update(b"\0" + _read_file(path))
    return digest.hexdigest()[:32]


@cache
def _list_files(described: ModuleType, counting: tuple[ModuleType, ...]) -> list[str]:
    """Return the files of what counts and of what describes, in the order of paths."""
    modules = (*counting, *_list_described(described))
    return sorted({str(module.__file__) for module in modules}, key=lambda file: file.split(os.sep))


@cache
def _read_file(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.readall()


def _list_described(module: ModuleType) -> list[ModuleType]:
    """Return a module of rows with the modules of the catalog whose functions it uses."""
    names = {getattr(value, "__module__", None) for value in vars(module).values()}
    rooms = ("codl.catalog.rows.", "codl.catalog.register_tile", "codl.catalog.images")
    return [
        module,
        *(sys.modules[name] for name in names if isinstance(name, str) and name.startswith(rooms)),
    ]
