"""Which sessions of a device count: in some its cores are far from each other from begin to end."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import compress

from codl.profiler.log import Sample
from codl.profiler.quiet import MOST_CROSSING
from codl.profiler.survey import find_distance

_ENOUGH = 0.5
"""Share of a row's samples that have to be left."""


def keep_near(
    samples: Sequence[Sample], ends: Sequence[float], references: Sequence[Mapping[str, float]]
) -> list[Sample]:
    """Return the samples of sessions whose cores were about as near each other as in any.

    Rows that would lose most of their samples keep all.

    Source:
        Both cores of a Zen 3, PoCL, five sessions, one without near cores. Of 53 cases measured in it and
        before 74 % agree within 10 %, 94 % of 234 of the three before; with it 85 % of slices of known layers
        are predicted within 10 %, without 87 %.

    Args:
        samples: Of one device.
        ends: When each session ended, in seconds of the Unix epoch, in order; later samples are kept.
        references: What references and copies between near cores took in each.
    """
    distances = [find_distance(one) for one in references]
    most = MOST_CROSSING * min(filter(None, distances), default=0.0)
    do_count = [distance <= most for distance in distances] + [True]
    are_near = [do_count[bisect_left(ends, sample.at)] for sample in samples]
    rows = Counter(sample.row for sample in samples)
    left = Counter(sample.row for sample in compress(samples, are_near))
    return [
        sample
        for sample, is_near in zip(samples, are_near, strict=True)
        if is_near or left[sample.row] < _ENOUGH * rows[sample.row]
    ]


def find_quietest(references: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the least that references, and copies between near cores, took in any session, by name.

    Args:
        references: As above.
    """
    names = dict.fromkeys(name for one in references for name in one)
    return {name: min(one[name] for one in references if name in one) for name in names}
