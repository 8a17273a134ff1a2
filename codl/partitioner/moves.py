"""What it costs that one device has what another needs, for many candidates at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from codl.latency.predictor import Predictor
from codl.latency.profile import KIB
from codl.partitioner.arrays import Flags, Floats, Ints
from codl.partitioner.clock import find_delays_us, find_meeting_us
from codl.plan.residency import HOST
from codl.plan.sharing import Arrangement, Sharing


@dataclass(frozen=True, kw_only=True)
class MoveCosts:
    """Costs of transfers and meetings between devices; the host is the last source."""

    host_us: Floats
    """[source, destination, 3] The host's time: a transfer, its bytes, its runs of neighbouring bytes."""
    queue_us: Floats
    """[source, destination, 3] Time of the destination's queue."""
    held: np.ndarray[tuple[int, int, int], np.dtype[np.bool_]]
    """[source, destination, device] Whether the host waits for a device's work to map its memory."""
    meeting_us: Floats
    """[device, device] Of the two between steps; on the diagonal of the one alone."""
    ending_us: Floats
    """[device, device] The same at the end, for which the host waits in any case."""
    reading_us: Floats
    """[device, 3] The host's time to read outputs."""
    delay_us: Floats
    """[device] By how much each begins later for one launch of every other one."""

    @property
    def count(self) -> int:
        """Of the devices."""
        return len(self.meeting_us)

    def find_start_us(self, operators: int) -> Floats:
        """Return [device] when each begins that has about one launch for each of so many operators."""
        return operators * self.delay_us

    @cached_property
    def is_free(self) -> bool:
        """Whether transfers cost nothing but meetings."""
        return not (self.host_us.any() or self.queue_us.any())

    def find_meeting_us(self, awaited: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> Floats:
        """Return what it costs to meet the devices of [..., device]; nothing when there are none."""
        return np.asarray(self.meetings_us.take(awaited.dot(self.weights)))

    def find_ending_us(self, awaited: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> Floats:
        """Return what it costs that the host waits for the devices of [..., device] at the end."""
        return np.asarray(self.endings_us.take(awaited.dot(self.weights)))

    @cached_property
    def weights(self) -> Ints:
        """[device] By which a set of devices is numbered."""
        return 1 << np.arange(self.count)

    @cached_property
    def sets(self) -> Flags:
        """[set, device] Whether the set with a number has a device."""
        return (np.arange(1 << self.count)[:, None] & self.weights) > 0

    @cached_property
    def meetings_us(self) -> Floats:
        """[set] What it costs to meet a set of devices."""
        return self._combine(self.meeting_us)

    @cached_property
    def endings_us(self) -> Floats:
        """[set] What it costs that the host waits for a set of devices at the end."""
        return self._combine(self.ending_us)

    def _combine(self, meeting_us: Floats) -> Floats:
        """Return by set what it costs to meet, from what it costs two by two."""
        awaited = self.sets
        found = np.zeros(awaited.shape[:-1])
        count = awaited.shape[-1]
        for device in range(count):
            found = np.where(awaited[..., device], np.maximum(found, meeting_us[device, device]), found)
        pairs, is_pair = np.zeros_like(found), np.zeros(found.shape, bool)
        for one, other in combinations(range(count), 2):
            both = awaited[..., one] & awaited[..., other]
            if both.any():
                pairs = np.where(both, np.maximum(pairs, meeting_us[one, other]), pairs)
                is_pair |= both
        return np.where(is_pair, pairs, found)


def find_move_costs(
    predictors: Sequence[Predictor], arrangement: Arrangement, *, counts_coherence: bool = True
) -> MoveCosts:
    """Return what transfers and meetings cost, as `plan/schedule.py` lays them out.

    Args:
        predictors: One for each device.
        arrangement: How they share memory.
        counts_coherence: Whether using memory that another device uses too costs what profiles say.

    Raises:
        ProfileError: A profile does not know what it costs to share as these devices do.
    """
    count = len(predictors)
    host = np.zeros((count + 1, count, 3))
    queue = np.zeros((count + 1, count, 3))
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
            if source < count and Sharing.COPIED not in modes and Sharing.MAPPED in modes:
                for end in ends:
                    host[source, destination] += _find_costs(predictors[end], ("map", "unmap"))
                    held[source, destination, end] = True
            for end, mode in zip(ends, modes, strict=True):
                if Sharing.COPIED in modes and mode is Sharing.MAPPED:
                    host[source, destination] += _find_costs(predictors[end], ("map", "unmap"))
                    held[source, destination, end] = True
                if mode is Sharing.COPIED and end == destination:
                    queue[source, destination] += _find_costs(predictors[end], ("write",))
                elif mode is Sharing.COPIED:
                    host[source, destination] += _find_costs(predictors[end], ("read",))
    meetings = np.zeros((count, count))
    reading = np.zeros((count, 3))
    for index, predictor in enumerate(predictors):
        meetings[index, index] = predictor.profile.wait_us
        mode = arrangement.modes[index]
        if mode is not Sharing.COHERENT:
            kinds = ("read",) if mode is Sharing.COPIED else ("map", "unmap")
            reading[index] = _find_costs(predictor, kinds)
        elif counts_coherence:
            reading[index, 1] = predictor.host_coherence.output_us / KIB
        for place in range(index):
            us = predictor.find_meeting(predictors[place].profile.name).median_us
            meetings[index, place] = meetings[place, index] = us
    ending = meetings
    if arrangement.signals:
        meetings = np.full((count, count), find_meeting_us(predictors, range(count), is_signalled=True))
    each = [1.0 if arrangement.signals else 0.0] * count
    return MoveCosts(
        host_us=host,
        queue_us=queue,
        held=held,
        meeting_us=meetings,
        ending_us=ending,
        reading_us=reading,
        delay_us=np.array(find_delays_us(predictors, each)),
    )


def _find_coherence_us(
    predictors: Sequence[Predictor], arrangement: Arrangement, source: int, destination: int
) -> float:
    """Return what a byte costs for caches' sake that a device or the host writes and a device reads.

    The reader is taken to bear all of it, also what the writer takes longer to write the next time.
    """
    if arrangement.between(source, destination) is not Sharing.COHERENT:
        return 0.0
    reader = predictors[destination]
    if source == HOST:
        return reader.host_coherence.input_us / KIB
    writer = predictors[source]
    fetch_us = reader.find_coherence(writer.profile.name).fetch_us
    return (fetch_us + writer.find_coherence(reader.profile.name).reclaim_us) / KIB


def _find_costs(predictor: Predictor, kinds: Sequence[str]) -> Floats:
    """Return [3] the sums of what kinds of sharing cost: a call, a byte, a run of bytes."""
    unit = np.eye(3)
    return np.asarray(
        sum(
            predictor.predict_sharing(kind, calls=unit[:, 0], bytes_=unit[:, 1], rows=unit[:, 2])
            for kind in kinds
        )
    )
