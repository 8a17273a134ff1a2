"""The simulated clock: queues of devices that work at the same time, and a host that waits for them."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from codl.latency.predictor import Predictor
from codl.latency.profile import mix_slowdown
from codl.plan.timeline import HOST_TRACK, Span
from codl.simulator.contention import read_slowdowns

_NOTHING_US = 1e-9
"""Work of less than this is done."""


@dataclass(slots=True)
class _Work:
    """One entry of a device's queue."""

    step: int
    us: float
    """Left to do, if the device works alone."""
    memory_us: float
    """The part of it that memory limits."""
    kind: str
    name: str
    start_us: float | None = None
    """When it began; None before that."""

    @property
    def memory_share(self) -> float:
        """Share of what is left that memory limits, in [0, 1]."""
        return min(1.0, self.memory_us / self.us)


class Clock:
    """Advances the queues of devices that share a machine.

    Enqueued work begins when the host flushes the queues, as the executor does at each synchronization.

    Args:
        predictors: One for each device of the plan, in its order.
        spans: Where to record what takes place when; nowhere by default.
    """

    def __init__(self, predictors: Sequence[Predictor], spans: list[Span] | None = None) -> None:
        self._names = [predictor.info.name for predictor in predictors]
        self._spans = spans
        self._slowdowns = [
            [(other, table.tolist()) for other, table in enumerate(row) if (table != 1).any()]
            for row in read_slowdowns(predictors)
        ]
        """By device, the others that slow it down with the 2x2 factors of `read_slowdowns`."""
        self._pending: list[list[_Work]] = [[] for _ in predictors]
        self._queues: list[deque[_Work]] = [deque() for _ in predictors]
        self.now_us = 0.0
        self.step_us: dict[int, float] = {}
        """By step, the time that passed for it."""

    def enqueue(
        self, device: int, *, step: int, us: float, memory_us: float, kind: str = "", name: str = ""
    ) -> None:
        """Append work to a device's queue; it begins after the next `flush`."""
        if us > 0:
            self._pending[device].append(_Work(step, us, memory_us, kind, name))

    def flush(self) -> None:
        """Let every device begin what was enqueued."""
        for queue, pending in zip(self._queues, self._pending, strict=True):
            queue.extend(pending)
            pending.clear()

    def wait(self, devices: Sequence[int]) -> None:
        """Let time pass until some devices are idle; it counts for the steps of the last one."""
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
                self._count(step, elapsed * us / whole)

    def spend(
        self, us: float, *, step: int, kind: str = "", name: str = "", other: str | None = None, size: int = 0
    ) -> None:
        """Let time pass that the host needs for a step, while devices continue the work they have begun.

        Args:
            us: Time of the host.
            step: The step.
            kind: What the host does, as in `Span`.
            name: The tensor of a transfer.
            other: The device of a transfer.
            size: Bytes of a transfer.
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
        while any(self._queues) and self.now_us < end - _NOTHING_US:
            self._advance(end - self.now_us, taken)
        self.now_us = end
        self._count(step, us)

    def _count(self, step: int, us: float) -> None:
        self.step_us[step] = self.step_us.get(step, 0.0) + us

    def _advance(self, most_us: float | None, taken: Sequence[dict[int, float]]) -> None:
        """Let time pass until some device has finished one piece of work, or ``most_us`` are over.

        A device that works alone finishes its whole queue at once where nothing limits the time.

        Args:
            most_us: The longest time; None for no limit.
            taken: By device and step, where to add the time that the device works for it.
        """
        busy = [device for device, queue in enumerate(self._queues) if queue]
        if len(busy) == 1 and most_us is None:
            queue, spent = self._queues[busy[0]], taken[busy[0]]
            while queue:
                self._work(busy[0], queue[0].us, spent)
            return
        slowdowns = [1.0] if len(busy) == 1 else [self._find_slowdown(device) for device in busy]
        us = min(self._queues[device][0].us * slow for device, slow in zip(busy, slowdowns, strict=True))
        us = us if most_us is None else min(us, most_us)
        start = self.now_us
        for device, slowdown in zip(busy, slowdowns, strict=True):
            self.now_us = start
            self._work(device, us, taken[device], slowdown)

    def _work(self, device: int, us: float, spent: dict[int, float], slowdown: float = 1.0) -> None:
        """Let time pass while a device does the first work of its queue, or a part of it.

        Args:
            device: The device.
            us: Time that passes.
            spent: By step, where to add it.
            slowdown: By what factor other devices slow it down.
        """
        work = self._queues[device][0]
        if work.start_us is None:
            work.start_us = self.now_us
        self.now_us += us
        done = min(work.us, us / slowdown)
        spent[work.step] = spent.get(work.step, 0.0) + us
        if work.us - done > _NOTHING_US:
            work.memory_us -= work.memory_us * done / work.us
            work.us -= done
            return
        self._queues[device].popleft()
        if self._spans is not None:
            span = Span(
                track=self._names[device],
                kind=work.kind,
                name=work.name,
                step=work.step,
                start_us=work.start_us,
                duration_us=self.now_us - work.start_us,
            )
            self._spans.append(span)

    def _find_slowdown(self, device: int) -> float:
        """Return by what factor the work of the other devices slows a device down at the moment."""
        factor, own = 1.0, self._queues[device][0].memory_share
        for other, slowdown in self._slowdowns[device]:
            queue = self._queues[other]
            if queue:
                factor *= mix_slowdown(slowdown, own, queue[0].memory_share)
        return factor
