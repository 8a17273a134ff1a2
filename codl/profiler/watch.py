"""Measures what several devices do together, as if all of them had been quiet."""

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from statistics import median

import numpy as np

from codl.devices.awake import awake_cores
from codl.devices.script import Played
from codl.profiler.guard import Guard
from codl.profiler.quiet import Reading, find_quiet

LEAST_ROUNDS = 8
_SETTLED = 0.01
"""Standard error, relative, at which a time is known well enough."""

_LARGE = 1 << 16
"""Bytes; for so many glibc first merges all small pieces that drivers have freed.

Source:
    After a network's 130 launches the next one that happens to ask for more than 1 KiB takes 170 to 290 us
    instead of 20. In a run that is spread over its launches.
"""


class Watch:
    """Scripts between readings of all guards of some devices, in interleaved rounds.

    Devices disturb each other, so what is measured begins and ends with all of them idle.

    Args:
        guards: One for each device.
    """

    def __init__(self, guards: Sequence[Guard]) -> None:
        self._guards = tuple(guards)

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
            if turn >= LEAST_ROUNDS and turn % LEAST_ROUNDS == 0:
                found = {name: self._find_quiet(played[name], beside[name]) for name in rows}
                if max(spread for _, spread in found.values()) <= _SETTLED or time.monotonic() > end:
                    break
        return {name: taken for name, (taken, _) in found.items()}

    def _find_quiet(
        self, played: Sequence[Played], beside: Sequence[Sequence[float]]
    ) -> tuple[Played, float]:
        """Return what a row takes, and the standard error of its longest part, relative.

        Each device's kernels rise with its own guard: one core may be slow for seconds while another is not.
        """
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
