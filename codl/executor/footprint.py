"""How much memory a plan takes, counted without a driver from what its kernels' descriptions say."""

from collections.abc import Mapping, Sequence

from codl.catalog.choose import NO_DATABASES, Databases
from codl.executor.fusions import find_fusions, fuse_work
from codl.executor.images import describe_work, plan_images
from codl.ir.graph import FLOAT_BYTES, Graph
from codl.machine import DeviceInfo
from codl.plan.memory import plan_memory
from codl.plan.schedule import Schedule, make_schedule
from codl.plan.sharing import Arrangement
from codl.plan.steps import SHARED_MEMORY, DeviceMemory, Plan


def count_footprint(
    graph: Graph,
    plan: Plan,
    arrangement: Arrangement,
    *,
    devices: Sequence[DeviceInfo] | None = None,
    databases: Databases = NO_DATABASES,
) -> tuple[DeviceMemory, ...]:
    """Return the memory that each device of a plan takes, and what several of them share.

    Args:
        graph: The network.
        plan: A sound plan of it.
        arrangement: How its devices share memory.
        devices: Facts of the plan's devices, in its order; without them no weights are counted.
        databases: What is known of the best kernels, by device name, as the executable is compiled with.

    Raises:
        UnsupportedError: A node that no implementation of a device computes.
    """
    schedule = make_schedule(graph, plan, arrangement)
    pairs = find_fusions(graph, schedule, devices or ())
    taken_over = {last: firsts for last, (firsts, _) in pairs.items()}
    activations = plan_memory(graph, schedule, arrangement, taken_over=taken_over).count_bytes(plan.devices)
    weights = None
    if devices is not None:
        weights, scratch = count_operands(graph, schedule, devices, databases)
        activations = add_bytes(activations, scratch)
    return list_memory(plan.devices, activations, weights)


def list_memory(
    devices: Sequence[str], activations: Mapping[str, int], weights: Mapping[str, int] | None
) -> tuple[DeviceMemory, ...]:
    """Return bytes by device name as a plan carries them, those that several devices share last."""
    found = [
        DeviceMemory(
            device=name,
            activation_bytes=activations.get(name, 0),
            weight_bytes=None if weights is None else weights[name],
        )
        for name in devices
    ]
    if SHARED_MEMORY in activations:
        shared = activations[SHARED_MEMORY]
        found.append(DeviceMemory(device=SHARED_MEMORY, activation_bytes=shared, weight_bytes=0))
    return tuple(found)


def add_bytes(some: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    """Return the sums of bytes by device name; devices without any are left out."""
    names = dict.fromkeys((*some, *(name for name, count in more.items() if count)))
    return {name: some.get(name, 0) + more.get(name, 0) for name in names}


def count_operands(
    graph: Graph, schedule: Schedule, devices: Sequence[DeviceInfo], databases: Databases
) -> tuple[dict[str, int], dict[str, int]]:
    """Return the bytes of constants (each slice that a kernel reads, once) and of scratch, by device name."""
    sizes: list[dict[tuple[str, int, int], int]] = [{} for _ in devices]
    scratch = [0 for _ in devices]
    alone = describe_work(graph, schedule, devices, databases)
    fused, _ = fuse_work(graph, schedule, alone, devices)
    work, images = plan_images(graph, schedule, fused, devices=len(devices))
    for action, planned in work.items():
        found = sizes[action.device]
        for batch in planned.batches:
            for arg in batch.tensors:
                if arg.name in graph.constants:
                    found[arg.name, 0, -1] = max(1, graph.constants[arg.name].size)
            if 0 in batch.global_size[0]:
                continue
            if batch.scratch is not None:
                scratch[action.device] = max(scratch[action.device], int(batch.scratch[0]))
            if batch.panel_begin is None or batch.panel_end is None:
                continue
            begin, end = int(batch.panel_begin[0]), int(batch.panel_end[0])
            for packed in batch.packed:
                first, last = packed.find_panels(begin, end)
                key = packed.key, first, last
                if key not in found:
                    found[key] = (last - first) * packed.count_panel_floats(graph.constants)
    scratch = [floats + images.count_floats(device) for device, floats in enumerate(scratch)]
    totals = ([sum(counts.values()) for counts in sizes], scratch)
    weights, rest = (
        {info.name: FLOAT_BYTES * count for info, count in zip(devices, counts, strict=True)}
        for counts in totals
    )
    return weights, rest
