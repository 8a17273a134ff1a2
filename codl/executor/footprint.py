"""How much memory a plan takes, counted without a driver from what its kernels' descriptions say."""

from collections.abc import Mapping, Sequence

from codl.catalog.choose import choose
from codl.ir.graph import FLOAT_BYTES, Graph
from codl.ir.regions import Boxes
from codl.machine import DeviceInfo
from codl.plan.memory import plan_memory
from codl.plan.schedule import Launch, Schedule, make_schedule
from codl.plan.sharing import Arrangement
from codl.plan.steps import SHARED_MEMORY, DeviceMemory, Plan


def count_footprint(
    graph: Graph, plan: Plan, arrangement: Arrangement, *, devices: Sequence[DeviceInfo] | None = None
) -> tuple[DeviceMemory, ...]:
    """Return the memory that each device of a plan takes, and what several of them share.

    Args:
        graph: The network.
        plan: A sound plan of it.
        arrangement: How its devices share memory.
        devices: Facts of the plan's devices, in its order; without them no weights are counted.

    Raises:
        UnsupportedError: A node that no implementation of a device computes.
    """
    schedule = make_schedule(graph, plan, arrangement)
    activations = plan_memory(graph, schedule, arrangement).count_bytes(plan.devices)
    weights = None if devices is None else count_weights(graph, schedule, devices)
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


def count_weights(graph: Graph, schedule: Schedule, devices: Sequence[DeviceInfo]) -> dict[str, int]:
    """Return the bytes of constants by device name: each slice that a kernel reads, once."""
    sizes: list[dict[tuple[str, int, int], int]] = [{} for _ in devices]
    for action in schedule.actions:
        if not isinstance(action, Launch):
            continue
        node, info = graph.nodes_by_name[action.node], devices[action.device]
        found = sizes[action.device]
        selection = choose(node, graph, info)
        describe = selection.implementation.describe
        for batch in describe(node, graph, Boxes.of([action.region]), info, selection.parameters):
            for arg in batch.tensors:
                if arg.name in graph.constants:
                    found[arg.name, 0, -1] = max(1, graph.constants[arg.name].size)
            if 0 in batch.global_size[0] or batch.panel_begin is None or batch.panel_end is None:
                continue
            begin, end = int(batch.panel_begin[0]), int(batch.panel_end[0])
            for packed in batch.packed:
                key = packed.key, begin, end
                if key not in found:
                    found[key] = (end - begin) * packed.count_panel_floats(graph.constants)
    return {
        info.name: FLOAT_BYTES * sum(counts.values()) for info, counts in zip(devices, sizes, strict=True)
    }
