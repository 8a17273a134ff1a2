"""From a plan to prepared calls: kernels bound, transfers laid out, meeting points fixed."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from threading import Event
from typing import Any

from codl.catalog.choose import NO_DATABASES, Databases
from codl.catalog.rows.copy import copy_batch
from codl.catalog.rows.parts import iterate_parts
from codl.catalog.spec import Implementation, LaunchBatch, PackedArg, Parameters, TensorArg
from codl.catalog.table import PAIRS
from codl.devices.boundary import driver_calls
from codl.devices.images import ImageStorage
from codl.devices.launch import BoundLaunch, bind_launch, tensor_arguments
from codl.devices.meeting import start_order
from codl.devices.memory import Storage, arrange
from codl.devices.opencl import Device
from codl.devices.signals import Signals
from codl.executor.crossings import Crossings
from codl.executor.footprint import add_bytes, list_memory
from codl.executor.fusions import find_parts, fuse_work
from codl.executor.host import HostSessions, prepare_call
from codl.executor.images import describe_work, plan_images
from codl.executor.placement import Placement, list_as_given
from codl.executor.programs import build_programs
from codl.executor.run import Executable
from codl.executor.scratch import Scratch
from codl.executor.trace import Entry, EventKind, Label
from codl.executor.walks import DeviceWalks, copy_parts
from codl.executor.weights import Weights, keep_for_later
from codl.ir.graph import FLOAT_BYTES, Graph, Node
from codl.ir.ops import Concat
from codl.ir.regions import Boxes
from codl.limits import DEFAULT_LIMITS
from codl.plan.check import check_plan
from codl.plan.residency import HOST, Transfer, step_nodes
from codl.plan.schedule import Call, Copy, Launch, Map, Meet, Publish, Unmap, make_schedule
from codl.plan.sharing import Arrangement, Sharing
from codl.plan.steps import Plan
from codl.plan.testbed import keep_testbed


def compile_plan(
    graph: Graph,
    plan: Plan,
    devices: Sequence[Device],
    *,
    weights: Weights | None = None,
    sharing: Sharing | None = None,
    databases: Databases = NO_DATABASES,
    pairs: Sequence[Implementation] = PAIRS,
    hosts: HostSessions | None = None,
    most_bytes: int = DEFAULT_LIMITS.planned_bytes,
    stop: Event | None = None,
) -> Executable:
    """Return the executable of ``plan``: everything fixed, nothing left to decide.

    Args:
        graph: The network.
        plan: A sound plan of it.
        devices: The plan's devices, opened, in its order.
        weights: Packed constants shared with other plans of the same graph; the executable holds them.
        sharing: How devices that compute in the host's memory see each other's results; chosen from the
            devices by default. Those with memory of their own are sent copies in any case.
        databases: What is known of the best kernels, by device name; without it rules choose them.
        pairs: Rows that may compute two nodes in one launch.
        hosts: ONNX Runtime's sessions shared with other plans of the same graph.
        most_bytes: Activations that the plan may need.
        stop: As in `build_programs`.

    Raises:
        ModelError: The plan needs more memory.
        PlanError: The plan breaks a law.
        UnsupportedError: A node that no implementation of a device computes.
        DeviceError: A driver refused a kernel or memory.
        StoppedError: `stop` was set.
    """
    check_plan(plan, graph)
    arrangement = arrange([device.info for device in devices], sharing)
    return _Compiler(
        graph,
        plan,
        devices,
        weights=weights or Weights(graph),
        hosts=hosts or HostSessions(graph),
        arrangement=arrangement,
        databases=databases,
        pairs=pairs,
        most_bytes=most_bytes,
    ).compile(stop)


class _Compiler:
    def __init__(
        self,
        graph: Graph,
        plan: Plan,
        devices: Sequence[Device],
        *,
        weights: Weights,
        hosts: HostSessions,
        arrangement: Arrangement,
        databases: Databases,
        pairs: Sequence[Implementation],
        most_bytes: int,
    ) -> None:
        self._graph, self._plan, self._devices = graph, plan, tuple(devices)
        self._weights, self._hosts, self._arrangement = weights, hosts, arrangement
        self._loose: dict[str, Any] = {}
        self._schedule = make_schedule(graph, plan, arrangement)
        infos = [device.info for device in devices]
        self._start_order = start_order(infos)
        self._alone = describe_work(graph, self._schedule, infos, databases)
        work, self._fusions = fuse_work(graph, self._schedule, self._alone, infos, rows=pairs)
        self._placement = Placement(
            graph,
            self._schedule,
            devices,
            arrangement,
            taken_over=self._fusions,
            in_onnx_order=list_as_given(graph, work, arrangement),
            most_bytes=most_bytes,
        )
        self._work, self._image_plan = plan_images(graph, self._schedule, work, devices=len(infos))
        self._images = [
            tuple(device.allocate_image(*size) for size in sizes)
            for device, sizes in zip(devices, self._image_plan.sizes, strict=True)
        ]
        self._crossings = Crossings(self._schedule, self._devices, arrangement, self._placement)
        self._script: list[Entry] = []
        self._pending: list[list[Entry]] = [[] for _ in devices]
        self._launches: list[BoundLaunch] = []
        self._constants: list[dict[int, int]] = [{} for _ in devices]
        """By device: buffer of constants -> its bytes."""
        self._scratches = [Scratch(device) for device in devices]
        self._walks = [DeviceWalks(device, graph, weights) for device in devices]
        self._signals = Signals(devices) if arrangement.signals else None
        self._meeting_numbers = count(1)

    def compile(self, stop: Event | None) -> Executable:
        works = ((action.device, work) for action, work in self._work.items())
        own = [(device, work) for device, work in works if not self._walks[device].covers(work)]
        build_programs(self._devices, own, stop=stop)
        opening = tuple(self._crossings.hold(action) for action in self._schedule.opening)
        actions = self._schedule.actions
        ends = {one.device: place for place, one in enumerate(actions) if isinstance(one, Launch | Publish)}
        if self._signals is not None:
            self._script.append((self._signals.reset, None))
        for place, action in enumerate(actions):
            match action:
                case Launch():
                    self._bind_node(action)
                case Publish():
                    self._bind_publication(action)
                case Meet(devices=devices, is_signalled=True):
                    self._signal(devices, going_on=[one for one, end in ends.items() if end > place])
                case Meet():
                    self._meet(
                        [one for one in action.devices if not self._crossings.waits_to_read(one, place)]
                    )
                case Copy():
                    self._copy(action.transfer)
                case Map():
                    self._script.append(self._crossings.hold(action))
                case Unmap():
                    self._script.append(self._crossings.release(action))
                case Call():
                    self._bind_call(action)
        if self._signals is not None:
            self._script.append((self._signals.check, None))
        weights, scratches = {}, {}
        for index, walks in enumerate(self._walks):
            self._launches += walks.finish(self._scratches[index], partial(self._count, device=index))
            self._script += walks.checks
        for index, device in enumerate(self._devices):
            name, scratch = device.info.name, self._scratches[index]
            if scratch.floats:
                self._placement.fillable.append((index, scratch.bind()))
            self._placement.fillable += [(index, image) for image in self._images[index]]
            weights[name] = sum(self._constants[index].values())
            scratches[name] = (scratch.floats + self._image_plan.count_floats(index)) * FLOAT_BYTES
        memory = list_memory(self._plan.devices, add_bytes(self._placement.count_bytes(), scratches), weights)
        return Executable(
            graph=self._graph,
            plan=keep_testbed(replace(self._plan, memory=memory), [device.info for device in self._devices]),
            devices=self._devices,
            entries=tuple(self._script),
            opening=tuple(call for call, _ in opening),
            closing=tuple(self._crossings.release(action)[0] for action in self._schedule.closing),
            placement=self._placement,
            loose=self._loose,
            held=tuple(self._crossings.held.values()),
            launches=tuple(self._launches),
            weight_bytes=weights,
            constant_bytes={key: size for one in self._constants for key, size in one.items()},
            pieces=self._weights.pieces,
            after_first=partial(keep_for_later, self._devices, self._weights),
            signals=self._signals,
        )

    def _meet(self, awaited: Sequence[int] = ()) -> None:
        """Enqueue all that is pending, everywhere, then wait for some devices in turn."""
        for device in self._start_order:
            self._feed(device)
        for device in awaited:
            self._script.append((self._devices[device].finish, Label(kind=EventKind.WAIT, device=device)))

    def _signal(self, awaited: Sequence[int], *, going_on: Collection[int]) -> None:
        """Enqueue all that is pending, and behind it on each device what lets it wait for some of them.

        Only devices that go on, with something to do afterwards, wait.
        """
        assert self._signals is not None
        number = next(self._meeting_numbers)
        for device in self._start_order:
            others = {*awaited} - {device} if device in going_on else set()
            if others or device in awaited:
                call = self._signals.bind(device, number=number, says=device in awaited, awaited=others)
                self._add(device, call, Label(kind=EventKind.MEET, device=device))
            self._feed(device)

    def _feed(self, device: int) -> None:
        """Enqueue all that is pending for a device, if anything is."""
        self._pending[device] += self._walks[device].close()
        if self._pending[device]:
            self._script += [*self._pending[device], (self._devices[device].queue.flush, None)]
            self._pending[device] = []

    def _bind_call(self, action: Call) -> None:
        """Prepare a host step; devices go on with what they have."""
        self._meet()
        nodes = [self._graph.nodes_by_name[name] for name in step_nodes(self._plan.steps[action.step])]
        hosts = self._placement.hosts
        call = prepare_call(nodes, self._graph, sessions=self._hosts, storages=hosts, loose=self._loose)
        self._script.append((call, Label(kind=EventKind.HOST, device=HOST, name=nodes[0].name)))

    def _copy(self, transfer: Transfer) -> None:
        """Prepare a copy through the host: read at once, written when the destination gets there."""
        read, write = self._crossings.copy(transfer)
        if read is not None:
            self._script.append(read)
        if write is not None:
            call, label = write
            assert label is not None
            self._add(label.device, call, label)

    def _bind_node(self, action: Launch) -> None:
        node, info = self._graph.nodes_by_name[action.node], self._devices[action.device].info
        parts = find_parts(action, self._fusions, self._alone)
        label = Label(kind=EventKind.LAUNCH, device=action.device, name=node.name, parts=parts)
        work = self._work[action]
        selection, batches = work.selection, work.batches
        if isinstance(node.op, Concat) and self._has_inside(node.op, node, action):
            selection, batches = copy_parts(work, node, self._graph, action.region, info)
            batches = tuple(one for one in batches if not self._moves_nothing(action, one.tensors[:2]))
        for batch in batches:
            operands = [self._find_operand(action, arg) for arg in batch.tensors]
            self._bind(batch, operands, selection.implementation.source, selection.parameters, label)

    def _has_inside(self, op: Concat, node: Node, action: Launch) -> bool:
        """Return whether some inputs of a concatenation lie where they are concatenated."""
        parts = iterate_parts(op, node, self._graph, Boxes.of([action.region]))
        return any(self._moves_nothing(action, (part.dst, part.src)) for part in parts)

    def _moves_nothing(self, action: Launch, tensors: Sequence[TensorArg]) -> bool:
        """Return whether a copy's source lies where it would be copied to."""
        target, source = (tensor_arguments(arg, self._find_buffer(action, arg)) for arg in tensors)
        return target == source

    def _find_operand(self, action: Launch, arg: TensorArg) -> Storage | ImageStorage:
        if arg.image is None:
            return self._find_buffer(action, arg)
        place = self._image_plan.places[action, arg.name]
        return ImageStorage(region=place.region, image=self._images[action.device][place.image])

    def _find_buffer(self, action: Launch, arg: TensorArg) -> Storage:
        device, output = action.device, self._graph.nodes_by_name[action.node].output
        if arg.name in self._graph.constants:
            constant = self._weights.plain(arg.name, self._devices[device])
            self._count(constant.buffer, device)
            return constant
        for first in self._fusions.get(action, ()):
            if arg.name in self._graph.nodes_by_name[first.node].inputs:
                return self._find_buffer(first, arg)
        share = self._schedule.shares[action.step][device]
        is_outside = arg.name != output and arg.name in share.reads
        storage = self._placement.source(arg.name, device, is_outside=is_outside)
        # A slice whose windows lie wholly in the padding reads nothing: any storage will do.
        return storage or self._placement.target(output, device)

    def _count(self, buffer: Any, device: int) -> Any:
        """Return a buffer of constants, its bytes noted: several kernels may read it."""
        with driver_calls(self._devices[device].info.name, "no size of a buffer"):
            self._constants[device][buffer.int_ptr] = buffer.size
        return buffer

    def _bind_publication(self, action: Publish) -> None:
        tensor, device, info = action.tensor, action.device, self._devices[action.device].info
        row, batch = copy_batch(tensor, self._graph.shape(tensor), Boxes.of([action.region]), info)
        shared = self._placement.shared(tensor, device)
        label = Label(kind=EventKind.PUBLISH, device=device, name=tensor)
        self._bind(batch, [shared, self._placement.target(tensor, device)], row.source, {}, label)

    def _bind(
        self,
        batch: LaunchBatch,
        storages: Sequence[Storage | ImageStorage],
        source: str,
        parameters: Parameters,
        label: Label,
    ) -> None:
        """Bind one kernel: the first candidate of ``batch`` with every argument fixed."""
        if self._walks[label.device].take(batch, storages, parameters, label):
            return
        owner = self._devices[label.device]

        def find_panels(packed: PackedArg, begin: int, end: int) -> Any:
            return self._count(self._weights.panels(packed, owner, begin, end), label.device)

        launch = bind_launch(
            owner, batch, tensors=storages, find_panels=find_panels, source=source, parameters=parameters
        )
        if launch is None:
            return
        if batch.scratch is not None:
            self._scratches[label.device].request(launch, int(batch.scratch[0]))
        self._launches.append(launch)
        self._add(label.device, launch.enqueue, label)

    def _add(self, device: int, call: Callable[[], object], label: Label) -> None:
        """Let a call follow all that is pending for a device, behind the walk of launches so far."""
        self._pending[device] += [*self._walks[device].close(), (call, label)]
