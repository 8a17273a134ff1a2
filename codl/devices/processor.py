"""What the operating system tells about the processor; no driver is asked."""

import re

from codl.devices.limits import count_cores, is_pair_wanted, read_system_file


def describe_host() -> str:
    """Return what times on the host's processor depend on: the processor, its cores, and who has them."""
    pair = ", shared by two drivers" if is_pair_wanted() else ""
    return f"{read_cpu_model()} ({read_generation()}), {count_cores()} cores{pair}"


def read_cpu_model() -> str:
    """Return the processor's name as the kernel tells it; every CPU driver spells it in its own way."""
    return _read_cpu_fact("model name|Hardware|cpu model") or "host"


def read_generation() -> str:
    """Return family and model of the processor, on ARM implementer and part; empty where unknown."""
    facts = [_read_cpu_fact(name) for name in ("cpu family|CPU implementer", "model|CPU part")]
    return ".".join(filter(None, facts))


def _read_cpu_fact(names: str) -> str:
    """Return the first fact of one of these names that the kernel gives for the processor, or nothing."""
    found = re.search(rf"^(?:{names})\s*:\s*(.+)$", read_system_file("/proc/cpuinfo"), re.MULTILINE)
    return found[1].strip() if found else ""
