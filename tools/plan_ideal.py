"""Compares a network's time with the ideal without overhead, and splits the difference by cause.

In the ideal every operator runs at the sum of the devices' speeds. A plan takes longer for three reasons,
whose factors multiply to the whole: the division of work (one device has more to do, both compute the same
rows, slices take longer than their share), contention, and synchronization with all that the host does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from codl.catalog.stored import load_databases
from codl.devices.awake import attentive_host
from codl.devices.opencl import Device
from codl.devices.stopwatch import SECONDS_PER_NS, count_ns
from codl.devices.timing import lead_in, summarise_ratios, time_call
from codl.executor.compile import compile_plan
from codl.executor.run import Executable
from codl.executor.trace import KERNELS, Entry, EventKind
from codl.ir.boxes import Boxes
from codl.ir.graph import Graph
from codl.latency.predictor import Predictor
from codl.plan.single import plan_single
from codl.plan.steps import Plan

_WARMUP = 2
_US = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Excess:
    """By what factors a run takes longer than the ideal."""

    whole: float
    division: float
    """Of the kernels that each device has to do between two meetings, the longest sum, each by itself."""
    beside: float
    """What the same sums take while the other device works."""
    rest: float
    """The run over those: meetings, waiting, the host."""


def study_network(
    graph: Graph,
    plan: Plan,
    devices: Sequence[Device],
    predictors: Sequence[Predictor],
    *,
    feeds: Mapping[str, Any],
    rounds: int,
) -> dict[str, Any]:
    """Return what a plan takes over the ideal: medians of rounds, `median` with its interval `ci90`.

    Args:
        graph: The network.
        plan: Over the devices.
        devices: In the plan's order.
        predictors: One for each device.
        feeds: The network's inputs.
        rounds: How many, after two that do not count.
    """
    databases = load_databases(device.info for device in devices)
    traced = [device.with_profiling() for device in devices]
    plain = compile_plan(graph, plan, devices, databases=databases)
    watched = compile_plan(graph, plan, traced, databases=databases)
    singles = [
        compile_plan(graph, plan_single(graph, device=one.info.name), [one], databases=databases)
        for one in traced
    ]
    memory_bound = _find_memory_bound(graph, predictors)
    measure = lead_in(time_call(partial(plain.run, feeds)))
    found = []
    for index in range(rounds + _WARMUP):
        ideal_us = _find_ideal_us([_time_operators(one, feeds) for one in singles], memory_bound, predictors)
        apart_us, together_us = (_find_busy_us(watched, feeds, is_alone=alone) for alone in (True, False))
        taken_us = measure() * _US
        if index >= _WARMUP:
            found.append(
                Excess(
                    whole=taken_us / ideal_us,
                    division=apart_us / ideal_us,
                    beside=together_us / apart_us,
                    rest=taken_us / together_us,
                )
            )
    ratio = summarise_ratios(np.array([one.whole for one in found]))
    parts = {
        name: float(np.median([getattr(one, name) for one in found]))
        for name in ("division", "beside", "rest")
    }
    return {"median": ratio.median, "ci90": [ratio.low, ratio.high], **parts}


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


def _find_busy_us(executable: Executable, feeds: Mapping[str, Any], *, is_alone: bool) -> float:
    """Return the sum over the stretches between meetings of what the device takes that takes longest.

    Args:
        executable: Compiled for devices with profiling.
        feeds: The network's inputs.
        is_alone: Whether the devices compute their kernels of a stretch one after the other.
    """
    executable.run(feeds)
    total_us = 0.0
    with attentive_host():
        for stretch in split_at_meetings(executable.entries):
            kernels: list[list[Any]] = [[] for _ in executable.devices]
            for call, label in sorted(stretch, key=_find_turn) if is_alone else stretch:
                if label is None or label.kind not in KERNELS:
                    call()
                    continue
                if is_alone and not kernels[label.device]:
                    for device in executable.devices:
                        device.finish()
                kernels[label.device].append(call())
            for device in executable.devices:  # else one may begin when the other is done
                device.queue.flush()
            for device in executable.devices:
                device.finish()
            total_us += max(sum(map(count_ns, events)) for events in kernels) * SECONDS_PER_NS * _US
    return total_us


def _find_turn(entry: Entry) -> int:
    """Return when a call is made where devices take turns: the host's first, then kernels by device.

    What the host copies behind a kernel it copies before it so: times are right, values are not.
    """
    label = entry[1]
    return -1 if label is None or label.kind not in KERNELS else label.device


def _time_operators(executable: Executable, feeds: Mapping[str, Any]) -> dict[str, float]:
    """Return by node what its kernels took in the second of two runs, in us."""
    executable.run(feeds)
    found: dict[str, float] = {}
    for event in executable.run_traced(feeds)[1].events:
        if event.kind is EventKind.LAUNCH:
            found[event.name] = found.get(event.name, 0.0) + event.duration_us
    return found


def _find_memory_bound(graph: Graph, predictors: Sequence[Predictor]) -> set[str]:
    return {
        node.name
        for node in graph.nodes
        if all(
            one.predict(node, graph, Boxes.whole(graph.shape(node.output), 1)).memory_share[0] > 0.5
            for one in predictors
        )
    }


def _find_ideal_us(
    operators: Sequence[Mapping[str, float]], memory_bound: set[str], predictors: Sequence[Predictor]
) -> float:
    """Return the sum over operators at the sum of the devices' speeds; memory has one speed for all."""
    slowed = [
        max(
            one.profile.neighbours[other.info.name].slowdown[1][1] for other in predictors if other is not one
        )
        for one in predictors
    ]
    total = 0.0
    for name in operators[0]:
        factors = slowed if name in memory_bound else [1.0] * len(operators)
        taken = [one.get(name, 0.0) * factor for one, factor in zip(operators, factors, strict=True)]
        total += 1 / sum(1 / max(us, 1e-3) for us in taken)
    return total
