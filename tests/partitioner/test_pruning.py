"""Candidates that are not looked at: no fast way is lost with them."""

import pytest

from codl.partitioner.planner import Planner
from codl.partitioner.search import Method
from codl.plan.sharing import Sharing
from tests.arrangements import arrange_alike
from tests.graphs import residual_block
from tests.partitioner.searching import estimate_us
from tests.simulator.profiles import make_predictors


def _planner(meeting_us: float, sharing: Sharing) -> Planner:
    return Planner(
        graph=residual_block(height=64, channels=16),
        predictors=make_predictors(slower=1.3, meeting_us=meeting_us),
        arrangement=arrange_alike(sharing, 2),
        beam=64,
    )


@pytest.mark.parametrize("sharing", [Sharing.COHERENT, Sharing.COPIED])
@pytest.mark.parametrize("meeting_us", [0.0, 5.0, 50.0])
def test_nothing_better_is_found_among_all_candidates(meeting_us: float, sharing: Sharing) -> None:
    planner = _planner(meeting_us, sharing)
    search = planner.search
    chains = search.finder.find_all()
    heads = {place: [*chains.get(place, ()), search.finder.make_single(place)] for place in search.heads}
    (every,) = search.program.run(heads, best=1)

    (found,) = search.find_choices(Method.DYNAMIC, 1)

    assert estimate_us(search, found) == pytest.approx(every.end_us, rel=0.02)


def test_fewer_chains_are_followed_where_meetings_take_less() -> None:
    planners = [_planner(meeting_us, Sharing.COHERENT) for meeting_us in (0.0, 1e4)]

    counts = [sum(map(len, planner.search.chains.values())) for planner in planners]

    assert counts[0] < counts[1]
