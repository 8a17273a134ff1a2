"""How long slices of many operators take on several devices: asked at once, what is alike is learned once.

A launch is described once for all devices whose facts lead to the same description, and features are
extracted once for all descriptions of one sort.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np

from codl.catalog.joined import find_sort, join_batches, list_described_facts
from codl.catalog.pairs import count_taken
from codl.catalog.spec import LaunchBatch, Selection
from codl.ir.boxes import Boxes
from codl.ir.graph import Graph, Node
from codl.latency.amounts.crossing import Crossing, find_crossing, join_crossings
from codl.latency.features import Features, extract_features
from codl.latency.known import mark_node
from codl.latency.predictor import Predictor, Times
from codl.latency.profile import RowModel
from codl.machine import DeviceInfo, DeviceKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What slices of one operator take on each device."""

    node: Node
    out: Boxes
    """Boxes of the node's output, none of them empty."""
    selections: tuple[Selection, ...]
    """By device, what computes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """Times of all questions' boxes, one question's after the other's."""

    us: Times
    """[device, count] Alone."""
    memory_us: Times
    """[device, count] As much of it as memory limits."""
    uncertainties: Times
    """[question] Typical relative error, the largest of all devices."""


@dataclass(slots=True)
class _Group:
    """Descriptions of one sort, for the same devices."""

    selection: Selection
    node: Node
    """One of those that are described."""
    devices: tuple[int, ...]
    questions: list[int] = field(default_factory=list)
    batches: list[tuple[LaunchBatch, ...]] = field(default_factory=list)


def answer_questions(questions: Sequence[Question], graph: Graph, predictors: Sequence[Predictor]) -> Answers:
    """Return what each predictor says about all questions.

    Args:
        questions: At least one.
        graph: The network of all nodes.
        predictors: One for each device.

    Raises:
        ProfileError: An implementation has no predictor, or one of another source.
    """
    counts = [question.out.count for question in questions]
    starts = np.cumsum([0, *counts])
    us = np.empty((len(predictors), int(starts[-1])))
    memory_us, uncertainties = np.empty_like(us), np.zeros(len(questions))
    for group in _describe(questions, graph, predictors):
        batches = [join_batches(parts) for parts in zip(*group.batches, strict=True)]
        asked = [questions[question] for question in group.questions]
        name = group.selection.implementation.name
        known = [row for device in group.devices if (row := predictors[device].profile.rows.get(name))]
        if all(predictors[device].is_by_totals(name) for device in group.devices):
            features = _count_totals(batches)
        else:
            features = extract_features(
                batches,
                group.selection.parameters,
                predictors[group.devices[0]].info,
                epilogue=group.node.epilogue,
                crossing=_find_crossing(asked, graph) if any(map(_asks_for_pieces, known)) else None,
            )
        launches = np.sum(
            [(batch.global_size > 0).all(axis=1) for batch in batches], axis=0, dtype=np.float64
        )
        sizes = [counts[question] for question in group.questions]
        stops = np.cumsum(sizes)[:-1]
        marks = [""] * len(asked)
        if any(row.layers for row in known):
            taken = count_taken(group.selection.implementation)
            marks = [mark_node(one.node, graph, group.selection.parameters, taken=taken) for one in asked]
        for device in group.devices:
            predictor = predictors[device]
            found = predictor.predict_features(
                name, features, np.asarray(launches), marks=marks, counts=sizes
            )
            parts = np.split(found.us, stops), np.split(found.us * found.memory_share, stops)
            for question, mark, part, slow in zip(group.questions, marks, *parts, strict=True):
                place = slice(starts[question], starts[question + 1])
                us[device, place], memory_us[device, place] = part, slow
                uncertainty = predictor.find_uncertainty(name, mark)
                uncertainties[question] = max(uncertainties[question], uncertainty)
    return Answers(us=us, memory_us=memory_us, uncertainties=uncertainties)


def _asks_for_pieces(row: RowModel) -> bool:
    return any("pieces" in name for name in row.model.features)


def _find_crossing(questions: Sequence[Question], graph: Graph) -> Crossing:
    return join_crossings([find_crossing(one.node, graph, one.out) for one in questions])


def _count_totals(batches: Sequence[LaunchBatch]) -> Features:
    """Return what `extract_features` does without any feature but `FLOPS`."""
    moved, flops = np.zeros(len(batches[0].global_size)), np.zeros(len(batches[0].global_size))
    for batch in batches:
        is_active = (batch.global_size > 0).all(axis=1)
        moved += np.where(is_active, batch.read_bytes + batch.written_bytes, 0)
        flops += np.where(is_active, batch.flops, 0)
    return Features(names=(), values=np.zeros((len(moved), 0)), moved_bytes=moved, flops=flops)


def _describe(questions: Sequence[Question], graph: Graph, predictors: Sequence[Predictor]) -> list[_Group]:
    """Return what is launched for all questions, by sort."""
    facts = [_list_facts(predictor.info) for predictor in predictors]
    groups: dict[Hashable, _Group] = {}
    for place, question in enumerate(questions):
        alike: dict[Hashable, list[int]] = {}
        for device, selection in enumerate(question.selections):
            key = selection.implementation.name, tuple(selection.parameters.items()), facts[device]
            alike.setdefault(key, []).append(device)
        for described, devices in alike.items():
            selection = question.selections[devices[0]]
            batches = selection.implementation.describe(
                question.node, graph, question.out, predictors[devices[0]].info, selection.parameters
            )
            sorts = tuple([find_sort(batch) for batch in batches])
            number = described, tuple(devices), question.node.epilogue, sorts
            group = groups.get(number)
            if group is None:
                group = groups[number] = _Group(selection, question.node, tuple(devices))
            group.questions.append(place)
            group.batches.append(batches)
    return list(groups.values())


def _list_facts(info: DeviceInfo) -> tuple[Hashable, ...]:
    """Return all facts of a device that features depend on; work-groups come in waves on GPUs only."""
    multiple = info.work_group_multiple if info.kind is DeviceKind.GPU else 1
    return *list_described_facts(info), multiple
