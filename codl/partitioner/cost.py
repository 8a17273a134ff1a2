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
from typing import TypeVar

import numpy as np

from codl.catalog.rows.copy import COPY_ROW, concat_batches
from codl.catalog.spec import Selection
from codl.devices.memory import count_runs
from codl.errors import ProfileError
from codl.ir.graph import FLOAT_BYTES, Graph, Node, Shape
from codl.ir.ops import Concat, HostCall
from codl.ir.regions import Boxes, Region
from codl.latency.predictor import Predictor
from codl.partitioner.clock import Clock, find_meeting_us
from codl.partitioner.even import plan_single
from codl.partitioner.sorts import Sorts
from codl.partitioner.tables import Tables
from codl.plan.memory import find_lying_inside
from codl.plan.places import find_owner
from codl.plan.residency import Transfer
from codl.plan.schedule import Call, Copy, Launch, Map, Meet, Publish, Schedule, Unmap, make_schedule
from codl.plan.sharing import Arrangement
from codl.plan.steps import Plan, Step
from codl.plan.timeline import Span

S = TypeVar("S", bound=Step)


@dataclass(frozen=True, slots=True, kw_only=True)
class Time:
    """Of one slice on one device working alone."""

    us: float
    memory_us: float
    """As much of it as memory limits."""


@dataclass(slots=True)
class _Tally:
    """What one step takes."""

    device_us: list[float]
    sharing_us: list[float]
    """What each device's own queue does so that others see its results, or it sees theirs."""
    moving_us: float = 0.0
    """What the host waits for that purpose."""
    sync_us: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Pricer:
    """Prices plans of one network; what a slice takes is asked of a predictor once."""

    graph: Graph
    predictors: Mapping[str, Predictor]
    """By device name."""
    tables: Tables | None = field(default=None, repr=False)
    """What was predicted before, for the same devices in the same order."""
    _known: dict[tuple[str, int, Region], Time] = field(default_factory=dict, repr=False)

    _publications: dict[tuple[str, Shape, Region], float] = field(default_factory=dict, repr=False)
    _sharing: dict[tuple[str, str], tuple[float, float, float]] = field(default_factory=dict, repr=False)

    def price(self, plan: Plan, arrangement: Arrangement) -> Plan:
        """Return the plan with its predictions: of the whole run, of each step, and of the best device alone.

        A step of the host has no prediction, and the whole run's is without it.

        Args:
            plan: A sound plan of the graph.
            arrangement: How its devices share memory.

        Raises:
            ProfileError: A device has no predictor, or not for something that the plan does.
        """
        priced = self._price(plan, arrangement)
        singles = [
            self._price(
                plan_single(self.graph, device=name), Arrangement(modes=(arrangement.modes[index],))
            ).predicted_us
            for index, name in enumerate(plan.devices)
        ]
        return replace(priced, best_single_us=min(us for us in singles if us is not None))

    def price_alone(self, plan: Plan, arrangement: Arrangement) -> Plan:
        """Return what `price` does, without the best device alone."""
        return self._price(plan, arrangement)

    def trace(self, plan: Plan, arrangement: Arrangement) -> tuple[Span, ...]:
        """Return what is predicted to take place when, by start; arguments and errors as in `price`."""
        spans: list[Span] = []
        self._price(plan, arrangement, spans)
        return tuple(sorted(spans, key=lambda span: span.start_us))

    def _price(self, plan: Plan, arrangement: Arrangement, spans: list[Span] | None = None) -> Plan:
        predictors = [self._find_predictor(name) for name in plan.devices]
        schedule = make_schedule(self.graph, plan, arrangement)
        walk = _Walk(self, plan, schedule, arrangement, predictors, spans=spans)
        return walk.run()

    def times(self, plan: Plan, schedule: Schedule) -> None:
        """Ask the predictors for all slices of a schedule at once: one question for each sort of operator."""
        wanted: dict[tuple[str, int], tuple[Node, list[Region]]] = {}
        for action in schedule.actions:
            if not isinstance(action, Launch):
                continue
            node, device = self.graph.nodes_by_name[action.node], plan.devices[action.device]
            key = device, self._sorts.find(node), action.region
            if key in self._known:
                continue
            found_before = self._look_up(node, device, action.region)
            if found_before is not None:
                self._known[key] = found_before
            else:
                wanted.setdefault(key[:2], (node, []))[1].append(action.region)
        for (device, sort), (node, regions) in wanted.items():
            distinct = list(dict.fromkeys(regions))
            found = self.predictors[device].predict(node, self.graph, Boxes.of(distinct))
            memory_us = found.us * found.memory_share
            for region, us, slow in zip(distinct, found.us.tolist(), memory_us.tolist(), strict=True):
                self._known[device, sort, region] = Time(us=us, memory_us=slow)

    def time(self, node: Node, device: str, region: Region) -> Time:
        """Return what a slice takes that `times` has asked for."""
        return self._known[device, self._sorts.find(node), region]

    def time_publication(self, shape: Shape, region: Region, predictor: Predictor) -> float:
        """Return what it takes to copy a region to where all devices see it, in us."""
        key = predictor.info.name, shape, region
        if key not in self._publications:
            us = predictor.predict_publish("published", shape, Boxes.of([region]))
            self._publications[key] = float(us[0])
        return self._publications[key]

    def find_sharing(self, kind: str, predictor: Predictor) -> tuple[float, float, float]:
        """Return what a transfer, each of its bytes and each of its runs of bytes cost, in us."""
        key = predictor.info.name, kind
        if key not in self._sharing:
            unit = np.eye(3)
            found = predictor.predict_sharing(kind, calls=unit[0], bytes_=unit[1], rows=unit[2])
            call, byte, row = found.tolist()
            self._sharing[key] = call, byte, row
        return self._sharing[key]

    def _look_up(self, node: Node, device: str, region: Region) -> Time | None:
        if self.tables is None:
            return None
        found = self.tables.look_up(node, list(self.predictors).index(device), region)
        return None if found is None else Time(us=found[0], memory_us=found[1])

    @cached_property
    def _sorts(self) -> Sorts:
        return Sorts(self.graph) if self.tables is None else self.tables.sorts

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


