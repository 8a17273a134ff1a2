"""Measures what several devices do together, as if all of them had been quiet."""

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import count

import numpy as np

from codl.profiler.guard import Guard, Reading, find_quiet

LEAST_ROUNDS = 8
_SETTLED = 0.01
"""Standard error, relative, at which a time is known well enough."""

Row = Callable[[], Sequence[float]]
"""Runs something once, until all devices are idle; returns what it and then its parts took, in seconds."""


class Watch:
    """Rows between readings of all guards of some devices, in interleaved rounds.

    Devices disturb each other, so what is measured begins and ends with all of them idle.

    Args:
        guards: One for each device.
    """

    def __init__(self, guards: Sequence[Guard]) -> None:
        self._guards = tuple(guards)

    def measure(
        self,
        rows: Mapping[str, Row],
        *,
        patience_seconds: float,
        prepare: Callable[[], object] = lambda: None,
    ) -> dict[str, tuple[float, ...]]:
        """Return by row what it and its parts take on a quiet machine, in seconds.

        Args:
            rows: What to measure.
            patience_seconds: How long to read on, at most, until readings agree.
            prepare: What comes before each reading and is not part of it.

        Raises:
            DeviceError: A device failed.
        """
        taken: dict[str, list[Sequence[float]]] = {name: [] for name in rows}
        beside: dict[str, list[list[float]]] = {name: [] for name in rows}
        end = time.monotonic() + patience_seconds
        for turn in count(1):
            for name, row in rows.items():
                prepare()
                before = [guard.read() for guard in self._guards]
                taken[name].append(row())
                after = [guard.read() for guard in self._guards]
                beside[name].append([sum(both) / 2 for both in zip(before, after, strict=True)])
            if turn >= LEAST_ROUNDS and turn % LEAST_ROUNDS == 0:
                found = {name: self._find_quiet(taken[name], beside[name]) for name in rows}
                if max(spread for _, spread in found.values()) <= _SETTLED or time.monotonic() > end:
                    break
        return {name: seconds for name, (seconds, _) in found.items()}

    def _find_quiet(
        self, taken: Sequence[Sequence[float]], beside: Sequence[Sequence[float]]
    ) -> tuple[tuple[float, ...], float]:
        """Return what a row and its parts take, and the standard error of the row, relative."""
        slowness = np.mean(np.array(beside) / [guard.quiet_seconds for guard in self._guards], axis=1)
        found = [
            find_quiet([Reading(*both) for both in zip(part, slowness.tolist(), strict=True)], 1.0)
            for part in np.array(taken).T.tolist()
        ]
        return tuple(seconds for seconds, _ in found), found[0][1]
