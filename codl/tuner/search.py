"""The search for one shape: bounds first, a few quick rounds for those worth it, many rounds for the best.

Candidates are taken in the order of their bounds. One whose bound lies above the best time so far is dropped
unbuilt. The few fastest are measured again, side by side with what would have been chosen anyway, and the
winner must compute what ONNX Runtime computes.

Source:
    DeepCuts (bounds prune candidates), BOLT (good sets of parameters are few and serve many shapes).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Protocol

from codl.catalog.spec import Selection
from codl.devices.timing import Ratio
from codl.errors import CodlError

_TIE = 0.04
"""Bounds this near to each other are equal; then the candidate that has won more often comes first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchLimits:
    """How much a search may do for one shape."""

    share: float = 0.25
    """Of the candidates that may be measured, in [0, 1]."""
    least: int = 4
    """Candidates that may be measured in any case."""
    most: int = 32
    """Candidates that are measured at the most, however many there are."""
    group: int = 4
    """Candidates that share their quick rounds."""
    finalists: int = 5
    margin: float = 0.01
    """By how much a winner must be faster than what would have been chosen anyway."""
    prunes: bool = True
    """Whether bounds drop candidates; without it every candidate is measured."""

    def count_most(self, candidates: int) -> int:
        """Return how many of some candidates are measured at the most."""
        wanted = max(self.least, min(self.most, int(candidates * self.share)))
        return min(candidates, wanted) if self.prunes else candidates


@dataclass(frozen=True, slots=True, kw_only=True)
class Final:
    """The result of many rounds for one candidate."""

    ratio: float
    """Its time, in runs of the reference, in the fastest rounds of both."""
    to_anchor: Ratio
    """Its time, in times of the first candidate of these rounds, over all of them."""


class Judge(Protocol):
    """Knows bounds and times of candidates; times are in runs of a reference kernel."""

    def prepare(self, selections: Sequence[Selection]) -> None:
        """Measure together what the bounds of candidates depend on."""

    def bound(self, selection: Selection, *, is_rough: bool = False) -> float:
        """Return the lower bound of a candidate's time; a rough one takes no measurement."""

    def count_wins(self, selection: Selection) -> int:
        """Return for how many shapes the candidate was the best."""

    def try_out(self, selections: Sequence[Selection]) -> Mapping[str, float]:
        """Return the times of a few rounds by `str(selection)`; candidates that failed are absent."""

    def compare(self, selections: Sequence[Selection]) -> Mapping[str, Final]:
        """Return the results of many rounds by `str(selection)`; the first candidate is the anchor."""

    def find_error(self, selection: Selection) -> float:
        """Return max|error| / max|reference| of what the candidate computes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """The result of a search."""

    winner: Selection
    ratio: float
    """The winner's time, in runs of the reference."""
    default_ratio: float | None
    """The time of what would have been chosen without the search; None when that failed."""
    candidates: int
    measured: int
    refused: tuple[str, ...] = ()
    """Candidates that were fast and wrong, with their error."""


def search(
    judge: Judge,
    candidates: Sequence[Selection],
    *,
    default: Selection,
    first: Sequence[Selection] = (),
    limits: SearchLimits | None = None,
) -> SearchResult:
    """Return the fastest candidate that computes what is expected.

    Args:
        judge: Measures candidates.
        candidates: Everything that could compute the node.
        default: What would be chosen without the search.
        first: Candidates to measure before all others, such as those that won for shapes nearby.
        limits: How much to do.

    Raises:
        CodlError: Every candidate failed, or computes something wrong.
    """
    limits = limits or SearchLimits()
    by_name = {str(one): one for one in (default, *first, *candidates)}
    start = list({str(one): one for one in (default, *first)}.values())
    tried = {str(one) for one in start}
    times = dict(judge.try_out(start))
    for group in _iterate_groups(judge, candidates, tried=tried, times=times, limits=limits):
        times.update(judge.try_out(group))
    if not times:
        raise CodlError(f"got {len(tried)} candidates that all failed, expected one that runs")
    best = sorted(times, key=times.__getitem__)[: limits.finalists]
    names = list(dict.fromkeys((str(default), *best) if str(default) in times else best))
    finals = judge.compare([by_name[name] for name in names])
    order = _rank(finals, names[0], margin=limits.margin)
    refused: list[str] = []
    for name in order:
        winner = by_name[name]
        error = judge.find_error(winner)
        if error <= winner.implementation.tolerance:
            return SearchResult(
                winner=winner,
                ratio=finals[name].ratio,
                default_ratio=finals[str(default)].ratio if str(default) in finals else None,
                candidates=len(candidates),
                measured=len(tried),
                refused=tuple(refused),
            )
        refused.append(f"{name}: error {error:.1e}, expected at most {winner.implementation.tolerance:.0e}")
    raise CodlError(f"got wrong results of the best candidates ({'; '.join(refused)}); report it")


def _rank(finals: Mapping[str, Final], anchor: str, *, margin: float) -> list[str]:
    """Return the finalists, best first; the anchor is replaced only by one that is surely faster.

    A candidate is surely faster if it is faster in nearly all resampled rounds, and in the fastest rounds
    too: on a busy machine one of the two alone may be chance.
    """
    most = 1.0 - margin

    def is_sure(name: str) -> bool:
        final = finals[name]
        return final.to_anchor.high <= most and final.ratio <= most * finals[anchor].ratio

    def rank(name: str) -> tuple[int, float]:
        place = 0 if is_sure(name) else 1 if name == anchor else 2
        return place, finals[name].ratio

    return sorted(finals, key=rank)


def _iterate_groups(
    judge: Judge,
    candidates: Sequence[Selection],
    *,
    tried: set[str],
    times: Mapping[str, float],
    limits: SearchLimits,
) -> Iterator[list[Selection]]:
    """Yield the next candidates to try, until bounds or limits exclude all others.

    ``tried`` grows with each group; ``times`` is expected to be up to date when the next one is asked for.
    """
    waiting = [one for one in candidates if str(one) not in tried]
    if not limits.prunes:
        for index in range(0, len(waiting), limits.group):
            group = waiting[index : index + limits.group]
            tried.update(map(str, group))
            yield group
        return
    most = limits.count_most(len(candidates))
    waiting = _order(judge, waiting, best=min(times.values(), default=inf))
    while waiting and len(tried) < most:
        best = min(times.values(), default=inf)
        worth = [one for one in waiting if judge.bound(one) <= best]
        group = worth[: min(limits.group, most - len(tried))]
        if not group:
            return
        waiting = worth[len(group) :]
        tried.update(map(str, group))
        yield group


def _order(judge: Judge, waiting: Sequence[Selection], *, best: float) -> list[Selection]:
    """Return those whose bounds promise a time below ``best``, the most promising first."""
    worth = [one for one in waiting if judge.bound(one, is_rough=True) <= best]
    judge.prepare(worth)
    bounds = {str(one): judge.bound(one) for one in worth}
    least = min(bounds.values(), default=1.0)

    def rank(one: Selection) -> tuple[float, int, float]:
        bound = bounds[str(one)]
        return (bound - least) // (_TIE * least), -judge.count_wins(one), bound

    return sorted(worth, key=rank)
