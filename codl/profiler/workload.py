"""Which slices of which layers to measure: real shapes, cuts of them, shapes between, both sides of steps.

Everything is drawn from seeded generators, so a profiler that is started again asks for the same cases.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, islice
from math import prod

import numpy as np

from codl.assets import profiles_dir
from codl.catalog.candidates import can_use, describe_whole
from codl.catalog.choose import choose
from codl.catalog.layers import Layer, load_layers
from codl.catalog.pairs import list_pairs
from codl.catalog.spec import Implementation, Selection
from codl.catalog.stored import load_database
from codl.catalog.table import IMPLEMENTATIONS, PAIRS
from codl.errors import UnsupportedError
from codl.ir.boxes import Boxes, Region
from codl.ir.graph import Graph
from codl.ir.regions import find_splittable_axes
from codl.machine import DeviceInfo, DeviceKind
from codl.profiler.case import Case
from codl.profiler.mutation import mutate

IMAGE_AXES = (2, 1, 0)
"""Height, channels and batch: where plans cut images."""
FIRST_CASES = 8
"""Of every row, before cases are shared out by weight."""
_LEAST_WEIGHT, _PEAK_WEIGHT = 0.02, 0.25
"""Least weight of a kernel, and its weight over its largest share of any network's time."""
_FLOPS_PER_BYTE = 8.0
"""Arithmetic that takes as long as a byte, to guess times before anything is measured."""
_MOST_BYTES = 1 << 30
_CPU_COST, _GPU_COST = 6e7, 5e8
"""Work, in bytes moved, of a case of about 2 ms: of one compute unit, of a whole device.

A budget is better spent on many short cases, as time is linear in the work that the features count, and
processes that share a core run undisturbed for no more than a few ms.
"""
_LONG_SHARE, _LONGEST = 0.15, 25.0
"""Share of longer layers that are measured whole nevertheless, and how many times longer they may be."""
_PANEL, _ALIGNED = 16, 0.75
"""Channels of a usual panel, and the share of cuts between channels that lie at multiples of it."""
_PATTERN = ("whole", "slice", "whole", "step", "slice", "between", "slice", "whole", "between", "step")
"""Kinds of a row's cases, in turn."""

Generator = np.random.Generator


@dataclass(frozen=True, kw_only=True)
class RowWork:
    """The layers on which one implementation may be measured."""

    row: Implementation
    layers: tuple[Layer, ...]
    """Those it is chosen for, or all that it accepts when it is chosen for none.

    First come those that take most of some network's time.
    """
    leading: tuple[Layer, ...]
    """Those that share the program most layers need: it is built once for all of them."""
    weight: float
    """Share of the cases that are the row's, by its share of the networks' work; sums to 1 over all rows."""


def load_workload() -> tuple[Layer, ...]:
    """Return the layers that ship with codl."""
    return load_layers(profiles_dir() / "workloads" / "layers.json")


def load_pairs() -> tuple[Layer, ...]:
    """Return the shipped groups of operators that one launch may compute."""
    return load_layers(profiles_dir() / "workloads" / "pairs.json")


def share_out(
    layers: Sequence[Layer], info: DeviceInfo, rows: Sequence[Implementation] = (*IMPLEMENTATIONS, *PAIRS)
) -> tuple[RowWork, ...]:
    """Return for each row of the table the layers to measure it on; rows that accept none are left out.

    Args:
        layers: Operators, and groups of operators that one launch computes.
        info: The device.
        rows: The table.
    """
    graphs = [layer.make_graph() for layer in layers]
    chosen: dict[str, list[Layer]] = {row.name: [] for row in rows}
    programs: dict[str, dict[str, list[Layer]]] = {row.name: {} for row in rows}
    costs: list[tuple[str, Layer, float]] = []
    totals: dict[str, float] = defaultdict(float)
    for layer, graph in zip(layers, graphs, strict=True):
        selection = _choose(graph, info)
        if selection is None or (name := selection.implementation.name) not in chosen:
            continue
        chosen[name].append(layer)
        programs[name].setdefault(str(selection), []).append(layer)
        cost = _guess_cost(graph, selection, info)
        costs.append((name, layer, cost))
        for network, count in layer.uses.items():
            totals[network] += cost * count
    shares: dict[str, dict[str, float]] = {row.name: defaultdict(float) for row in rows}
    peaks: dict[str, float] = defaultdict(float)
    for name, layer, cost in costs:
        for network, count in layer.uses.items():
            share = cost * count / totals[network]
            shares[name][network] += share
            peaks[layer.key] = max(peaks[layer.key], share)
    works = []
    for row in rows:
        accepted = [layer for layer, graph in zip(layers, graphs, strict=True) if _accepts(row, graph, info)]
        if not accepted:
            continue
        own, leading = shares[row.name].values(), max([*programs[row.name].values()] or [accepted], key=len)
        work = RowWork(
            row=row,
            layers=tuple(sorted(chosen[row.name] or accepted, key=lambda layer: -peaks[layer.key])),
            leading=tuple(leading),
            weight=max(sum(own) / max(1, len(totals)), _PEAK_WEIGHT * max(own, default=0.0), _LEAST_WEIGHT),
        )
        works.append(work)
    total = sum(work.weight for work in works)
    return tuple(replace(work, weight=work.weight / total) for work in works)


