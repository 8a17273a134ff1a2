"""Predictions of slices of many operators on several devices, made together.

A launch is described once for all devices whose facts lead to the same description, and features are
extracted once for all descriptions of one sort.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from codl.catalog.joined import find_sort, join_batches, list_described_facts
from codl.catalog.spec import LaunchBatch, Selection
from codl.ir.graph import Graph, Node
from codl.ir.regions import Boxes, OutputBoxes, Region
from codl.ir.stacking import find_stacked_sort, repeat_all, stack_nodes
from codl.latency.epilogues import Epilogues
from codl.latency.features import extract_features
from codl.latency.predictor import Predictor, Times
from codl.machine import DeviceInfo, DeviceKind

Ints = npt.NDArray[np.int64]
_Stacks = dict[tuple[Hashable, tuple[int, ...]], dict[Hashable, list[int]]]
"""By kind of launch and devices, then by sort of stacked operators, the places of questions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Which slices of one operator to predict on each device."""

    node: Node
    out: OutputBoxes
    """Boxes of the node's output, none of them empty."""
    selections: tuple[Selection, ...]
    """By device, the kernel."""


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
    """Questions about launches of one sort, for the same devices."""

    devices: tuple[int, ...]
    questions: list[int] = field(default_factory=list)
    batches: list[tuple[LaunchBatch, ...]] = field(default_factory=list)


