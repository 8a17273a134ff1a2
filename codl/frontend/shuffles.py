"""Finds channel shuffles: a reshape, a transpose and a reshape, the middle ones perhaps of five axes."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from codl.frontend.onnx_node import OnnxNode
from codl.frontend.producers import Producers
from codl.ir.graph import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Shuffle:
    """Three nodes of a model that are one `ChannelShuffle`."""

    source: str
    """The tensor whose channels are shuffled."""
    groups: int
    inner: tuple[OnnxNode, OnnxNode]
    """The nodes before the last: nothing else reads what they write."""
    last: OnnxNode


def find_shuffles(
    nodes: Sequence[OnnxNode], shapes: Mapping[str, Shape], *, outputs: Sequence[str]
) -> Iterator[Shuffle]:
    """Yield the channel shuffles among the nodes of a model.

    Args:
        nodes: All nodes, in topological order.
        shapes: Shapes as far as they are known.
        outputs: Outputs of the model.
    """
    producers = Producers(nodes, outputs)
    for last in nodes:
        chain = _find_chain(last, producers)
        if chain is None:
            continue
        first, middle = chain
        source = first.inputs[0]
        known = [shapes.get(name) for name in (source, first.output, last.output)]
        groups = _find_groups(known, order=middle.integers("perm"))
        if groups is not None:
            yield Shuffle(source=source, groups=groups, inner=chain, last=last)


def _find_chain(last: OnnxNode, producers: Producers) -> tuple[OnnxNode, OnnxNode] | None:
    """Return the reshape and the transpose that end in the reshape ``last``, if nothing else reads them."""
    middle = producers.find_sole(last) if last.op_type == "Reshape" else None
    first = producers.find_sole(middle) if middle is not None and middle.op_type == "Transpose" else None
    if middle is None or first is None or first.op_type != "Reshape":
        return None
    return first, middle


def _find_groups(known: Sequence[Shape | None], *, order: tuple[int, ...] | None) -> int | None:
    """Return the groups of [N, C, H, W] -> [N, groups, C/groups, ...] -> transposed -> [N, C, H, W]."""
    source, split, result = known
    if source is None or split is None or source != result or len(source) != 4 or len(split) < 3:
        return None
    batch, groups, size, *image = split
    is_split = (batch, groups * size) == source[:2] and math.prod(image) == math.prod(source[2:])
    swaps = order == (0, 2, 1, *range(3, len(split)))
    return groups if is_split and swaps else None
