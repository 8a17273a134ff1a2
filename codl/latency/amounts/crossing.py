"""Lines of memory that a slice takes a piece of each: cut between channels, its data lie far apart.

What lies side by side is fetched ahead, by whole lines of a cache; of pieces each is waited for by itself,
from as far as the tensors that they are spread over have been driven, and what is fetched ahead of a piece's
end is for nobody.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt

from codl.ir.boxes import Boxes
from codl.ir.graph import FLOAT_BYTES, Graph, Node, Shape
from codl.ir.regions import input_boxes
from codl.latency.amounts.traffic import CACHE_KNEES, LINE_FLOATS, Amounts, miss_shares

_IMAGE_RANK, _CHANNELS = 4, 1
_UNFETCHED = 4
"""Lines of a piece that are waited for, at the most: hardware fetches those ahead that follow some others.

Source:
    A kernel that reads and writes 3136 pieces of one to seven lines each, Zen 3, Intel's driver: 14 to 10 ns
    a line for up to five, 8 and 6 ns for six and seven; 4 ns where all is read.
"""
_AHEAD, _MOST_AHEAD = 2, 8
"""Lines fetched ahead for each that was read before, and in all.

Source:
    Shuffles of 112 channels over 56 x 56 pixels, one core of a Zen 3, Intel's driver: 48, 64 and 96 of them
    take 51 to 54 us, all take 52. Of 136 channels over 28 x 28 one line of nine takes 6.6 us, two 11, three
    and four 14, all 17. Logs of both drivers there, by one core each and by both: with such lines as a
    feature 92.4, 91.1, 88.3 and 88.6 % of slices of known layers are predicted within 10 % instead of 92.0,
    90.8, 88.0 and 88.1, of layers never seen 89.4, 87.5, 85.4 and 85.4 instead of 89.0, 87.2, 85.0 and 84.5.
    By as many as were read, or one and a half times as many, it is about as much.
"""
_BY_LINES = ("lines", "short_lines", "short_values")
"""Amounts that kernels do line by line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """How many candidates' data lie in pieces, [count] each."""

    pieces: Amounts
    """Of lines along the innermost dimension of which a part is taken, of all tensors together."""
    span_bytes: Amounts
    """Of the lines that are touched, whole."""
    piece_lines: Amounts
    """Lines of a cache that the pieces begin with."""
    unused_piece_lines: Amounts
    """Lines of a cache behind the pieces that are fetched all the same."""


def find_crossing(node: Node, graph: Graph, out: Boxes) -> Crossing:
    """Return what boxes of a node's output and of the activations that they need cross."""
    needs = zip(node.inputs, input_boxes(node, graph, out), strict=True)
    activations = [(boxes, graph.shape(name)) for name, boxes in needs if name not in graph.constants]
    return count_crossing([(out, graph.shape(node.output)), *activations])


def count_crossing(tensors: Iterable[tuple[Boxes, Shape]]) -> Crossing:
    """Return what boxes of some tensors cross.

    Args:
        tensors: Boxes, one a candidate, and the shape of the tensor that they lie in; at least one.
    """
    pieces, span, begun, unused = [], [], [], []
    for boxes, shape in tensors:
        taken, whole = _count_channels(boxes, shape)
        lines = boxes.size / np.maximum(taken, 1)
        pieces.append(lines * (taken < whole))
        read = np.ceil(taken / LINE_FLOATS)
        begun.append(pieces[-1] * np.minimum(read, _UNFETCHED))
        gap = (whole - taken) / LINE_FLOATS
        unused.append(pieces[-1] * np.minimum(gap, np.minimum(_AHEAD * read, _MOST_AHEAD)))
        span.append(lines * (whole * float(FLOAT_BYTES)))
    return Crossing(
        pieces=reduce(np.add, pieces),
        span_bytes=reduce(np.add, span),
        piece_lines=reduce(np.add, begun),
        unused_piece_lines=reduce(np.add, unused),
    )


def find_cut(out: Boxes, shape: Shape) -> npt.NDArray[np.bool_]:
    """Return which boxes have some of the channels only, [count].

    Args:
        out: Of an output.
        shape: Of the output.
    """
    taken, whole = _count_channels(out, shape)
    return np.asarray(taken < whole)


def _count_channels(boxes: Boxes, shape: Shape) -> tuple[npt.NDArray[np.int64], int]:
    """Return how many elements boxes have along a line of memory, [count], and how many all of it has."""
    if not shape:
        return np.ones(len(boxes.begin), np.int64), 1
    axis = _CHANNELS if len(shape) == _IMAGE_RANK else len(shape) - 1
    return boxes.extent[:, axis], shape[axis]


def join_crossings(crossings: Sequence[Crossing]) -> Crossing:
    """Return several operators' candidates, one operator's after the other's."""
    if len(crossings) == 1:
        return crossings[0]
    return Crossing(
        pieces=np.concatenate([one.pieces for one in crossings]),
        span_bytes=np.concatenate([one.span_bytes for one in crossings]),
        piece_lines=np.concatenate([one.piece_lines for one in crossings]),
        unused_piece_lines=np.concatenate([one.unused_piece_lines for one in crossings]),
    )


def list_apart(crossing: Crossing, amounts: Mapping[str, Amounts]) -> Mapping[str, Amounts]:
    """Return by name what is done along lines that do not follow each other in memory, [count] each.

    Kernels join lines that do to longer ones (kernels/common/runs.h).

    Args:
        crossing: Of the candidates.
        amounts: What a launch does.
    """
    is_apart = crossing.pieces > 0
    return {f"apart_{name}": amounts[name] * is_apart for name in _BY_LINES if name in amounts}


def list_crossing(crossing: Crossing) -> Mapping[str, Amounts]:
    """Return by name pieces and their lines, and those from beyond caches of some sizes, [count] each."""
    missed = miss_shares(crossing.span_bytes)
    found = {
        "pieces": crossing.pieces,
        "piece_lines": crossing.piece_lines,
        "unused_piece_lines": crossing.unused_piece_lines,
    }
    for sort, amounts in tuple(found.items()):
        found |= {f"far_{sort}_{name}": far for name, far in zip(CACHE_KNEES, amounts * missed, strict=True)}
    return found
