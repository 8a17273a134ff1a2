"""What was measured before and is measured once more: to see how well that repeats, or because it did not."""

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain

import numpy as np

from codl.profiler.log import Sample
from codl.profiler.samples import UNSETTLED, find_spreads, restore_case
from codl.profiler.survey import Task
from codl.profiler.workload import RowWork

_EVERY = 8
"""Of so many cases one is measured again, and one that did not settle: some moments are calm at any time."""


class Repeats:
    """Chooses among a growing list of samples, each case once in a session.

    Args:
        works: Of implementations that are measured.
        samples: What there is; others append to it.
        apart_seconds: Between the two times of a case, at least.
    """

    def __init__(self, works: Sequence[RowWork], samples: Sequence[Sample], apart_seconds: float) -> None:
        self._rows = {work.row.name: work.row for work in works}
        self._samples, self._apart = samples, apart_seconds
        self._repeated = {sample.key for sample in samples if sample.repeat_of is not None}
        self._retried: set[str] = set()
        self._others = _ask_again(self.iterate_again), _ask_again(self._iterate_unsettled)

    def mix(self, tasks: Iterator[Task]) -> Iterator[Task]:
        """Yield tasks, and now and then one that was measured before, of each sort.

        Source:
            Both cores of a Zen 4, PoCL: of five sessions with cases measured again in the last tenth of each
            of three parts two had none, for the last 100 s were not calm.
        """
        for number, task in enumerate(tasks, 1):
            yield task
            if number % _EVERY == 0:
                yield from chain.from_iterable(map(next, self._others))

    def iterate_again(self) -> Iterator[Task]:
        """Yield what was measured once, some time ago, a second time, in random order."""
        first = {sample.key: sample for sample in reversed(self._list_old())}
        old = [sample for key, sample in first.items() if key not in self._repeated]
        for place in np.random.default_rng(len(old)).permutation(len(old)):
            sample = old[int(place)]
            self._repeated.add(sample.key)
            yield self._restore(sample, repeat_of=sample.at)

    def _iterate_unsettled(self) -> Iterator[Task]:
        """Yield what was measured some time ago and whose readings did not agree."""
        unsettled = {key for key, spread in find_spreads(self._samples).items() if spread > UNSETTLED}
        for sample in self._list_old():
            if sample.key in unsettled and sample.key not in self._retried:
                self._retried.add(sample.key)
                yield self._restore(sample)

    def _list_old(self) -> list[Sample]:
        latest = time.time() - self._apart
        return [one for one in self._samples if one.row in self._rows and one.at <= latest]

    def _restore(self, sample: Sample, *, repeat_of: float | None = None) -> Task:
        case = restore_case(sample, self._rows[sample.row])
        return Task(case=case, is_chosen=sample.is_chosen, repeat_of=repeat_of)


def _ask_again(make: Callable[[], Iterator[Task]]) -> Iterator[Sequence[Task]]:
    """Yield for ever one task, or none as long as there is none, asking anew whenever all were yielded."""
    while True:
        is_empty = True
        for task in make():
            is_empty = False
            yield (task,)
        if is_empty:
            yield ()
