"""Which sessions of a device count: in some its cores are far from each other from begin to end."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence

from codl.latency.profile import COMPUTE
from codl.profiler.log import Sample
from codl.profiler.quiet import MOST_CROSSING
from codl.profiler.survey import CROSSING

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
    crossings = [one[CROSSING] / one[COMPUTE] if CROSSING in one else 0.0 for one in references]
    most = MOST_CROSSING * min(filter(None, crossings), default=0.0)
    are_near = [crossing <= most for crossing in crossings] + [True]
    near = [sample for sample in samples if are_near[bisect_left(ends, sample.at)]]
    left, before = (Counter(sample.row for sample in kept) for kept in (near, samples))
    poor = {row for row, count in before.items() if left[row] < _ENOUGH * count}
    return [s for s in samples if s.row in poor or are_near[bisect_left(ends, s.at)]]


def find_nearest(references: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return what copies between near cores take by all sessions, by name; nothing where there is one core.

    Args:
        references: As above.
    """
    return {CROSSING: min(near)} if (near := [one[CROSSING] for one in references if CROSSING in one]) else {}
