"""One simulated run of a plan: every action of its schedule takes time on the simulated clock."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from codl.catalog.spec import Selection
from codl.ir.graph import FLOAT_BYTES, Graph, Node
from codl.ir.ops import Concat, HostCall
from codl.ir.regions import Region
from codl.latency.predictor import Predictor
from codl.latency.profile import Coherence
from codl.latency.questions import Latency
from codl.plan.memory import find_lying_inside
from codl.plan.places import find_owner
from codl.plan.residency import HOST, Transfer, step_nodes
from codl.plan.schedule import Call, Copy, Launch, Map, Meet, Publish, Schedule, Unmap
from codl.plan.sharing import Arrangement, Sharing
from codl.plan.steps import Plan, Step
from codl.plan.testbed import describe_device
from codl.plan.timeline import Span
from codl.simulator.clock import Clock
from codl.simulator.latencies import Latencies, count_kib
from codl.simulator.synchronization import find_delays_us, find_synchronization_us

S = TypeVar("S", bound=Step)
_OF_A_STEP = (Launch, Publish, Call)


@dataclass(slots=True)
class _Tally:
    """Time that one step takes, in us."""

    device_us: list[float]
    """By device, of its launches."""
    queue_us: list[float]
    """By device, of what its queue does for transfers."""
    host_us: float = 0.0
    """Of what the host does for transfers."""
    sync_us: float = 0.0
    """Of synchronizations."""


class SimulatedRun:
    """A run of a plan, not yet started.

    Args:
        latencies: Of the plan's slices and transfers.
        plan: The plan.
        schedule: Its actions.
        arrangement: How its devices share memory.
        predictors: One for each of its devices.
        spans: Where to record what takes place when; nowhere by default.
    """

    def __init__(
        self,
        latencies: Latencies,
        plan: Plan,
        schedule: Schedule,
        arrangement: Arrangement,
        predictors: Sequence[Predictor],
        *,
        spans: list[Span] | None = None,
    ) -> None:
        self._latencies, self._graph, self._plan = latencies, latencies.graph, plan
        self._schedule, self._arrangement, self._predictors = schedule, arrangement, predictors
        self._clock, count = Clock(predictors, spans), len(plan.devices)
        self._tallies = [_Tally(device_us=[0.0] * count, queue_us=[0.0] * count) for _ in plan.steps]
        self._inside = _find_lying_inside(self._graph, schedule, arrangement)
        self._fetches, self._reclaimed_us = self._find_fetches()
        fused = latencies.list_fused(plan.devices).find_in(schedule)
        self._riders = {rider: one.kernel is not None for one in fused for rider in one.riders}
        """By rider, whether its device's profile has a model of the fused kernel."""
        self._leaders = {one.main: (one.last, one.kernel) for one in fused if one.kernel is not None}
        """By main launch, the last launch and the kernel where the profile has a model of it."""

    def run(self) -> Plan:
        """Return the plan with its predictions; the latencies of its slices and fused launches are known."""
        steps = _find_steps(self._schedule, len(self._plan.steps))
        self._enqueue_run()
        for action, step in zip(self._schedule.actions, steps, strict=True):
            self._take(action, step)
        self._clock.flush()
        last = len(self._plan.steps) - 1
        for unmap in self._schedule.closing:
            self._move("unmap", unmap.held.tensor, unmap.held.region, unmap.held.device, last)
        return replace(
            self._plan,
            steps=tuple(self._predict(step, index) for index, step in enumerate(self._plan.steps)),
            profiles=tuple(predictor.profile.fingerprint for predictor in self._predictors),
            testbed=tuple(describe_device(predictor.info) for predictor in self._predictors),
            predicted_us=self._clock.now_us,
        )

    def list_slices(self) -> list[tuple[Node, str, Region]]:
        """Return operator, device and region of each launch, for `Latencies.predict_slices`."""
        nodes, devices, inside = self._graph.nodes_by_name, self._plan.devices, self._inside
        return [
            (nodes[action.node], devices[action.device], action.region)
            for action in self._schedule.actions
            if isinstance(action, Launch)
            and not (inside and inside.get((action.step, action.node, action.device)))
        ]

    def list_fused(self) -> list[tuple[Node, Selection, str, Region]]:
        """Return the fused launches that profiles have models of, for `Latencies.predict_fused`."""
        nodes, devices = self._graph.nodes_by_name, self._plan.devices
        return [
            (nodes[last.node], how, devices[last.device], last.region) for last, how in self._leaders.values()
        ]

    def _enqueue_run(self) -> None:
        """Delay each device while the host enqueues the whole run of the others, where devices signal."""
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
                self._clock.enqueue(device, step=0, us=us, memory_us=0.0, kind="wait")

    def _find_coherence(self, device: int, other: int) -> Coherence:
        return self._predictors[device].find_coherence(self._predictors[other].profile.name)

    def _find_fetches(self) -> tuple[dict[tuple[int, int], list[Transfer]], dict[tuple[str, int], float]]:
        """Return cache-to-cache transfers by step and destination, and what writing that memory again costs.

        The second is in us, by tensor and the device that writes it in each run.
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

    def _predict(self, step: S, index: int) -> S:
        tally = self._tallies[index]
        is_host = isinstance(self._graph.nodes_by_name[step_nodes(step)[0]].op, HostCall)
        return replace(
            step,
            compute_us=None if is_host else max(tally.device_us),
            share_us=tally.host_us + max(tally.queue_us),
            sync_us=tally.sync_us,
            total_us=None if is_host else self._clock.step_us.get(index, 0.0),
            device_us=() if is_host else tuple(tally.device_us),
        )

    def _take(self, action: object, step: int) -> None:
        match action:
            case Launch():
                self._launch(action)
            case Publish(tensor=tensor, device=device, region=region):
                shape, predictor = self._graph.shape(tensor), self._predictors[device]
                us = self._latencies.find_publication_us(shape, region, predictor)
                self._enqueue_transfer(device, us, step=step, kind="publish", name=tensor)
            case Meet(devices=devices, is_signalled=is_signalled):
                self._clock.flush()
                self._clock.wait(devices)
                us = find_synchronization_us(self._predictors, devices, is_signalled=is_signalled)
                self._tallies[step].sync_us += us
                self._clock.spend(us, step=step, kind="wait")
            case Copy(transfer=transfer):
                self._copy(transfer, step)
            case Map(tensor=tensor, region=region, device=device):
                self._move("map", tensor, region, device, step)
            case Unmap(held=held):
                self._move("unmap", held.tensor, held.region, held.device, step)
            case Call():
                self._clock.flush()

    def _launch(self, action: Launch) -> None:
        node, device = self._graph.nodes_by_name[action.node], action.device
        for one in self._fetches.pop((action.step, device), ()):
            self._fetch(one, action.step)
        inside = self._inside.get((action.step, action.node, device), frozenset())
        if inside:
            time = self._latencies.find_concat(node, self._plan.devices[device], action.region, inside)
        else:
            time = self._find_latency(action, node)
        self._tallies[action.step].device_us[device] += time.us
        self._clock.enqueue(
            device, step=action.step, us=time.us, memory_us=time.memory_us, kind="launch", name=action.node
        )
        us = self._reclaimed_us.get((node.output, device), 0.0)
        if node.output in self._graph.ends and self._arrangement.mode(device) is Sharing.COHERENT:
            us += self._predictors[device].host_coherence.output_us * count_kib(action.region)
        self._enqueue_transfer(device, us, step=action.step, kind="reclaim", name=node.output)

    def _fetch(self, transfer: Transfer, step: int) -> None:
        """Price the cache-to-cache transfer of what a device reads that the host or another device wrote."""
        device, source = transfer.destination, transfer.source
        if source == HOST:
            us = self._predictors[device].host_coherence.input_us
        else:
            us = self._find_coherence(device, source).fetch_us
        us *= count_kib(transfer.region)
        self._enqueue_transfer(device, us, step=step, kind="fetch", name=transfer.tensor)

    def _find_latency(self, action: Launch, node: Node) -> Latency:
        """Return the latency of a launch; of a fused one, what this operator adds to it."""
        name = self._plan.devices[action.device]
        if action in self._leaders:
            last, how = self._leaders[action]
            return self._latencies.find_fused(self._graph.nodes_by_name[last.node], how, name, last.region)
        time = self._latencies.find_slice(node, name, action.region)
        if action not in self._riders:
            return time
        launch_us = self._predictors[action.device].profile.launch_us
        us = 0.0 if self._riders[action] else max(time.us - time.memory_us - launch_us, 0.0)
        return Latency(us=us, memory_us=0.0)

    def _copy(self, transfer: Transfer, step: int) -> None:
        """Price a copy through the host: the host waits for the read, the destination's queue writes."""
        if self._arrangement.is_discrete(transfer.source):
            self._move("read", transfer.tensor, transfer.region, transfer.source, step)
        if self._arrangement.is_discrete(transfer.destination):
            device = transfer.destination
            us = self._latencies.find_transfer_us(
                "write", transfer.tensor, transfer.region, self._predictors[device]
            )
            self._enqueue_transfer(device, us, step=step, kind="write", name=transfer.tensor)

    def _enqueue_transfer(self, device: int, us: float, *, step: int, kind: str, name: str) -> None:
        """Enqueue what a device's queue does for a transfer; all of it is limited by memory."""
        self._tallies[step].queue_us[device] += us
        self._clock.enqueue(device, step=step, us=us, memory_us=us, kind=kind, name=name)

    def _move(self, kind: str, tensor: str, region: Region, device: int, step: int) -> None:
        us = self._latencies.find_transfer_us(kind, tensor, region, self._predictors[device])
        self._tallies[step].host_us += us
        other, size = self._plan.devices[device], region.size * FLOAT_BYTES
        self._clock.spend(us, step=step, kind=kind, name=tensor, other=other, size=size)


def _find_steps(schedule: Schedule, count: int) -> list[int]:
    """Return by action the index of its step; an action of no step counts for the step after it."""
    steps, following = [], count - 1
    for action in reversed(schedule.actions):
        following = action.step if isinstance(action, _OF_A_STEP) else following
        steps.append(following)
    return steps[::-1]


def _find_lying_inside(
    graph: Graph, schedule: Schedule, arrangement: Arrangement
) -> dict[tuple[int, str, int], frozenset[str]]:
    """Return by step, node and device the inputs of concatenations that lie inside their output."""
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
