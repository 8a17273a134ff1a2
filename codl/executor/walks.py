"""Launches of one device that become one: the device walks a tape of them (`codl/devices/walker.py`)."""

from collections.abc import Callable, Sequence
from typing import Any

from codl.catalog.rows.copy import COPY_ROW, concat_batches
from codl.catalog.rows.lanes import POINTWISE
from codl.catalog.spec import LaunchBatch, PackedArg, Parameters, Selection
from codl.catalog.walking import TENSOR_BUFFERS, find_case
from codl.devices.images import ImageStorage
from codl.devices.launch import BoundLaunch
from codl.devices.memory import Storage
from codl.devices.opencl import Device
from codl.devices.tape import Operand, Tape
from codl.devices.walker import SCRATCH_POSITION, Walker, find_walker
from codl.executor.images import Work
from codl.executor.scratch import Scratch
from codl.executor.trace import Entry, EventKind, Label
from codl.executor.weights import Weights
from codl.ir.graph import Graph, Node
from codl.ir.regions import Boxes, Region
from codl.machine import DeviceInfo


class _Walk:
    """A tape, and its launch once all of its memory is known."""

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self.labels: list[tuple[Label, int]] = []
        self._call: Callable[[], Any] | None = None

    def bind(self, call: Callable[[], Any]) -> None:
        self._call = call

    def enqueue(self) -> Any:
        assert self._call is not None
        return self._call()


class DeviceWalks:
    """All walks of one device in one executable; they share buffers, constants and scratch memory.

    Args:
        device: The device.
        graph: The network.
        weights: Its constants.
    """

    def __init__(self, device: Device, graph: Graph, weights: Weights) -> None:
        self._device, self._graph, self._weights = device, graph, weights
        self.walker: Walker | None = find_walker(device)
        self._walks: list[_Walk] = []
        self._open: _Walk | None = None
        self._buffers: dict[int, Any] = {}
        """By address, in the order of their indices."""
        self._pieces: dict[tuple[str, int, int], int] = {}
        """Constants and where they begin."""
        self._args: dict[str, PackedArg] = {}
        self._floats = 0

    def covers(self, work: Work) -> bool:
        """Return whether all launches of some work can be steps of a walk, and need no programs."""
        return self.walker is not None and all(
            find_case(batch, work.selection.parameters) is not None for batch in work.batches
        )

    def take(
        self,
        batch: LaunchBatch,
        storages: Sequence[Storage | ImageStorage],
        parameters: Parameters,
        label: Label,
    ) -> bool:
        """Return whether a launch has become a step of a walk; otherwise nothing has changed."""
        case = find_case(batch, parameters) if self.walker else None
        if case is None or self.walker is None or label.kind is not EventKind.LAUNCH:
            return False
        buffers = self._find_buffers(batch, storages)
        if buffers is None:
            return False
        if 0 in batch.global_size[0]:
            return True
        if self._open is None:
            self._open = _Walk(Tape(self.walker.groups))
        self._open.tape.add(
            case,
            batch,
            [
                self._place(arg.name, storage)
                for arg, storage in zip(batch.tensors, storages, strict=True)
                if isinstance(storage, Storage)
            ],
            self._place_packed(batch),
        )
        self._open.labels.append((label, max(1, int(batch.flops[0]))))
        return True

    def close(self) -> list[Entry]:
        """Return the calls of the steps taken since the last time: they are one launch."""
        walk, self._open = self._open, None
        if walk is None or self.walker is None:
            return []
        self._walks.append(walk)
        return [(self.walker.begin, None), (walk.enqueue, _join_labels(walk.labels))]

    @property
    def checks(self) -> list[Entry]:
        """What a run calls at its end, when the device is done."""
        return [(self.walker.check, None)] if self.walker and self._walks else []

    def finish(self, scratch: Scratch, count: Callable[[Any], Any]) -> list[BoundLaunch]:
        """Return the launches of all walks, everything bound but scratch memory.

        Args:
            scratch: Where they ask for it.
            count: Notes a buffer of constants.
        """
        if not self._walks or self.walker is None:
            return []
        weights = self._weights.gather(tuple(self._pieces), self._args, self._device)
        count(weights)
        launches = []
        for walk in self._walks:
            kernel, call, args = self.walker.bind(
                self._device.upload_integers(walk.tape.words),
                walk.tape.count,
                cases=walk.tape.cases,
                buffers=list(self._buffers.values()),
                weights=weights,
                arrivals=walk.tape.arrivals,
                scratch=None,
            )
            walk.bind(call)
            launch = BoundLaunch(enqueue=call, kernel=kernel, args=args, scratch_position=SCRATCH_POSITION)
            scratch.request(launch, walk.tape.scratch_floats)
            launches.append(launch)
        return launches

    def _find_buffers(
        self, batch: LaunchBatch, storages: Sequence[Storage | ImageStorage]
    ) -> dict[int, Any] | None:
        """Return the walk's buffers with those of a launch; None when they are too many, or images."""
        found = dict(self._buffers)
        for arg, storage in zip(batch.tensors, storages, strict=True):
            if not isinstance(storage, Storage):
                return None
            if arg.name not in self._graph.constants:
                found.setdefault(storage.buffer.int_ptr, storage.buffer)
        if len(found) > TENSOR_BUFFERS:
            return None
        self._buffers = found
        return found

    def _place(self, name: str, storage: Storage) -> Operand:
        if name in self._graph.constants:
            return Operand(
                storage=storage, buffer=TENSOR_BUFFERS, shift=self._reserve((name, 0, -1)) - storage.base
            )
        return Operand(storage=storage, buffer=list(self._buffers).index(storage.buffer.int_ptr))

    def _place_packed(self, batch: LaunchBatch) -> list[int]:
        if batch.panel_begin is None or batch.panel_end is None:
            return []
        begin, end = int(batch.panel_begin[0]), int(batch.panel_end[0])
        self._args |= {packed.key: packed for packed in batch.packed}
        return [self._reserve((packed.key, *packed.find_panels(begin, end))) for packed in batch.packed]

    def _reserve(self, piece: tuple[str, int, int]) -> int:
        """Return where a piece of the constants begins."""
        if piece not in self._pieces:
            self._pieces[piece] = self._floats
            self._floats += self._weights.count_floats(piece, self._args)
        return self._pieces[piece]


def _join_labels(labels: Sequence[tuple[Label, int]]) -> Label:
    """Return the label of a walk: its nodes with their shares of its operations."""
    first, total = labels[0][0], sum(flops for _, flops in labels)
    shares: dict[str, float] = {}
    for label, flops in labels:
        shares[label.name] = shares.get(label.name, 0.0) + flops / total
    parts = tuple(shares.items()) if len(shares) > 1 else first.parts
    return Label(kind=first.kind, device=first.device, name=labels[-1][0].name, parts=parts)


def copy_parts(
    work: Work, node: Node, graph: Graph, region: Region, info: DeviceInfo
) -> tuple[Selection, tuple[LaunchBatch, ...]]:
    """Return what copies each input of a concatenation: some of its launches may be left out.

    Args:
        work: How the concatenation is computed.
        node: The concatenation.
        graph: Its graph.
        region: What is computed of it.
        info: The device.
    """
    chosen = work.selection
    if chosen.implementation.name == POINTWISE:
        return chosen, work.batches
    copying = Selection(implementation=COPY_ROW, parameters={})
    return copying, concat_batches(node, graph, Boxes.of([region]), info)
