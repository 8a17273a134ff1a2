"""What slices take on devices of which only the speed of arithmetic is known: no launch is described."""

from collections.abc import Sequence
from math import prod

import numpy as np

from codl.catalog.spec import Selection
from codl.ir.graph import Graph, Node
from codl.ir.ops import Concat, Conv2d, Pool2d, Reshape, Resize2d, ResizeMode, Unary
from codl.latency.predictor import Predictor, Times
from codl.latency.question import Question

_LINEAR_FLOPS = 6
"""Of a value between four others: three times the way from one to the next."""


def count_value_flops(node: Node, graph: Graph) -> int | None:
    """Return the FLOPs of each value of an operator's output, by its definition; None: not known here."""
    match node.op:
        case Conv2d():
            return 2 * prod(graph.shape(node.inputs[1])[1:])
        case Pool2d(kernel=kernel):
            return prod(kernel)
        case Resize2d(mode=mode):
            return _LINEAR_FLOPS if mode is ResizeMode.LINEAR else 0
        case Unary():
            return 1
        case Concat() | Reshape():
            return 0
        case _:
            return None


def predict_arithmetic(
    questions: Sequence[Question], graph: Graph, predictors: Sequence[Predictor]
) -> dict[tuple[int, int], Times]:
    """Return times in us of the questions' boxes, by question and device, where arithmetic alone tells them.

    Args:
        questions: At least one.
        graph: The network of all nodes.
        predictors: One for each device.
    """
    told: dict[tuple[int, int], float] = {}
    for place, question in enumerate(questions):
        value_flops = None if question.asks_memory else count_value_flops(question.node, graph)
        for device, predictor in enumerate(predictors) if value_flops is not None else ():
            flop_us = _find_flop_us(predictor, question.selections[device])
            if flop_us is not None:
                told[place, device] = flop_us
    if not told:
        return {}
    places = sorted({place for place, _ in told})
    counts = [questions[place].out.count for place in places]
    each = [count_value_flops(questions[place].node, graph) or 0 for place in places]
    flops = np.concatenate([questions[place].out.size for place in places]) * np.repeat(each, counts)
    parts = dict(zip(places, np.split(flops, np.cumsum(counts[:-1])), strict=True))
    return {(place, device): parts[place] * flop_us for (place, device), flop_us in told.items()}


def _find_flop_us(predictor: Predictor, selection: Selection) -> float | None:
    """Return what a FLOP takes by a row over one operator of which nothing else is known; else None."""
    row, profile = selection.implementation, predictor.profile
    if row.taken or profile.launch_us or not predictor.is_by_totals(row.name):
        return None
    return sum(profile.rows[row.name].model.coefficients)
