"""Running an executable: feeds in, prepared calls one after the other, outputs out."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from codl.devices.boundary import at_work
from codl.devices.forks import check_not_lost, keep_in_children
from codl.devices.launch import BoundLaunch
from codl.devices.mapping import HeldRegion
from codl.devices.opencl import Device
from codl.devices.signals import Signals
from codl.executor.copies import prepare_read, prepare_write
from codl.executor.ids import check_ids, count_rows
from codl.executor.placement import Placement
from codl.executor.trace import Entry, Trace, play_traced
from codl.executor.weights import Piece
from codl.ir.graph import Graph
from codl.machine import DeviceKind
from codl.plan.steps import Host, Plan


class Executable:
    """A plan with every buffer, argument, work size and meeting point fixed. One run at a time."""

    def __init__(
        self,
        *,
        graph: Graph,
        plan: Plan,
        devices: Sequence[Device],
        entries: tuple[Entry, ...],
        opening: tuple[Callable[[], object], ...],
        closing: tuple[Callable[[], object], ...],
        placement: Placement,
        loose: dict[str, Any],
        held: tuple[HeldRegion, ...],
        launches: tuple[BoundLaunch, ...],
        weight_bytes: Mapping[str, int],
        constant_bytes: Mapping[int, int],
        pieces: tuple[Piece, ...],
        after_first: Callable[[], None],
        signals: Signals | None = None,
    ) -> None:
        self.graph, self.plan, self.devices = graph, plan, tuple(devices)
        self.entries = entries
        """What a run does between its inputs and its outputs, for measurements of single calls."""
        self.launch_count = len(launches)
        """Kernels enqueued by one run, over all devices."""
        self.activation_bytes = placement.count_bytes()
        """Planned memory of activations by device name; `shared` is what coherent devices share."""
        self.weight_bytes = dict(weight_bytes)
        """Constants by device name, packed as its kernels read them."""
        self.constant_bytes = constant_bytes
        """Bytes of each buffer of constants, by its address: other executables may have the same ones."""
        self._pieces = pieces
        self._script = tuple(call for call, _ in entries)
        self._opening, self._closing = opening, closing
        self._placement = placement
        self._subject = f"run on {', '.join(plan.devices)}"
        on_cores = any(device.info.kind is DeviceKind.CPU for device in devices)
        self._is_attentive = on_cores or any(isinstance(step, Host) for step in plan.steps)
        self._loose = loose
        """Values on the host alone during a run."""
        inputs, outputs = self._on_devices(graph.inputs), self._on_devices(graph.outputs)
        self._rows = count_rows(graph)
        """Of the tables that inputs are ids of."""
        self._inputs = {name: prepare_write(placement.hosts[name].view()) for name in inputs}
        self._outputs = {name: prepare_read(placement.hosts[name].view()) for name in outputs}
        self._held, self._launches = held, launches
        self._signals = signals
        self._turn: AbstractContextManager[object] = nullcontext() if signals is None else signals.turn
        self._after_first: Callable[[], None] | None = after_first
        self._needed: tuple[str, ...] = self.plan.devices if launches else ()
        keep_in_children(self)

    def run(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """Return the graph's outputs by name, each an array of the caller's own.

        Args:
            feeds: One value for each graph input, types and shapes already checked.

        Raises:
            InputError: An id is none of its table's.
            DeviceError: A driver failed during the run.
            HostError: ONNX Runtime failed during the run.
        """
        check_ids(feeds, self._rows)
        check_not_lost(self._needed)
        with self._turn, self._at_work():
            self._take(feeds)
            for call in self._script:
                call()
            outputs = self._give()
        self._keep_what_was_made()
        return outputs

    def run_traced(self, feeds: Mapping[str, Any]) -> tuple[dict[str, Any], Trace]:
        """Return what `run` does, and when each launch, copy and wait took place.

        Raises:
            DeviceError: The executable was compiled for devices without profiling.
        """
        check_ids(feeds, self._rows)
        check_not_lost(self._needed)
        with self._turn, self._at_work():
            self._take(feeds)
            trace = play_traced(self.entries, [device.info.name for device in self.devices])
            outputs = self._give()
        self._keep_what_was_made()
        return outputs, trace

    def _at_work(self) -> AbstractContextManager[None]:
        """Let devices work in the block; when it fails, leave everything as before a run."""
        return at_work(self.devices, self._subject, give_up=self._give_up, is_attentive=self._is_attentive)

    def _give_up(self) -> None:
        """Release devices that wait for each other, mapped memory, and values of the host."""
        self._loose.clear()
        if self._signals is not None:
            self._signals.give_up()
        for held in self._held:
            held.let_go()

    def _on_devices(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if not self.graph.tensors[name].is_on_host]

    def _take(self, feeds: Mapping[str, Any]) -> None:
        """Map memory that the host writes, and write the graph's inputs."""
        for call in self._opening:
            call()
        for name, write in self._inputs.items():
            write(feeds[name])
        self._loose.update({name: feeds[name] for name in self.graph.inputs if name not in self._inputs})

    def _give(self) -> dict[str, Any]:
        """Return copies of the graph's outputs, and unmap the memory that they were read from."""
        outputs = {
            name: self._outputs[name]() if name in self._outputs else self._loose[name]
            for name in self.graph.outputs
        }
        self._loose.clear()
        for call in self._closing:
            call()
        return outputs

    def _keep_what_was_made(self) -> None:
        """Store what the first run made the drivers compile; a later one does nothing."""
        if self._after_first is not None:
            self._after_first()
            self._after_first = None

    def poison(self, value: float) -> None:
        """Fill all memory of activations with ``value``; a run that reads what it did not write shows it."""
        memory = {id(storage.host): storage.host for storage in self._placement.hosts.values()}
        for host in memory.values():
            assert host is not None
            host.fill(value)
        for device, buffer in self._placement.fillable:
            self.devices[device].fill(buffer, value)
        for opened in self.devices:
            opened.finish()
