"""Plans that need no profile: one device for all, or fixed shares along chains."""

from collections.abc import Sequence
from functools import lru_cache, partial
from math import prod

from codl.errors import PlanError
from codl.ir.graph import Graph, Node
from codl.ir.ops import Conv2d, HostCall, MatMul
from codl.ir.regions import Region, find_splittable_axes
from codl.plan.residency import find_published
from codl.plan.shares import share_step
from codl.plan.single import plan_host
from codl.plan.steps import Chain, Cut, Plan, Run, Step

PREFERRED_AXES = (2, 1, 0)
"""Height first, which is best for most operators (CoDL, section 6); then channels, then batch."""
_SYNCHRONIZATION_WORK = 12e6
"""Flops that take about as long as a synchronization of two devices: what a longer chain may repeat.

Source:
    A synchronization of two CPU drivers takes about 50 us; a core of a Zen 5 does 250 Gflop/s.
"""


def plan_even(
    graph: Graph,
    *,
    devices: Sequence[str],
    ratios: Sequence[float] | None = None,
    max_chain_length: int = 8,
    axes: Sequence[int] = PREFERRED_AXES,
) -> Plan:
    """Return the plan that cuts every operator by the same shares, in chains as long as allowed.

    Args:
        graph: The network.
        devices: Device names; device i gets share i.
        ratios: Shares, one for each device, that sum to 1; equal ones by default.
        max_chain_length: Most operators in a chain, at least 1. A chain ends earlier where another operator
            would make the devices compute more twice than a synchronization costs.
        axes: Axes to cut along, by preference; an operator is cut along the first that is possible.

    Raises:
        PlanError: No devices, ratios that are no shares of a whole, or a chain length below 1.
    """
    if not devices:
        raise PlanError("devices: got none, expected at least one name")
    shares = tuple(ratios) if ratios is not None else (1 / len(devices),) * len(devices)
    if len(shares) != len(devices) or min(shares) < 0 or not abs(sum(shares) - 1) <= 1e-6:
        raise PlanError(f"ratios: got {list(shares)}, expected {len(devices)} shares in [0, 1] that sum to 1")
    if max_chain_length < 1:
        raise PlanError(f"max_chain_length: got {max_chain_length}, expected at least 1")
    count_repeated = lru_cache(maxsize=4)(partial(_count_repeated, graph=graph, shares=shares))
    groups: list[tuple[int | None, tuple[Node, ...]]] = []
    """Chains with the axis along which they are cut; None for operators that are not cut, each alone."""
    for node in graph.nodes:
        axis = None if isinstance(node.op, HostCall) else _choose_axis(node, graph, axes, len(devices))
        chain_axis, chain = groups[-1] if groups else (None, ())
        if (
            axis is not None
            and axis == chain_axis
            and len(chain) < max_chain_length
            and any(member.output in node.inputs for member in chain)
            and count_repeated((*chain, node), axis) - count_repeated(chain, axis) <= _SYNCHRONIZATION_WORK
        ):
            groups[-1] = axis, (*chain, node)
        else:
            groups.append((axis, (node,)))
    steps: list[Step] = []
    for axis, chain in groups:
        if axis is not None:
            steps.append(_make_chain(chain, axis, graph, shares))
        elif isinstance(chain[0].op, HostCall):
            steps += plan_host(chain[0], graph)
        else:
            steps.append(Run(node=chain[0].name, device=devices[shares.index(max(shares))]))
    return Plan(devices=tuple(devices), steps=tuple(steps), planner="even", fingerprint=graph.fingerprint)


def _choose_axis(node: Node, graph: Graph, axes: Sequence[int], device_count: int) -> int | None:
    shape = graph.shape(node.output)
    splittable = find_splittable_axes(node, graph)
    return next((axis for axis in axes if axis in splittable and shape[axis] >= device_count), None)


def _count_repeated(nodes: Sequence[Node], axis: int, *, graph: Graph, shares: Sequence[float]) -> float:
    """Return the flops that a chain costs beyond those of its nodes computed once.

    Halos grow with every operator behind them.
    """
    step = _make_chain(nodes, axis, graph, shares)
    members = {node.name: node for node in nodes}
    done = sum(
        _count_work(members[name], region, graph)
        for share in share_step(step, graph, [""] * len(shares))
        for name, region in share.computes.items()
    )
    return done - sum(_count_work(node, Region.whole(graph.shape(node.output)), graph) for node in nodes)


def _count_work(node: Node, region: Region, graph: Graph) -> float:
    """Return the flops of a region: two for each weight that an output sees, or for each of its inputs.

    Convolutions in tiles compute whole ones.
    """
    match node.op:
        case Conv2d():
            weights = prod(graph.shape(node.inputs[1])[1:])
            rows, columns = (
                -(-region.end[axis] // side) * side - region.begin[axis] // side * side
                for axis, side in zip((2, 3), node.op.tile, strict=True)
            )
            return 2.0 * weights * region.shape[0] * region.shape[1] * rows * columns
        case MatMul():
            return 2.0 * graph.shape(node.inputs[0])[-1] * region.size
        case _:
            return 2.0 * len(node.inputs) * region.size


def _make_chain(nodes: Sequence[Node], axis: int, graph: Graph, shares: Sequence[float]) -> Chain:
    names = tuple(node.name for node in nodes)
    cuts = tuple(
        Cut(tensor=tensor, axis=axis, bounds=share_bounds(graph.shape(tensor)[axis], shares))
        for tensor in find_published(names, graph)
    )
    return Chain(nodes=names, axis=axis, cuts=cuts)


def share_bounds(length: int, shares: Sequence[float]) -> tuple[int, ...]:
    """Return boundaries that divide ``length`` positions by ``shares``, rounded to whole positions."""
    total, bounds = 0.0, [0]
    for share in shares[:-1]:
        total += share
        bounds.append(min(length, max(bounds[-1], round(total * length))))
    return (*bounds, length)
