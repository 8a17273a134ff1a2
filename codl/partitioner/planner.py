"""Planners that know what everything takes: CoDL's greedy chains, and dynamic programming."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from math import hypot, sqrt

import numpy as np

from codl.errors import PlanError
from codl.ir.graph import Graph
from codl.latency.predictor import Predictor
from codl.partitioner.beam import BEAM
from codl.partitioner.chains import ChainBatch
from codl.partitioner.clock import find_meeting_doubt_us
from codl.partitioner.cost import Pricer
from codl.partitioner.dominance import Ways
from codl.partitioner.dynamic import DynamicProgram
from codl.partitioner.even import plan_single
from codl.partitioner.finder import ChainFinder
from codl.partitioner.greedy import GreedyChains
from codl.partitioner.moves import MoveCosts, find_move_costs
from codl.partitioner.options import Limits, choose_candidates
from codl.partitioner.order import Unit, order_units
from codl.partitioner.states import Choice
from codl.partitioner.tables import Tables
from codl.partitioner.writing import write_plan
from codl.plan.sharing import Arrangement
from codl.plan.steps import Plan


class Method(StrEnum):
    """How plans are sought."""

    GREEDY = "greedy"
    """CoDL's chains."""
    DYNAMIC = "dynamic"
    """Dynamic programming over how tensors are cut."""


