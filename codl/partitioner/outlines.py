"""Which slices of operators are looked at, on which devices by which kernels."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from codl.ir.graph import Graph, Node, Shape
from codl.ir.regions import OutputBoxes
from codl.latency.predictor import Predictor
from codl.latency.question import Question
from codl.partitioner.arrays import Flags
from codl.partitioner.positions import Ruler, list_boxes, list_rulers


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """The slices of one operator."""

    node: Node
    shape: Shape
    """Of its output."""
    rulers: tuple[Ruler, ...]
    out: OutputBoxes
    """Slices of nothing are the whole here: so all devices are asked about the same boxes."""
    is_empty: Flags
    """Which of them are of nothing."""
    question: Question
    start: int
    """Boxes of other operators before this one's."""


def make_outlines(
    nodes: Sequence[Node],
    graph: Graph,
    predictors: Sequence[Predictor],
) -> list[Outline]:
    """Return what is looked at of some nodes.

    Args:
        nodes: With kernels on all devices.
        graph: The network.
        predictors: One for each device.

    Raises:
        UnsupportedError: A node that no kernel of a device computes.
    """
    shapes = [graph.shape(node.output) for node in nodes]
    chosen = [tuple([predictor.choose(node, graph) for predictor in predictors]) for node in nodes]
    rulers = [
        list_rulers(node, shape, selections)
        for node, shape, selections in zip(nodes, shapes, chosen, strict=True)
    ]
    parts = list(map(list_boxes, shapes, rulers))
    outs = OutputBoxes.find_all(nodes, graph, [fill for fill, _ in parts])
    starts = np.cumsum([0, *(out.count for out in outs)]).tolist()
    return [
        Outline(
            node=node,
            shape=shape,
            rulers=rulers[place],
            out=outs[place],
            is_empty=parts[place][1],
            question=Question(node=node, out=outs[place], selections=chosen[place]),
            start=starts[place],
        )
        for place, (node, shape) in enumerate(zip(nodes, shapes, strict=True))
    ]
