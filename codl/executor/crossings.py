"""What a plan moves between memories: copies through the host, and regions that the host maps."""

from collections.abc import Sequence
from itertools import takewhile

from codl.devices.mapping import HeldRegion
from codl.devices.memory import HostCopy, Storage, place_host
from codl.devices.opencl import Device
from codl.executor.placement import Placement
from codl.executor.trace import Entry, EventKind, Label
from codl.plan.residency import Transfer
from codl.plan.schedule import Copy, Map, Schedule, Unmap
from codl.plan.sharing import Arrangement


class Crossings:
    """Prepared copies and maps of one executable.

    Args:
        schedule: What a run does.
        devices: The plan's devices.
        arrangement: How they share memory.
        placement: Where tensors lie.
    """

    def __init__(
        self,
        schedule: Schedule,
        devices: Sequence[Device],
        arrangement: Arrangement,
        placement: Placement,
    ) -> None:
        self._schedule, self._devices = schedule, devices
        self._arrangement, self._placement = arrangement, placement
        self.held: dict[Map, HeldRegion] = {}

    def waits_to_read(self, device: int, place: int) -> bool:
        """Return whether a read right after a synchronization waits for a device, so that the host need not.

        Args:
            device: One that the host waits for there; where times are kept it waits in a call of its own.
            place: Index of the synchronization among the actions.
        """
        if self._devices[device].keeps_times or not self._arrangement.is_discrete(device):
            return False
        copies = takewhile(lambda one: isinstance(one, Copy), self._schedule.actions[place + 1 :])
        return any(isinstance(one, Copy) and one.transfer.source == device for one in copies)

    def copy(self, transfer: Transfer) -> tuple[Entry | None, Entry | None]:
        """Return what reads a region to the host, at once, and what writes it from there, or None."""
        tensor, source, destination = transfer.tensor, transfer.source, transfer.destination
        is_read = self._arrangement.is_discrete(source)
        is_written = self._arrangement.is_discrete(destination)
        if is_read and is_written:
            host = place_host(transfer.region, beside=self._devices[source])
        else:
            host = self._placement.hosts[tensor]
        read = write = None
        if is_read:
            label = Label(kind=EventKind.READ, device=source, name=tensor)
            read = self._host_copy(transfer, source, host).read, label
        if is_written:
            label = Label(kind=EventKind.WRITE, device=destination, name=tensor)
            write = self._host_copy(transfer, destination, host).write, label
        return read, write

    def hold(self, action: Map) -> Entry:
        """Return what maps a region."""
        storage = self._placement.shared(action.tensor, action.device)
        held = self.held[action] = HeldRegion(
            device=self._devices[action.device],
            storage=storage,
            region=action.region,
            is_written=action.is_written,
        )
        return held.map, Label(kind=EventKind.MAP, device=action.device, name=action.tensor)

    def release(self, action: Unmap) -> Entry:
        """Return what unmaps a region."""
        label = Label(kind=EventKind.UNMAP, device=action.held.device, name=action.held.tensor)
        return self.held[action.held].unmap, label

    def _host_copy(self, transfer: Transfer, device: int, host: Storage) -> HostCopy:
        return HostCopy(
            device=self._devices[device],
            storage=self._placement.target(transfer.tensor, device),
            host=host,
            region=transfer.region,
        )
