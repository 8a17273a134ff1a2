"""Measures what several devices do together: scripts in interleaved rounds, lower quartiles."""

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import count

import numpy as np

from codl.devices.awake import awake_cores
from codl.devices.script import Played

_LEAST_ROUNDS, _MOST_ROUNDS = 8, 200
_QUARTILE = 0.25
_LARGE = 1 << 16
"""Bytes; for so many glibc first merges all small pieces that drivers have freed.

Source:
    After a network's 130 launches the next one that happens to ask for more than 1 KiB takes 170 to 290 us
    instead of 20. In a run that is spread over its launches.
"""


def measure_scripts(
    scripts: Mapping[str, Callable[[], Played]],
    *,
    seconds: float,
    prepare: Callable[[], object] = lambda: None,
) -> dict[str, Played]:
    """Return what scripts take: the lower quartile over all rounds, for other programs only ever add time.

    Args:
        scripts: What to measure, by name: each plays a script once.
        seconds: How long to go on; there are a few rounds in any case.
        prepare: What comes before each reading and is not part of it.

    Raises:
        DeviceError: A device failed.
    """
    played: dict[str, list[Played]] = {name: [] for name in scripts}
    end = time.monotonic() + seconds
    for turn in count(1):
        for name, script in scripts.items():
            with awake_cores():
                prepare()
                bytes(_LARGE)
                played[name].append(script())
        if turn >= _MOST_ROUNDS or (turn >= _LEAST_ROUNDS and time.monotonic() > end):
            break
    return {name: _join(taken) for name, taken in played.items()}


def _join(played: Sequence[Played]) -> Played:
    busy = np.quantile([one.busy for one in played], _QUARTILE, axis=0)
    rest = float(np.quantile([one.rest for one in played], _QUARTILE))
    return Played(float(busy.max()) + rest, tuple(busy.tolist()))
