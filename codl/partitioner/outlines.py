"""Which slices of operators are looked at, on which devices by which kernels."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from codl.ir.boxes import Boxes
from codl.ir.graph import Graph, Node, Shape
from codl.ir.regions import OutputBoxes
from codl.latency.predictor import Predictor
from codl.latency.questions import Question
from codl.partitioner.positions import Flags, Ruler, list_boxes, list_rulers


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """The slices of one operator."""

    node: Node
    shape: Shape
    """Of its output."""
    rulers: Sequence[Ruler]
    out: OutputBoxes
    """Slices of nothing are the whole here: so all devices are asked about the same boxes."""
    is_empty: Flags
    """Which of them are of nothing."""
    question: Question
    start: int
    """Boxes of other operators before this one's."""


def make_outlines(nodes: Sequence[Node], graph: Graph, predictors: Sequence[Predictor]) -> list[Outline]:
    """Return what is looked at of some nodes.

    Args:
        nodes: With kernels on all devices.
        graph: The network.
        predictors: One for each device.

    Raises:
        UnsupportedError: A node that no kernel of a device computes.
    """
    found, start = [], 0
    for node in nodes:
        shape = graph.shape(node.output)
        selections = tuple([predictor.choose(node, graph) for predictor in predictors])
        rulers = list_rulers(node, shape, [one.parameters for one in selections])
        boxes = list_boxes(shape, rulers)
        is_empty = boxes.is_empty
        empty = is_empty[:, None]
        full = Boxes(np.where(empty, 0, boxes.begin), np.where(empty, boxes.end[0], boxes.end))
        out = OutputBoxes.find(node, graph, full)
        found.append(
            Outline(
                node=node,
                shape=shape,
                rulers=rulers,
                out=out,
                is_empty=is_empty,
                question=Question(node=node, out=out, selections=selections),
                start=start,
            )
        )
        start += out.count
    return found
