"""Which slices of which layers to measure: real shapes, cuts of them, shapes between, both sides of steps.

Everything is drawn from seeded generators: a second start of the profiler wants what the first wanted.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
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
"""Of every row, before rows get what is due to them."""
_LEAST_WEIGHT, _PEAK_WEIGHT = 0.02, 0.25
"""Share of the samples that even a kernel of no network's time gets, and what of its largest share of any."""
_FLOPS_PER_BYTE = 8.0
"""To weigh kernels before anything is measured."""
_MOST_BYTES = 1 << 30
_CPU_COST, _GPU_COST = 6e7, 5e8
"""Work, in bytes moved, of a case of about 2 ms: of one compute unit, of a whole device.

A budget is better spent on many short cases: time is linear in the work that the features count. And
processes that share a core leave each other alone for no more than a few ms.
"""
_LONG_SHARE, _LONGEST = 0.15, 25.0
"""Share of longer layers that are measured whole all the same, and how much longer at the most."""
_PANEL, _ALIGNED = 16, 0.75
"""Channels of a usual panel, and the share of cuts between channels that lie at such."""
_PATTERN = ("whole", "slice", "whole", "step", "slice", "between", "slice", "whole", "between", "step")
"""What a row's cases are, in turn."""

Generator = np.random.Generator


@dataclass(frozen=True, kw_only=True)
class RowWork:
    """What one implementation may be measured on."""

    row: Implementation
    layers: tuple[Layer, ...]
    """Those it is chosen for, or all that it accepts when it is chosen for none.

    First come those that take most of some network's time.
    """
    leading: tuple[Layer, ...]
    """Those of the program that most of them want: one that is built once teaches soonest."""
    weight: float
    """Its share of the networks' work, roughly; sums to 1 over all rows."""


def load_workload() -> tuple[Layer, ...]:
    """Return the layers that ship with codl."""
    return load_layers(profiles_dir() / "workloads" / "layers.json")


def load_pairs() -> tuple[Layer, ...]:
    """Return the operators of those that ship that one launch may compute together."""
    return load_layers(profiles_dir() / "workloads" / "pairs.json")


def share_out(
    layers: Sequence[Layer], info: DeviceInfo, rows: Sequence[Implementation] = (*IMPLEMENTATIONS, *PAIRS)
) -> tuple[RowWork, ...]:
    """Return for each row of the table the layers to measure it on; rows that accept none are left out.

    Args:
        layers: Operators, and such as one launch computes.
        info: The device.
        rows: The table.
    """
    chosen: dict[str, list[Layer]] = {row.name: [] for row in rows}
    accepted: dict[str, list[Layer]] = {row.name: [] for row in rows}
    programs: dict[str, dict[str, list[Layer]]] = {row.name: {} for row in rows}
    work: dict[str, dict[str, float]] = {row.name: {} for row in rows}
    totals: dict[str, float] = {}
    costs: list[tuple[str, Layer, float]] = []
    for layer in layers:
        graph = layer.make_graph()
        node = graph.nodes[-1]
        for row in rows:
            is_asked = row.suits(info) and row.taken == len(layer.before)
            if is_asked and row.accepts(node, graph, info) is not None:
                accepted[row.name].append(layer)
        selection = _choose(graph, info)
        if selection is None:
            continue
        name = selection.implementation.name
        if name in chosen:
            chosen[name].append(layer)
            programs[name].setdefault(str(selection), []).append(layer)
            cost = _guess_cost(graph, selection, info)
            costs.append((name, layer, cost))
            for network, count in layer.uses.items():
                totals[network] = totals.get(network, 0.0) + cost * count
    peaks: dict[str, float] = {}
    for name, layer, cost in costs:
        for network, count in layer.uses.items():
            share = cost * count / totals[network]
            work[name][network] = work[name].get(network, 0.0) + share
            peaks[layer.key] = max(peaks.get(layer.key, 0.0), share)
    wanted = {name: _weigh(tuple(shares.values()), len(totals)) for name, shares in work.items()}
    known = [row for row in rows if accepted[row.name]]
    total = sum(wanted[row.name] for row in known)
    return tuple(
        RowWork(
            row=row,
            layers=tuple(
                sorted(chosen[row.name] or accepted[row.name], key=lambda layer: -peaks.get(layer.key, 0.0))
            ),
            leading=_find_longest([*programs[row.name].values()] or [accepted[row.name]]),
            weight=wanted[row.name] / total,
        )
        for row in known
    )


def _choose(graph: Graph, info: DeviceInfo) -> Selection | None:
    """Return what the executor would compute a layer with, if anything."""
    *before, node = graph.nodes
    if before:
        found = (how for count, how in list_pairs(node, graph, info) if count == len(before))
        return next(found, None)
    with suppress(UnsupportedError):
        return choose(node, graph, info, load_database(info))
    return None


