"""What happens in a run, in order: launches, publications, meetings and copies.

The schedule follows from graph, plan and the way of sharing alone. The
executor binds exactly these actions, so whoever prices a plan can price them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from codl.ir.graph import Graph
from codl.ir.regions import Region
from codl.plan.residency import HOST, Residency, Share, Transfer, share_step, step_nodes
from codl.plan.steps import Plan


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
    """Everything scheduled so far is handed to the devices; then the host waits for some of them."""

    devices: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A region goes from the memory of one device (or the host) to another's, through the host."""

    transfer: Transfer


Action = Launch | Publish | Meet | Copy


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """All actions of a run, in the order in which the host takes them."""

    shares: tuple[tuple[Share, ...], ...]
    """By step and device."""
    actions: tuple[Action, ...]


def make_schedule(graph: Graph, plan: Plan, *, is_copied: bool) -> Schedule:
    """Return what a run of ``plan`` does.

    Args:
        graph: The network.
        plan: A sound plan of it.
        is_copied: Whether each device has memory of its own; otherwise all see published tensors at once.
    """
    shares = tuple(share_step(step, graph, plan.devices) for step in plan.steps)
    return Schedule(shares=shares, actions=tuple(_Scheduler(graph, plan, shares, is_copied).run()))


class _Scheduler:
    def __init__(
        self, graph: Graph, plan: Plan, shares: Sequence[tuple[Share, ...]], is_copied: bool
    ) -> None:
        self._graph, self._plan, self._shares, self._is_copied = graph, plan, shares, is_copied
        self._residency = Residency(graph)
        self._actions: list[Action] = []
        self._epochs = [0] * len(plan.devices)
        """Times the host has waited for each device so far."""
        self._published_in: dict[tuple[str, int], int] = {}
        """(tensor, device) -> epoch in which the device last published a part of it."""
        self._busy: set[int] = set()
        """Devices with work that the host has not waited for."""

    def run(self) -> list[Action]:
        for index, shares in enumerate(self._shares):
            self._bring_inputs(shares)
            for device, share in enumerate(shares):
                self._launch(index, share, device)
        self._meet(self._busy)
        if self._is_copied:
            for tensor in self._graph.outputs:
                self._copy(self._residency.request(tensor, Region.whole(self._graph.shape(tensor)), HOST))
        return self._actions

    def _bring_inputs(self, shares: Sequence[Share]) -> None:
        """Schedule the transfers that a step needs, after a meeting with the devices they come from."""
        transfers = [
            transfer
            for device, share in enumerate(shares)
            for tensor, region in share.reads.items()
            for transfer in self._residency.request(tensor, region, device)
        ]
        self._meet({t.source for t in transfers if t.source != HOST and self._is_unmet(t)})
        if self._is_copied:
            self._copy(transfers)

    def _is_unmet(self, transfer: Transfer) -> bool:
        return self._published_in[transfer.tensor, transfer.source] == self._epochs[transfer.source]

    def _meet(self, devices: set[int]) -> None:
        if not devices:
            return
        self._actions.append(Meet(devices=tuple(sorted(devices))))
        for device in devices:
            self._epochs[device] += 1
        self._busy = self._busy - devices

    def _copy(self, transfers: Sequence[Transfer]) -> None:
        for transfer in transfers:
            self._actions.append(Copy(transfer=transfer))
            if transfer.destination != HOST:
                self._busy.add(transfer.destination)

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
            if own != region and not self._is_copied:
                self._actions.append(Publish(step=step, tensor=tensor, device=device, region=own))
            self._residency.publish(tensor, own, device)
            self._published_in[tensor, device] = self._epochs[device]
