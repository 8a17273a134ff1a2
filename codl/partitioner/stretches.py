"""Stretches of a network's order, followed backwards from their last node, one node further at a time."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from codl.ir.graph import Node
from codl.partitioner.chains import Reading
from codl.simulator.arrays import Floats, Ints
from codl.simulator.slices import AxisTable, NodeTable


@dataclass(slots=True)
class Member:
    """What is asked of a node again and again."""

    node: Node
    found: NodeTable
    alone_us: list[float]
    inputs: Sequence[tuple[str, int]]
    """Names of activations with their places among the inputs."""
    readers: frozenset[str]
    last_read: int
    """Position of the last reader; outputs of the graph are read behind the end."""
    is_changed: bool
    """Whether it may cost anything else than its slices."""


@dataclass(slots=True)
class Stretch:
    """Nodes from one back to another, cut along an axis at many places."""

    last: int
    axis: int
    ends: tuple[int, int]
    """Length and granule of the tail's axis."""
    count: int
    """Candidates."""
    alone_us: list[float]
    """By device, what all nodes take whole."""
    needs: dict[str, Reading] = field(default_factory=dict)
    """What the nodes read of tensors from before."""
    bounds: dict[str, Ints] = field(default_factory=dict)
    groups: list[set[str]] = field(default_factory=list)
    """Nodes that hang together."""
    copies: dict[str, Floats] = field(default_factory=dict)
    """By how much the cost changes when a tensor becomes private."""

    def note(self, tensor: str, reading: Reading) -> None:
        """Note what the first node reads of a tensor."""
        known = self.needs.get(tensor)
        self.needs[tensor] = reading if known is None else known.join(reading)

    def grow(self, member: Member) -> None:
        """Add a node at the beginning to what hangs together."""
        self.alone_us = [us + more for us, more in zip(self.alone_us, member.alone_us, strict=True)]
        joined, rest = {member.node.name}, []
        for group in self.groups:
            if group.isdisjoint(member.readers):
                rest.append(group)
            else:
                joined |= group
        self.groups = [joined, *rest]


@dataclass(slots=True)
class Entry:
    """The node that a stretch has come to."""

    stretch: Stretch
    member: Member
    table: AxisTable
    is_published: bool
    low: Ints
    """[candidate, device] What is computed of it."""
    high: Ints
    extra: list[Floats]
    """What it costs beside its slices."""


def list_starts(stretches: Sequence[Stretch]) -> list[int]:
    """Return where the candidates of each stretch begin when they stand one after the other."""
    starts, start = [], 0
    for stretch in stretches:
        starts.append(start)
        start += stretch.count
    return starts


def keep(stretches: Sequence[Stretch], sums: Floats, is_kept: Sequence[bool]) -> tuple[list[Stretch], Floats]:
    """Return some of the stretches, and what they take."""
    if all(is_kept):
        return list(stretches), sums
    counts = [stretch.count for stretch in stretches]
    chosen = [stretch for stretch, one in zip(stretches, is_kept, strict=True) if one]
    return chosen, sums[np.repeat(is_kept, counts)]
