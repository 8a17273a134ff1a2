"""Moves over tensors of many axes as moves over few: axes of one element drop out, neighbours merge.

All shapes are of the same elements in ONNX order: what is merged is a reshape, never a move.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

from codl.ir.graph import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """What a Slice picks along one axis."""

    length: int
    """Of the axis."""
    begin: int
    step: int
    count: int
    """Elements picked."""

    @property
    def is_whole(self) -> bool:
        """Whether all elements are picked, in their order."""
        return self.begin == 0 and self.count == self.length and self.step > 0


def merge_around(shape: Shape, begin: int, end: int) -> Shape:
    """Return the shape of up to three axes: those before some neighbours, these, and those behind, if any."""
    parts = (shape[:begin], shape[begin:end], *([shape[end:]] if end < len(shape) else []))
    return tuple(map(prod, parts))


def merge_order(shape: Shape, order: Sequence[int]) -> tuple[Shape, tuple[int, ...]]:
    """Return lengths and order of a transpose of as few axes as possible, none of one element."""
    long = [axis for axis, length in enumerate(shape) if length != 1]
    place = {axis: index for index, axis in enumerate(long)}
    runs: list[list[int]] = []
    for index in (place[axis] for axis in order if axis in place):
        if runs and runs[-1][-1] + 1 == index:
            runs[-1].append(index)
        else:
            runs.append([index])
    sources = sorted(runs)
    lengths = tuple(prod(shape[long[index]] for index in run) for run in sources)
    places = {run[0]: place for place, run in enumerate(sources)}
    return lengths, tuple(places[run[0]] for run in runs)


def merge_cuts(cuts: Sequence[Cut]) -> list[Cut]:
    """Return the same picks along as few axes as possible."""
    merged: list[Cut] = []
    for cut in (cut for cut in cuts if cut.length != 1):
        before = merged[-1] if merged else None
        if before is not None and (before.count == 1 or (cut.is_whole and before.step == 1)):
            merged[-1] = Cut(
                length=before.length * cut.length,
                begin=before.begin * cut.length + cut.begin,
                step=cut.step if before.count == 1 else 1,
                count=before.count * cut.count,
            )
        else:
            merged.append(Cut(length=cut.length, begin=0, step=1, count=cut.count) if cut.is_whole else cut)
    return merged


def merge_broadcast(a: Shape, b: Shape) -> tuple[Shape, Shape]:
    """Return the shapes of two operands that broadcast, of as few axes as possible and as many each."""
    rank = max(len(a), len(b))
    merged: list[tuple[int, int]] = []
    for m, n in zip((1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b, strict=True):
        if m == n == 1:
            continue
        if merged and [length == 1 for length in merged[-1]] == [m == 1, n == 1]:
            merged[-1] = merged[-1][0] * m, merged[-1][1] * n
        else:
            merged.append((m, n))
    return tuple(m for m, _ in merged), tuple(n for _, n in merged)


def merge_operands(a: Shape, b: Shape, *, carriers: Sequence[Shape]) -> tuple[Shape, Shape]:
    """Return the shapes of two operands that broadcast, of as many axes each: few, or those of a carrier.

    Args:
        a: Shape of the first operand.
        b: Of the second one.
        carriers: Shapes of what carries them.
    """
    wide = merge_broadcast(a, b)
    lengths = tuple(max(m, n) for m, n in zip(*wide, strict=True))
    for carrier in carriers:
        groups = find_groups(lengths, carrier)
        if groups is not None:
            first, second = (_split_shape(shape, groups, carrier) for shape in wide)
            return first, second
    return wide


def find_groups(lengths: Shape, shape: Shape) -> tuple[tuple[int, ...], ...] | None:
    """Return which axes of a shape make up each of some lengths; None where one lies across two of them.

    Args:
        lengths: Of merged axes, none of them 1.
        shape: Of as many elements.
    """
    groups, axis = [], 0
    for length in lengths:
        begin, found = axis, 1
        while found < length and axis < len(shape):
            found *= shape[axis]
            axis += 1
        if found != length:
            return None
        groups.append(range(begin, axis))
    if groups:
        groups[-1] = range(groups[-1].start, len(shape))  # axes of one element are left
    return tuple(tuple(group) for group in groups) or None


def fit_order(shape: Shape, order: Sequence[int], *, carrier: Shape) -> tuple[Shape, tuple[int, ...]]:
    """Return lengths and order of a transpose: along the carrier's axes where they stay whole, or few."""
    lengths, merged = merge_order(shape, order)
    groups = find_groups(lengths, carrier)
    return (lengths, merged) if groups is None else (carrier, _flatten(groups[place] for place in merged))


def fit_cuts(cuts: Sequence[Cut], *, carrier: Shape) -> list[Cut]:
    """Return the same picks along the carrier's axes where none lies across two of them, or along few."""
    merged = merge_cuts(cuts)
    groups = find_groups(tuple(cut.length for cut in merged), carrier)
    split = [Cut(length=length, begin=0, step=1, count=length) for length in carrier]
    for cut, group in zip(merged, groups or (), strict=False):
        long = [axis for axis in group if carrier[axis] != 1]
        if not cut.is_whole and len(long) == 1:
            split[long[0]] = cut
        elif not cut.is_whole:
            return merged
    return split if groups else merged


def _flatten(groups: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(axis for group in groups for axis in group)


def _split_shape(merged: Shape, groups: Sequence[Sequence[int]], shape: Shape) -> Shape:
    """Return the shape of an operand with the axes of ``shape``; it is repeated along merged ones of 1."""
    return tuple(_iterate_lengths(merged, groups, shape))


def _iterate_lengths(merged: Shape, groups: Sequence[Sequence[int]], shape: Shape) -> Iterator[int]:
    for length, group in zip(merged, groups, strict=True):
        yield from (1 if length == 1 else shape[axis] for axis in group)
