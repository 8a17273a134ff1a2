"""Sessions whose cores are far from each other count where nothing better is known."""

from codl.profiler.log import Sample
from codl.profiler.sessions import find_quietest, keep_near

NEAR, FAR = {"compute": 80.0, "crossing": 7.0}, {"compute": 80.0, "crossing": 10.0}


def sample(row: str, at: float) -> Sample:
    return Sample(
        key=f"{row} {at}",
        row=row,
        digest="1",
        layer={},
        parameters={},
        begin=(0,),
        end=(1,),
        ratios={"compute": 1.0, "memory": 1.0},
        memory_share=0.0,
        spread=0.01,
        rounds=8,
        at=at,
    )


def test_sessions_with_far_cores_do_not_count() -> None:
    samples = [sample("a", at) for at in (1, 2, 11, 21, 31)]

    kept = keep_near(samples, [10, 20, 30], [NEAR, FAR, NEAR])

    assert [one.at for one in kept] == [1, 2, 21, 31]


def test_rows_that_would_lose_most_keep_all() -> None:
    samples = [sample("a", 1), sample("a", 11), sample("b", 11)]

    kept = keep_near(samples, [10, 20], [NEAR, FAR])

    assert [(one.row, one.at) for one in kept] == [("a", 1), ("b", 11)]


def test_one_core_has_no_distance() -> None:
    samples = [sample("a", 1), sample("a", 11)]

    assert keep_near(samples, [10], [{"compute": 80.0}]) == samples
    assert keep_near(samples, [], []) == samples


def test_nearest_cores_of_all_sessions_are_known() -> None:
    assert find_quietest([FAR, NEAR, {"compute": 79.0}]) == {"compute": 79.0, "crossing": 7.0}
    assert find_quietest([{"compute": 80.0}]) == {"compute": 80.0}
