"""Concatenation without copies: its inputs are computed where its output lies.

A tensor may lie as a box inside the block of another one. Its rows are then as
far apart as the holder's; kernels take the distance as an argument and see no
difference. Nested concatenations, as in DenseNet, end in one block for all.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from codl.ir.graph import NO_EPILOGUE, Graph, Node
from codl.ir.ops import Concat
from codl.ir.regions import Region
from codl.plan.places import SHARED, Place, find_owner
from codl.plan.schedule import Copy, Launch, Publish, Schedule
from codl.plan.sharing import Arrangement

Shift = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A tensor that lies inside the block of another one in the same memory."""

    holder: str
    shift: Shift
    """Coordinate of the tensor's element (0, ..., 0) in the holder, by axis."""


def find_views(
    graph: Graph,
    schedule: Schedule,
    regions: Mapping[Place, Region],
    arrangement: Arrangement,
    *,
    apart: Collection[str],
) -> dict[Place, View]:
    """Return which tensors lie inside another one, and in which; a holder lies in none.

    An input lies inside where every launch that writes the output there also reads the input there, and
    nothing else writes the output: no element is ever written twice.

    Args:
        graph: The network.
        schedule: What a run does.
        regions: What each place holds of each tensor.
        arrangement: How the devices share memory.
        apart: Tensors that need memory of their own.
    """
    launches: dict[str, list[Launch]] = {}
    received: set[Place] = set()
    for action in schedule.actions:
        match action:
            case Launch(node=name):
                launches.setdefault(name, []).append(action)
            case Publish(tensor=tensor):
                received.add((tensor, SHARED))
            case Copy(transfer=transfer):
                is_discrete = arrangement.is_discrete(transfer.destination)
                received.add((transfer.tensor, transfer.destination if is_discrete else SHARED))
    views: dict[Place, View] = {}
    for node in reversed(graph.nodes):
        if not isinstance(node.op, Concat) or node.epilogue != NO_EPILOGUE or node.output in apart:
            continue
        for tensor, shift in _find_shifts(node, node.op, graph).items():
            if tensor in graph.constants or tensor in apart:
                continue
            moves: dict[int, set[int]] = {}
            for launch in launches.get(node.name, ()):
                is_outside = tensor in schedule.shares[launch.step][launch.device].reads
                source = find_owner(tensor, launch.device, regions, arrangement, is_outside=is_outside)
                target = find_owner(node.output, launch.device, regions, arrangement, is_outside=False)
                moves.setdefault(target, set()).add(source)
            for owner, sources in moves.items():
                place, holder = (tensor, owner), (node.output, owner)
                if sources == {owner} and place in regions and place not in views and holder not in received:
                    outer = views.get(holder, View(holder=node.output, shift=(0,) * len(shift)))
                    views[place] = View(holder=outer.holder, shift=_add(shift, outer.shift))
    return views


def place_views(regions: Mapping[Place, Region], views: Mapping[Place, View]) -> dict[Place, Region]:
    """Return the dense block that each place lies in, in the tensor's own coordinates.

    A holder's block reaches around everything inside it. Seen from a view it may begin before coordinate 0.
    """
    frames = {place: region for place, region in regions.items() if place not in views}
    for place, view in views.items():
        holder = view.holder, place[1]
        frames[holder] = frames[holder].hull(_move(regions[place], view.shift))
    for place, view in views.items():
        frames[place] = _move(frames[view.holder, place[1]], tuple(-step for step in view.shift))
    return frames


def _find_shifts(node: Node, op: Concat, graph: Graph) -> dict[str, Shift]:
    """Return where each input begins in the output; of an input that comes twice the first place."""
    rank = len(graph.shape(node.output))
    shifts: dict[str, Shift] = {}
    begin = 0
    for tensor in node.inputs:
        shifts.setdefault(tensor, tuple(begin if axis == op.axis else 0 for axis in range(rank)))
        begin += graph.shape(tensor)[op.axis]
    return shifts


def _move(region: Region, shift: Shift) -> Region:
    return Region(begin=_add(region.begin, shift), end=_add(region.end, shift))


def _add(first: Shift, second: Shift) -> Shift:
    return tuple(a + b for a, b in zip(first, second, strict=True))