def _accepts(row: Implementation, graph: Graph, info: DeviceInfo) -> bool:
    """Return whether a row can compute the operators of a layer in one launch."""
    *before, node = graph.nodes
    is_asked = row.suits(info) and row.taken == len(before)
    return is_asked and row.accepts(node, graph, info) is not None


def _choose(graph: Graph, info: DeviceInfo) -> Selection | None:
    """Return the kernel with which the executor would compute a layer; None where no kernel does."""
    *before, node = graph.nodes
    if before:
        found = (how for count, how in list_pairs(node, graph, info) if count == len(before))
        return next(found, None)
    with suppress(UnsupportedError):
        return choose(node, graph, info, load_database(info))
    return None


def iterate_row(work: RowWork, info: DeviceInfo) -> Iterator[Case]:
    """Yield the cases of one row for ever, each kind in turn, beginning with some of its leading layers.

    After these no layer comes twice before all came once. Whole ones come in the order of the time that
    networks spend on them, so that the most important layers are measured themselves.
    """
    rng = np.random.default_rng([0, *work.row.name.encode()])
    some = FIRST_CASES // 2
    first = islice(_cycle(work.leading, rng, spread_first=True), some)
    wholes = chain(first, work.layers, _cycle(work.layers, rng))
    others = chain(islice(_cycle(work.leading, rng), some), _cycle(work.layers, rng))
    seen: set[str] = set()
    idle = 0
    while idle < 100:
        for kind in _PATTERN:
            layer = next(wholes) if kind == "whole" else next(others)
            for case in _draw(kind, layer, work.row, info, rng):
                idle += 1
                if case.key not in seen and case.size_bytes <= _MOST_BYTES:
                    idle = 0
                    seen.add(case.key)
                    yield case


def merge(works: Sequence[RowWork], streams: Mapping[str, Iterator[Case]]) -> Iterator[Case]:
    """Yield the first cases of every row, then cases of each in proportion to its weight, until all end."""
    due = {work.row.name: 0.0 for work in works}
    steps = {work.row.name: 1.0 / work.weight for work in works}
    alive = dict(streams)
    for _ in range(FIRST_CASES):
        for stream in alive.values():
            yield from islice(stream, 1)
    while alive:
        name = min(alive, key=lambda one: (due[one], one))
        due[name] += steps[name]
        drawn = next(alive[name], None)
        if drawn is None:
            del alive[name]
        else:
            yield drawn


def _draw(kind: str, layer: Layer, row: Implementation, info: DeviceInfo, rng: Generator) -> Iterator[Case]:
    graph = layer.make_graph()
    selection = select(row, graph, info)
    if kind == "between":
        relative = mutate(layer, rng)
        if relative is not None:
            layer, graph = relative, relative.make_graph()
            # The same program where possible: building another one takes longer than measuring.
            selection = _keep(selection, graph, info)
        kind = "slice" if relative is None or rng.random() < 0.5 else "whole"
    if selection is None:
        return
    whole = Region.whole(layer.output)
    cost = _guess_cost(graph, selection, info)
    limit = _CPU_COST * info.units if info.kind is DeviceKind.CPU else _GPU_COST
    if kind == "whole" and cost > limit:
        kind = "whole" if cost <= _LONGEST * limit and rng.random() < _LONG_SHARE else "slice"
    axes = find_splittable_axes(graph.nodes[-1], graph)
    if len(layer.output) == 4:
        axes = tuple(axis for axis in IMAGE_AXES if axis in axes)
    regions = [whole]
    if kind != "whole" and axes:
        weights = np.array([0.6, 0.3, 0.1][: len(axes)])
        axis = axes[int(rng.choice(len(axes), p=weights / weights.sum()))]
        if kind == "step":
            regions = _find_step(selection, graph, axis, info, rng, most=limit / cost)
        else:
            step = _draw_step(axis, rng)
            regions = [
                whole.cut(axis, *_draw_interval(layer.output[axis], rng, most=limit / cost, step=step))
            ]
    for region in regions:
        yield Case(layer=layer, selection=selection, region=region)


