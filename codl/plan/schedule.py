"""The actions of a run, in order: launches, publications, synchronizations, maps, copies, host calls.

The schedule follows from graph, plan and the arrangement of devices alone. The executor binds exactly these
actions, and the simulator prices them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

from codl.ir.graph import Graph
from codl.ir.regions import Region
from codl.plan.residency import (
    HOST,
    Residency,
    Transfer,
    find_host_reads,
    find_host_writes,
    step_nodes,
)
from codl.plan.shares import Share, Sharer
from codl.plan.sharing import Arrangement, Sharing
from codl.plan.steps import Host, Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A device computes a region of a node's output."""

    step: int
    node: str
    device: int
    region: Region


@dataclass(frozen=True, slots=True, kw_only=True)
class Publish:
    """A device that computed more than its own part of a tensor copies that part to where all see it."""

    step: int
    tensor: str
    device: int
    region: Region


@dataclass(frozen=True, slots=True, kw_only=True)
class Meet:
    """Everything scheduled so far is enqueued; then the host waits for some devices.

    If signalled, the host does not wait: later work of the devices begins when all of them are done so far.
    """

    devices: tuple[int, ...]
    is_signalled: bool = False
    """Whether the devices wait for each other, instead of the host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A region goes from the memory of one device (or the host) to another's, through the host.

    Devices that share the host's memory count as the host here: what reaches it reaches them.
    """

    transfer: Transfer


@dataclass(frozen=True, slots=True, kw_only=True)
class Map:
    """The host takes hold of a region in shared memory, as a device sees it, and waits until it has it."""

    tensor: str
    region: Region
    device: int
    is_written: bool
    """Whether others write the region while it is held; otherwise they read what the device wrote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmap:
    """A held region is the device's again: what was written meanwhile is seen by its next launches."""

    held: Map


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """Everything scheduled so far is handed to the devices; then the host runs a step of its own."""

    step: int
    reads: tuple[str, ...]
    """Tensors of devices that it reads."""
    writes: tuple[str, ...]
    """Tensors of devices that it writes."""


Action = Launch | Publish | Meet | Copy | Map | Unmap | Call


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """All actions of a run, in the order in which the host takes them."""

    shares: tuple[tuple[Share, ...], ...]
    """By step and device."""
    actions: tuple[Action, ...]
    opening: tuple[Map, ...] = ()
    """Before the host writes the graph's inputs."""
    closing: tuple[Unmap, ...] = ()
    """After the host has read the graph's outputs."""
    fetches: tuple[tuple[Transfer, ...], ...] = ()
    """By step, what coherent devices read that others or the host wrote; only caches have to do with it."""


def make_schedule(
    graph: Graph,
    plan: Plan,
    arrangement: Arrangement,
    *,
    shares: tuple[tuple[Share, ...], ...] | None = None,
) -> Schedule:
    """Return what a run of ``plan`` does.

    Args:
        graph: The network.
        plan: A sound plan of it.
        arrangement: How its devices see each other's results.
        shares: What each device does in each step, where that is known already.
    """
    if shares is None:
        shares = Sharer(graph, plan.devices).share(plan.steps)
    return _Scheduler(graph, plan, shares, arrangement).run()


