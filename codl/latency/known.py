"""Layers that were measured themselves: by how much each takes longer than its kernel's model says.

A kernel's model speaks of amounts of work and knows no layer. What a layer's own samples take beyond it is
kept beside the model under the layer's mark, so that its slices are predicted from what it was seen to do.
Slices that are cut between channels take pieces of lines of memory, others whole ones: each sort is known by
itself.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log
from typing import Any

import numpy as np
import numpy.typing as npt

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
_MARKS, _WHOLE, _CUT = "marks", "thousandths", "cut_thousandths"
"""Names in files: of the marks, of numbers for slices with all channels, and for others where they differ."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What slices of a layer take over what its kernel's model says, as logarithms."""

    whole: float
    """Of slices with all channels."""
    cut: float
    """Of slices with some of the channels."""


NO_EFFECT = Effect(0.0, 0.0)
"""Of a layer that nobody measured."""


def find_factors(
    layers: Mapping[str, Effect],
    marks: Sequence[str],
    counts: Sequence[int],
    is_cut: npt.NDArray[np.bool_],
) -> npt.NDArray[np.float64]:
    """Return by how much slices take longer than a kernel's model says, [count].

    Args:
        layers: What is known of layers, by mark.
        marks: Of the layers that slices are of, one layer's slices after the other's.
        counts: How many slices each layer has.
        is_cut: [count] Which slices have some of the channels only.
    """
    effects = [layers.get(mark, NO_EFFECT) for mark in marks]
    whole = np.repeat([effect.whole for effect in effects], counts)
    cut = np.repeat([effect.cut for effect in effects], counts)
    return np.asarray(np.exp(np.where(is_cut, cut, whole)))


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


def format_layers(layers: Mapping[str, Effect]) -> dict[str, Any]:
    """Return what is known of layers as JSON values: all marks in one text, the logarithms in thousandths."""
    ordered = sorted(layers.items())
    whole = [round(effect.whole / _UNIT) for _, effect in ordered]
    cut = [round(effect.cut / _UNIT) for _, effect in ordered]
    told = {_MARKS: "".join(mark for mark, _ in ordered), _WHOLE: whole}
    return told if cut == whole else {**told, _CUT: cut}


def parse_layers(told: Any, where: str) -> Mapping[str, Effect]:
    """Return what is known of layers, by mark.

    Objects of marks, as older files have them, are read as well, and files that know one number for both
    sorts of slices.

    Raises:
        ProfileError: It is no such thing: not an object, a name that is no mark, a number that is no factor,
            or not a number for each mark.
    """
    if not isinstance(told, dict):
        raise _refuse_kind(told, where)
    if _MARKS not in told:
        whole = cut = _check(told, where)
    else:
        whole = cut = _check(_split(told, _WHOLE, where), where)
        if _CUT in told:
            cut = _check(_split(told, _CUT, where), where)
    return {mark: Effect(value, cut[mark]) for mark, value in whole.items()}


def _check(values: Mapping[str, Any], where: str) -> dict[str, float]:
    """Return numbers by mark.

    Raises:
        ProfileError: They are too many, or something is no mark or no number that is believed.
    """
    if len(values) > MOST_LAYERS:
        raise _refuse_kind(values, where)
    largest = log(LARGEST_FACTOR)
    for mark, value in values.items():
        if not _MARK.fullmatch(mark):
            raise ProfileError(f"{where}: got {mark[:60]!r}, expected a mark of {_MARK_DIGITS} digits")
        if type(value) not in (int, float) or not -largest <= value <= largest:
            raise ProfileError(
                f"{where}.{mark}: got {str(value)[:60]}, expected {-largest:.3g} to {largest:.3g}"
            )
    return {mark: float(value) for mark, value in values.items()}


def _refuse_kind(told: Any, where: str) -> ProfileError:
    return ProfileError(
        f"{where}: got {type(told).__name__}, expected an object of at most {MOST_LAYERS} marks"
    )


def _split(told: Mapping[str, Any], name: str, where: str) -> dict[str, Any]:
    """Return the numbers of a list by mark; those that are none stay as they are."""
    marks, thousandths = told[_MARKS], told.get(name)
    if not isinstance(marks, str) or not isinstance(thousandths, list):
        raise ProfileError(f"{where}.{name}: got no text of marks with a list, expected both")
    count = len(thousandths)
    found = [marks[place : place + _MARK_DIGITS] for place in range(0, len(marks), _MARK_DIGITS)]
    if len(found) != count or len(set(found)) != count:
        raise ProfileError(
            f"{where}.{name}: got {len(set(found))} marks of {count} numbers, expected a mark for each"
        )
    return {
        mark: round(value * _UNIT, 3) if type(value) is int and abs(value) < MOST_LAYERS else str(value)
        for mark, value in zip(found, thousandths, strict=True)
    }