def answer_questions(questions: Sequence[Question], graph: Graph, predictors: Sequence[Predictor]) -> Answers:
    """Return the predictions of all questions for each device.

    Args:
        questions: At least one.
        graph: The network of all nodes.
        predictors: One for each device.
    """
    counts = [question.out.count for question in questions]
    starts = list(accumulate(counts, initial=0))
    us = np.empty((len(predictors), starts[-1]))
    memory_us, uncertainties = np.zeros_like(us), [0.0] * len(questions)
    far_shares = [predictor.find_far_share(graph) for predictor in predictors]
    for group in _describe(questions, graph, predictors, far_shares):
        batches = [join_batches(parts) for parts in zip(*group.batches, strict=True)]
        asked, first = [questions[question] for question in group.questions], group.devices[0]
        sizes = [counts[question] for question in group.questions]
        selections = [question.selections[first] for question in asked]
        name = selections[0].implementation.name
        features = extract_features(
            batches,
            repeat_all([one.parameters for one in selections], sizes),
            predictors[first].info,
            epilogues=Epilogues.join([question.node.epilogue for question in asked], sizes),
            far_share=far_shares[first],
        )
        places = _list_places(group.questions, starts)
        for device in group.devices:
            predictor = predictors[device]
            mine, doubt = predictor.predict_times(name, features), predictor.find_uncertainty(name)
            us[device, places] = mine.us
            memory_us[device, places] = mine.us * mine.memory_share
            for question in group.questions:
                uncertainties[question] = max(uncertainties[question], doubt)
    return Answers(us=us, memory_us=memory_us, uncertainties=np.array(uncertainties))


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Of one launch on a device that works alone."""

    us: float
    memory_us: float
    """The part of it that memory limits."""


def predict_regions(
    launches: Sequence[tuple[Node, Mapping[int, Selection], Sequence[Region]]],
    graph: Graph,
    predictors: Sequence[Predictor],
) -> list[dict[tuple[int, Region], Latency]]:
    """Return by device and region the latency of launches.

    Args:
        launches: The operator of each, the kernel by device, regions of the operator's output. A kernel may
            also compute operators before that one.
        graph: The network.
        predictors: Of the devices.
    """
    found: list[dict[tuple[int, Region], Latency]] = [{} for _ in launches]
    alike: dict[tuple[int, ...], list[int]] = {}
    for place, (_, kernels, _) in enumerate(launches):
        alike.setdefault(tuple(sorted(kernels)), []).append(place)
    for devices, places in alike.items():
        asked = [launches[place] for place in places]
        nodes, boxes = [node for node, _, _ in asked], [Boxes.of(regions) for _, _, regions in asked]
        questions = [
            Question(node=node, out=out, selections=tuple([kernels[device] for device in devices]))
            for (node, kernels, _), out in zip(asked, OutputBoxes.find_all(nodes, graph, boxes), strict=True)
        ]
        answers = answer_questions(questions, graph, [predictors[device] for device in devices])
        keys = [(place, region) for place in places for region in launches[place][2]]
        for device, *columns in zip(devices, answers.us.tolist(), answers.memory_us.tolist(), strict=True):
            for (place, region), us, memory_us in zip(keys, *columns, strict=True):
                found[place][device, region] = Latency(us=us, memory_us=memory_us)
    return found


def _list_places(questions: Sequence[int], starts: Sequence[int]) -> slice | Ints:
    """Return where the boxes of some questions stand among those of all.

    Args:
        questions: In the order of their boxes.
        starts: Boxes before each question's, and of all at the end.
    """
    if len(questions) == 1:
        return slice(starts[questions[0]], starts[questions[0] + 1])
    return np.concatenate([np.arange(starts[place], starts[place + 1]) for place in questions])


def _describe(
    questions: Sequence[Question],
    graph: Graph,
    predictors: Sequence[Predictor],
    far_shares: Sequence[float],
) -> Iterator[_Group]:
    """Yield the launches of all questions, by sort."""
    for (_, devices), stacks in _stack(questions, graph, predictors, far_shares).items():
        with np.printoptions(threshold=0, edgeitems=1):  # names of packed constants tell of sizes
            groups = _describe_stacks(stacks.values(), devices, questions, graph, predictors)
        yield from groups


def _describe_stacks(
    stacks: Iterable[Sequence[int]],
    devices: tuple[int, ...],
    questions: Sequence[Question],
    graph: Graph,
    predictors: Sequence[Predictor],
) -> Iterable[_Group]:
    """Return the launches of some devices for stacks of questions, which are given by their places."""
    groups: dict[Hashable, _Group] = {}
    for places in stacks:
        asked = [questions[place] for place in places]
        selections = [question.selections[devices[0]] for question in asked]
        counts = [question.out.count for question in asked]
        stack = stack_nodes([question.node for question in asked], graph, counts)
        out = asked[0].out if len(asked) == 1 else OutputBoxes.join([one.out for one in asked], stack)
        parameters = repeat_all([one.parameters for one in selections], counts)
        describe, info = selections[0].implementation.describe, predictors[devices[0]].info
        batches = describe(stack.node, stack.graph, out, info, parameters)
        sorts = tuple([find_sort(batch) for batch in batches])
        group = groups.setdefault(sorts, _Group(devices))
        group.questions += places
        group.batches.append(batches)
    return groups.values()


def _stack(
    questions: Sequence[Question],
    graph: Graph,
    predictors: Sequence[Predictor],
    far_shares: Sequence[float],
) -> _Stacks:
    """Return the questions whose launches are described at once, by what they have in common.

    That is what their features depend on, the devices, and what the operators must have in common.
    """
    facts = [_list_facts(predictor.info) for predictor in predictors]
    stacks: _Stacks = {}
    for place, question in enumerate(questions):
        node = question.node
        alike: dict[tuple[str, tuple[tuple[str, int], ...], Hashable], list[int]] = {}
        for device, selection in enumerate(question.selections):
            name = selection.implementation.name
            asked = facts[device], far_shares[device]
            alike.setdefault((name, tuple(selection.parameters.items()), asked), []).append(device)
        for (name, parameters, fact), devices in alike.items():
            row = question.selections[devices[0]].implementation
            sort = find_stacked_sort(node, graph) if row.stacks else None
            kind = name, tuple([one for one, _ in parameters]), fact
            mine = stacks.setdefault((kind, tuple(devices)), {})
            mine.setdefault(place if sort is None else sort, []).append(place)
    return stacks


def _list_facts(info: DeviceInfo) -> tuple[Hashable, ...]:
    """Return all facts of a device that features depend on; work-groups come in waves on GPUs only."""
    multiple = info.work_group_multiple if info.kind is DeviceKind.GPU else 1
    return *list_described_facts(info), multiple
