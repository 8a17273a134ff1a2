"""Two devices without hardware and what is known of them, for planning alone."""

from collections.abc import Sequence
from dataclasses import replace

from codl.catalog.source import digest_row
from codl.catalog.table import PAIRS
from codl.devices.memory import arrange
from codl.latency.predictor import Predictor
from codl.latency.profile import Coherence, HostCoherence, Meeting, Neighbour
from codl.plan.sharing import Arrangement, Sharing
from tests.catalog.nodes import device_info
from tests.latency.profiles import make_profile

MEETING_US = 50.0


def make_predictors(
    *,
    slower: float = 1.0,
    meeting_us: float = MEETING_US,
    meeting_p95_us: float | None = None,
    signal_us: float | None = None,
    slowdown: float = 1.0,
    error: float = 0.07,
    coherence: Coherence | None = None,
    host: HostCoherence | None = None,
    handing_us: float = 0.0,
    names: Sequence[str] = ("left", "right"),
) -> tuple[Predictor, ...]:
    """Return the predictors of some devices, the last of which takes ``slower`` times as long.

    Args:
        slower: Time of the last one's kernels over that of the others'.
        meeting_us: What a meeting of two costs.
        meeting_p95_us: What it costs at the 95th percentile; twice as much by default.
        signal_us: The same where they wait for each other by themselves; None where they cannot.
        slowdown: How much slower each is beside another.
        error: Relative error of the predictions.
        coherence: What it costs to use the same memory as another; None where nobody knows.
        host: What it costs the last one to use the same memory as the host; None where nobody knows.
        handing_us: By how much each begins later for a launch of another.
        names: The devices.
    """
    found = []
    for name in names:
        info = replace(device_info(8), name=name)
        profile = make_profile(info)
        p95_us = 2 * meeting_us if meeting_p95_us is None else meeting_p95_us
        meeting = Meeting(median_us=meeting_us, p95_us=p95_us, samples=400)
        neighbour = Neighbour(
            slowdown=((slowdown, slowdown), (slowdown, slowdown)),
            meeting=meeting,
            signal=None if signal_us is None else replace(meeting, median_us=signal_us),
            coherence=coherence,
            host=host if name == names[-1] else None,
            handing_us=handing_us,
        )
        rows = {
            key: replace(
                row,
                model=row.model.scaled({}, slower if name == names[-1] else 1.0),
                error=error,
            )
            for key, row in profile.rows.items()
        }
        neighbours = {other: neighbour for other in names if other != name}
        found.append(Predictor(replace(profile, rows=rows, neighbours=neighbours), info))
    return tuple(found)


def teach_pairs(predictor: Predictor) -> Predictor:
    """Return a predictor that also knows the launches of several nodes, which are slow."""
    profile = predictor.profile
    (some, *_) = profile.rows.values()
    slow = replace(some, model=some.model.scaled({}, 10.0))
    rows = {row.name: replace(slow, digest=digest_row(row)) for row in PAIRS}
    return Predictor(profile.with_rows(rows), predictor.info)


def arrange_coherently(predictors: tuple[Predictor, ...]) -> Arrangement:
    """Return the arrangement of CPU drivers, whatever the environment asks for."""
    return arrange([predictor.info for predictor in predictors], sharing=Sharing.COHERENT)
