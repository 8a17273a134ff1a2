"""The profiled planners, greedy and dynamic: choices are searched, priced by simulation, and ranked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import hypot, sqrt

import numpy as np

from codl.errors import PlanError
from codl.ir.graph import Graph
from codl.latency.predictor import Predictor
from codl.partitioner.dynamic import BEAM
from codl.partitioner.enumeration import ChainEnumeration
from codl.partitioner.order import Unit, order_units
from codl.partitioner.search import Method, Search
from codl.partitioner.writing import write_plan
from codl.plan.sharing import Arrangement
from codl.plan.steps import Plan
from codl.simulator.simulate import Simulator
from codl.simulator.slices import NodeTable, SliceTables
from codl.simulator.synchronization import find_synchronization_spread_us
from codl.simulator.transfers import find_transfer_costs

METHODS: Mapping[str, Method] = {str(method): method for method in Method}
"""By name."""
_LEAST_GAIN = 0.02
"""Predicted gains below this share count as none, whatever the profile's uncertainty."""
_CLOSE = 1.05
"""Devices whose operators take more than so many times the fastest device's are not priced alone."""


@dataclass(frozen=True, kw_only=True)
class Planner:
    """Plans one network over some devices; tables and chains serve all of its plans.

    Args:
        graph: The network.
        predictors: One for each device, in the order of the plan's devices.
        arrangement: How they share memory.
        max_chain_length: Most nodes in a chain.
        axes: Axes that may be cut; None for all.
        beam: States that dynamic programming keeps at a position.
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
            UnsupportedError: A node that no kernel of a device computes.
        """
        return self.rank(method, most=1)[0]

    def rank(self, method: Method, *, most: int = 3) -> list[Plan]:
        """Return the plans worth a measurement, the one that `plan` returns first; errors as there.

        Plans whose gain over the best single device exceeds the uncertainty come before that device's plan,
        all others behind it.

        Args:
            method: How plans are searched.
            most: Plans of dynamic programming.
        """
        single = min(self._price_singles(), key=_read_price)
        best_us = _read_price(single)
        can_split = len(self.predictors) > 1 and not all(unit.is_host for unit in self._order)
        splits = self._find_splits(method, most) if can_split else []
        worthy = [
            plan for plan in splits if _read_price(plan) + self._find_uncertainty_us(plan, best_us) < best_us
        ]
        rest = [plan for plan in splits if plan not in worthy]
        return [replace(plan, planner=method, best_single_us=best_us) for plan in (*worthy, single, *rest)]

    def _price_singles(self) -> list[Plan]:
        """Return the priced plans of those single devices that may be the fastest."""
        sums_us = sum((table.whole[:, 0] for table in self._found), np.zeros(len(self.predictors)))
        plans = self._simulator.list_singles(self.devices)
        wanted = [plan for plan, us in zip(plans, sums_us, strict=True) if us <= _CLOSE * sums_us.min()]
        return self._simulator.price_all(wanted, self.arrangement)

    def _find_splits(self, method: Method, most: int) -> list[Plan]:
        """Return what a method finds, priced, the fastest first."""
        search = self.search if method is Method.DYNAMIC else self._make_search(counts_coherence=False)
        found = [
            write_plan(choices, self._order, self.graph, self.devices)
            for choices in search.find_choices(method, most)
        ]
        return sorted(self._simulator.price_all(found, self.arrangement), key=_read_price)

    def _find_uncertainty_us(self, plan: Plan, best_us: float) -> float:
        """Return the gain in us above which a plan is chosen over a single device.

        Single synchronizations may last longer than expected; over many of them that evens out.

        Args:
            plan: The plan, priced.
            best_us: What the best single device takes.
        """
        ending, inner = (
            find_synchronization_spread_us(self.predictors, is_signalled=is_signalled)
            for is_signalled in (False, self.arrangement.signals)
        )
        count = sum((step.sync_us or 0.0) > 0 for step in plan.steps)
        return hypot(max(_LEAST_GAIN, self.uncertainty) * best_us, ending, inner * sqrt(max(count - 1, 0)))

    @cached_property
    def uncertainty(self) -> float:
        """Typical relative error of a whole network's prediction: errors of operators even each other out."""
        times = np.array([table.whole[:, 0].min() for table in self._found])
        errors = np.array([table.uncertainty for table in self._found])
        whole = max(float(times.sum()), 1e-9)
        return float(np.sqrt(np.square(times * errors).sum()) / whole)

    @cached_property
    def search(self) -> Search:
        """Searches the network, all costs included."""
        return self._make_search(counts_coherence=True)

    def _make_search(self, *, counts_coherence: bool) -> Search:
        """Return a search; greedy chains overrate coherence, as they take all tensors to be elsewhere."""
        costs = find_transfer_costs(self.predictors, self.arrangement, counts_coherence=counts_coherence)
        return Search(
            finder=ChainEnumeration(self._tables, self._order, self.arrangement, most=self.max_chain_length),
            costs=costs,
            axes=self.axes,
            beam=self.beam,
        )

    @cached_property
    def _order(self) -> tuple[Unit, ...]:
        return order_units(self.graph)

    @cached_property
    def _tables(self) -> SliceTables:
        return SliceTables(self.graph, self.predictors)

    @cached_property
    def _found(self) -> list[NodeTable]:
        """The tables of all operators that the host does not compute."""
        return [self._tables.find(unit.nodes[0]) for unit in self._order if not unit.is_host]

    @cached_property
    def _simulator(self) -> Simulator:
        by_name = {predictor.info.name: predictor for predictor in self.predictors}
        return Simulator(graph=self.graph, predictors=by_name, tables=self._tables)


def _read_price(plan: Plan) -> float:
    return plan.predicted_us or 0.0