class _Scheduler:
    def __init__(
        self, graph: Graph, plan: Plan, shares: tuple[tuple[Share, ...], ...], arrangement: Arrangement
    ) -> None:
        self._graph, self._plan, self._shares, self._arrangement = graph, plan, shares, arrangement
        self._residency = Residency(graph)
        self._opening: list[Map] = []
        self._actions: list[Action] = []
        self._closing: list[Unmap] = []
        self._epochs = [0] * len(plan.devices)
        """Times the host has waited for each device so far."""
        self._published_in: dict[tuple[str, int], int] = {}
        """(tensor, device) -> epoch in which the device last published a part of it."""
        self._busy: set[int] = set()
        """Devices with work that the host has not waited for."""
        self._fetches: list[tuple[Transfer, ...]] = [()] * len(plan.steps)

    def run(self) -> Schedule:
        self._hand_over_inputs()
        for index, (step, shares) in enumerate(zip(self._plan.steps, self._shares, strict=True)):
            if isinstance(step, Host):
                self._call(index, step)
                continue
            self._bring_inputs(index, shares)
            for device, share in enumerate(shares):
                if share.computes:
                    self._launch(index, share, device)
        self._meet(self._busy)
        for tensor in self._graph.outputs:
            if not self._graph.tensors[tensor].is_on_host:
                for transfer in self._request(tensor, self._whole(tensor), HOST):
                    self._closing.extend(self._move(transfer))
        return Schedule(
            shares=self._shares,
            actions=_signal(self._actions) if self._arrangement.signals else tuple(self._actions),
            opening=tuple(self._opening),
            closing=tuple(self._closing),
            fetches=tuple(self._fetches),
        )

    def _hand_over_inputs(self) -> None:
        """Let mapped devices see what the host writes: all that they read of the inputs, held meanwhile."""
        for device in self._arrangement.shared:
            if self._arrangement.mode(device) is not Sharing.MAPPED:
                continue
            for tensor in self._graph.inputs:
                reads = [shares[device].reads.get(tensor) for shares in self._shares]
                regions = [region for region in reads if region is not None]
                if regions:
                    region = reduce(Region.hull, regions)
                    self._residency.request(tensor, region, device)
                    held = Map(tensor=tensor, region=region, device=device, is_written=True)
                    self._opening.append(held)
                    self._actions.append(Unmap(held=held))

    def _bring_inputs(self, step: int, shares: Sequence[Share]) -> None:
        """Schedule the transfers that a step needs, after a meeting with the devices they come from."""
        transfers = [
            transfer
            for device, share in enumerate(shares)
            for tensor, region in share.reads.items()
            if not self._residency.has(tensor, region, device)
            for transfer in self._request(tensor, region, device)
        ]
        if transfers:
            self._meet_sources(transfers)
            for transfer in transfers:
                self._actions.extend(self._move(transfer))
            self._fetches[step] = tuple(
                transfer
                for transfer in transfers
                if self._arrangement.between(transfer.source, transfer.destination) is Sharing.COHERENT
            )

    def _call(self, index: int, step: Host) -> None:
        """Schedule a step of the host: whole tensors come to it, held while it reads them, and go from it."""
        reads, writes = find_host_reads(step, self._graph), find_host_writes(step, self._graph)
        transfers = [t for tensor in reads for t in self._request(tensor, self._whole(tensor), HOST)]
        self._meet_sources(transfers)
        releases = [release for transfer in transfers for release in self._move(transfer)]
        self._actions.append(Call(step=index, reads=reads, writes=writes))
        self._actions.extend(releases)
        for release in releases:  # what is no longer held the host may not see
            self._residency.forget(release.held.tensor, release.held.region, HOST)
        for tensor in writes:
            self._residency.publish(tensor, self._whole(tensor), HOST)

    def _whole(self, tensor: str) -> Region:
        return Region.whole(self._graph.shape(tensor))

    def _meet_sources(self, transfers: Sequence[Transfer]) -> None:
        """Wait for the devices that transfers come from, and for those whose memory is mapped for them."""
        sources = {t.source for t in transfers if t.source != HOST and self._is_unmet(t)}
        # A map waits for everything that its device was told to do before.
        held = {device for t in transfers for device in self._find_held(t)}
        self._meet(sources | (held & self._busy))

    def _request(self, tensor: str, region: Region, device: int) -> tuple[Transfer, ...]:
        """Return the transfers that a device, or the host, needs: once for all that share its memory."""
        transfers = self._residency.request(tensor, region, device)
        for transfer in transfers:
            mode = self._arrangement.between(transfer.source, transfer.destination)
            if mode is Sharing.COPIED and not self._arrangement.is_discrete(device):
                for other in (HOST, *self._arrangement.shared):
                    if self._arrangement.mode(other) is Sharing.COHERENT:
                        self._residency.receive(tensor, transfer.region, other)
        return transfers

    def _find_held(self, transfer: Transfer) -> tuple[int, ...]:
        """Return the devices whose memory is mapped for a transfer: who reads it first, then who wrote it."""
        mode = self._arrangement.between(transfer.source, transfer.destination)
        return tuple(
            device
            for device in (transfer.destination, transfer.source)
            if device != HOST
            and mode is not Sharing.COHERENT
            and (mode is Sharing.MAPPED or self._arrangement.mode(device) is Sharing.MAPPED)
        )

    def _is_unmet(self, transfer: Transfer) -> bool:
        return self._published_in[transfer.tensor, transfer.source] == self._epochs[transfer.source]

    def _meet(self, devices: set[int]) -> None:
        if not devices:
            return
        self._actions.append(Meet(devices=tuple(sorted(devices))))
        for device in devices:
            self._epochs[device] += 1
        self._busy = self._busy - devices

    def _move(self, transfer: Transfer) -> tuple[Unmap, ...]:
        """Schedule what makes a region seen where it is needed; between coherent devices nothing.

        What is held for it is let go of by the returned actions, once it has been read.
        """
        maps = [
            Map(
                tensor=transfer.tensor,
                region=transfer.region,
                device=device,
                is_written=device == transfer.destination,
            )
            for device in self._find_held(transfer)
        ]
        self._actions.extend(maps)
        if self._arrangement.between(transfer.source, transfer.destination) is Sharing.COPIED:
            self._actions.append(Copy(transfer=transfer))
            if self._arrangement.is_discrete(transfer.destination):
                self._busy.add(transfer.destination)
        return tuple(Unmap(held=held) for held in maps)

    def _launch(self, step: int, share: Share, device: int) -> None:
        for name in step_nodes(self._plan.steps[step]):
            region = share.computes.get(name)
            if region is None:
                continue
            tensor = self._graph.nodes_by_name[name].output
            self._actions.append(Launch(step=step, node=name, device=device, region=region))
            self._busy.add(device)
            own = share.publishes.get(tensor)
            if own is None:
                continue
            if own != region and not self._arrangement.is_discrete(device):
                self._actions.append(Publish(step=step, tensor=tensor, device=device, region=own))
            self._residency.publish(tensor, own, device)
            self._published_in[tensor, device] = self._epochs[device]


def _signal(actions: Sequence[Action]) -> tuple[Action, ...]:
    """Return actions with all meetings left to the devices behind which the host itself has nothing to do.

    At the next of its own the host waits for those as well whom only devices have met.
    """
    found: list[Action] = []
    is_host_next = True
    for action in reversed(actions):
        if isinstance(action, Meet):
            found.append(replace(action, is_signalled=not is_host_next))
            is_host_next = False
        else:
            found.append(action)
            is_host_next = is_host_next or not isinstance(action, Launch | Publish)
    unseen: set[int] = set()
    for place in reversed(range(len(found))):
        action = found[place]
        if isinstance(action, Meet):
            unseen.update(action.devices)
            if not action.is_signalled:
                found[place] = Meet(devices=tuple(sorted(unseen)))
                unseen.clear()
    return tuple(reversed(found))
