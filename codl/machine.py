"""Facts about hardware, as data: what a device is, not how to talk to it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from codl.errors import DeviceError

UNITS_MARK = ":"
"""Stands between a device's name and the number of compute units to use of it, as in `nvidia-gpu:8`."""
_MOST_DIGITS = 9


class DeviceKind(StrEnum):
    """What sort of processor a device is; the second half of its name."""

    CPU = "cpu"
    GPU = "gpu"
    ACCELERATOR = "accelerator"


class Precision(StrEnum):
    """What factors of products may be rounded to; sums and all else are float32."""

    FLOAT32 = "float32"
    TF32 = "tf32"
    """11 bits, the range of float32."""
    FLOAT16 = "float16"
    """11 bits; what is larger than 65504 becomes infinite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceInfo:
    """One OpenCL device as codl names and knows it."""

    name: str
    """`<driver>-<kind>`, such as `intel-cpu`; the second of a name gets `-2`, a part of it `:<units>`."""
    kind: DeviceKind
    driver: str
    """Short driver family: `intel`, `pocl`, `nvidia`, `amd`, `oclgrind`, ..."""
    device_name: str
    """As the driver reports it."""
    platform_name: str
    platform_version: str
    driver_version: str
    processor: str
    """Identity of the physical processor; equal for two drivers of one CPU or one PCI address."""
    units: int
    """Effective compute units, limits of the environment applied."""
    vector_width: int
    """Native float32 lanes of a vector register; 1 on GPUs that work on scalars."""
    work_group_multiple: int
    """Preferred work-group size multiple (warp size on a GPU)."""
    max_work_group_size: int
    local_memory_bytes: int
    global_memory_bytes: int
    alignment_bytes: int
    """Least alignment of a sub-buffer's origin and of zero-copy host memory."""
    has_images: bool
    has_fp16: bool
    is_unified: bool
    """Whether the device computes in the host's memory."""
    generation: str = ""
    """Family and model of a CPU, such as `25.17`: virtual machines give many one name. Empty if unknown."""
    has_matrix_units: bool = False
    """Whether it multiplies matrices that are rounded to tf32 or float16 faster than others."""
    precision: Precision = Precision.FLOAT32
    """What its products may be rounded to."""

    def in_precision(self, precision: Precision) -> "DeviceInfo":
        """Return the device whose products may be rounded; itself where it has no units for that."""
        return replace(self, precision=precision) if self.has_matrix_units else self

    @property
    def is_part(self) -> bool:
        """Return whether this is a device of which fewer compute units are used than there are."""
        return UNITS_MARK in self.name

    def limit(self, units: int) -> "DeviceInfo":
        """Return the device with at most so many compute units; the device itself where it has no more."""
        if units >= self.units:
            return self
        return replace(self, name=f"{self.name}{UNITS_MARK}{units}", units=units)

    @property
    def vector_registers(self) -> int:
        """Registers of `vector_width` floats that a work-item can use.

        Source:
            x86-64: 32 with AVX-512, 16 before. GPUs: 255 of one float, some of them for addresses.
        """
        if self.vector_width == 1:
            return 224
        return 32 if self.vector_width >= 16 else 16


def split_units(name: str) -> tuple[str, int | None]:
    """Return the name or kind of a device, and how many compute units to use of it; None for all.

    Raises:
        DeviceError: What stands behind the colon is no number of units.
    """
    whole, mark, units = name.partition(UNITS_MARK)
    if not mark:
        return name, None
    is_count = units.isascii() and units.isdecimal() and len(units) <= _MOST_DIGITS and int(units) > 0
    if not is_count:
        raise DeviceError(
            f"device {name!r}: got {units!r} behind the colon, expected a number of compute units such as "
            f"{whole}:8; leave the colon out for all of them"
        )
    return whole, int(units)


@dataclass(frozen=True, slots=True, kw_only=True)
class Peaks:
    """The highest rates that a device was seen to reach, all of its units together, without other load."""

    flops: Mapping[int, float]
    """Floating-point operations a second in multiply-adds, by lanes of the vectors."""
    bandwidth: tuple[tuple[int, float], ...]
    """(bytes that are walked again and again, bytes a second), rising footprints."""
    reference_seconds: Mapping[str, float]
    """What each reference kernel took then, in seconds."""

    def find_bandwidth(self, footprint: float) -> float:
        """Return the bytes a second that no kernel over this many bytes can pass."""
        rates = [rate for size, rate in self.bandwidth if size >= footprint]
        below = [rate for size, rate in self.bandwidth if size < footprint][-1:]
        return max(rates + below)
