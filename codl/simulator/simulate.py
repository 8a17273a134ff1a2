"""What a plan costs: its run is simulated with the residency, schedule and launches of the executor.

Between two synchronizations each device takes the sum of its slices, slowed down by contention; a
synchronization ends with the last device that is waited for. A chain costs its missing transfers, a
synchronization, the largest sum of slices, and its publications.

Source:
    CoDL (MobiSys 2022), section 5: cost of an operator chain; but devices do not synchronize inside a chain,
    and a head pays for its transfers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from codl.errors import ProfileError
from codl.ir.graph import Graph
from codl.latency.predictor import Predictor
from codl.plan.schedule import make_schedule
from codl.plan.shares import Sharer
from codl.plan.sharing import Arrangement
from codl.plan.single import plan_single
from codl.plan.steps import Plan
from codl.plan.timeline import Span
from codl.simulator.arrays import list_parts
from codl.simulator.latencies import Latencies
from codl.simulator.run import SimulatedRun
from codl.simulator.slices import SliceTables


@dataclass(frozen=True, kw_only=True)
class Simulator:
    """Prices plans of one network; each slice is predicted once."""

    graph: Graph
    predictors: Mapping[str, Predictor]
    """By device name."""
    tables: SliceTables | None = field(default=None, repr=False)
    """Of the same devices in the same order; what they hold is not predicted again."""
    _sharers: dict[tuple[str, ...], Sharer] = field(default_factory=dict, repr=False)
    """By the names of a plan's devices."""

    def price(self, plan: Plan, arrangement: Arrangement) -> Plan:
        """Return the plan with predictions of the whole run, of each step, and of the best single device.

        Steps of the host have no prediction, and the whole run's is without them.

        Args:
            plan: A sound plan of the graph.
            arrangement: How its devices share memory.

        Raises:
            ProfileError: A device has no predictor.
        """
        priced, *singles = self.price_all([plan, *self.list_singles(plan.devices)], arrangement)
        return replace(priced, best_single_us=min(one.predicted_us or 0.0 for one in singles))

    def price_all(self, plans: Sequence[Plan], arrangement: Arrangement) -> list[Plan]:
        """Return plans over the same devices with predictions, but without the best single device's."""
        return [run.run() for run in self._prepare(plans, arrangement)]

    def list_singles(self, devices: Sequence[str]) -> list[Plan]:
        """Return by device the plan, not priced, that runs the whole network on it."""
        return [plan_single(self.graph, device=name, devices=tuple(devices)) for name in devices]

    def trace(self, plan: Plan, arrangement: Arrangement) -> tuple[Span, ...]:
        """Return what takes place when in a simulated run, by start; arguments and errors as in `price`."""
        spans: list[Span] = []
        self._prepare([plan], arrangement, spans)[0].run()
        return tuple(sorted(spans, key=lambda span: span.start_us))

    def _prepare(
        self, plans: Sequence[Plan], arrangement: Arrangement, spans: list[Span] | None = None
    ) -> list[SimulatedRun]:
        """Return runs of plans over the same devices; their latencies are predicted together."""
        devices = plans[0].devices if plans else ()
        predictors = [self._find_predictor(name) for name in devices]
        sharer = self._sharers.get(devices)
        if sharer is None:
            find_reads = None if self.tables is None else self.tables.find_reads
            sharer = self._sharers[devices] = Sharer(self.graph, devices, find_reads)
        shares = sharer.share([step for plan in plans for step in plan.steps])
        runs = [
            SimulatedRun(
                self._latencies,
                plan,
                make_schedule(self.graph, plan, arrangement, shares=shares[part]),
                arrangement,
                predictors,
                spans=spans,
            )
            for plan, part in zip(plans, list_parts(len(plan.steps) for plan in plans), strict=True)
        ]
        self._latencies.predict_slices(one for run in runs for one in run.list_slices())
        self._latencies.predict_fused(one for run in runs for one in run.list_fused())
        return runs

    @cached_property
    def _latencies(self) -> Latencies:
        return Latencies(graph=self.graph, predictors=self.predictors, tables=self.tables)

    def _find_predictor(self, name: str) -> Predictor:
        if name not in self.predictors:
            raise ProfileError(
                f"device {name!r}: got no profile, expected one for each device of the plan; "
                f"run `codl profile --device {name}`"
            )
        return self.predictors[name]


def price_plan(plan: Plan, graph: Graph, predictors: Sequence[Predictor], arrangement: Arrangement) -> Plan:
    """Return a plan with predictions, as `Simulator.price` does; predictors may be in any order."""
    by_name = {predictor.info.name: predictor for predictor in predictors}
    return Simulator(graph=graph, predictors=by_name).price(plan, arrangement)
