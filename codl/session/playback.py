"""What runs of a plan take in quiet moments, found launch by launch or from meeting to meeting.

A whole inference lasts longer than the quiet moments of a machine that others share. Its parts do not: so
they stand between guards, as the samples do that predictors learn from, and what they take when all is quiet
is added up.
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
from codl.profiler.guard import Guard
from codl.profiler.survey import NEEDED, Reading, Survey, sort_out

_PATIENCE_SECONDS = 20.0
_LEAST_RUNS = 5
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
        survey: Knows quiet moments of that device.
        feeds: The network's inputs.
        patience_seconds: How long to wait for quiet readings of all launches.

    Raises:
        DeviceError: The device failed.
    """
    executable.run(feeds)
    quiet: dict[int, list[Reading]] = {}
    others: dict[int, list[Reading]] = {}
    places: range = range(0)
    end = time.monotonic() + patience_seconds
    for turn in count():
        survey.guard.wait(1.0)
        rows = _play_guarded(executable, survey.guard)
        places = range(len(rows))
        for place, (before, taken, after) in enumerate(rows):
            is_quiet = survey.guard.are_quiet(before, after)
            reading = taken, 2 * taken / (before + after)
            (quiet if is_quiet else others).setdefault(place, []).append(reading)
        is_enough = all(len(quiet.get(place, ())) >= NEEDED for place in places)
        if turn >= _LEAST_RUNS and (is_enough or time.monotonic() > end):
            break
    times = [sort_out(quiet.get(place, ()), others.get(place, ()))[1] for place in places]
    return survey.count_references(sum(times) + _find_host_seconds(executable) / survey.guard.quiet_seconds)


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
        surveys: Each knows quiet moments of its device.
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
    quiet: list[Reading] = []
    others: list[Reading] = []
    end = time.monotonic() + patience_seconds
    for turn in count():
        seconds, relative, is_quiet = 0.0, 0.0, True
        for part, is_chosen in zip(parts, chosen, strict=True):
            if not is_chosen:
                _play(part)
                continue
            before = [survey.read_guard() for survey in surveys]
            taken = _play(part)
            after = [survey.read_guard() for survey in surveys]
            for survey, *both in zip(surveys, before, after, strict=True):
                is_quiet &= survey.guard.are_quiet(*both)
            seconds += taken
            relative += 2 * taken / (before[0] + after[0])
        (quiet if is_quiet else others).append((seconds, relative))
        if turn >= _LEAST_RUNS and (len(quiet) >= 2 * NEEDED or time.monotonic() > end):
            break
    return surveys[0].count_references(sort_out(quiet, others)[1])


def _play(entries: Sequence[Entry]) -> float:
    """Return how long the host is at some calls, in seconds."""
    with pinned_caller():
        start = time.perf_counter()
        for call, _ in entries:
            call()
        return time.perf_counter() - start


def _play_guarded(executable: Executable, guard: Guard) -> list[tuple[float, float, float]]:
    """Return what the guard before, the kernel and the guard after took for each kernel, in seconds."""
    with pinned_caller():
        guards, kernels = [guard.call()], []
        for call, label in executable.entries:
            result: Any = call()
            if label is not None and label.kind in KERNELS:
                kernels.append(result)
                guards.append(guard.call())
        executable.devices[0].finish()
    beside = [_count_seconds(event) for event in guards]
    return list(zip(beside, map(_count_seconds, kernels), beside[1:], strict=False))


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
