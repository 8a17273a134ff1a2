"""Ways through a network, sought by what their parts take: CoDL's greedy chains, dynamic programming."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np

from codl.ir.graph import Graph
from codl.partitioner.chains import ChainBatch
from codl.partitioner.dominance import Ways
from codl.partitioner.dynamic import DynamicProgram
from codl.partitioner.finder import ChainFinder
from codl.partitioner.greedy import GreedyChains
from codl.partitioner.options import Limits, choose_candidates
from codl.partitioner.order import Unit
from codl.partitioner.states import Choice
from codl.simulator.transfers import TransferCosts


class Method(StrEnum):
    """How plans are sought."""

    GREEDY = "greedy"
    """CoDL's chains."""
    DYNAMIC = "dynamic"
    """Dynamic programming over how tensors are cut."""


_CLOSE = 0.0005
"""Ways that dynamic programming takes to be further apart than this are so by their prices too."""


@dataclass(frozen=True, kw_only=True)
class Search:
    """Seeks the fastest ways through one network, where transfers and meetings cost the same throughout.

    Args:
        graph: The network.
        order: Its units in the order in which they are decided.
        finder: What chains cost.
        moves: What transfers and meetings cost.
        most: Longest chain, in nodes.
        axes: Axes that may be cut; None for all.
        beam: States that dynamic programming keeps at a place.
    """

    graph: Graph
    order: Sequence[Unit]
    finder: ChainFinder
    moves: TransferCosts
    most: int
    axes: Sequence[int] | None
    beam: int

    def find_choices(self, method: Method, most: int) -> tuple[list[list[Choice]], bool]:
        """Return what a method chooses for each stretch of the network, in several ways.

        Dynamic programming's first choice comes first, greedy chains next.

        Args:
            method: How they are sought.
            most: Ways of dynamic programming.

        Returns:
            The ways, and whether only prices tell which of the first two is faster.
        """
        greedy = GreedyChains(self.graph, self.order, self.finder, self.moves, devices=self.moves.count).run(
            self.chains
        )
        if method is Method.GREEDY:
            return [greedy], False
        states, known = self.program.run(
            self.worthy, self.singles, limits_us=self.limits_us, known=greedy, best=most
        )
        first, *others = [state.list_choices() for state in states]
        is_close = True
        if known is not None and not self.graph.host_groups:  # with the host's steps estimates are coarse
            find_us = self.program.find_end_us
            is_close = find_us(known) <= (1 + _CLOSE) * find_us(states[0])
        return [first, greedy, *others], is_close

    def list_batches(self, position: int) -> list[ChainBatch]:
        """Return all that dynamic programming may make of a stretch that begins at a position."""
        return [self.singles[position], *map(choose_candidates, self.worthy.get(position, ()))]

    def estimate_us(self, choices: Sequence[Choice]) -> float:
        """Return what dynamic programming takes a way to take, which is close to its price."""
        return self.program.find_end_us(self.program.follow(choices))

    @cached_property
    def chains(self) -> Mapping[int, Sequence[ChainBatch]]:
        """By position of the head, all chains."""
        return self.finder.find_all(self.axes, ways=self._ways)

    @cached_property
    def worthy(self) -> Mapping[int, Sequence[ChainBatch]]:
        """By position of the head, the chains that may be part of a fast way."""
        found = {
            first: [batch for batch in batches if self._is_worthy(batch)]
            for first, batches in self.chains.items()
        }
        for first, groups in self.finder.list_pairs().items():
            found[first] = [*groups, *found.get(first, ())]
        return found

    @cached_property
    def limits_us(self) -> Limits:
        """By first and last position, what no candidate of a chain need take longer than."""
        return self._ways.limits_us if self.chains else {}

    @cached_property
    def singles(self) -> Mapping[int, ChainBatch]:
        """By position, the candidates that run one operator whole; none for the host's."""
        return {
            place: self.finder.make_single(place) for place, unit in enumerate(self.order) if not unit.is_host
        }

    @cached_property
    def program(self) -> DynamicProgram:
        """Follows ways through the network."""
        return DynamicProgram(
            self.graph, self.order, self.finder, self.moves, devices=self.moves.count, beam=self.beam
        )

    @cached_property
    def _ways(self) -> Ways:
        return Ways(self.singles, self.graph, self.moves, most=self.most)

    def _is_worthy(self, batch: ChainBatch) -> bool:
        """Return whether a chain takes less than the same operators on the fastest device."""
        before, behind = self._alone_us[batch.first], self._alone_us[batch.last + 1]
        return batch.least_us < min([us - less for us, less in zip(behind, before, strict=True)])

    @cached_property
    def _alone_us(self) -> list[list[float]]:
        """[position][device] What each device takes for all operators before a position."""
        count = self.moves.count
        rows = [
            np.zeros(count) if unit.is_host else self.finder.find_single_us(place)
            for place, unit in enumerate(self.order)
        ]
        found: list[list[float]] = np.cumsum([np.zeros(count), *rows], axis=0).tolist()
        return found
