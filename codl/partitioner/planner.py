"""Planners that know what everything takes: CoDL's greedy chains, and dynamic programming."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import hypot, sqrt

import numpy as np

from codl.errors import PlanError
from codl.ir.graph import Graph
from codl.latency.predictor import Predictor
from codl.partitioner.beam import BEAM
from codl.partitioner.finder import ChainFinder
from codl.partitioner.order import Unit, order_units
from codl.partitioner.search import Method, Search
from codl.partitioner.states import Choice
from codl.partitioner.writing import write_plan
from codl.plan.sharing import Arrangement
from codl.plan.steps import Plan
from codl.simulator.simulate import Simulator
from codl.simulator.slices import SliceTables
from codl.simulator.synchronization import find_synchronization_spread_us
from codl.simulator.transfers import TransferCosts, find_transfer_costs

METHODS: Mapping[str, Method] = {str(method): method for method in Method}
"""By name."""
_LEAST_GAIN = 0.02
"""A split that is predicted to gain less than this gains nothing: no profile is surer of itself."""


@dataclass(frozen=True, kw_only=True)
class Planner:
    """Plans one network over some devices; what is found out for one plan serves the next.

    Args:
        graph: The network.
        predictors: One for each device, in the order of the plan's devices.
        arrangement: How they share memory.
        max_chain_length: Most nodes in a chain.
        axes: Axes that may be cut; None for all.
        beam: States that dynamic programming keeps at a place.
    """

    graph: Graph
    predictors: Sequence[Predictor]
    arrangement: Arrangement
    max_chain_length: int = 8
    axes: Sequence[int] | None = None
    beam: int = BEAM

    def __post_init__(self) -> None:
        if not self.predictors:
            raise PlanError("devices: got none, expected at least one name")
        if self.max_chain_length < 1:
            raise PlanError(f"max_chain_length: got {self.max_chain_length}, expected at least 1")

    @property
    def devices(self) -> tuple[str, ...]:
        """Names of the devices."""
        return tuple(predictor.info.name for predictor in self.predictors)

    def plan(self, method: Method) -> Plan:
        """Return the fastest plan that a method finds; a single device's where no split pays.

        Raises:
            ProfileError: A device has no predictor for something in the network.
            UnsupportedError: A node that no kernel of a device computes.
        """
        return self.rank(method, most=1)[0]

    def rank(self, method: Method, *, most: int = 3) -> list[Plan]:
        """Return the plans worth a measurement, the one that `plan` returns first; errors as there.

        First comes what is best of the plan that dynamic programming takes for the fastest, greedy chains
        where they are about as fast, and one device alone; then what else was found, by price.

        Args:
            method: How they are sought.
            most: Plans found by dynamic programming that are priced; with 1 the first plan may stand alone.
        """
        alone = self._simulator.price_all(self._simulator.list_singles(self.devices), self.arrangement)
        best = min(alone, key=_read_price)
        best_us = _read_price(best)
        splits = [replace(plan, planner=method) for plan in self._find_splits(method, most)]
        worthy = [
            plan
            for plan in splits
            if (plan.predicted_us or 0.0) + self._find_doubt_us(plan, best_us) < best_us
        ]
        is_split = splits[:1] == worthy[:1] != []
        if is_split and most == 1:  # nobody asks for the others
            return [replace(splits[0], best_single_us=best_us)]
        single = replace(best, planner=method)
        rest = [plan for plan in splits if plan not in worthy]
        ranked = [*worthy, single] if is_split else [single, *worthy]
        return [replace(plan, best_single_us=best_us) for plan in (*ranked, *rest)]

    def _find_splits(self, method: Method, most: int) -> list[Plan]:
        """Return what is found: the best of dynamic programming's first and greedy chains, the rest by price.

        What it costs that caches keep memory coherent takes long to have in mind. So plans are sought as if
        it were nothing, and again where the best of them pays enough for it: no other can save more.
        """
        if len(self.predictors) == 1:
            return []
        if self._moves.is_free == self._moves_without_coherence.is_free:
            return self._seek(self.search, method, most)
        quick = self._seek(self._quick_search, method, most)
        paid_us = sum(step.share_us or 0.0 for step in quick[0].steps)
        if paid_us <= _LEAST_GAIN * _read_price(quick[0]):
            return quick
        first, *rest = self._seek(self.search, method, most)
        return [*sorted((first, quick[0]), key=_read_price), *sorted(rest, key=_read_price)]

    def _seek(self, search: Search, method: Method, most: int) -> list[Plan]:
        """Return what one search finds, in the order of `_find_splits`."""
        tried, is_close = search.find_choices(method, most)
        if most == 1 and not is_close:
            del tried[1:]
        found = self._simulator.price_all(list(map(self._write, tried)), self.arrangement)
        first, *others = sorted(found[:2], key=_read_price)
        return [first, *sorted((*others, *found[2:]), key=_read_price)]

    def _find_doubt_us(self, plan: Plan, best_us: float) -> float:
        """Return what a plan must gain over the best device alone, which takes ``best_us``, to be believed.

        Meetings last longer than expected now and then; where there are many, that evens out.
        """
        ending, inner = (
            find_synchronization_spread_us(self.predictors, is_signalled=is_signalled)
            for is_signalled in (False, self.arrangement.signals)
        )
        meetings = sum((step.sync_us or 0.0) > 0 for step in plan.steps)
        return hypot(max(_LEAST_GAIN, self.uncertainty) * best_us, ending, inner * sqrt(max(meetings - 1, 0)))

    @cached_property
    def uncertainty(self) -> float:
        """Typical relative error of a whole network's prediction: errors of operators even each other out."""
        nodes = [unit.nodes[0] for unit in self._order if not unit.is_host]
        tables = [self._tables.find(node) for node in nodes]
        times = np.array([table.whole[:, 0].min() for table in tables])
        errors = np.array([table.uncertainty for table in tables])
        whole = max(float(times.sum()), 1e-9)
        return float(np.sqrt(np.square(times * errors).sum()) / whole)

    def price(self, choices: Sequence[Choice]) -> Plan:
        """Return the plan of some choices with its price."""
        return self._simulator.price_all([self._write(choices)], self.arrangement)[0]

    def _write(self, choices: Sequence[Choice]) -> Plan:
        """Return the plan of some choices."""
        return write_plan(choices, self._order, self.graph, self.devices)

    @cached_property
    def _order(self) -> tuple[Unit, ...]:
        return order_units(self.graph)

    @cached_property
    def _tables(self) -> SliceTables:
        return SliceTables(self.graph, self.predictors)

    @cached_property
    def _finder(self) -> ChainFinder:
        return ChainFinder(self._tables, self._order, self.arrangement, most=self.max_chain_length)

    @cached_property
    def search(self) -> Search:
        """Seeks plans, all that they cost in mind."""
        return self._make_search(self._moves)

    @cached_property
    def _quick_search(self) -> Search:
        return self._make_search(self._moves_without_coherence)

    def _make_search(self, moves: TransferCosts) -> Search:
        return Search(
            graph=self.graph,
            order=self._order,
            finder=self._finder,
            moves=moves,
            most=self.max_chain_length,
            axes=self.axes,
            beam=self.beam,
        )

    @cached_property
    def _moves(self) -> TransferCosts:
        return find_transfer_costs(self.predictors, self.arrangement)

    @cached_property
    def _moves_without_coherence(self) -> TransferCosts:
        return find_transfer_costs(self.predictors, self.arrangement, counts_coherence=False)

    @cached_property
    def _simulator(self) -> Simulator:
        return Simulator(
            graph=self.graph,
            predictors={predictor.info.name: predictor for predictor in self.predictors},
            tables=self._tables,
        )


def _read_price(plan: Plan) -> float:
    return plan.predicted_us or 0.0


def plan_profiled(
    graph: Graph,
    *,
    method: Method,
    predictors: Sequence[Predictor],
    arrangement: Arrangement,
    max_chain_length: int = 8,
) -> Plan:
    """Return the fastest plan that a method finds for some devices, with predictions.

    Args:
        graph: The network.
        method: `greedy` or `dynamic`.
        predictors: One for each device, in the order that the plan names them.
        arrangement: How they share memory.
        max_chain_length: Most nodes in a chain.

    Raises:
        PlanError: No devices, or a chain length below 1.
        ProfileError: A device has no predictor for something in the network.
        UnsupportedError: A node that no kernel of a device computes.
    """
    return Planner(
        graph=graph, predictors=predictors, arrangement=arrangement, max_chain_length=max_chain_length
    ).plan(method)
