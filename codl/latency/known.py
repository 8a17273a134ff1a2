"""Layers that were measured themselves: by how much each takes longer than its kernel's model says.

A kernel's model speaks of amounts of work and knows no layer. What a layer's own samples take beyond it is
kept beside the model under the layer's mark, so that its slices are predicted from what it was seen to do.
"""

import hashlib
import re
from collections.abc import Mapping
from functools import lru_cache
from math import log
from typing import Any

from codl.catalog.layers import Layer, list_before, read_node
from codl.catalog.spec import Parameters
from codl.errors import ProfileError
from codl.ir.graph import Graph, Node

MOST_LAYERS = 4096
LARGEST_FACTOR = 8.0
"""A layer that takes so many times longer than its like, or shorter, was measured wrongly."""
_MARK_BYTES = 5
_MARK_DIGITS = 2 * _MARK_BYTES
_MARK = re.compile(f"[0-9a-f]{{{_MARK_DIGITS}}}")
_UNIT = 1e-3
"""Of what files tell of layers; finer than anything is measured."""


def mark_node(node: Node, graph: Graph, parameters: Parameters, *, taken: int = 0) -> str:
    """Return the mark of a node of a network, computed by a kernel built with some parameters.

    Args:
        node: The node.
        graph: Where its shapes are found.
        parameters: What the kernel is built with.
        taken: Nodes before it that the kernel computes too.
    """
    before = list_before(node, graph, taken) or ()
    return mark_layer(read_node(node, graph, before), tuple(sorted(parameters.items())))


@lru_cache(maxsize=8192)
def mark_layer(layer: Layer, parameters: tuple[tuple[str, int], ...]) -> str:
    """Return ten hexadecimal digits that tell a layer and a program from others.

    Args:
        layer: The layer; who uses it does not count.
        parameters: What the kernel is built with, sorted by name.
    """
    told = f"{parameters} {layer.key}".encode()
    return hashlib.blake2s(told, digest_size=_MARK_BYTES).hexdigest()


def format_layers(layers: Mapping[str, float]) -> dict[str, Any]:
    """Return what is known of layers as JSON values: all marks in one text, the logarithms in thousandths."""
    ordered = sorted(layers.items())
    return {
        "marks": "".join(mark for mark, _ in ordered),
        "thousandths": [round(value / _UNIT) for _, value in ordered],
    }


def parse_layers(told: Any, where: str) -> Mapping[str, float]:
    """Return what is known of layers: by mark, the logarithm of their time over the model's.

    Objects of marks, as older files have them, are read as well.

    Raises:
        ProfileError: It is no such thing: not an object, a name that is no mark, a number that is no factor,
            or not a number for each mark.
    """
    if isinstance(told, dict) and told.keys() == {"marks", "thousandths"}:
        told = _split(told["marks"], told["thousandths"], where)
    if not isinstance(told, dict) or len(told) > MOST_LAYERS:
        raise ProfileError(
            f"{where}: got {type(told).__name__}, expected an object of at most {MOST_LAYERS} marks"
        )
    largest = log(LARGEST_FACTOR)
    for mark, value in told.items():
        if not _MARK.fullmatch(mark):
            raise ProfileError(f"{where}: got {mark[:60]!r}, expected a mark of {_MARK_DIGITS} digits")
        if type(value) not in (int, float) or not -largest <= value <= largest:
            raise ProfileError(
                f"{where}.{mark}: got {str(value)[:60]}, expected {-largest:.3g} to {largest:.3g}"
            )
    return {mark: float(value) for mark, value in told.items()}


def _split(marks: Any, thousandths: Any, where: str) -> dict[str, Any]:
    """Return numbers by mark; those that are none stay as they are."""
    if not isinstance(marks, str) or not isinstance(thousandths, list):
        raise ProfileError(f"{where}: got no text of marks with a list, expected both")
    count = len(thousandths)
    found = [marks[place : place + _MARK_DIGITS] for place in range(0, len(marks), _MARK_DIGITS)]
    if len(found) != count or len(set(found)) != count:
        raise ProfileError(
            f"{where}: got {len(set(found))} marks of {count} numbers, expected a mark for each"
        )
    return {
        mark: round(value * _UNIT, 3) if type(value) is int and abs(value) < MOST_LAYERS else str(value)
        for mark, value in zip(found, thousandths, strict=True)
    }
