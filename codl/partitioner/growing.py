"""Chains that grow backwards from their tail, one operator at a time."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from codl.ir.graph import Node
from codl.partitioner.chains import Reading
from codl.simulator.arrays import Floats, Ints
from codl.simulator.slices import AxisTable, NodeTable


@dataclass(slots=True)
class Operator:
    """An operator of the network, with what enumeration asks of it."""

    node: Node
    found: NodeTable
    alone_us: list[float]
    inputs: Sequence[tuple[str, int]]
    """Names of activations with their places among the inputs."""
    readers: frozenset[str]
    last_read: int
    """Position of the last reader; outputs of the graph are read behind the end."""
    is_changed: bool
    """Whether `SpecialCosts` may change its latency."""


@dataclass(slots=True)
class GrowingChain:
    """Consecutive operators, cut along one axis at all candidate cuts."""

    last: int
    axis: int
    ends: tuple[int, int]
    """Length and granule of the tail's axis, which the candidate cuts are made for."""
    count: int
    """Candidates."""
    alone_us: list[float]
    """By device, the sum of the latencies of the whole operators."""
    needs: dict[str, Reading] = field(default_factory=dict)
    """What its operators read of tensors from outside."""
    bounds: dict[str, Ints] = field(default_factory=dict)
    """[candidate, device + 1] How published tensors are divided."""
    groups: list[set[str]] = field(default_factory=list)
    """Connected sets of its operators; a chain is complete when there is one."""
    copies: dict[str, Floats] = field(default_factory=dict)
    """By tensor, how its latency changes when a tensor becomes private to the chain."""

    def note(self, tensor: str, reading: Reading) -> None:
        """Note that the first operator reads a tensor."""
        known = self.needs.get(tensor)
        self.needs[tensor] = reading if known is None else known.join(reading)

    def grow(self, operator: Operator) -> None:
        """Add an operator at the beginning."""
        self.alone_us = [us + more for us, more in zip(self.alone_us, operator.alone_us, strict=True)]
        joined, rest = {operator.node.name}, []
        for group in self.groups:
            if group.isdisjoint(operator.readers):
                rest.append(group)
            else:
                joined |= group
        self.groups = [joined, *rest]


@dataclass(slots=True)
class NextOperator:
    """The operator that becomes the first one of a chain."""

    chain: GrowingChain
    operator: Operator
    table: AxisTable
    is_published: bool
    low: Ints
    """[candidate, device] Where the interval begins that is computed of it."""
    high: Ints
    extra: list[Floats]
    """[candidate, device, 2] Latencies besides that of its slices."""


def keep(
    chains: Sequence[GrowingChain], sums: Floats, is_kept: Sequence[bool]
) -> tuple[list[GrowingChain], Floats]:
    """Return some of the chains, and their latencies."""
    if all(is_kept):
        return list(chains), sums
    counts = [chain.count for chain in chains]
    chosen = [chain for chain, one in zip(chains, is_kept, strict=True) if one]
    return chosen, sums[np.repeat(is_kept, counts)]
