"""Devices working side by side, as a clock sees them: what runs, who is waited for, what that takes."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, permutations

from codl.latency.predictor import Predictor
from codl.latency.profile import Slowdown
from codl.partitioner.slowdowns import read_slowdowns
from codl.plan.timeline import HOST_TRACK, Span

_P95_DEVIATIONS = 1.645
"""Standard deviations above the mean at which the 95th percentile of a normal distribution lies."""
_NOTHING = 1e-9
"""Less work than this is none, in us."""


@dataclass(slots=True)
class Work:
    """What a device has been told to do for one step."""

    step: int
    us: float
    """Left to do when it works alone."""
    memory_us: float
    """As much of it as memory limits."""
    kind: str = ""
    name: str = ""
    start_us: float | None = None
    """When it began; None as long as it has not."""

    @property
    def memory_share(self) -> float:
        """How much of what is left memory limits, in [0, 1]."""
        return min(1.0, self.memory_us / self.us)


class Clock:
    """Advances devices that share a machine and slow each other down while both work.

    What a device is told to do begins when the host feeds the devices, as the executor does at each meeting.

    Args:
        predictors: One for each device of the plan, in its order.
        spans: Where to write down what takes place when; nowhere by default.
    """

    def __init__(self, predictors: Sequence[Predictor], spans: list[Span] | None = None) -> None:
        self._predictors = tuple(predictors)
        self._spans = spans
        self._disturbers = _list_disturbers(predictors)
        self._pending: list[list[Work]] = [[] for _ in predictors]
        self._queues: list[deque[Work]] = [deque() for _ in predictors]
        self.now_us = 0.0
        self.step_us: dict[int, float] = {}
        """Step -> time that passed for it."""

    def tell(
        self, device: int, *, step: int, us: float, memory_us: float, kind: str = "", name: str = ""
    ) -> None:
        """Give a device work for a step; it begins when the host feeds the devices next."""
        if us > 0:
            work = Work(step=step, us=us, memory_us=memory_us, kind=kind, name=name)
            self._pending[device].append(work)

    def feed(self) -> None:
        """Let every device begin what it was told."""
        for queue, pending in zip(self._queues, self._pending, strict=True):
            queue.extend(pending)
            pending.clear()

    def wait(self, devices: Sequence[int]) -> None:
        """Let time pass until some devices have done all that they began; the last one's steps took it."""
        start = self.now_us
        taken: list[dict[int, float]] = [{} for _ in self._queues]
        last = None
        while awaited := [device for device in devices if self._queues[device]]:
            last = awaited[-1]
            self._advance(None, taken)
        elapsed = self.now_us - start
        if last is not None and elapsed:
            whole = sum(taken[last].values())
            for step, us in taken[last].items():
                self._note(step, elapsed * us / whole)

    def spend(
        self, us: float, *, step: int, kind: str = "", name: str = "", other: str | None = None, size: int = 0
    ) -> None:
        """Let time pass that the host needs for a step; devices go on with what they have begun.

        Args:
            us: How much.
            step: The step.
            kind: What the host does meanwhile, as `Span` has it.
            name: The tensor of a transfer.
            other: The device of a transfer.
            size: Its bytes.
        """
        if self._spans is not None:
            span = Span(
                track=HOST_TRACK,
                kind=kind,
                name=name,
                step=step,
                start_us=self.now_us,
                duration_us=us,
                other=other,
                size_bytes=size or None,
            )
            self._spans.append(span)
        taken: list[dict[int, float]] = [{} for _ in self._queues]
        end = self.now_us + us
        while any(self._queues) and self.now_us < end - _NOTHING:
            self._advance(end - self.now_us, taken)
        self.now_us = end
        self._note(step, us)

    def _note(self, step: int, us: float) -> None:
        self.step_us[step] = self.step_us.get(step, 0.0) + us

    def _advance(self, most_us: float | None, taken: Sequence[dict[int, float]]) -> None:
        """Let time pass until some device has done some step's work, or as much as there is of it."""
        busy = [device for device, queue in enumerate(self._queues) if queue]
        if len(busy) == 1 and most_us is None:
            self._finish(busy[0], taken)
            return
        slowdowns = [1.0] if len(busy) == 1 else [self._slowdown(device) for device in busy]
        us = min(
            self._queues[device][0].us * slowdown for device, slowdown in zip(busy, slowdowns, strict=True)
        )
        if most_us is not None:
            us = min(us, most_us)
        for device, slowdown in zip(busy, slowdowns, strict=True):
            queue, spent = self._queues[device], taken[device]
            work = queue[0]
            if work.start_us is None:
                work.start_us = self.now_us
            done = min(work.us, us / slowdown)
            spent[work.step] = spent.get(work.step, 0.0) + us
            if work.us - done <= _NOTHING:
                self._write(device, queue.popleft(), self.now_us + us)
            else:
                work.memory_us -= work.memory_us * done / work.us
                work.us -= done
        self.now_us += us

    def _finish(self, device: int, taken: Sequence[dict[int, float]]) -> None:
        """Let time pass until the only device that has something to do has done all of it."""
        queue, spent = self._queues[device], taken[device]
        for work in queue:
            if work.start_us is None:
                work.start_us = self.now_us
            spent[work.step] = spent.get(work.step, 0.0) + work.us
            self.now_us += work.us
            self._write(device, work, self.now_us)
        queue.clear()

    def _write(self, device: int, work: Work, end_us: float) -> None:
        if self._spans is None or work.start_us is None:
            return
        span = Span(
            track=self._predictors[device].info.name,
            kind=work.kind,
            name=work.name,
            step=work.step,
            start_us=work.start_us,
            duration_us=end_us - work.start_us,
        )
        self._spans.append(span)

    def _slowdown(self, device: int) -> float:
        """Return by how much a device is slower for what the others do at the moment."""
        factor = 1.0
        for other, ((calm, mixed), (disturbed, both)) in self._disturbers[device]:
            queue = self._queues[other]
            if queue:
                own, beside = self._queues[device][0].memory_share, queue[0].memory_share
                factor *= (1 - own) * (calm * (1 - beside) + mixed * beside) + own * (
                    disturbed * (1 - beside) + both * beside
                )
        return factor


