"""Searching: enumerate chains, prune them, and choose by dynamic programming or CoDL's greedy chains."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np

from codl.partitioner.chains import ChainBatch
from codl.partitioner.dynamic import DynamicProgram
from codl.partitioner.enumeration import ChainEnumeration
from codl.partitioner.greedy import GreedyChains
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
        finder: Enumerates chains.
        costs: Of transfers and synchronizations.
        axes: Axes that may be cut; None for all.
        beam: States that dynamic programming keeps at a position.
    """

    finder: ChainEnumeration
    costs: TransferCosts
    axes: Sequence[int] | None
    beam: int

    def find_choices(self, method: Method, most: int) -> list[Sequence[Choice]]:
        """Return what a method chooses for consecutive units.

        Args:
            method: How ways are searched.
            most: Ways of dynamic programming; the fastest comes first.
        """
        if method is Method.GREEDY:
            return [GreedyChains(self.finder, self.costs).run(self.chains)]
        limits_us = self._pruning.limits_us if self.chains else {}
        return [way.choices for way in self.program.run(self.heads, limits_us=limits_us, best=most)]

    @cached_property
    def chains(self) -> Mapping[int, Sequence[ChainBatch]]:
        """By position of the head, all chains that are not pruned."""
        return self.finder.find_all(self.axes, pruning=self._pruning)

    @cached_property
    def heads(self) -> Mapping[int, Sequence[ChainBatch]]:
        """By position, what may begin there: whole operators, fused groups, and chains that may pay."""
        found, fused = {}, self.finder.list_fused()
        for position, single in self._singles.items():
            chains = [batch for batch in self.chains.get(position, ()) if self._may_pay(batch)]
            found[position] = [single, *fused.get(position, ()), *chains]
        return found

    @cached_property
    def program(self) -> DynamicProgram:
        """Dynamic programming over the network."""
        return DynamicProgram(self.finder, self.costs, beam=self.beam)

    def _may_pay(self, batch: ChainBatch) -> bool:
        """Return whether a chain takes less than the same operators on the fastest device."""
        before, behind = self._before_us[batch.first], self._before_us[batch.last + 1]
        return batch.least_us < min([us - less for us, less in zip(behind, before, strict=True)])

    @cached_property
    def _before_us(self) -> list[list[float]]:
        """[position][device] What each device takes for all operators before a position."""
        none = np.zeros(self.costs.count)
        rows = [
            self._singles[place].span_us if place in self._singles else none
            for place in range(len(self.finder.order))
        ]
        found: list[list[float]] = np.cumsum([none, *rows], axis=0).tolist()
        return found

    @cached_property
    def _singles(self) -> Mapping[int, ChainBatch]:
        """By position, the candidates that run one operator whole; none for the host's."""
        units = enumerate(self.finder.order)
        return {place: self.finder.make_single(place) for place, unit in units if not unit.is_host}

    @cached_property
    def _pruning(self) -> Pruning:
        return Pruning(self._singles, self.finder.graph, self.costs, most=self.finder.most)
