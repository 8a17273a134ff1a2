"""Costs of transfers and synchronizations between devices, for many candidates at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from codl.ir.graph import FLOAT_BYTES, Graph
from codl.latency.predictor import Predictor
from codl.latency.profile import KIB
from codl.plan.residency import HOST
from codl.plan.sharing import Arrangement, Sharing
from codl.simulator.arrays import Flags, Floats, Ints
from codl.simulator.cut_grid import WHOLE
from codl.simulator.synchronization import find_delays_us, find_synchronization_us


@dataclass(frozen=True, kw_only=True)
class TransferCosts:
    """Costs of transfers and synchronizations.

    A set of devices is a number with bit d set for each member d. The cost of a transfer is three numbers in
    us: of each transfer, of each byte, and of each run of neighbouring bytes.
    """

    host_us: Floats
    """[source, destination, 3] Time of the host; the last source is the host itself."""
    queue_us: Floats
    """[source, destination, 3] Time of the destination's queue; sources as above."""
    held: Flags
    """[source, destination, device] Whether the host waits for a device's work to map its memory."""
    synchronization_us: Floats
    """[set] Of a set of devices between two steps."""
    ending_us: Floats
    """[set] The same at the end, where the host waits in any case."""
    output_us: Floats
    """[device, 3] The host's time to read outputs of the network from each device."""
    delay_us: Floats
    """[device] By how many us each device begins later for one launch of every other one."""

    @property
    def count(self) -> int:
        """Number of devices."""
        return len(self.output_us)

    @cached_property
    def is_free(self) -> bool:
        """Whether transfers cost nothing beyond synchronizations."""
        return not (self.host_us.any() or self.queue_us.any())

    @cached_property
    def weights(self) -> Ints:
        """[device] The set of each device by itself."""
        return 1 << np.arange(self.count)

    @cached_property
    def members(self) -> Flags:
        """[set, device] Whether a set has a device."""
        return _list_sets(self.count)


def find_transfer_costs(
    predictors: Sequence[Predictor], arrangement: Arrangement, *, counts_coherence: bool = True
) -> TransferCosts:
    """Return what transfers and synchronizations cost, arranged as in `plan/schedule.py`.

    Args:
        predictors: One for each device.
        arrangement: How they share memory.
        counts_coherence: Whether cache-to-cache transfers are priced.
    """
    count = len(predictors)
    host, queue = np.zeros((2, count + 1, count, 3))
    held = np.zeros((count + 1, count, count), bool)
    for source in range(count + 1):
        for destination in range(count):
            if source == destination:
                continue
            if counts_coherence:
                queue[source, destination, 1] += _find_coherence_us(
                    predictors, arrangement, HOST if source == count else source, destination
                )
            ends = [destination] if source == count else [destination, source]
            modes = [arrangement.modes[end] for end in ends]
            is_copied = Sharing.COPIED in modes
            is_mapped = not is_copied and source < count and Sharing.MAPPED in modes
            for end, mode in zip(ends, modes, strict=True):
                if is_mapped or (is_copied and mode is Sharing.MAPPED):
                    host[source, destination] += predictors[end].find_transfer_us("map", "unmap")
                    held[source, destination, end] = True
                if mode is Sharing.COPIED and end == destination:
                    queue[source, destination] += predictors[end].find_transfer_us("write")
                elif mode is Sharing.COPIED:
                    host[source, destination] += predictors[end].find_transfer_us("read")
    output_us = np.zeros((count, 3))
    for index, (predictor, mode) in enumerate(zip(predictors, arrangement.modes, strict=True)):
        if mode is not Sharing.COHERENT:
            kinds = ("read",) if mode is Sharing.COPIED else ("map", "unmap")
            output_us[index] = predictor.find_transfer_us(*kinds)
        elif counts_coherence:
            output_us[index, 1] = predictor.host_coherence.output_us / KIB
    sets = [np.flatnonzero(one).tolist() for one in _list_sets(count)]
    synchronization_us = ending_us = np.array(
        [find_synchronization_us(predictors, one) if one else 0.0 for one in sets]
    )
    if arrangement.signals:
        signal_us = find_synchronization_us(predictors, range(count), is_signalled=True)
        synchronization_us = np.where(np.arange(1 << count) > 0, signal_us, 0.0)
    return TransferCosts(
        host_us=host,
        queue_us=queue,
        held=held,
        synchronization_us=synchronization_us,
        ending_us=ending_us,
        output_us=output_us,
        delay_us=np.array(find_delays_us(predictors, [1.0 if arrangement.signals else 0.0] * count)),
    )


def _list_sets(count: int) -> Flags:
    """Return [set, device] whether each set of devices has each device."""
    return (np.arange(1 << count)[:, None] & (1 << np.arange(count))) > 0


def _find_coherence_us(
    predictors: Sequence[Predictor], arrangement: Arrangement, source: int, destination: int
) -> float:
    """Return what cache-to-cache transfers cost in us for each byte that the destination reads.

    This includes what the source later pays for writing that memory again.
    """
    if arrangement.between(source, destination) is not Sharing.COHERENT:
        return 0.0
    reader = predictors[destination]
    if source == HOST:
        return reader.host_coherence.input_us / KIB
    writer = predictors[source]
    fetch_us = reader.find_coherence(writer.profile.name).fetch_us
    return (fetch_us + writer.find_coherence(reader.profile.name).reclaim_us) / KIB


class TensorSizes:
    """Sizes of the tensors of a network; they are numbered, and number 0 stands for no tensor.

    Args:
        graph: The network.
    """

    def __init__(self, graph: Graph) -> None:
        names = [*graph.inputs, *(node.output for node in graph.nodes)]
        shapes = [(), *map(graph.shape, names)]
        self.numbers = {name: number for number, name in enumerate(names, start=1)}
        """By tensor."""
        assert WHOLE == -1
        self.lengths: Floats = np.ones((len(shapes), 1 + max(map(len, shapes))))
        """[tensor, axis] Length of each axis; 1 at the last place, for axis `WHOLE`."""
        for row, shape in zip(self.lengths, shapes, strict=True):
            row[: len(shape)] = shape
        counts = np.array([float(prod(shape)) for shape in shapes])
        self.bytes_: Floats = counts * FLOAT_BYTES
        """[tensor]"""
        channels = [shape[1] if len(shape) == 4 and shape[1] else 0 for shape in shapes]
        self.runs: Floats = np.where(channels, counts / np.maximum(channels, 1), 1.0)
        """[tensor] Runs of neighbouring bytes in a part that was cut between channels."""

    def price(self, costs: Floats, number: int, axis: int, lengths: Ints) -> Floats:
        """Return [..., device] what transfers of parts of a tensor take in us; nothing for empty parts.

        Args:
            costs: [device, 3] As in `TransferCosts`.
            number: Of the tensor.
            axis: Along which it is cut.
            lengths: [..., device] Of the parts along that axis.
        """
        parts = lengths / self.lengths[number, axis]
        runs = self.runs[number] if axis == 1 else 1.0
        us = costs[:, 0] + parts * self.bytes_[number] * costs[:, 1] + runs * costs[:, 2]
        return np.where(parts > 0, us, 0.0)
