"""What runs of a plan take on a quiet machine, found launch by launch or from meeting to meeting.

The state of a machine that others share changes within an inference. So its parts stand between guards, as
the samples do that predictors learn from, and what they take when all is quiet is added up.
"""

import time
from collections.abc import Collection, Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np

from codl.devices.limits import pinned_caller
from codl.devices.stopwatch import SECONDS_PER_NS, count_ns
from codl.errors import ProfileError
from codl.executor.run import Executable
from codl.executor.trace import KERNELS, Entry, EventKind
from codl.profiler.guard import Guard, Reading, find_quiet
from codl.profiler.survey import Survey

_PATIENCE_SECONDS = 20.0
_LEAST_RUNS = 8
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
        patience_seconds: How long to wait for quiet readings of all launches.

    Raises:
        DeviceError: The device failed.
    """
    executable.run(feeds)
    readings: dict[int, list[Reading]] = {}
    end = time.monotonic() + patience_seconds
    for turn in count(1):
        for place, reading in enumerate(_play_guarded(executable, survey.guard)):
            readings.setdefault(place, []).append(reading)
        if turn >= _LEAST_RUNS and turn % _LEAST_RUNS == 0:
            found = [find_quiet(taken, survey.guard.quiet_seconds) for taken in readings.values()]
            error = sum((seconds * spread) ** 2 for seconds, spread in found) ** 0.5
            if error <= _SETTLED * sum(seconds for seconds, _ in found) or time.monotonic() > end:
                break
    return survey.count_references(sum(seconds for seconds, _ in found) + _find_host_seconds(executable))


def measure_nodes(
    executable: Executable,
    surveys: Sequence[Survey],
    feeds: Mapping[str, Any],
    *,
    nodes: Collection[str],
    patience_seconds: float = _PATIENCE_SECONDS,
) -> float:
    """Return how long devices are at some nodes, from meeting to meeting, in the first one's references.

    Args:
        executable: Compiled for the surveys' own devices, in their order.
        surveys: Of each device.
        feeds: The network's inputs.
        nodes: Those that count.
        patience_seconds: How long to wait for quiet readings.

    Raises:
        DeviceError: A device failed.
        ProfileError: No part of the run computes these nodes.
    """
    executable.run(feeds)
    parts = _split_at_meetings(executable.entries)
    chosen = [any(label is not None and label.name in nodes for _, label in part) for part in parts]
    if not any(chosen):
        raise ProfileError(f"plan: got no part that computes {', '.join(sorted(nodes))}, expected one")
    readings: list[Reading] = []
    quiet_seconds = 0.0
    end = time.monotonic() + patience_seconds
    for turn in count(1):
        taken = beside = 0.0
        for part, is_chosen in zip(parts, chosen, strict=True):
            if not is_chosen:
                _play(part)
                continue
            before = [survey.guard.read() for survey in surveys]
            seconds = _play(part)
            after = [survey.guard.read() for survey in surveys]
            taken += seconds
            beside += seconds * sum(before + after) / 2
        readings.append(Reading(taken, beside / taken))
        if turn >= _LEAST_RUNS and turn % _LEAST_RUNS == 0:
            quiet_seconds = sum(survey.guard.quiet_seconds for survey in surveys)
            if find_quiet(readings, quiet_seconds)[1] <= _SETTLED or time.monotonic() > end:
                break
    return surveys[0].count_references(find_quiet(readings, quiet_seconds)[0])


def _play(entries: Sequence[Entry]) -> float:
    """Return how long the host is at some calls, in seconds."""
    with pinned_caller():
        start = time.perf_counter()
        for call, _ in entries:
            call()
        return time.perf_counter() - start


def _play_guarded(executable: Executable, guard: Guard) -> list[Reading]:
    """Return what each kernel took, and the guards beside it."""
    with pinned_caller():
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


def _find_host_seconds(executable: Executable) -> float:
    """Return what a run takes beyond its kernels: handing them over, and waiting for the last."""
    found = []
    for _ in range(_HOST_RUNS):
        with pinned_caller():
            start = time.perf_counter()
            results = [(call(), label) for call, label in executable.entries]
            executable.devices[0].finish()
            taken = time.perf_counter() - start
        kernels = (result for result, label in results if label is not None and label.kind in KERNELS)
        found.append(taken - sum(map(_count_seconds, kernels)))
    return max(0.0, float(np.percentile(found, _HOST_PERCENT)))


def _split_at_meetings(entries: Sequence[Entry]) -> list[list[Entry]]:
    """Return the parts of a run, each up to where the host has waited for devices."""
    parts: list[list[Entry]] = [[]]
    is_waiting = False
    for call, label in entries:
        waits = label is not None and label.kind is EventKind.WAIT
        if is_waiting and not waits:
            parts.append([])
        is_waiting = waits
        parts[-1].append((call, label))
    return parts


def _count_seconds(event: Any) -> float:
    return SECONDS_PER_NS * count_ns(event)
