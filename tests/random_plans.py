"""Random valid plans: chains of any length and axis, cuts uniform over positions."""

import numpy as np

from codl.ir.graph import Graph, Node
from codl.ir.ops import HostCall
from codl.ir.regions import find_splittable_axes
from codl.plan.residency import find_published
from codl.plan.single import plan_host
from codl.plan.steps import Chain, Cut, Plan, Run, Step

CHAIN_LENGTHS = (1, 2, 3, 4, 5, 6, 7, 8)


def draw_plan(
    graph: Graph, devices: tuple[str, ...], rng: np.random.Generator, *, last_share: float = 1.0
) -> Plan:
    """Return a valid plan of ``graph``; nine of ten nodes that can be split are split.

    Args:
        graph: The network.
        devices: Names of the devices to split it over.
        rng: What decides.
        last_share: The most that the last device gets of an axis; a slow one holds up the others with more.
    """
    steps: list[Step] = []
    nodes = list(graph.nodes)
    # Channel cuts make every device compute all of what a chain needs: some plans only.
    has_channel_cuts = rng.random() < 0.5
    while nodes:
        if isinstance(nodes[0].op, HostCall):
            steps.extend(plan_host(nodes.pop(0), graph))
            continue
        axis = _draw_axis(nodes[0], graph, rng, has_channel_cuts)
        if axis is None or rng.random() < 0.05:
            able = devices if last_share == 1 or rng.random() < last_share else devices[:-1]
            steps.append(Run(node=nodes.pop(0).name, device=str(rng.choice(able))))
            continue
        chain = _draw_chain(nodes, graph, axis, int(rng.choice(CHAIN_LENGTHS)))
        del nodes[: len(chain)]
        names = tuple(node.name for node in chain)
        cuts = tuple(
            _draw_cut(tensor, graph, axis, len(devices), rng, last_share=last_share)
            for tensor in find_published(names, graph)
        )
        steps.append(Chain(nodes=names, axis=axis, cuts=cuts))
    return Plan(devices=devices, steps=tuple(steps), planner="random", fingerprint=graph.fingerprint)


def _draw_axis(node: Node, graph: Graph, rng: np.random.Generator, has_channel_cuts: bool) -> int | None:
    axes = list(find_splittable_axes(node, graph))
    if not has_channel_cuts and len(axes) > 1 and 2 in axes:
        axes = [axis for axis in axes if axis != 1]
    return int(rng.choice(axes)) if axes else None


def _draw_chain(nodes: list[Node], graph: Graph, axis: int, length: int) -> list[Node]:
    """Return the longest connected run of at most ``length`` leading nodes whose outputs have ``axis``."""
    chain = [nodes[0]]
    rank = len(graph.shape(nodes[0].output))
    for node in nodes[1:length]:
        is_connected = any(member.output in node.inputs for member in chain)
        shape = graph.shape(node.output)
        if isinstance(node.op, HostCall) or not is_connected or len(shape) != rank or shape[axis] < 2:
            break
        chain.append(node)
    return chain


def _draw_cut(
    tensor: str, graph: Graph, axis: int, devices: int, rng: np.random.Generator, *, last_share: float
) -> Cut:
    length = graph.shape(tensor)[axis]
    inner = sorted(int(bound) for bound in rng.integers(0, length + 1, devices - 1))
    if last_share < 1:
        inner[-1] = length - int(rng.integers(0, max(1, int(length * last_share)) + 1))
        inner[:-1] = [min(bound, inner[-1]) for bound in inner[:-1]]
    return Cut(tensor=tensor, axis=axis, bounds=(0, *inner, length))
