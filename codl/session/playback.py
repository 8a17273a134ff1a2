"""What runs of a plan take on a quiet machine, found launch by launch or step by step.

The state of a machine that others share changes within an inference. So its parts stand between guards, as
the samples do that predictors learn from, and what they take when all is quiet is added up.
"""

import math
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

import numpy as np

from codl.devices.boundary import at_work
from codl.devices.script import Call, Played, play
from codl.devices.stopwatch import SECONDS_PER_NS, count_ns
from codl.devices.timing import Series
from codl.errors import ProfileError
from codl.executor.run import Executable
from codl.executor.trace import KERNELS, Entry, EventKind
from codl.profiler.guard import Guard
from codl.profiler.quiet import Calm, Mood, Reading, choose_rounds, find_quiet
from codl.profiler.survey import Survey
from codl.profiler.watch import Watch

_PATIENCE_SECONDS = 20.0
_LEAST_RUNS = 8
"""Calm ones until readings are looked at."""
_LOOKS = 4
"""At the probes of memory, before and after each run."""
_SETTLED = 0.01
"""Standard error, relative, at which a time is known well enough."""
_HOST_RUNS, _HOST_PERCENT = 30, 10


def measure_launches(
    executable: Executable,
    survey: Survey,
    feeds: Mapping[str, Any],
    *,
    patience_seconds: float = _PATIENCE_SECONDS,
) -> float:
    """Return what an inference on one device takes, in units of the compute-bound reference.

    Args:
        executable: Of a plan of one device, compiled for the survey's own (`survey.stopwatch.device`).
        survey: Of that device.
        feeds: The network's inputs.
        patience_seconds: How long to read on, at most, until readings agree.

    Raises:
        DeviceError: The device failed.
    """
    executable.run(feeds)
    sweeps = _count_sweeps(executable, survey)
    calm = Calm(survey.distance)
    runs: list[tuple[Mood, list[Reading]]] = []
    end = time.monotonic() + patience_seconds
    for turn in count(1):
        looks = survey.look(_LOOKS)
        readings = _play_guarded(executable, survey.guard, sweeps)
        mood = calm.add(readings, looks + survey.look(_LOOKS))
        runs.append((mood, [replace(reading, mood=mood) for reading in readings]))
        if turn % _LEAST_RUNS == 0:
            are_calm = [calm.is_calm(mood) for mood, _ in runs]
            is_over = time.monotonic() > end
            if sum(are_calm) < _LEAST_RUNS and not is_over:
                continue
            counted = [runs[place][1] for place in choose_rounds(are_calm)]
            quiet, error = _find_quiet_run(counted, survey)
            if error <= _SETTLED * quiet.sum() or is_over:
                break
    return survey.count_references(float(quiet.sum()) + _find_host_seconds(executable, quiet))


def _find_quiet_run(runs: Sequence[Sequence[Reading]], survey: Survey) -> tuple[Series, float]:
    """Return what a run's kernels take on a quiet machine, [kernels], and the standard error of their sum."""
    found = np.array(
        [
            find_quiet(readings, survey.guard.quiet_seconds, near_seconds=survey.distance.near_seconds)
            for readings in zip(*runs, strict=True)
        ]
    )
    return found[:, 0], float(np.linalg.norm(found.prod(axis=1)))


def measure_nodes(
    executable: Executable,
    surveys: Sequence[Survey],
    feeds: Mapping[str, Any],
    *,
    nodes: Collection[str],
    patience_seconds: float = _PATIENCE_SECONDS,
) -> Played:
    """Return what nodes of a step take that all devices begin together, whoever waits for whom in the plan.

    The whole is counted in references of the first device, the kernels of each in its own. As in a run,
    inputs are just written and weights long out of the caches: before each reading all that a run computes
    besides is computed, what follows the step first and what leads to it last.

    Args:
        executable: Compiled for the surveys' own devices, in their order.
        surveys: Of each device.
        feeds: The network's inputs.
        nodes: Those that count, all of one step.
        patience_seconds: How long to read on, at most, until readings agree.

    Raises:
        DeviceError: A device failed.
        ProfileError: No part of the run computes these nodes.
    """
    executable.run(feeds)
    others, chosen = _find_calls(executable, nodes)
    if not chosen:
        raise ProfileError(f"plan: got no part that computes {', '.join(sorted(nodes))}, expected one")

    found = Watch([survey.guard for survey in surveys], surveys).measure(
        {"step": partial(play, chosen, executable.devices)},
        prepare=partial(play, others, executable.devices),
        patience_seconds=patience_seconds,
    )["step"]
    busy = zip(surveys, found.busy, strict=True)
    return Played(
        total=surveys[0].count_references(found.total),
        busy=tuple(survey.count_references(seconds) for survey, seconds in busy),
    )


