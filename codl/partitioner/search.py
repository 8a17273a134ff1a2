"""Searching: enumerate chains, prune them, and choose by dynamic programming or CoDL's greedy chains."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np

from codl.ir.graph import Graph
from codl.partitioner.chains import ChainBatch
from codl.partitioner.dynamic import DynamicProgram
from codl.partitioner.enumeration import ChainEnumeration
from codl.partitioner.greedy import GreedyChains
from codl.partitioner.order import Unit
from codl.partitioner.pruning import Pruning
from codl.partitioner.search_state import Choice
from codl.simulator.transfers import TransferCosts


class Method(StrEnum):
    """How plans are searched."""

    GREEDY = "greedy"
    """CoDL's chains."""
    DYNAMIC = "dynamic"
    """Dynamic programming over how tensors are cut."""


@dataclass(frozen=True, kw_only=True)
class Search:
    """Searches ways through one network.

    Args:
        graph: The network.
        order: Its units in the order in which they are decided.
        finder: Enumerates chains.
        costs: Of transfers and synchronizations.
        most: Longest chain, in nodes.
        axes: Axes that may be cut; None for all.
        beam: States that dynamic programming keeps at a position.
    """

    graph: Graph
    order: Sequence[Unit]
    finder: ChainEnumeration
    costs: TransferCosts
    most: int
    axes: Sequence[int] | None
    beam: int

    def find_choices(self, method: Method, most: int) -> list[Sequence[Choice]]:
        """Return what a method chooses for consecutive units.

        Args:
            method: How ways are searched.
            most: Ways of dynamic programming; the fastest comes first.
        """
        if method is Method.GREEDY:
            greedy = GreedyChains(self.graph, self.order, self.finder, self.costs)
            return [greedy.run(self.chains)]
        limits_us = self._pruning.limits_us if self.chains else {}
        return [way.choices for way in self.program.run(self.heads, limits_us=limits_us, best=most)]

    @cached_property
    def chains(self) -> Mapping[int, Sequence[ChainBatch]]:
        """By position of the head, all chains that are not pruned."""
        return self.finder.find_all(self.axes, pruning=self._pruning)

    @cached_property
    def heads(self) -> Mapping[int, Sequence[ChainBatch]]:
        """By position, what may begin there: whole operators, fused groups, and chains that may pay."""
        found = {}
        for position, single in self._singles.items():
            chains = [batch for batch in self.chains.get(position, ()) if self._may_pay(batch)]
            found[position] = [single, *self._fused.get(position, ()), *chains]
        return found

    @cached_property
    def program(self) -> DynamicProgram:
        """Dynamic programming over the network."""
        return DynamicProgram(self.graph, self.order, self.finder.list_tensors(), self.costs, beam=self.beam)

    def _may_pay(self, batch: ChainBatch) -> bool:
        """Return whether a chain takes less than the same operators on the fastest device."""
        before, behind = self._before_us[batch.first], self._before_us[batch.last + 1]
        return batch.least_us < min([us - less for us, less in zip(behind, before, strict=True)])

    @cached_property
    def _before_us(self) -> list[list[float]]:
        """[position][device] What each device takes for all operators before a position."""
        none = np.zeros(self.costs.count)
        rows = [
            none if unit.is_host else self._singles[place].span_us for place, unit in enumerate(self.order)
        ]
        found: list[list[float]] = np.cumsum([none, *rows], axis=0).tolist()
        return found

    @cached_property
    def _singles(self) -> Mapping[int, ChainBatch]:
        """By position, the candidates that run one operator whole; none for the host's."""
        return {
            place: self.finder.make_single(place) for place, unit in enumerate(self.order) if not unit.is_host
        }

    @cached_property
    def _fused(self) -> Mapping[int, Sequence[ChainBatch]]:
        return self.finder.list_fused()

    @cached_property
    def _pruning(self) -> Pruning:
        return Pruning(self._singles, self.graph, self.costs, most=self.most)
