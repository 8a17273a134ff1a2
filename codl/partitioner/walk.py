"""A run of a plan, walked through as its schedule says: what takes how long, and who waits for whom."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from codl.catalog.spec import Selection
from codl.ir.graph import FLOAT_BYTES, Graph, Node
from codl.ir.ops import Concat, HostCall
from codl.ir.regions import Region
from codl.latency.predictor import Predictor
from codl.latency.profile import Coherence
from codl.partitioner.clock import Clock, find_delays_us, find_meeting_us
from codl.partitioner.durations import Durations, Time, count_kib
from codl.partitioner.pairs import Pairs
from codl.plan.memory import find_lying_inside
from codl.plan.pairs import find_pairs
from codl.plan.places import find_owner
from codl.plan.residency import HOST, Transfer
from codl.plan.schedule import Call, Copy, Launch, Map, Meet, Publish, Schedule, Unmap
from codl.plan.sharing import Arrangement, Sharing
from codl.plan.steps import Plan, Step
from codl.plan.timeline import Span

S = TypeVar("S", bound=Step)
_OF_A_STEP = (Launch, Publish, Call)


@dataclass(slots=True)
class _Tally:
    """What one step takes."""

    device_us: list[float]
    sharing_us: list[float]
    """What each device's own queue does so that others see its results, or it sees theirs."""
    moving_us: float = 0.0
    """What the host waits for that purpose."""
    sync_us: float = 0.0