def _at_work(executable: Executable) -> AbstractContextManager[None]:
    return at_work(executable.devices, f"run on {', '.join(executable.plan.devices)}")


def _count_sweeps(executable: Executable, survey: Survey) -> int:
    """Return how many sweeps take as long as the host needs to hand over a run with its guards."""
    with _at_work(executable):
        start = handed = time.perf_counter()
        for call, label in executable.entries:
            call()
            if label is not None and label.kind in KERNELS:
                survey.guard.call()
                handed = time.perf_counter()
        executable.devices[0].finish()
    return math.ceil((handed - start) / survey.stopwatch.time([survey.guard.sweep]))


def _play_guarded(executable: Executable, guard: Guard, sweeps: int) -> list[Reading]:
    """Return what each kernel took, and the guards beside it, all handed over while the device sweeps."""
    with _at_work(executable):
        for _ in range(sweeps):
            guard.sweep()
        guards, kernels = [guard.call()], []
        for call, label in executable.entries:
            result: Any = call()
            if label is not None and label.kind in KERNELS:
                kernels.append(result)
                guards.append(guard.call())
        executable.devices[0].finish()
    beside = [_count_seconds(event) for event in guards]
    taken = map(_count_seconds, kernels)
    return [guard.relate(*three) for three in zip(beside, taken, beside[1:], strict=False)]


def _find_host_seconds(executable: Executable, quiet: Series) -> float:
    """Return what a run takes beyond its kernels: handing them over, and waiting for the last.

    While it hands over, the host is missed by a driver of which it is a thread: kernels of that time take
    longer. How much is told by the others of the same run, which are only as slow as the machine.

    Args:
        executable: What runs.
        quiet: [kernels] What they take between guards, in seconds.
    """
    beyond, lost = [], []
    for _ in range(_HOST_RUNS):
        kernels = []
        with _at_work(executable):
            start = handed = time.perf_counter()
            for call, label in executable.entries:
                result: Any = call()
                if label is not None and label.kind in KERNELS:
                    kernels.append(result)
                    handed = time.perf_counter()
            executable.devices[0].finish()
            total = time.perf_counter() - start
        taken = np.array([_count_seconds(event) for event in kernels])
        beyond.append(total - taken.sum())
        is_early = np.cumsum(taken) - taken < handed - start
        if not is_early.all():
            slowness = taken[~is_early].sum() / quiet[~is_early].sum()
            lost.append((taken[is_early] / slowness - quiet[is_early]).sum())
    return max(0.0, float(np.percentile(beyond, _HOST_PERCENT) + np.median(lost or [0.0])))


def _find_calls(executable: Executable, nodes: Collection[str]) -> tuple[list[Call], list[Call]]:
    """Return the kernels of a run that some nodes do not need, and what a run does to compute those nodes.

    The first begin with what follows the nodes and end with what leads to them. The second are all between
    two meetings, without other nodes' kernels and without the meetings themselves.
    """
    outputs = {node.output for node in executable.graph.nodes if node.name in nodes}
    before: list[Call] = []
    after: list[Call] = []
    found: list[Call] = []
    for part in split_at_meetings(executable.entries):
        chosen: list[Call] = []
        for call, label in part:
            device = None if label is None or label.kind not in KERNELS else label.device
            names = nodes if label is not None and label.kind is EventKind.LAUNCH else outputs
            is_other = device is not None and label is not None and label.name not in names
            ((after if found else before) if is_other else chosen).append((device, call))
        if not found and any(device is not None for device, _ in chosen):
            found = chosen
    return after + before, found


def split_at_meetings(entries: Sequence[Entry]) -> list[list[Entry]]:
    """Return the parts of a run, each up to where the host or devices wait for devices, without what waits.

    Where devices wait for each other, each does so at all meetings as long as it has something to do.
    """
    parts: list[list[Entry]] = [[]]
    reached: dict[int, int] = {}
    start = 0
    for call, label in entries:
        if label is None:
            parts[-1].append((call, label))
            continue
        place = max(start, reached.get(label.device, start))
        if label.kind is EventKind.WAIT:
            start = len(parts)
            parts.append([])
        elif label.kind is EventKind.MEET:
            reached[label.device] = place + 1
            if place + 1 == len(parts):
                parts.append([])
        else:
            parts[place].append((call, label))
    return parts


def _count_seconds(event: Any) -> float:
    return SECONDS_PER_NS * count_ns(event)
