"""Where the tensors of a plan lie, as data: regions, offsets and sizes, without a device.

Inside a chain a tensor is private to its device; published regions lie where
others can have them. Devices that compute in the host's memory see one shared
allocation; one that computes more of a published tensor than its own part
computes it privately and copies its part over. A device with memory of its own
has one block for each tensor, around everything that it computes or reads of it.

Tensors that are never alive together share memory: one arena for each device,
and one for all that share the host's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from codl.ir.graph import FLOAT_BYTES, Graph
from codl.ir.regions import Region
from codl.plan.arena import Life, assign_offsets
from codl.plan.places import SHARED, Place, find_owner
from codl.plan.residency import HOST
from codl.plan.schedule import Call, Copy, Launch, Map, Meet, Publish, Schedule, Unmap
from codl.plan.sharing import Arrangement
from codl.plan.steps import SHARED_MEMORY
from codl.plan.views import View, find_views, place_views

NOTHING_TAKEN_OVER: Mapping[Launch, tuple[Launch, ...]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A region of a tensor in the arena of its device."""

    region: Region
    frame: Region
    """What lies densely around it, in the tensor's coordinates: `region` itself, or the holder of a view."""
    base: int
    """Floats from the arena's start to the frame."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlan:
    """All memory of activations that a plan needs."""

    blocks: Mapping[Place, Block]
    arena_floats: Mapping[int, int]
    """Size of the arena by device, under `SHARED` that of all who share the host's memory."""
    ends: tuple[str, ...]
    """What needs memory of its own: graph inputs and outputs, which the host uses between runs; and what host
    calls read and write, where no device computes in the host's memory."""
    end_floats: int
    """Floats of them in memory that devices share; 0 when each has its own, and only the host sees them."""

    def count_bytes(self, devices: Sequence[str]) -> dict[str, int]:
        """Return the peak of planned bytes by device name, and of shared memory under `shared`."""
        floats = dict(self.arena_floats)
        if self.end_floats:
            floats[SHARED] = floats.get(SHARED, 0) + self.end_floats
        return {
            SHARED_MEMORY if owner == SHARED else devices[owner]: count * FLOAT_BYTES
            for owner, count in sorted(floats.items())
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Which tensors lie where, before they are given offsets."""

    places: Mapping[Place, Region]
    """What each place holds of each tensor."""
    inside: Mapping[Place, View]
    """Those that lie inside another one."""
    ends: tuple[str, ...]


def find_lying_inside(graph: Graph, schedule: Schedule, arrangement: Arrangement) -> Layout:
    """Return which tensors lie inside another one; arguments as in `plan_memory`."""
    crossing = () if arrangement.shared else _find_crossing(schedule)
    ends = tuple(
        tensor
        for tensor in dict.fromkeys((*graph.inputs, *graph.outputs, *crossing))
        if not graph.tensors[tensor].is_on_host
    )
    regions = _find_regions(graph, schedule, arrangement)
    views = find_views(graph, schedule, regions, arrangement, apart=frozenset(ends))
    return Layout(places=regions, inside=views, ends=ends)


def plan_memory(
    graph: Graph,
    schedule: Schedule,
    arrangement: Arrangement,
    *,
    taken_over: Mapping[Launch, tuple[Launch, ...]] = NOTHING_TAKEN_OVER,
) -> MemoryPlan:
    """Return where the tensors of a schedule lie.

    Args:
        graph: The network.
        schedule: What a run of its plan does.
        arrangement: The one that the schedule was made for.
        taken_over: Launch -> earlier ones of its device that it does the work of, reading what they read.
    """
    layout = find_lying_inside(graph, schedule, arrangement)
    regions, views, ends = layout.places, layout.inside, layout.ends
    apart = frozenset(ends)
    frames = place_views(regions, views)
    lives = _find_lives(graph, schedule, regions, arrangement, taken_over)
    for (tensor, owner), view in views.items():
        lives[view.holder, owner].join(lives[tensor, owner])
    meetings: dict[int, list[int]] = {}
    for tick, action in enumerate(schedule.actions):
        if isinstance(action, Meet):
            for device in action.devices:
                meetings.setdefault(device, []).append(tick)
    blocks: dict[Place, Block] = {}
    arena_floats: dict[int, int] = {}
    for owner in sorted({owner for _, owner in regions}):
        inside = [t for t, place in regions if place == owner and not (owner == SHARED and t in apart)]
        members = {tensor: lives[tensor, owner] for tensor in inside if (tensor, owner) not in views}
        if not members:
            continue
        for tensor, life in members.items():
            life.floats = frames[tensor, owner].size
        offsets, arena_floats[owner] = assign_offsets(members, meetings)
        for tensor in inside:
            place = tensor, owner
            holder = views[place].holder if place in views else tensor
            blocks[place] = Block(region=regions[place], frame=frames[place], base=offsets[holder])
    end_floats = sum(Region.whole(graph.shape(tensor)).size for tensor in ends) if arrangement.shared else 0
    return MemoryPlan(blocks=blocks, arena_floats=arena_floats, ends=ends, end_floats=end_floats)


def _find_regions(graph: Graph, schedule: Schedule, arrangement: Arrangement) -> dict[Place, Region]:
    """Return what each place holds of each tensor: whole where devices share what is published."""
    regions: dict[Place, Region] = {}
    for shares in schedule.shares:
        for device, share in enumerate(shares):
            is_discrete = arrangement.is_discrete(device)
            for node, region in share.computes.items():
                tensor = graph.nodes_by_name[node].output
                own = share.publishes.get(tensor)
                if is_discrete:
                    _widen(regions, (tensor, device), region)
                    continue
                if own is not None:
                    regions[tensor, SHARED] = Region.whole(graph.shape(tensor))
                if own != region:
                    regions[tensor, device] = region
            for tensor, region in share.reads.items():
                if is_discrete:
                    _widen(regions, (tensor, device), region)
                else:
                    regions[tensor, SHARED] = Region.whole(graph.shape(tensor))
    if arrangement.shared:
        for tensor in _find_crossing(schedule):
            regions[tensor, SHARED] = Region.whole(graph.shape(tensor))
    return regions


def _find_crossing(schedule: Schedule) -> tuple[str, ...]:
    """Return the tensors of devices that host calls read and write."""
    calls = (action for action in schedule.actions if isinstance(action, Call))
    return tuple(dict.fromkeys(tensor for call in calls for tensor in (*call.reads, *call.writes)))


def _widen(regions: dict[Place, Region], place: Place, region: Region) -> None:
    known = regions.get(place)
    regions[place] = known.hull(region) if known else region


def _find_lives(
    graph: Graph,
    schedule: Schedule,
    regions: Mapping[Place, Region],
    arrangement: Arrangement,
    taken_over: Mapping[Launch, tuple[Launch, ...]],
) -> dict[Place, Life]:
    """Return when each place is used, in ticks of the schedule."""
    lives: dict[Place, Life] = {}

    def touch(tensor: str, owner: int, device: int, tick: int, *, is_written: bool) -> None:
        place = tensor, owner
        if place not in regions:  # an end that only the host holds, or nothing but padding is read
            return
        life = lives.setdefault(place, Life(floats=regions[place].size, first=tick))
        life.last[device] = tick
        if is_written:
            life.writers.add(device)

    for tick, action in enumerate(schedule.actions):
        match action:
            case Launch(node=name, device=device):
                node = graph.nodes_by_name[name]
                for launch in (action, *taken_over.get(action, ())):
                    outside = schedule.shares[launch.step][device].reads
                    for tensor in graph.activations(graph.nodes_by_name[launch.node]):
                        owner = find_owner(tensor, device, regions, arrangement, is_outside=tensor in outside)
                        touch(tensor, owner, device, tick, is_written=False)
                owner = find_owner(node.output, device, regions, arrangement, is_outside=False)
                touch(node.output, owner, device, tick, is_written=True)
            case Publish(tensor=tensor, device=device):
                touch(tensor, device, device, tick, is_written=False)
                touch(tensor, SHARED, device, tick, is_written=True)
            case Copy(transfer=transfer):
                # The queue of the device with memory of its own copies, also from and to shared memory.
                source, destination = transfer.source, transfer.destination
                ends = [end for end in (source, destination) if arrangement.is_discrete(end)]
                for end in ends:
                    touch(transfer.tensor, end, end, tick, is_written=end == destination)
                if len(ends) == 1:
                    touch(transfer.tensor, SHARED, ends[0], tick, is_written=ends[0] == source)
            case Map(tensor=tensor, device=device, is_written=is_written):
                touch(tensor, SHARED, device, tick, is_written=is_written)
            case Unmap(held=held):
                touch(held.tensor, SHARED, held.device, tick, is_written=False)
            case Call(reads=reads, writes=writes):
                for tensor in reads:
                    touch(tensor, SHARED, HOST, tick, is_written=False)
                for tensor in writes:
                    touch(tensor, SHARED, HOST, tick, is_written=True)
            case Meet():
                pass
    return lives
