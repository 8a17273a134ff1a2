"""What a plan costs, priced exactly as the executor runs it: the same residency, the same launches.

A run is walked through as its schedule says. Between two meetings each device computes the sum of its
slices, slowed down by what the others do at the time; a meeting ends with the last device that is waited for.
So a chain costs its head's missing transfers, the meeting, the largest sum of slices, and its tail's
publications.

Source:
    CoDL (MobiSys 2022), section 5: cost of an operator chain; but devices do not meet inside a chain, and a
    head pays for its sharing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, pairwise

from codl.errors import ProfileError
from codl.ir.graph import Graph
from codl.latency.predictor import Predictor
from codl.partitioner.alone import Alone, is_lone
from codl.partitioner.durations import Durations
from codl.partitioner.even import plan_single
from codl.partitioner.tables import Tables
from codl.partitioner.walk import Walk
from codl.plan.schedule import make_schedule
from codl.plan.shares import Sharer
from codl.plan.sharing import Arrangement
from codl.plan.steps import Plan, Step
from codl.plan.timeline import Span


@dataclass(frozen=True, kw_only=True)
class Pricer:
    """Prices plans of one network; what a slice takes is asked of a predictor once."""

    graph: Graph
    predictors: Mapping[str, Predictor]
    """By device name."""
    tables: Tables | None = field(default=None, repr=False)
    """What was predicted before, for the same devices in the same order."""
    _sharers: dict[tuple[str, ...], Sharer] = field(default_factory=dict, repr=False)
    """By the names of a plan's devices."""

    def price(self, plan: Plan, arrangement: Arrangement) -> Plan:
        """Return the plan with its predictions: of the whole run, of each step, and of the best device alone.

        A step of the host has no prediction, and the whole run's is without it.

        Args:
            plan: A sound plan of the graph.
            arrangement: How its devices share memory.

        Raises:
            ProfileError: A device has no predictor, or not for something that the plan does.
        """
        (priced,) = self.price_all([plan], arrangement)
        singles = [
            self.price_all(
                [plan_single(self.graph, device=name)], Arrangement(modes=(arrangement.modes[index],))
            )[0].predicted_us
            for index, name in enumerate(plan.devices)
        ]
        return replace(priced, best_single_us=min(us for us in singles if us is not None))

    def price_all(self, plans: Sequence[Plan], arrangement: Arrangement) -> list[Plan]:
        """Return what `price` does for plans over the same devices, without the best device alone."""
        return [walk.run() for walk in self._walk(plans, arrangement)]

    def find_alone_us(self, device: int, arrangement: Arrangement) -> float:
        """Return what a device of `tables` takes alone: what `price` says, most often without walking.

        Args:
            device: Its place among them.
            arrangement: How they share memory.

        Raises:
            ProfileError: As in `price`.
        """
        names, modes = list(self.predictors), arrangement.modes
        if self.tables is not None and self._is_lone:
            return Alone(self.tables, self._durations, device, sharing=modes[device]).find_us()
        plan = plan_single(self.graph, device=names[device], devices=tuple(names))
        return self.price_all([plan], arrangement)[0].predicted_us or 0.0

    def price_step(self, plan: Plan, arrangement: Arrangement, step: int) -> Step:
        """Return a step with what it costs by itself, whatever devices do before and after it in the plan.

        They begin it together with nothing else to do, and it ends when the last one is done.

        Args:
            plan: A sound plan of the graph.
            arrangement: How its devices share memory.
            step: The step's index.

        Raises:
            ProfileError: As in `price`.
        """
        return self._walk([plan], arrangement)[0].run_alone(step)

    def trace(self, plan: Plan, arrangement: Arrangement) -> tuple[Span, ...]:
        """Return what is predicted to take place when, by start; arguments and errors as in `price`."""
        spans: list[Span] = []
        self._walk([plan], arrangement, spans)[0].run()
        return tuple(sorted(spans, key=lambda span: span.start_us))

    def _walk(
        self, plans: Sequence[Plan], arrangement: Arrangement, spans: list[Span] | None = None
    ) -> list[Walk]:
        """Return runs of plans over the same devices, not yet walked through."""
        devices = plans[0].devices if plans else ()
        predictors = [self._find_predictor(name) for name in devices]
        sharer = self._sharers.get(devices)
        if sharer is None:
            find_reads = None if self.tables is None else self.tables.find_reads
            sharer = self._sharers[devices] = Sharer(self.graph, devices, find_reads)
        shares = sharer.share([step for plan in plans for step in plan.steps])
        stops = list(accumulate((len(plan.steps) for plan in plans), initial=0))
        schedules = [
            make_schedule(self.graph, plan, arrangement, shares=shares[start:stop])
            for plan, (start, stop) in zip(plans, pairwise(stops), strict=True)
        ]
        walks = [
            Walk(self._durations, plan, schedule, arrangement, predictors, spans=spans)
            for plan, schedule in zip(plans, schedules, strict=True)
        ]
        self._durations.learn(piece for walk in walks for piece in walk.list_slices())
        self._durations.learn_together(launch for walk in walks for launch in walk.list_together())
        return walks

    @cached_property
    def _is_lone(self) -> bool:
        return is_lone(self.graph)

    @cached_property
    def _durations(self) -> Durations:
        return Durations(graph=self.graph, predictors=self.predictors, tables=self.tables)

    def _find_predictor(self, name: str) -> Predictor:
        if name not in self.predictors:
            raise ProfileError(
                f"device {name!r}: got no profile, expected one for each device of the plan; "
                f"run `codl profile --device {name}`"
            )
        return self.predictors[name]


def price_plan(plan: Plan, graph: Graph, predictors: Sequence[Predictor], arrangement: Arrangement) -> Plan:
    """Return a plan with predictions, whoever made it.

    Args:
        plan: A sound plan of the graph.
        graph: The network.
        predictors: One for each of its devices, in any order.
        arrangement: How its devices, in the plan's order, share memory.

    Raises:
        ProfileError: A device has no predictor, or not for something that the plan does.
    """
    by_name = {predictor.info.name: predictor for predictor in predictors}
    return Pricer(graph=graph, predictors=by_name).price(plan, arrangement)
