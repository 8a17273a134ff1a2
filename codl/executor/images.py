"""Which tensors lie in images during a run, and which moves between images and buffers that takes.

A row over images describes itself with the moves of its operands. Where an earlier row on the same device has
left the values in an image, they are not moved there again; and where nothing but such rows reads a tensor,
it never comes to its buffer. Images that are never needed together are one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from codl.catalog.choose import Databases, choose
from codl.catalog.database import EMPTY
from codl.catalog.images import FROM_IMAGE, TO_IMAGE, measure_image
from codl.catalog.spec import LaunchBatch, Selection
from codl.ir.graph import Graph
from codl.ir.regions import Boxes, Region
from codl.machine import DeviceInfo
from codl.plan.schedule import Call, Copy, Launch, Map, Publish, Schedule

TEXEL_FLOATS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """How a node's region is computed: the row and its launches."""

    selection: Selection
    batches: tuple[LaunchBatch, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePlace:
    """A region of a tensor in one of its device's images."""

    region: Region
    image: int
    """Index among the device's images."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePlan:
    """All images of a plan."""

    places: Mapping[tuple[Launch, str], ImagePlace]
    """(launch of a node, tensor) -> the image of it that the launch uses."""
    sizes: tuple[tuple[tuple[int, int], ...], ...]
    """By device, width and height of each image in texels."""

    def count_floats(self, device: int) -> int:
        """Return the floats of a device's images."""
        return sum(width * height * TEXEL_FLOATS for width, height in self.sizes[device])


@dataclass(slots=True, kw_only=True)
class _Held:
    """A region of a tensor in an image, from the launch that fills it to the last that reads it."""

    region: Region
    step: int
    published: Region | None
    """What later steps read as it lies here: the part that this device has published of its own."""
    first: int
    last: int
    users: list[tuple[Launch, str]] = field(default_factory=list)


def describe_work(
    graph: Graph, schedule: Schedule, devices: Sequence[DeviceInfo], databases: Databases
) -> dict[Launch, Work]:
    """Return what computes each launch of a schedule.

    Raises:
        UnsupportedError: A node that no implementation of a device computes.
    """
    found = {}
    for action in schedule.actions:
        if isinstance(action, Launch):
            node, info = graph.nodes_by_name[action.node], devices[action.device]
            chosen = choose(node, graph, info, databases.get(info.name, EMPTY))
            boxes = Boxes.of([action.region])
            batches = chosen.implementation.describe(node, graph, boxes, info, chosen.parameters)
            found[action] = Work(selection=chosen, batches=batches)
    return found


def plan_images(
    graph: Graph, schedule: Schedule, work: Mapping[Launch, Work], *, devices: int
) -> tuple[dict[Launch, Work], ImagePlan]:
    """Return the work without moves that are not needed, and where its images lie."""
    held, kept = _hold(schedule, work)
    needed = _find_needed(graph, schedule, kept, range(devices))
    for launch, left in kept.items():
        device, output = launch.device, graph.nodes_by_name[launch.node].output
        is_needed = (device, output) in needed
        batches = tuple(batch for batch in left.batches if is_needed or batch.entry != FROM_IMAGE)
        kept[launch] = Work(selection=left.selection, batches=batches)
    return kept, _place(held, devices)


def _hold(schedule: Schedule, work: Mapping[Launch, Work]) -> tuple[list[_Held], dict[Launch, Work]]:
    """Return what lies in images when, and the work without moves of what lies there already."""
    held: list[_Held] = []
    kept: dict[Launch, Work] = {}
    latest: dict[tuple[int, str], _Held] = {}
    for tick, action in enumerate(schedule.actions):
        if not isinstance(action, Launch):
            continue
        share = schedule.shares[action.step][action.device]
        batches = []
        for batch in work[action].batches:
            target = batch.tensors[0]
            place = action.device, target.name
            known = latest.get(place)
            if batch.entry == TO_IMAGE and known and target.image:
                is_outside = target.name in share.reads
                if _holds(known, target.image.region(0), None if is_outside else action.step):
                    continue
            batches.append(batch)
            if target.image is not None:
                region = target.image.region(0)
                published = region if target.name in share.reads else share.publishes.get(target.name)
                made = _Held(region=region, step=action.step, published=published, first=tick, last=tick)
                latest[place] = made
                held.append(made)
        for name in {arg.name for batch in work[action].batches for arg in batch.tensors if arg.image}:
            used = latest[action.device, name]
            used.last = tick
            used.users.append((action, name))
        kept[action] = Work(selection=work[action].selection, batches=tuple(batches))
    return held, kept


def _holds(known: _Held, region: Region, step: int | None) -> bool:
    """Return whether an image holds a region for a step of its own, or (None) as it was published."""
    if not known.region.contains(region):
        return False
    if step is None:
        return known.published is not None and known.published.contains(region)
    return known.step == step


def _find_needed(
    graph: Graph, schedule: Schedule, kept: Mapping[Launch, Work], devices: range
) -> set[tuple[int, str]]:
    """Return which tensors a device's launch, or the host, reads from a buffer."""
    needed = {(device, name) for device in devices for name in graph.outputs}
    for action in schedule.actions:
        match action:
            case Launch(device=own):
                for batch in kept[action].batches:
                    needed |= {(own, arg.name) for arg in batch.tensors[1:] if arg.image is None}
                reads = schedule.shares[action.step][own].reads
                needed |= {(device, name) for name in reads for device in devices if device != own}
            case Publish(tensor=name):
                needed |= {(device, name) for device in devices}
            case Copy(transfer=transfer):
                needed |= {(device, transfer.tensor) for device in devices}
            case Map(tensor=name):
                needed |= {(device, name) for device in devices}
            case Call(reads=names):
                needed |= {(device, name) for device in devices for name in names}
            case _:
                pass
    return needed


def _place(held: Sequence[_Held], devices: int) -> ImagePlan:
    """Return an image for everything held, each one for all that are never held together and fit into it."""
    sizes: list[list[tuple[int, int]]] = [[] for _ in range(devices)]
    free_from: list[list[int]] = [[] for _ in range(devices)]
    places: dict[tuple[Launch, str], ImagePlace] = {}
    for one in sorted(held, key=lambda one: one.first):
        device = one.users[0][0].device
        width, height = measure_image(one.region)
        fitting = [
            (wide * high, index)
            for index, (wide, high) in enumerate(sizes[device])
            if free_from[device][index] < one.first and wide >= width and high >= height
        ]
        if fitting:
            _, image = min(fitting)
        else:
            image = len(sizes[device])
            sizes[device].append((width, height))
            free_from[device].append(-1)
        free_from[device][image] = one.last
        places |= {user: ImagePlace(region=one.region, image=image) for user in one.users}
    return ImagePlan(places=places, sizes=tuple(map(tuple, sizes)))
