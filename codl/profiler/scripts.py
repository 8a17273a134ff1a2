"""Measures several devices at once: scripts in interleaved rounds, of which lower quartiles count."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from codl.devices.awake import awake_cores
from codl.devices.script import Played

_LEAST_ROUNDS, _MOST_ROUNDS = 8, 200
_QUARTILE, _LATE = 0.25, 0.95
_LARGE = 1 << 16
"""Bytes; before glibc allocates as many, it merges all small pieces that drivers have freed.

Source:
    After a network's 130 launches the next one that happens to ask for more than 1 KiB takes 170 to 290 us
    instead of 20. In a run that is spread over its launches.
"""


@dataclass(frozen=True, slots=True)
class Timing:
    """Times of one script over all rounds, in seconds."""

    busy: tuple[float, ...]
    """By device, the lower quartile of its kernels' time."""
    rest: float
    """Lower quartile of the time beyond the kernels of the device that works longest."""
    late: float
    """95th percentile of the same."""
    rounds: int


def measure_scripts(
    scripts: Mapping[str, Callable[[], Played]],
    *,
    seconds: float,
    prepare: Callable[[], object] = lambda: None,
) -> dict[str, Timing]:
    """Return by name how long scripts take; other programs only ever add time, so lower quartiles count.

    Args:
        scripts: By name, what plays a script once.
        seconds: Time after which no further round begins; there are at least 8 rounds.
        prepare: Called before each reading, not part of it.

    Raises:
        DeviceError: A device failed.
    """
    played: dict[str, list[Played]] = {name: [] for name in scripts}
    end = time.monotonic() + seconds
    turn = 0
    while turn < _LEAST_ROUNDS or (turn < _MOST_ROUNDS and time.monotonic() <= end):
        turn += 1
        for name, script in scripts.items():
            with awake_cores():
                prepare()
                bytes(_LARGE)
                played[name].append(script())
    return {name: _summarise(taken) for name, taken in played.items()}


def _summarise(played: Sequence[Played]) -> Timing:
    busy = np.quantile([one.busy for one in played], _QUARTILE, axis=0)
    rest, late = np.quantile([one.rest for one in played], (_QUARTILE, _LATE)).tolist()
    return Timing(busy=tuple(busy.tolist()), rest=rest, late=late, rounds=len(played))