def select(row: Implementation, graph: Graph, info: DeviceInfo) -> Selection | None:
    """Return a row with the parameters with which it would run; None where it cannot compute the graph."""
    parameters = row.accepts(graph.nodes[-1], graph, info)
    if parameters is None:
        return None
    chosen = _choose(graph, info)
    if chosen is not None and chosen.implementation.name == row.name:
        return chosen
    return Selection(implementation=row, parameters=parameters)


def _keep(selection: Selection | None, graph: Graph, info: DeviceInfo) -> Selection | None:
    """Return a layer's selection for a mutation of it, or the row's own choice where that does not fit."""
    if selection is None:
        return None
    (node,) = graph.nodes
    default = selection.implementation.accepts(node, graph, info)
    if default is not None and can_use(selection, node, graph, info, default=default):
        return selection
    return select(selection.implementation, graph, info)


def _draw_step(axis: int, rng: Generator) -> int:
    """Return the step of an interval's ends, as planners cut channels at vectors and panels."""
    return _PANEL if axis == 1 and rng.random() < _ALIGNED else 1


def _draw_interval(length: int, rng: Generator, *, most: float, step: int = 1) -> tuple[int, int]:
    """Return an interval as a device may get it: from the beginning, to the end, or between two others.

    Args:
        length: Of the axis.
        rng: The generator.
        most: Largest share of the axis.
        step: Ends inside the axis are multiples of it, unless the interval would be empty.
    """
    share = float(rng.choice([rng.uniform(0.05, 0.95), 0.5]))
    size = min(length, max(1, round(length * (share if most >= 1 else most * share))))
    place = rng.random()
    begin = 0 if place < 0.4 else length - size if place < 0.8 else int(rng.integers(length - size + 1))
    first, last = (length if end == length else round(end / step) * step for end in (begin, begin + size))
    return (first, min(last, length)) if first < last else (begin, begin + size)


def _find_step(
    selection: Selection, graph: Graph, axis: int, info: DeviceInfo, rng: Generator, *, most: float
) -> list[Region]:
    """Return two neighbouring sizes of a slice, up to a share of the axis, between which a unit count jumps.

    Sizes of channels are mostly neighbours among those that planners ask for.
    """
    node = graph.nodes[-1]
    shape = graph.shape(node.output)
    length = shape[axis]
    ends = np.arange(1, length + 1)
    boxes = Boxes.whole(shape, length).with_axis(axis, 0, ends)
    batches = selection.implementation.describe(node, graph, boxes, info, selection.parameters)
    counts = [units for batch in batches for units in batch.units.values()]
    jumps = np.flatnonzero(sum(np.abs(np.diff(units)) for units in counts)) + 1 if counts else np.arange(0)
    jumps = jumps[jumps <= max(2, most * length)]
    whole = Region.whole(shape)
    if not len(jumps):
        return [whole.cut(axis, 0, max(1, length // 2))]
    step = _draw_step(axis, rng)
    asked = jumps[(jumps % step == 0) & (jumps + step <= length)]
    end, step = (int(rng.choice(asked)), step) if len(asked) else (int(rng.choice(jumps)), 1)
    return [whole.cut(axis, 0, end), whole.cut(axis, 0, end + step)]


def _cycle(layers: Sequence[Layer], rng: Generator, *, spread_first: bool = False) -> Iterator[Layer]:
    """Yield layers in random order again and again, at first a few of all sizes if ``spread_first``."""
    if spread_first:
        ordered = sorted(layers, key=lambda layer: prod(layer.output))
        few = min(len(ordered), 5)
        yield from (ordered[round(place)] for place in np.linspace(0, len(ordered) - 1, few))
    while True:
        for place in rng.permutation(len(layers)):
            yield layers[int(place)]


def _guess_cost(graph: Graph, selection: Selection, info: DeviceInfo) -> float:
    """Return a layer's work in bytes: those moved, and those that its arithmetic is worth."""
    batches = describe_whole(selection, graph.nodes[-1], graph, info)
    return float(sum(b.flops[0] / _FLOPS_PER_BYTE + b.read_bytes[0] + b.written_bytes[0] for b in batches))
