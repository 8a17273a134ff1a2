"""Constants of a network as kernels want them: packed once, uploaded by the slice a device needs.

Graphs of one model for different shapes share what is equal in them, as long as one of them is in use.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakValueDictionary

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


Key = tuple[object, ...]


@dataclass(slots=True, eq=False, weakref_slot=True)
class Piece:
    """A packed constant, or what a device has of constants."""

    value: Any
    """An array, a buffer or a storage."""
    source: "Piece | None" = None
    """The packed constant in whose memory it lies."""
    is_placed: bool = False
    """Whether it lies on large pages, for devices that compute in the host's memory."""


class SharedWeights:
    """What the graphs of one model have of constants, each thing once; it goes with its last user."""

    def __init__(self) -> None:
        self.pieces: WeakValueDictionary[Key, Piece] = WeakValueDictionary()
        self._arrays: WeakValueDictionary[tuple[str, int], FloatArray] = WeakValueDictionary()
        """Constants by name and version: shape inference may fold other values for other shapes."""
        self._counts: dict[str, int] = {}
        """Versions of each name so far."""

    def take(self, graph: Graph) -> tuple[Graph, dict[str, int]]:
        """Return a graph with the arrays of earlier graphs where they are equal, and versions by name."""
        arrays, versions = {}, {}
        for name, array in graph.constants.items():
            versions[name], arrays[name] = self._find(name, array)
        return replace(graph, constants=arrays), versions

    def _find(self, name: str, array: FloatArray) -> tuple[int, FloatArray]:
        count = self._counts.get(name, 0)
        for version in range(count):
            known = self._arrays.get((name, version))
            if known is not None and _are_equal(known, array):
                return version, known
        self._counts[name] = count + 1
        self._arrays[name, count] = array
        return count, array


def _are_equal(one: FloatArray, other: FloatArray) -> bool:
    """Return whether two arrays have the same bits."""
    return one is other or (
        one.shape == other.shape and np.array_equal(one.view(np.uint32), other.view(np.uint32))
    )


class Weights:
    """Packed constants of one graph; plans of the same graph share them.

    Args:
        graph: The network.
        shared: Where graphs of the same model find what is equal in them.
    """

    def __init__(self, graph: Graph, shared: SharedWeights | None = None) -> None:
        self._shared = shared or SharedWeights()
        self.graph, self._versions = self._shared.take(graph)
        """The network, its constants those of earlier graphs where they are equal."""
        self._cache = PackedCache(graph)
        self._unstored: dict[str, FloatArray] = {}
        self._chunks = Chunks()
        self._packed: dict[Key, Piece] = {}
        self._pieces: dict[Key, Piece] = {}

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """What devices have so far; shared as long as it is held."""
        return tuple(self._pieces.values())

    def panels(self, arg: PackedArg, device: Device, begin: int, end: int) -> Any:
        """Return a buffer of ``device`` with what a launch over panels [begin, end) reads of a constant."""
        begin, end = arg.find_panels(begin, end)

        def upload() -> Piece:
            packed = self._pack(arg, is_placed=device.info.is_unified)
            buffer = device.upload(packed.value[begin:end].reshape(-1))
            return Piece(buffer, source=packed if device.info.is_unified else None)

        return self._take_piece((device.info.name, begin, end), (arg.key,), upload)

    def _take_piece(self, place: Key, keys: tuple[str, ...], make: Callable[[], Piece]) -> Any:
        """Return what is kept for some packed or plain constants under a place, made if there is none."""
        key = (*place, *map(self._name, keys))
        piece = self._pieces.get(key) or self._shared.pieces.get(key)
        if piece is None:
            piece = self._shared.pieces[key] = make()
        self._pieces[key] = piece
        return piece.value

    def _name(self, key: str) -> Key:
        """Return the key of a constant with the versions of what it is packed from, where these are later."""
        later = [name for name, version in self._versions.items() if version]
        return key, *((name, self._versions[name]) for name in later if name == key or repr(name) in key)

    def gather(self, pieces: Pieces, args: Mapping[str, PackedArg], device: Device) -> Any:
        """Return one buffer of a device with many constants behind each other.

        Args:
            pieces: What it holds, in order.
            args: Those that are packed, by key.
            device: Whose buffer.
        """

        def write() -> Piece:
            total = sum(self.count_floats(piece, args) for piece in pieces)
            buffer, begin = device.allocate(total), 0
            for piece in pieces:
                device.write(buffer, self._take(piece, args), begin)
                begin += self.count_floats(piece, args)
            return Piece(buffer)

        return self._take_piece((device.info.name, pieces), tuple(key for key, _, _ in pieces), write)

    def count_floats(self, piece: tuple[str, int, int], args: Mapping[str, PackedArg]) -> int:
        """Return how much memory a piece of gathered constants takes."""
        key, begin, end = piece
        if end < 0:
            size = self.graph.constants[key].size
        else:
            size = (end - begin) * args[key].count_panel_floats(self.graph.constants)
        return -(-max(1, size) // GATHER_STEP) * GATHER_STEP

    def _take(self, piece: tuple[str, int, int], args: Mapping[str, PackedArg]) -> FloatArray:
        key, begin, end = piece
        if end < 0:
            return np.ascontiguousarray(self.graph.constants[key]).reshape(-1)
        packed: FloatArray = self._pack(args[key]).value
        return packed[begin:end].reshape(-1)

    def _pack(self, arg: PackedArg, *, is_placed: bool = False) -> Piece:
        """Return a packed constant, on large pages if it shall be."""
        key = self._name(arg.key)
        piece = self._packed.get(key) or self._shared.pieces.get(key)
        if piece is None:
            kept = self._cache.load(arg.key)
            if kept is None:
                made = self._unstored[arg.key] = self._chunks.place(arg.pack(self.graph.constants))
                piece = Piece(made, is_placed=True)
            else:
                piece = Piece(kept)
            self._shared.pieces[key] = piece
        if is_placed and not piece.is_placed and piece.value.nbytes < _MOST_PLACED_BYTES:
            piece.value, piece.is_placed = self._chunks.place(piece.value), True
        self._packed[key] = piece
        return piece

    def store(self) -> None:
        """Keep what was packed since the last call for later processes."""
        unstored, self._unstored = self._unstored, {}
        self._cache.store(unstored)
        self._cache.let_go()

    def plain(self, name: str, device: Device) -> Storage:
        """Return a constant in ONNX order in memory of ``device``."""

        def place() -> Piece:
            values = self.graph.constants[name]
            host = allocate_host(values.size)
            np.copyto(host[: values.size], values.reshape(-1))
            return Piece(place_constant(values.shape, device.upload(host), host))

        storage: Storage = self._take_piece((device.info.name,), (name,), place)
        return storage


def keep_for_later(devices: Sequence[Device], weights: Weights) -> None:
    """Store programs and packed constants for later processes; drivers have compiled all of them by now."""
    for device in devices:
        device.store_programs()
    weights.store()