def find_meeting_us(
    predictors: Sequence[Predictor], devices: Sequence[int], *, is_signalled: bool = False
) -> float:
    """Return what it costs to start some devices and wait for them, beyond their work.

    Args:
        predictors: One for each device of the plan.
        devices: Indices of those that are waited for, at least one.
        is_signalled: Whether all devices wait for them, and not the host.

    Raises:
        ProfileError: Two of them were never measured together.
    """
    if is_signalled:
        devices = range(len(predictors))
    if len(devices) == 1:
        return predictors[devices[0]].profile.wait_us
    pairs = combinations((predictors[device] for device in devices), 2)
    return max(
        one.find_meeting(other.profile.name, is_signalled=is_signalled).median_us for one, other in pairs
    )


def find_delays_us(predictors: Sequence[Predictor], launches: Sequence[float]) -> list[float]:
    """Return by how much each device begins later, as the host hands over the others' launches meanwhile.

    What it takes to hand over a device's own launches is part of what these take.

    Args:
        predictors: One for each device of the plan.
        launches: Of each device, of a run that is handed over at once.
    """
    return [
        sum(
            count * one.find_handing_us(other.profile.name)
            for other, count in zip(predictors, launches, strict=True)
            if other is not one
        )
        for one in predictors
    ]


def find_meeting_doubt_us(predictors: Sequence[Predictor], *, is_signalled: bool = False) -> float:
    """Return how much longer than expected a meeting of all devices may last, as a standard deviation.

    Errors of predictions, which it is weighed with, are told so as well. Of two devices both have seen their
    meetings; the one to which they lasted longer counts.

    Args:
        predictors: One for each device of the plan; of one alone it is nothing.
        is_signalled: Whether devices wait for each other, and not the host.

    Raises:
        ProfileError: Two of them were never measured together.
    """
    found = [
        one.find_meeting(other.profile.name, is_signalled=is_signalled)
        for one, other in permutations(predictors, 2)
    ]
    return max((meeting.p95_us - meeting.median_us for meeting in found), default=0.0) / _P95_DEVIATIONS


def _list_disturbers(predictors: Sequence[Predictor]) -> list[list[tuple[int, Slowdown]]]:
    """Return by device those that slow it down, with how much."""
    tables = read_slowdowns(predictors)
    return [
        [(other, table.tolist()) for other, table in enumerate(row) if (table != 1).any()] for row in tables
    ]
