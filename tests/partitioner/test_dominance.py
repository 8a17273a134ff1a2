"""Candidates that are not looked at: no fast way is lost with them."""

import pytest

from codl.partitioner.ledger import Ledger
from codl.partitioner.options import make_options
from codl.partitioner.planner import Planner
from codl.partitioner.search import Method
from codl.plan.sharing import Sharing, arrange_alike
from codl.simulator.transfers import TensorSizes
from tests.graphs import residual_block
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
    chains = planner.search.finder.find_all()
    every, _ = planner.search.program.run(chains, planner.search.singles, best=1)

    (found, *_) = planner.search.find_choices(Method.DYNAMIC, 1)[0]

    assert planner.search.estimate_us(found) == pytest.approx(
        planner.search.program.find_end_us(every[0]), rel=0.02
    )


def test_fewer_chains_are_followed_where_meetings_take_less() -> None:
    planners = [_planner(meeting_us, Sharing.COHERENT) for meeting_us in (0.0, 1e4)]

    counts = [sum(map(len, planner.search.chains.values())) for planner in planners]
    heads = [
        make_options(
            [[one, *each.search.worthy.get(at, ())] for at, one in each.search.singles.items()],
            Ledger(2, TensorSizes(each.graph).numbers, {}, {}),
            each.search.limits_us,
        )
        for each in planners
    ]

    assert counts[0] < counts[1]
    assert sum(len(one.owners) for one in heads[0]) < sum(len(one.owners) for one in heads[1])