METHODS: Mapping[str, Method] = {str(method): method for method in Method}
"""By name."""
_LEAST_GAIN = 0.02
"""A split that is predicted to gain less than this gains nothing: no profile is surer of itself."""
_CLOSE = 0.0005
"""Ways that dynamic programming takes to be further apart than this are so by their prices too."""


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
        alone_us = [
            self._pricer.find_alone_us(place, self.arrangement) for place in range(len(self.predictors))
        ]
        best_us = min(alone_us)
        tried, is_close = self._find_choices(method, most) if len(self.predictors) > 1 else ([], False)
        if most == 1 and not is_close:
            del tried[1:]
        found = self._pricer.price_all(list(map(self._write, tried)), self.arrangement)
        splits = [replace(plan, planner=method) for plan in found]
        splits[:2] = sorted(splits[:2], key=lambda plan: plan.predicted_us or 0.0)
        splits[1:] = sorted(splits[1:], key=lambda plan: plan.predicted_us or 0.0)
        worthy = [
            plan
            for plan in splits
            if (plan.predicted_us or 0.0) + self._find_doubt_us(plan, best_us) < best_us
        ]
        is_split = splits[:1] == worthy[:1] != []
        if is_split and most == 1:  # nobody asks for the others
            return [replace(splits[0], best_single_us=best_us)]
        device = self.devices[alone_us.index(best_us)]
        alone = plan_single(self.graph, device=device, devices=self.devices)
        (priced,) = self._pricer.price_all([alone], self.arrangement)
        single = replace(priced, planner=method)
        rest = [plan for plan in splits if plan not in worthy]
        ranked = [*worthy, single] if is_split else [single, *worthy]
        return [replace(plan, best_single_us=best_us) for plan in (*ranked, *rest)]

    def _find_doubt_us(self, plan: Plan, best_us: float) -> float:
        """Return what a plan must gain over the best device alone, which takes ``best_us``, to be believed.

        Meetings last longer than expected now and then; where there are many, that evens out.
        """
        ending, inner = (
            find_meeting_doubt_us(self.predictors, is_signalled=is_signalled)
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

    @cached_property
    def chains(self) -> Mapping[int, Sequence[ChainBatch]]:
        """By position of the head, all chains."""
        return self._finder.find_all(self.axes, ways=self._ways)

    def list_choices(self, method: Method, most: int) -> list[list[Choice]]:
        """Return what a method chooses for each stretch of the network, in several ways; as in `rank`.

        Dynamic programming's first choice comes first, greedy chains next.
        """
        return self._find_choices(method, most)[0]

    def _find_choices(self, method: Method, most: int) -> tuple[list[list[Choice]], bool]:
        """Return what `list_choices` does, and whether only prices tell which of the first two is faster."""
        count = len(self.predictors)
        greedy = GreedyChains(self.graph, self._order, self._finder, self._moves, devices=count).run(
            self.chains
        )
        if method is Method.GREEDY:
            return [greedy], False
        states, known = self._program.run(
            self._worthy, self._singles, limits_us=self._limits_us, known=greedy, best=most
        )
        first, *others = [state.list_choices() for state in states]
        is_close = True
        if known is not None and not self.graph.host_groups:  # with the host's steps estimates are coarse
            find_us = self._program.find_end_us
            is_close = find_us(known) <= (1 + _CLOSE) * find_us(states[0])
        return [first, greedy, *others], is_close

    def list_batches(self, position: int) -> list[ChainBatch]:
        """Return all that dynamic programming may make of a stretch that begins at a position."""
        return [self._singles[position], *map(choose_candidates, self._worthy.get(position, ()))]

    @cached_property
    def _worthy(self) -> Mapping[int, Sequence[ChainBatch]]:
        found = {
            first: [batch for batch in batches if self._is_worthy(batch)]
            for first, batches in self.chains.items()
        }
        for first, groups in self._finder.list_pairs().items():
            found[first] = [*groups, *found.get(first, ())]
        return found

    def estimate_us(self, choices: Sequence[Choice]) -> float:
        """Return what dynamic programming takes a way to take, which is close to its price."""
        return self._program.find_end_us(self._program.follow(choices))

    def price(self, choices: Sequence[Choice]) -> Plan:
        """Return the plan of some choices with its price."""
        return self._pricer.price_all([self._write(choices)], self.arrangement)[0]

    @cached_property
    def _limits_us(self) -> Limits:
        """By first and last position, what no candidate of a chain need take longer than."""
        return self._ways.limits_us if self.chains else {}

    @cached_property
    def _ways(self) -> Ways:
        return Ways(self._singles, self.graph, self._moves, most=self.max_chain_length)

    @cached_property
    def _singles(self) -> Mapping[int, ChainBatch]:
        """By position, the candidates that run one operator whole; none for the host's."""
        return {
            place: self._finder.make_single(place)
            for place, unit in enumerate(self._order)
            if not unit.is_host
        }

    @cached_property
    def _program(self) -> DynamicProgram:
        return DynamicProgram(
            self.graph,
            self._order,
            self._finder,
            self._moves,
            devices=len(self.predictors),
            beam=self.beam,
        )

    def _is_worthy(self, batch: ChainBatch) -> bool:
        """Return whether a chain takes less than the same operators on the fastest device."""
        before, behind = self._alone_us[batch.first], self._alone_us[batch.last + 1]
        return batch.least_us < min([us - less for us, less in zip(behind, before, strict=True)])

    @cached_property
    def _alone_us(self) -> list[list[float]]:
        """[position][device] What each device takes for all operators before a position."""
        count = len(self.predictors)
        rows = [
            np.zeros(count) if unit.is_host else self._finder.find_single_us(place)
            for place, unit in enumerate(self._order)
        ]
        found: list[list[float]] = np.cumsum([np.zeros(count), *rows], axis=0).tolist()
        return found

    def _write(self, choices: Sequence[Choice]) -> Plan:
        """Return the plan of some choices."""
        return write_plan(choices, self._order, self.graph, self.devices)

    @cached_property
    def _order(self) -> tuple[Unit, ...]:
        return order_units(self.graph)

    @cached_property
    def _tables(self) -> Tables:
        return Tables(self.graph, self.predictors)

    @cached_property
    def _finder(self) -> ChainFinder:
        return ChainFinder(self._tables, self._order, self.arrangement, most=self.max_chain_length)

    @cached_property
    def _moves(self) -> MoveCosts:
        return find_move_costs(self.predictors, self.arrangement)

    @cached_property
    def _pricer(self) -> Pricer:
        return Pricer(
            graph=self.graph,
            predictors={predictor.info.name: predictor for predictor in self.predictors},
            tables=self._tables,
        )


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
