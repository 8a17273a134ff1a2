"""Choices of planners, written as the steps of a plan."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from codl.ir.graph import Graph
from codl.partitioner.chains import ChainBatch
from codl.partitioner.order import Unit
from codl.partitioner.search_state import Choice
from codl.plan.residency import find_published
from codl.plan.single import plan_host
from codl.plan.steps import Chain, Cut, Plan, Run, Step
from codl.simulator.cut_grid import WHOLE


def write_plan(
    choices: Sequence[Choice], order: Sequence[Unit], graph: Graph, devices: tuple[str, ...]
) -> Plan:
    """Return the plan of what was chosen for consecutive units of a network.

    Args:
        choices: In order.
        order: The units of the network.
        graph: The network.
        devices: Names of the devices.
    """
    steps: list[Step] = []
    for choice in choices:
        units = order[choice.first : choice.last + 1]
        if choice.batch is None:
            steps.extend(step for node in units[0].nodes for step in plan_host(node, graph))
            continue
        names = tuple(unit.nodes[0].name for unit in units)
        if choice.batch.axis == WHOLE:
            (bounds,) = choice.batch.bounds.values()
            device = devices[int(np.argmax(np.diff(bounds[choice.index])))]
            steps += [Run(node=name, device=device) for name in names]
        else:
            steps += _write_chain(choice.batch, choice.index, names, graph, devices)
    return Plan(devices=devices, steps=tuple(steps), fingerprint=graph.fingerprint)


def _write_chain(
    batch: ChainBatch, index: int, names: tuple[str, ...], graph: Graph, devices: Sequence[str]
) -> list[Step]:
    """Return the steps of one candidate: a chain, or runs where one device has all that it publishes."""
    cuts = tuple(
        Cut(tensor=tensor, axis=batch.axis, bounds=tuple(batch.bounds[tensor][index].tolist()))
        for tensor in find_published(names, graph)
    )
    owners = {device for cut in cuts for device, (low, high) in enumerate(pairwise(cut.bounds)) if high > low}
    if len(owners) == 1:
        return [Run(node=name, device=devices[min(owners)]) for name in names]
    return [Chain(nodes=names, axis=batch.axis, cuts=cuts)]