class Walk:
    """A run of a plan, walked through action by action."""

    def __init__(
        self,
        durations: Durations,
        plan: Plan,
        schedule: Schedule,
        arrangement: Arrangement,
        predictors: Sequence[Predictor],
        *,
        spans: list[Span] | None = None,
    ) -> None:
        self._durations, self._graph, self._plan = durations, durations.graph, plan
        self._schedule, self._arrangement, self._predictors = schedule, arrangement, predictors
        self._clock, count = Clock(predictors, spans), len(plan.devices)
        self._tallies = [_Tally(device_us=[0.0] * count, sharing_us=[0.0] * count) for _ in plan.steps]
        self._inside = _find_lying_inside(self._graph, schedule, arrangement)
        self._fetches, self._reclaimed_us = self._find_fetches()
        self._riders, self._leaders = self._find_groups(durations.find_pairs(plan.devices))

    def run(self) -> Plan:
        """Return the plan with its predictions; durations have learned of all slices."""
        steps = _find_steps(self._schedule, len(self._plan.steps))
        self._hand_over()
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

    def run_alone(self, step: int) -> Step:
        """Return a step with its predictions by itself: all devices begin it, idle, and are waited for."""
        steps = _find_steps(self._schedule, len(self._plan.steps))
        for action, owner in zip(self._schedule.actions, steps, strict=True):
            if owner == step and not isinstance(action, Meet):
                self._take(action, step)
        devices = {a.device for a in self._schedule.actions if isinstance(a, Launch) and a.step == step}
        if devices:
            self._take(Meet(devices=tuple(sorted(devices))), step)
        return self._write(self._plan.steps[step], step)

    def list_slices(self) -> list[tuple[Node, str, Region]]:
        """Return the operators, devices and regions of all launches but those of concatenations within."""
        nodes, devices, inside = self._graph.nodes_by_name, self._plan.devices, self._inside
        return [
            (nodes[action.node], devices[action.device], action.region)
            for action in self._schedule.actions
            if isinstance(action, Launch)
            and not (inside and inside.get((action.step, action.node, action.device)))
        ]

    def list_together(self) -> list[tuple[Node, Selection, str, Region]]:
        """Return the launches of several operators that are known as wholes, for `learn_together`."""
        nodes, devices = self._graph.nodes_by_name, self._plan.devices
        return [
            (nodes[last.node], how, devices[last.device], last.region) for last, how in self._leaders.values()
        ]

    def _find_groups(self, pairs: Pairs) -> tuple[dict[Launch, bool], dict[Launch, tuple[Launch, Selection]]]:
        """Return the launches that others do the work of, and those others whose time is known as a whole.

        The first by whether it is known what all take; the others with the last launch and what computes all.
        """
        riders: dict[Launch, bool] = {}
        leaders: dict[Launch, tuple[Launch, Selection]] = {}
        if not pairs.ways:
            return riders, leaders
        nodes = self._graph.nodes_by_name
        for last, (firsts, how) in find_pairs(self._graph, self._schedule, pairs.list_choices).items():
            group = {launch.node: launch for launch in (*reversed(firsts), last)}
            main = pairs.find_main([nodes[name] for name in group])
            riders |= {launch: how is not None for name, launch in group.items() if name != main.name}
            if how is not None:
                leaders[group[main.name]] = last, how
        return riders, leaders

    def _hand_over(self) -> None:
        """Let devices on whose cores the host hands over a whole run begin when it has done so."""
        if not self._arrangement.signals:
            return
        counts = [0] * len(self._predictors)
        for action in self._schedule.actions:
            if isinstance(action, Launch) and action not in self._riders:
                counts[action.device] += 1
            elif isinstance(action, Meet) and action.is_signalled:
                counts = [count + 1 for count in counts]
        for device, us in enumerate(find_delays_us(self._predictors, counts)):
            if counts[device]:
                self._clock.tell(device, step=0, us=us, memory_us=0.0, kind="wait")

    def _find_coherence(self, device: int, other: int) -> Coherence:
        return self._predictors[device].find_coherence(self._predictors[other].profile.name)

    def _find_fetches(self) -> tuple[dict[tuple[int, int], list[Transfer]], dict[tuple[str, int], float]]:
        """Return what devices fetch, by step and device; and what their writing takes longer for it.

        The latter by tensor and device: run after run a device writes over what others have read.
        """
        fetches: dict[tuple[int, int], list[Transfer]] = {}
        reclaimed_us: dict[tuple[str, int], float] = {}
        for step, transfers in enumerate(self._schedule.fetches):
            for one in transfers:
                fetches.setdefault((step, one.destination), []).append(one)
                if one.source == HOST:
                    continue
                key = one.tensor, one.source
                us = self._find_coherence(one.source, one.destination).reclaim_us * count_kib(one.region)
                reclaimed_us[key] = reclaimed_us.get(key, 0.0) + us
        return fetches, reclaimed_us

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
            case Meet(devices=devices, is_signalled=is_signalled):
                self._clock.feed()
                self._clock.wait(devices)
                us = find_meeting_us(self._predictors, devices, is_signalled=is_signalled)
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
        us = self._durations.time_publication(shape, region, self._predictors[device])
        self._share(device, us, step=step, kind="publish", name=tensor)

    def _launch(self, action: Launch) -> None:
        node, device = self._graph.nodes_by_name[action.node], action.device
        for one in self._fetches.pop((action.step, device), ()):
            self._fetch(one, action.step)
        inside = self._inside.get((action.step, action.node, device), frozenset())
        if inside:
            time = self._durations.time_rest(node, self._plan.devices[device], action.region, inside)
        else:
            time = self._time(action, node)
        self._tallies[action.step].device_us[device] += time.us
        self._clock.tell(
            device, step=action.step, us=time.us, memory_us=time.memory_us, kind="launch", name=action.node
        )
        us = self._reclaimed_us.get((node.output, device), 0.0)
        if node.output in self._graph.ends and self._arrangement.mode(device) is Sharing.COHERENT:
            us += self._predictors[device].host_coherence.output_us * count_kib(action.region)
        self._share(device, us, step=action.step, kind="reclaim", name=node.output)

    def _fetch(self, transfer: Transfer, step: int) -> None:
        """Price what caches do when a device reads what the host or another one wrote in shared memory.

        The device is taken to bear what the host takes longer to write as well.
        """
        device, source = transfer.destination, transfer.source
        if source == HOST:
            us = self._predictors[device].host_coherence.input_us
        else:
            us = self._find_coherence(device, source).fetch_us
        us *= count_kib(transfer.region)
        self._share(device, us, step=step, kind="fetch", name=transfer.tensor)

    def _time(self, action: Launch, node: Node) -> Time:
        """Return what a launch takes, or its part of one that computes several nodes."""
        name = self._plan.devices[action.device]
        if action in self._leaders:
            last, how = self._leaders[action]
            return self._durations.time_together(self._graph.nodes_by_name[last.node], how, name, last.region)
        time = self._durations.time(node, name, action.region)
        if action not in self._riders:
            return time
        launch_us = self._predictors[action.device].profile.launch_us
        is_counted = self._riders[action]
        us = 0.0 if is_counted else max(time.us - time.memory_us - launch_us, 0.0)
        return Time(us=us, memory_us=0.0)

    def _copy(self, transfer: Transfer, step: int) -> None:
        """Price a copy through the host: the host waits for what it reads, the destination's queue writes."""
        if self._arrangement.is_discrete(transfer.source):
            self._move("read", transfer.tensor, transfer.region, transfer.source, step)
        if self._arrangement.is_discrete(transfer.destination):
            device = transfer.destination
            us = self._durations.time_move(
                "write", transfer.tensor, transfer.region, self._predictors[device]
            )
            self._share(device, us, step=step, kind="write", name=transfer.tensor)

    def _share(self, device: int, us: float, *, step: int, kind: str, name: str) -> None:
        """Let a device's queue do something so that others see its results, or it sees theirs."""
        self._tallies[step].sharing_us[device] += us
        self._clock.tell(device, step=step, us=us, memory_us=us, kind=kind, name=name)

    def _move(self, kind: str, tensor: str, region: Region, device: int, step: int) -> None:
        us = self._durations.time_move(kind, tensor, region, self._predictors[device])
        self._tallies[step].moving_us += us
        other, size = self._plan.devices[device], region.size * FLOAT_BYTES
        self._clock.spend(us, step=step, kind=kind, name=tensor, other=other, size=size)


def _first_node(step: Step) -> str:
    return step.node if step.kind == "run" else step.nodes[0]


def _find_steps(schedule: Schedule, count: int) -> list[int]:
    """Return which step each action is for: what is not of a step itself prepares the next one."""
    steps = [count - 1] * len(schedule.actions)
    following = count - 1
    for place in reversed(range(len(schedule.actions))):
        action = schedule.actions[place]
        if isinstance(action, _OF_A_STEP):
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