def _find_longest(lists: Sequence[Sequence[Layer]]) -> tuple[Layer, ...]:
    longest = max(lists, key=len)
    return tuple(longest)


def _weigh(shares: Sequence[float], networks: int) -> float:
    """Return how many samples a kernel is worth: by its shares of the networks that use it, among so many."""
    mean = sum(shares) / max(1, networks)
    return max(mean, _PEAK_WEIGHT * max(shares, default=0.0), _LEAST_WEIGHT)


def iterate_row(work: RowWork, info: DeviceInfo) -> Iterator[Case]:
    """Yield the cases of one row for ever, each kind in turn, first of all some of its leading layers.

    Later no layer comes twice before all came once; whole ones come in the order of what networks spend on
    them, so that as much of each network as may be is known by itself.
    """
    rng = np.random.default_rng([0, *work.row.name.encode()])
    some = FIRST_CASES // 2
    wholes = chain(
        islice(_cycle(work.leading, rng, spread_first=True), some),
        work.layers,
        _cycle(work.layers, rng),
    )
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
    """Yield the first cases of every row, then each in proportion to its weight, until all are dry."""
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
            # The same program where it may be: building another one takes longer than measuring.
            selection = _keep(selection, graph, info)
        kind = "slice" if relative is None or rng.random() < 0.5 else "whole"
    if selection is None:
        return
    whole = Region.whole(layer.output)
    cost, limit = _guess_cost(graph, selection, info), _limit_cost(info)
    if kind == "whole" and cost > limit:
        kind = "whole" if cost <= _LONGEST * limit and rng.random() < _LONG_SHARE else "slice"
    axes = find_splittable_axes(graph.nodes[-1], graph)
    if len(layer.output) == 4:
        axes = tuple(axis for axis in IMAGE_AXES if axis in axes)
    regions = [whole]
    if kind != "whole" and axes:
        weights = np.array([0.6, 0.3, 0.1][: len(axes)])
        axis = axes[int(rng.choice(len(axes), p=weights / weights.sum()))]
        length = layer.output[axis]
        regions = (
            _find_step(selection, graph, axis, info, rng, most=limit / cost)
            if kind == "step"
            else [
                whole.cut(axis, *_draw_interval(length, rng, most=limit / cost, step=_draw_step(axis, rng)))
            ]
        )
    for region in regions:
        yield Case(layer=layer, selection=selection, region=region)


def select(row: Implementation, graph: Graph, info: DeviceInfo) -> Selection | None:
    """Return a row with the parameters that it would be run with, or None where it cannot."""
    parameters = row.accepts(graph.nodes[-1], graph, info)
    if parameters is None:
        return None
    chosen = _choose(graph, info)
    if chosen is not None and chosen.implementation.name == row.name:
        return chosen
    return Selection(implementation=row, parameters=parameters)


def _keep(selection: Selection | None, graph: Graph, info: DeviceInfo) -> Selection | None:
    """Return a layer's selection for its relative, or what the row itself would take there."""
    if selection is None:
        return None
    (node,) = graph.nodes
    default = selection.implementation.accepts(node, graph, info)
    if default is not None and can_use(selection, node, graph, info, default=default):
        return selection
    return select(selection.implementation, graph, info)


def _draw_step(axis: int, rng: Generator) -> int:
    """Return what the ends of an interval are multiples of: planners cut channels at vectors and panels."""
    return _PANEL if axis == 1 and rng.random() < _ALIGNED else 1


def _draw_interval(length: int, rng: Generator, *, most: float, step: int = 1) -> tuple[int, int]:
    """Return an interval as a device may get it: from the top, to the bottom, or between two others.

    Args:
        length: Of the axis.
        rng: What draws.
        most: Largest share of it.
        step: What its ends inside the axis are multiples of, where that leaves any.
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
    """Return two neighbouring sizes of a cut, up to a share of it, between which some unit count jumps.

    Sizes between channels are mostly neighbours among those that planners ask for.
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
    """Yield layers in random order again and again; at first some of all sizes when asked to."""
    if spread_first:
        ordered = sorted(layers, key=lambda layer: prod(layer.output))
        few = min(len(ordered), 5)
        yield from (ordered[round(place)] for place in np.linspace(0, len(ordered) - 1, few))
    while True:
        for place in rng.permutation(len(layers)):
            yield layers[int(place)]


def _limit_cost(info: DeviceInfo) -> float:
    """Return the work of a case above which it takes too long to be measured often."""
    return _CPU_COST * info.units if info.kind is DeviceKind.CPU else _GPU_COST


def _guess_cost(graph: Graph, selection: Selection, info: DeviceInfo) -> float:
    """Return a layer's work, in bytes moved and what its arithmetic is worth in them."""
    batches = describe_whole(selection, graph.nodes[-1], graph, info)
    return float(sum(b.flops[0] / _FLOPS_PER_BYTE + b.read_bytes[0] + b.written_bytes[0] for b in batches))
