"""Runs many cases in a few workers and counts what becomes of them."""

import queue
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.hostile.case import FAMILIES
from tests.hostile.judge import FAULTS, OUTCOMES, Outcome
from tests.hostile.worker import Worker

DOCUMENTED = ("limits.",)
"""Words of errors for what codl refuses on purpose though ONNX Runtime may run it."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """A case and what became of it."""

    name: str
    what: str
    outcome: Outcome

    @property
    def is_fault(self) -> bool:
        """Whether something is to be mended."""
        return self.outcome.kind in FAULTS

    def __str__(self) -> str:
        return (
            ascii(f"{self.name} [{self.what[:160]}]")[1:-1]
            + f"\n    {self.outcome.kind}: "
            + ascii(self.outcome.text)[1:-1]
        )


@dataclass
class Campaign:
    """The results so far."""

    results: list[Result] = field(default_factory=list)

    @property
    def faults(self) -> list[Result]:
        """What is to be mended, in the order of its names."""
        return sorted((result for result in self.results if result.is_fault), key=lambda r: r.name)

    def count(self) -> str:
        """Return a table of outcomes by family."""
        counts = Counter((r.name.split("-")[0], r.outcome.kind) for r in self.results)
        kinds = [kind for kind in OUTCOMES if any(counts[family, kind] for family in FAMILIES)]
        lines = [f"{'':<10}" + "".join(f"{kind:>10}" for kind in ("models", *kinds))]
        for family in FAMILIES:
            numbers = [counts[family, kind] for kind in kinds]
            lines.append(f"{family:<10}" + "".join(f"{number:>10}" for number in (sum(numbers), *numbers)))
        return "\n".join(lines)


def run_campaign(
    names: Sequence[str], *, workers: int = 2, tell: Callable[[Result], object] = lambda _: None
) -> Campaign:
    """Return the results of cases.

    Args:
        names: Their names.
        workers: Processes at a time.
        tell: Called with each result, from any thread.
    """
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
    for name in names:
        waiting.put(name)
    campaign, lock = Campaign(), threading.Lock()

    def work() -> None:
        with Worker() as worker:
            while True:
                try:
                    name = waiting.get_nowait()
                except queue.Empty:
                    return
                what, outcome = worker.run(name)
                if outcome.kind == "picky" and any(word in outcome.text for word in DOCUMENTED):
                    outcome = Outcome(kind="refused", text=outcome.text)
                result = Result(name=name, what=what, outcome=outcome)
                with lock:
                    campaign.results.append(result)
                    tell(result)

    threads = [threading.Thread(target=work) for _ in range(min(workers, len(names)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return campaign
