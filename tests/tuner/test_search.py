"""The policy of the search, against a judge that knows every time beforehand."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from codl.catalog.spec import Implementation, Selection
from codl.catalog.table import IMPLEMENTATIONS
from codl.devices.timing import Ratio
from codl.errors import CodlError
from codl.tuner.search import Final, SearchLimits, search

(ROW,) = (row for row in IMPLEMENTATIONS if row.name == "conv2d_gemm__buffer")


def candidate(number: int, row: Implementation = ROW) -> Selection:
    return Selection(implementation=row, parameters={"MR": number, "NR": 16, "VECTOR": 16})


@dataclass
class FakeJudge:
    """Times, bounds and errors by MR."""

    times: Mapping[int, float]
    bounds: Mapping[int, float] = field(default_factory=dict)
    errors: Mapping[int, float] = field(default_factory=dict)
    wins: Mapping[int, int] = field(default_factory=dict)
    noise: float = 0.0
    tried: list[int] = field(default_factory=list)
    compared: list[int] = field(default_factory=list)

    def prepare(self, selections: Sequence[Selection]) -> None:
        """Nothing is to be learned."""

    def bound(self, selection: Selection, *, is_rough: bool = False) -> float:
        return self.bounds.get(selection.parameters["MR"], 0.1)

    def count_wins(self, selection: Selection) -> int:
        return self.wins.get(selection.parameters["MR"], 0)

    def try_out(self, selections: Sequence[Selection]) -> Mapping[str, float]:
        numbers = [one.parameters["MR"] for one in selections]
        self.tried += numbers
        return {str(candidate(n)): self.times[n] for n in numbers if n in self.times}

    def compare(self, selections: Sequence[Selection]) -> Mapping[str, Final]:
        self.compared += [one.parameters["MR"] for one in selections]
        anchor = self.times[selections[0].parameters["MR"]]
        return {
            str(one): Final(
                ratio=self.times[one.parameters["MR"]],
                to_anchor=_ratio(self.times[one.parameters["MR"]] / anchor, self.noise),
            )
            for one in selections
        }

    def find_error(self, selection: Selection) -> float:
        return self.errors.get(selection.parameters["MR"], 0.0)


def _ratio(median: float, noise: float) -> Ratio:
    return Ratio(median=median, low=median * (1 - noise), high=median * (1 + noise))


def run(judge: FakeJudge, count: int, limits: SearchLimits | None = None, first: Sequence[int] = ()) -> int:
    found = search(
        judge,
        [candidate(number) for number in range(count)],
        default=candidate(0),
        first=[candidate(number) for number in first],
        limits=limits,
    )
    return found.winner.parameters["MR"]


def test_finds_the_fastest() -> None:
    judge = FakeJudge(times={n: 2.0 - n / 100 for n in range(16)} | {7: 0.5})

    assert run(judge, 16, SearchLimits(share=1.0)) == 7


def test_drops_what_its_bound_rules_out() -> None:
    judge = FakeJudge(times=dict.fromkeys(range(40), 1.0), bounds=dict.fromkeys(range(5, 40), 1.1))

    run(judge, 40, SearchLimits(share=1.0))

    assert sorted(judge.tried) == [0, 1, 2, 3, 4]


def test_each_better_time_drops_more() -> None:
    times = {n: 1.0 - n / 100 for n in range(40)}
    judge = FakeJudge(times=times | {1: 0.31}, bounds={n: 0.2 + n / 50 for n in range(40)})

    assert run(judge, 40, SearchLimits(share=1.0, group=1)) == 1
    assert sorted(judge.tried) == [0, 1, 2, 3, 4, 5]


def test_takes_the_lowest_bounds_first_and_no_more_than_its_share() -> None:
    judge = FakeJudge(times=dict.fromkeys(range(40), 1.0), bounds={n: 0.9 - n / 100 for n in range(40)})

    run(judge, 40, SearchLimits(share=0.25, group=2))

    assert judge.tried == [0, 39, 38, 37, 36, 35, 34, 33, 32, 31]


def test_among_equal_bounds_takes_the_frequent_winner_first() -> None:
    judge = FakeJudge(times=dict.fromkeys(range(40), 1.0), wins={30: 1, 20: 5})

    run(judge, 40, SearchLimits(least=3, share=0.0, group=1))

    assert judge.tried == [0, 20, 30]


def test_measures_what_won_nearby_before_all_others() -> None:
    judge = FakeJudge(times=dict.fromkeys(range(40), 1.0))

    run(judge, 40, first=(33, 0, 12))

    assert judge.tried[:3] == [0, 33, 12]


def test_everything_is_measured_when_nothing_may_be_dropped() -> None:
    judge = FakeJudge(times=dict.fromkeys(range(40), 1.0), bounds=dict.fromkeys(range(40), 5.0))

    run(judge, 40, SearchLimits(prunes=False))

    assert sorted(judge.tried) == list(range(40))


def test_compares_the_best_with_the_default() -> None:
    judge = FakeJudge(times={n: 1.0 - n / 10 for n in range(8)})

    assert run(judge, 8, SearchLimits(share=1.0, finalists=3)) == 7
    assert judge.compared == [0, 7, 6, 5]


@pytest.mark.parametrize(("time", "noise", "winner"), [(0.9, 0.0, 1), (0.995, 0.0, 0), (0.9, 0.2, 0)])
def test_keeps_the_default_unless_another_is_surely_faster(time: float, noise: float, winner: int) -> None:
    assert run(FakeJudge(times={0: 1.0, 1: time}, noise=noise), 2) == winner


def test_a_wrong_kernel_never_wins() -> None:
    judge = FakeJudge(times={0: 1.0, 1: 0.2, 2: 0.5}, errors={1: 1e-3})

    found = search(judge, [candidate(n) for n in range(3)], default=candidate(0))

    assert found.winner == candidate(2)
    assert found.refused == (f"{candidate(1)}: error 1.0e-03, expected at most 1e-05",)


def test_nothing_but_wrong_kernels_is_an_error() -> None:
    with pytest.raises(CodlError, match="wrong results"):
        run(FakeJudge(times={0: 1.0, 1: 0.2}, errors={0: 1.0, 1: float("inf")}), 2)


def test_what_fails_is_passed_over() -> None:
    assert run(FakeJudge(times={2: 1.0, 3: 2.0}), 4) == 2


def test_nothing_that_runs_is_an_error() -> None:
    with pytest.raises(CodlError, match="all failed"):
        run(FakeJudge(times={}), 4)


def test_luck_in_some_rounds_does_not_win() -> None:
    """The intervals say that 1 is faster, the fastest rounds say that it is not."""

    @dataclass
    class LuckyJudge(FakeJudge):
        def compare(self, selections: Sequence[Selection]) -> Mapping[str, Final]:
            finals = super().compare(selections)
            lucky = str(candidate(1))
            return {**finals, lucky: Final(ratio=finals[lucky].ratio, to_anchor=_ratio(0.5, 0.01))}

    assert run(LuckyJudge(times={0: 1.0, 1: 1.0}), 2) == 0
    assert run(LuckyJudge(times={0: 1.0, 1: 0.6}), 2) == 1
