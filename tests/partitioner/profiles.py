"""Two devices without hardware and what is known of them, for planning alone."""

from dataclasses import replace

from codl.devices.memory import arrange
from codl.latency.predictor import Predictor
from codl.latency.profile import Meeting, Neighbour
from codl.plan.sharing import Arrangement
from tests.catalog.nodes import device_info
from tests.latency.profiles import make_profile

MEETING_US = 50.0


def make_predictors(
    *, slower: float = 1.0, meeting_us: float = MEETING_US, slowdown: float = 1.0
) -> tuple[Predictor, ...]:
    """Return the predictors of `left` and of `right`, which takes ``slower`` times as long.

    Args:
        slower: Time of the right one's kernels over that of the left one's.
        meeting_us: What a meeting of the two costs.
        slowdown: How much slower each is beside the other.
    """
    found = []
    for name, other, factor in (("left", "right", 1.0), ("right", "left", slower)):
        info = replace(device_info(8), name=name)
        profile = make_profile(info)
        meeting = Meeting(median_us=meeting_us, p95_us=2 * meeting_us, samples=400)
        neighbour = Neighbour(slowdown=((slowdown, slowdown), (slowdown, slowdown)), meeting=meeting)
        rows = {key: replace(row, model=row.model.scaled({}, factor)) for key, row in profile.rows.items()}
        found.append(Predictor(replace(profile, rows=rows, neighbours={other: neighbour}), info))
    return tuple(found)


def arrange_coherently(predictors: tuple[Predictor, ...]) -> Arrangement:
    """Return the arrangement of CPU drivers."""
    return arrange([predictor.info for predictor in predictors])
