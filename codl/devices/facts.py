"""What a driver tells about its devices, as `DeviceInfo`, and the names that codl gives them."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyopencl as cl

from codl.devices.limits import effective_units
from codl.devices.processor import read_cpu_model, read_generation
from codl.machine import DeviceInfo, DeviceKind

_FAMILIES = (
    ("portable computing language", "pocl"),
    ("nvidia", "nvidia"),
    ("oclgrind", "oclgrind"),
    ("rusticl", "rusticl"),
    ("clover", "clover"),
    ("amd", "amd"),
    ("advanced micro devices", "amd"),
    ("intel", "intel"),
    ("arm", "arm"),
    ("qualcomm", "qualcomm"),
    ("apple", "apple"),
)
_AMPERE = 8
"""Major compute capability from which NVIDIA's GPUs multiply matrices in tf32."""
_LEAST_ALIGNMENT = 64
"""A cache line; drivers that copy nothing want at least this much."""


def describe_devices(devices: Sequence[Any]) -> tuple[tuple[DeviceInfo, Any], ...]:
    """Return each OpenCL device with its facts and name, sorted by name.

    The second device of a name gets `-2`, in order of falling driver version, then in the drivers' own order.
    """
    ordered = sorted(enumerate(devices), key=lambda item: (_base_name(item[1]), _age(item[1]), item[0]))
    seen: Counter[str] = Counter()
    described = []
    for index, device in ordered:
        base = _base_name(device)
        seen[base] += 1
        name = base if seen[base] == 1 else f"{base}-{seen[base]}"
        described.append((_describe(device, name=name, index=index), device))
    return tuple(described)


def parse_version(text: str) -> tuple[tuple[int, ...], bool]:
    """Return a driver version as something that sorts: its numbers, and whether it is a final release."""
    numbers = re.match(r"\D*(\d+(?:\.\d+)*)", text)
    is_final = re.search(r"\d[-._]?(rc|alpha|beta|pre|dev)", text.lower()) is None
    return tuple(int(part) for part in numbers[1].split(".")) if numbers else (), is_final


def _describe(device: Any, *, name: str, index: int) -> DeviceInfo:
    kind = _find_kind(device)
    driver = _find_family(device.platform)
    units = int(device.max_compute_units)
    extensions = str(device.extensions).split()
    return DeviceInfo(
        name=name,
        kind=kind,
        driver=driver,
        device_name=str(device.name).strip("\0 "),
        platform_name=str(device.platform.name).strip("\0 "),
        platform_version=str(device.platform.version).strip("\0 "),
        driver_version=str(device.driver_version).strip("\0 "),
        processor=_find_processor(device, kind=kind, index=index),
        units=effective_units(driver, units) if kind is DeviceKind.CPU else units,
        vector_width=max(1, int(device.native_vector_width_float)),
        work_group_multiple=_find_multiple(device),
        max_work_group_size=int(device.max_work_group_size),
        local_memory_bytes=int(device.local_mem_size),
        global_memory_bytes=int(device.global_mem_size),
        alignment_bytes=max(_LEAST_ALIGNMENT, int(device.mem_base_addr_align) // 8),
        has_images=bool(device.image_support),
        has_fp16="cl_khr_fp16" in extensions,
        is_unified=kind is DeviceKind.CPU or bool(_ask(device, "host_unified_memory", 0)),
        generation=read_generation() if kind is DeviceKind.CPU else "",
        has_matrix_units=driver == "nvidia"
        and int(_ask(device, "compute_capability_major_nv", 0)) >= _AMPERE,
    )


def _base_name(device: Any) -> str:
    return f"{_find_family(device.platform)}-{_find_kind(device)}"


def _age(device: Any) -> tuple[tuple[int, ...], bool]:
    """Return a key that puts the newer driver first."""
    numbers, is_final = parse_version(str(device.driver_version))
    return tuple(-number for number in numbers), not is_final


def _find_family(platform: Any) -> str:
    told = f"{platform.name} {platform.vendor}".lower()
    for sign, family in _FAMILIES:
        if re.search(rf"\b{sign}", told):
            return family
    return re.sub(r"[^a-z0-9]+", "", told.split()[0]) or "unknown"


def _find_kind(device: Any) -> DeviceKind:
    if device.type & cl.device_type.GPU:
        return DeviceKind.GPU
    return DeviceKind.CPU if device.type & cl.device_type.CPU else DeviceKind.ACCELERATOR


def _find_processor(device: Any, *, kind: DeviceKind, index: int) -> str:
    """Return an identity that two drivers of one processor share; a machine's CPU sockets count as one."""
    if kind is DeviceKind.CPU:
        return f"cpu {read_cpu_model()}"
    bus, slot = _ask(device, "pci_bus_id_nv", None), _ask(device, "pci_slot_id_nv", None)
    if bus is not None and slot is not None:
        return _format_pci(_ask(device, "pci_domain_id_nv", 0), bus, slot >> 3, slot & 7)
    topology = _ask(device, "topology_amd", None)
    if topology is not None:
        return _format_pci(0, topology.bus & 0xFF, topology.device, topology.function)
    return f"{kind} {str(device.name).strip()} #{index}"


def _format_pci(domain: int, bus: int, slot: int, function: int) -> str:
    return f"pci {domain:04x}:{bus:02x}:{slot:02x}.{function:x}"


def _find_multiple(device: Any) -> int:
    for fact in ("warp_size_nv", "wavefront_width_amd", "preferred_work_group_size_multiple"):
        value = _ask(device, fact, None)
        if value:
            return int(value)
    return 1


def _ask(device: Any, fact: str, default: Any) -> Any:
    """Return what the driver answers, or the default when it does not know the question."""
    try:
        return getattr(device, fact)
    except (cl.Error, AttributeError):
        return default
