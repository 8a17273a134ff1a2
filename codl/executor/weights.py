"""Constants of a network as kernels want them: packed once, uploaded by the slice a device needs."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from codl.catalog.spec import PackedArg
from codl.devices.memory import Storage, place_constant
from codl.devices.opencl import Device
from codl.devices.pages import Chunks, allocate_host
from codl.executor.packed_cache import PackedCache
from codl.ir.graph import FloatArray, Graph

_MOST_PLACED_BYTES = 64 << 20
"""From here on what a file holds stays mapped: a matrix of hundreds of MB comes as one stream, to which large
pages are no gain, and copying it takes longer than all else that a session waits for."""


GATHER_STEP = 64
"""Floats; where a piece of gathered constants may begin."""
Pieces = tuple[tuple[str, int, int], ...]
"""Of gathered constants: key of a packed one with first panel and end, or (name, 0, -1) of a plain one."""


class Weights:
    """Packed constants of one graph; plans of the same graph share them."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._packed: dict[str, FloatArray] = {}
        self._cache = PackedCache(graph)
        self._unstored: dict[str, FloatArray] = {}
        self._chunks = Chunks()
        self._placed: set[str] = set()
        """What of it lies on large pages, for devices that compute in the host's memory."""
        self._slices: dict[tuple[str, str, int, int], Any] = {}
        self._plain: dict[tuple[str, str], Storage] = {}
        self._gathered: dict[tuple[str, Pieces], Any] = {}

    def panels(self, arg: PackedArg, device: Device, begin: int, end: int) -> Any:
        """Return a buffer of ``device`` with what a launch over panels [begin, end) reads of a constant."""
        begin, end = arg.find_panels(begin, end)
        key = (device.info.name, arg.key, begin, end)
        buffer = self._slices.get(key)
        if buffer is None:
            packed = self._place(arg) if device.info.is_unified else self._pack(arg)
            buffer = device.upload(packed[begin:end].reshape(-1))
            self._slices[key] = buffer
        return buffer

    def gather(self, pieces: Pieces, args: Mapping[str, PackedArg], device: Device) -> Any:
        """Return one buffer of a device with many constants behind each other.

        Args:
            pieces: What it holds, in order.
            args: Those that are packed, by key.
            device: Whose buffer.
        """
        known = self._gathered.get((device.info.name, pieces))
        if known is not None:
            return known
        total = sum(self.count_floats(piece, args) for piece in pieces)
        buffer, begin = device.allocate(total), 0
        for piece in pieces:
            device.write(buffer, self._take(piece, args), begin)
            begin += self.count_floats(piece, args)
        self._gathered[device.info.name, pieces] = buffer
        return buffer

    def count_floats(self, piece: tuple[str, int, int], args: Mapping[str, PackedArg]) -> int:
        """Return how much memory a piece of gathered constants takes."""
        key, begin, end = piece
        if end < 0:
            size = self._graph.constants[key].size
        else:
            size = (end - begin) * args[key].count_panel_floats(self._graph.constants)
        return -(-max(1, size) // GATHER_STEP) * GATHER_STEP

    def _take(self, piece: tuple[str, int, int], args: Mapping[str, PackedArg]) -> FloatArray:
        key, begin, end = piece
        if end < 0:
            return np.ascontiguousarray(self._graph.constants[key]).reshape(-1)
        return self._pack(args[key])[begin:end].reshape(-1)

    def _pack(self, arg: PackedArg) -> FloatArray:
        packed = self._packed.get(arg.key)
        if packed is None:
            packed = self._cache.load(arg.key)
        if packed is None:
            packed = self._unstored[arg.key] = self._chunks.place(arg.pack(self._graph.constants))
            self._placed.add(arg.key)
        self._packed[arg.key] = packed
        return packed

    def _place(self, arg: PackedArg) -> FloatArray:
        packed = self._pack(arg)
        if arg.key not in self._placed and packed.nbytes < _MOST_PLACED_BYTES:
            packed = self._packed[arg.key] = self._chunks.place(packed)
            self._placed.add(arg.key)
        return packed

    def store(self) -> None:
        """Keep what was packed since the last call for later processes."""
        unstored, self._unstored = self._unstored, {}
        self._cache.store(unstored)
        self._cache.let_go()

    def plain(self, name: str, device: Device) -> Storage:
        """Return a constant in ONNX order in memory of ``device``."""
        key = (device.info.name, name)
        storage = self._plain.get(key)
        if storage is None:
            values = self._graph.constants[name]
            host = allocate_host(values.size)
            np.copyto(host[: values.size], values.reshape(-1))
            storage = self._plain[key] = place_constant(values.shape, device.upload(host), host)
        return storage


def keep_for_later(devices: Sequence[Device], weights: Weights, *, only_quickly: bool = False) -> None:
    """Store programs and packed constants for later processes; drivers have compiled all of them by now.

    Args:
        devices: Whose programs.
        weights: The constants.
        only_quickly: As in `Device.store_programs`.
    """
    for device in devices:
        device.store_programs(only_quickly=only_quickly)
    weights.store()