class _Walk:
    """A run of a plan, walked through action by action."""

    def __init__(
        self,
        pricer: Pricer,
        plan: Plan,
        schedule: Schedule,
        arrangement: Arrangement,
        predictors: Sequence[Predictor],
        *,
        spans: list[Span] | None = None,
    ) -> None:
        self._pricer, self._graph, self._plan = pricer, pricer.graph, plan
        self._schedule, self._arrangement, self._predictors = schedule, arrangement, predictors
        self._clock, count = Clock(predictors, spans), len(plan.devices)
        self._tallies = [_Tally(device_us=[0.0] * count, sharing_us=[0.0] * count) for _ in plan.steps]
        self._inside = _find_lying_inside(self._graph, schedule, arrangement)

    def run(self) -> Plan:
        """Return the plan with its predictions."""
        self._pricer.times(self._plan, self._schedule)
        steps = _find_steps(self._schedule, len(self._plan.steps))
        for action, step in zip(self._schedule.actions, steps, strict=True):
            self._take(action, step)
        self._clock.feed()
        last = len(self._plan.steps) - 1
        for unmap in self._schedule.closing:
            self._move("unmap", unmap.held.tensor, unmap.held.region, unmap.held.device, last)
        return replace(
            self._plan,
            steps=tuple(self._write(step, index) for index, step in enumerate(self._plan.steps)),
            profiles=tuple(predictor.profile.fingerprint for predictor in self._predictors),
            predicted_us=self._clock.now_us,
        )

    def _write(self, step: S, index: int) -> S:
        tally = self._tallies[index]
        is_host = isinstance(self._graph.nodes_by_name[_first_node(step)].op, HostCall)
        return replace(
            step,
            compute_us=None if is_host else max(tally.device_us),
            share_us=tally.moving_us + max(tally.sharing_us),
            sync_us=tally.sync_us,
            total_us=None if is_host else self._clock.step_us.get(index, 0.0),
            device_us=() if is_host else tuple(tally.device_us),
        )

    def _take(self, action: object, step: int) -> None:
        match action:
            case Launch():
                self._launch(action)
            case Publish(tensor=tensor, device=device, region=region):
                self._publish(tensor, device, region, step)
            case Meet(devices=devices):
                self._clock.feed()
                self._clock.wait(devices)
                us = find_meeting_us(self._predictors, devices)
                self._tallies[step].sync_us += us
                self._clock.spend(us, step=step, kind="wait")
            case Copy(transfer=transfer):
                self._copy(transfer, step)
            case Map(tensor=tensor, region=region, device=device):
                self._move("map", tensor, region, device, step)
            case Unmap(held=held):
                self._move("unmap", held.tensor, held.region, held.device, step)
            case Call():
                self._clock.feed()

    def _publish(self, tensor: str, device: int, region: Region, step: int) -> None:
        shape = self._graph.shape(tensor)
        us = self._pricer.time_publication(shape, region, self._predictors[device])
        self._tallies[step].sharing_us[device] += us
        self._clock.tell(device, step=step, us=us, memory_us=us, kind="publish", name=tensor)

    def _launch(self, action: Launch) -> None:
        node, device = self._graph.nodes_by_name[action.node], action.device
        inside = self._inside.get((action.step, action.node, device), frozenset())
        if inside:
            time = self._time_rest(node, device, action.region, inside)
        else:
            time = self._pricer.time(node, self._plan.devices[device], action.region)
        self._tallies[action.step].device_us[device] += time.us
        self._clock.tell(
            device, step=action.step, us=time.us, memory_us=time.memory_us, kind="launch", name=action.node
        )

    def _time_rest(self, node: Node, device: int, region: Region, inside: frozenset[str]) -> Time:
        """Return what a concatenation takes when some inputs lie inside its output already."""
        predictor = self._predictors[device]
        batches = [
            batch
            for batch in concat_batches(node, self._graph, Boxes.of([region]), predictor.info)
            if batch.tensors[1].name not in inside
        ]
        if not batches:
            return Time(us=0.0, memory_us=0.0)
        found = predictor.predict_launches(Selection(implementation=COPY_ROW, parameters={}), batches)
        us = float(found.us[0])
        return Time(us=us, memory_us=us * float(found.memory_share[0]))

    def _copy(self, transfer: Transfer, step: int) -> None:
        """Price a copy through the host: the host waits for what it reads, the destination's queue writes."""
        if self._arrangement.is_discrete(transfer.source):
            self._move("read", transfer.tensor, transfer.region, transfer.source, step)
        if self._arrangement.is_discrete(transfer.destination):
            device = transfer.destination
            us = self._find_sharing_us("write", transfer.tensor, transfer.region, device)
            self._tallies[step].sharing_us[device] += us
            self._clock.tell(device, step=step, us=us, memory_us=us, kind="write", name=transfer.tensor)

    def _move(self, kind: str, tensor: str, region: Region, device: int, step: int) -> None:
        us = self._find_sharing_us(kind, tensor, region, device)
        self._tallies[step].moving_us += us
        other, size = self._plan.devices[device], region.size * FLOAT_BYTES
        self._clock.spend(us, step=step, kind=kind, name=tensor, other=other, size=size)

    def _find_sharing_us(self, kind: str, tensor: str, region: Region, device: int) -> float:
        runs = count_runs(region, Region.whole(self._graph.shape(tensor)))
        call, byte, row = self._pricer.find_sharing(kind, self._predictors[device])
        return call + byte * region.size * FLOAT_BYTES + row * runs


