"""What a plan was made for: the hardware behind its device names, in words that are kept with it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from codl.machine import DeviceInfo
from codl.plan.steps import Plan


def describe_device(info: DeviceInfo) -> str:
    """Return processor, compute units and driver of a device; two devices of one text predict alike."""
    generation = f" ({info.generation})" if info.generation else ""
    units = "1 unit" if info.units == 1 else f"{info.units} units"
    return f"{units} of {info.device_name}{generation}, driver {info.driver_version}"


def keep_testbed(plan: Plan, infos: Sequence[DeviceInfo]) -> Plan:
    """Return a plan that says what it was made for; one that says so already stays as it is.

    Args:
        plan: A plan.
        infos: Facts of its devices, in its order.
    """
    return plan if plan.testbed else replace(plan, testbed=tuple(map(describe_device, infos)))


def find_other_testbed(plan: Plan, infos: Mapping[str, DeviceInfo]) -> str:
    """Return in a sentence which devices are not those that a plan was made for; empty where all are.

    Args:
        plan: A plan.
        infos: Facts of devices here, by name; of some of the plan's nothing may be known.
    """
    changed = [
        f"{name} was {before} and is {here}"
        for name, before in zip(plan.devices, plan.testbed, strict=False)
        if name in infos and (here := describe_device(infos[name])) != before
    ]
    return f"the plan was made on another testbed: {'; '.join(changed)}" if changed else ""
