"""Measures what several devices do together, as if all of them had been quiet."""

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from statistics import median
from typing import Protocol

import numpy as np

from codl.devices.awake import awake_cores
from codl.devices.script import Played
from codl.profiler.guard import Guard
from codl.profiler.quiet import Calm, Distance, Looks, Mood, Reading, choose_rounds, find_quiet

LEAST_ROUNDS = 8
_LOOKS = 8
"""At the probes of each device, in each round."""
_SETTLED = 0.01
"""Standard error, relative, at which a time is known well enough."""

_LARGE = 1 << 16
"""Bytes; for so many glibc first merges all small pieces that drivers have freed.

Source:
    After a network's 130 launches the next one that happens to ask for more than 1 KiB takes 170 to 290 us
    instead of 20. In a run that is spread over its launches.
"""


class Probed(Protocol):
    """A device of whose memory something is known, as a survey's."""

    distance: Distance

    def look(self, count: int) -> Looks:
        """Return what its probes take now."""


class Watch:
    """Scripts between readings of all guards of some devices, in interleaved rounds.

    Devices disturb each other, so what is measured begins and ends with all of them idle.

    Args:
        guards: One for each device.
        memories: Of the same devices: what their probes and the guards tell decides which rounds count.
    """

    def __init__(self, guards: Sequence[Guard], memories: Sequence[Probed] = ()) -> None:
        self._guards, self._memories = tuple(guards), tuple(memories)

    def measure(
        self,
        rows: Mapping[str, Callable[[], Played]],
        *,
        patience_seconds: float,
        prepare: Callable[[], object] = lambda: None,
    ) -> dict[str, Played]:
        """Return what rows take on a quiet machine.

        Args:
            rows: What to measure: each plays a script once.
            patience_seconds: How long to read on, at most, until readings agree.
            prepare: What comes before each reading and is not part of it.

        Raises:
            DeviceError: A device failed.
        """
        played: dict[str, list[Played]] = {name: [] for name in rows}
        beside: dict[str, list[list[float]]] = {name: [] for name in rows}
        calms = [Calm(memory.distance) for memory in self._memories]
        moods: list[list[Mood]] = []
        end = time.monotonic() + patience_seconds
        for turn in count(1):
            for name, row in rows.items():
                with awake_cores():
                    prepare()
                    before = [guard.read() for guard in self._guards]
                    bytes(_LARGE)
                    played[name].append(row())
                    after = [guard.read() for guard in self._guards]
                beside[name].append([sum(both) / 2 for both in zip(before, after, strict=True)])
            moods.append(self._look(calms, [beside[name][-1] for name in rows]))
            if turn % LEAST_ROUNDS == 0:
                is_over = time.monotonic() > end
                are_calm = [_are_calm(calms, round_) for round_ in moods]
                if sum(are_calm) < LEAST_ROUNDS and not is_over:
                    continue
                turns = choose_rounds(are_calm)
                found = {name: self._find_quiet(played[name], beside[name], turns) for name in rows}
                if is_over or max(spread for _, spread in found.values()) <= _SETTLED:
                    break
        return {name: taken for name, (taken, _) in found.items()}

    def _look(self, calms: Sequence[Calm], guards: Sequence[Sequence[float]]) -> list[Mood]:
        """Return what a round was like for each device.

        Args:
            calms: What is known of each.
            guards: What the guards took, of each device beside each row.
        """
        return [
            calm.add([Reading(0.0, beside[place]) for beside in guards], memory.look(_LOOKS))
            for place, (calm, memory) in enumerate(zip(calms, self._memories, strict=True))
        ]

    def _find_quiet(
        self, played: Sequence[Played], beside: Sequence[Sequence[float]], turns: Sequence[int]
    ) -> tuple[Played, float]:
        """Return what a row takes, and the standard error of its longest part, relative.

        Each device's kernels rise with its own guard: one core may be slow for seconds while another is not.

        Args:
            played: Each reading of it.
            beside: What the guards took, of each device beside each reading.
            turns: The readings that count.
        """
        played, beside = [played[turn] for turn in turns], [beside[turn] for turn in turns]
        found = [
            find_quiet([Reading(*both) for both in zip(part, own, strict=True)], guard.quiet_seconds)
            for part, own, guard in zip(
                np.array([one.busy for one in played]).T.tolist(),
                np.array(beside).T.tolist(),
                self._guards,
                strict=True,
            )
        ]
        longest, spread = max(found)
        rest = median(one.rest for one in played)
        return Played(longest + rest, tuple(seconds for seconds, _ in found)), spread


def _are_calm(calms: Sequence[Calm], moods: Sequence[Mood]) -> bool:
    return all(calm.is_calm(mood) for calm, mood in zip(calms, moods, strict=True))