def _first_node(step: Step) -> str:
    return step.node if step.kind == "run" else step.nodes[0]


def _find_steps(schedule: Schedule, count: int) -> list[int]:
    """Return which step each action is for: what is not of a step itself prepares the next one."""
    steps = [count - 1] * len(schedule.actions)
    following = count - 1
    for place in reversed(range(len(schedule.actions))):
        action = schedule.actions[place]
        if isinstance(action, Launch | Publish | Call):
            following = action.step
        steps[place] = following
    return steps


def _find_lying_inside(
    graph: Graph, schedule: Schedule, arrangement: Arrangement
) -> dict[tuple[int, str, int], frozenset[str]]:
    """Return, by step, node and device, the inputs of concatenations that are not copied: they lie inside."""
    if not any(isinstance(node.op, Concat) for node in graph.nodes):
        return {}
    views = find_lying_inside(graph, schedule, arrangement)
    found = {}
    for action in schedule.actions:
        if not isinstance(action, Launch):
            continue
        node = graph.nodes_by_name[action.node]
        if not isinstance(node.op, Concat):
            continue
        reads = schedule.shares[action.step][action.device].reads
        owners = {
            name: find_owner(name, action.device, views.places, arrangement, is_outside=name in reads)
            for name in node.inputs
        }
        found[action.step, action.node, action.device] = frozenset(
            name for name, owner in owners.items() if (name, owner) in views.inside
        )
    return found
