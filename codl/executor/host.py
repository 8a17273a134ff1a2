"""Parts of a network that ONNX Runtime runs on the CPU: sessions, and calls prepared for a plan."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from codl.devices.memory import Storage
from codl.errors import HostError
from codl.executor.copies import prepare_read, prepare_write
from codl.host_session import open_host_session
from codl.ir.graph import FloatArray, Graph, Node
from codl.ir.ops import HostCall
from codl.runtime import onnxruntime

Value = Any
"""What ONNX Runtime takes and returns: an array, or a list or dict of values."""


class HostSessions:
    """ONNX Runtime's sessions for the host models of one graph; plans of the same graph share them.

    Args:
        graph: The network.
        threads: Threads of each session, 0 for ONNX Runtime's default.
    """

    def __init__(self, graph: Graph, *, threads: int = 0) -> None:
        self._graph, self._threads = graph, threads
        self._sessions: dict[str, Any] = {}

    def open(self, group: str) -> Any:
        """Return the session of a group of host calls.

        Raises:
            UnsupportedError: ONNX Runtime refuses the part.
        """
        session = self._sessions.get(group)
        if session is None:
            session = self._sessions[group] = self._create(group)
        return session

    def _create(self, group: str) -> Any:
        model = self._graph.host_models[group]
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self._threads
        # Threads that wait for work in a loop would take the cores that drivers compute on.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        label = f"{self._graph.name}: {group}: got a part {list(model.operators)}"
        return open_host_session(model.content, options, label=label)


class HostRun:
    """A prepared call: values in, one run of ONNX Runtime, values out.

    Args:
        session: Of the group.
        group: For messages.
        sources: For each input of the model, what returns its value.
        targets: For each output that is wanted, its place among the model's outputs and what takes its value.
    """

    def __init__(
        self,
        session: Any,
        *,
        group: str,
        sources: Sequence[Callable[[], Value]],
        targets: Sequence[tuple[int, Callable[[Value], object]]],
    ) -> None:
        self._session, self._group = session, group
        names = [argument.name for argument in session.get_inputs()]
        self._sources = tuple(zip(names, sources, strict=True))
        outputs = [argument.name for argument in session.get_outputs()]
        self._names = [outputs[index] for index, _ in targets]
        self._targets = tuple(take for _, take in targets)

    def __call__(self) -> None:
        """Run.

        Raises:
            HostError: ONNX Runtime failed.
        """
        feeds = {name: read() for name, read in self._sources}
        try:
            values = self._session.run(self._names, feeds)
        except Exception as error:  # ONNX Runtime's errors have no common base but this one
            raise HostError(
                f"{self._group}: ONNX Runtime failed with {' '.join(str(error).split())}, "
                "expected success; look at the values that the model was fed"
            ) from error
        for take, value in zip(self._targets, values, strict=True):
            take(value)


def prepare_call(
    nodes: Sequence[Node],
    graph: Graph,
    *,
    sessions: HostSessions,
    storages: Mapping[str, Storage],
    loose: dict[str, Value],
) -> HostRun:
    """Return the call that computes all nodes of a group.

    Args:
        nodes: The nodes.
        graph: Where they are from.
        sessions: ONNX Runtime's sessions for the graph.
        storages: Tensors of devices as the host sees them.
        loose: Where values on the host alone are during a run.

    Raises:
        UnsupportedError: ONNX Runtime refuses the part.
    """
    calls = [(node.op, node.output) for node in nodes if isinstance(node.op, HostCall)]
    name = calls[0][0].group
    group = f"{name} of {graph.name}"

    def find_source(tensor: str) -> Callable[[], Value]:
        if graph.tensors[tensor].is_on_host:
            return partial(loose.__getitem__, tensor)
        return _read_view(storages[tensor].view())

    def find_target(tensor: str) -> Callable[[Value], object]:
        if graph.tensors[tensor].is_on_host:
            return partial(loose.__setitem__, tensor)
        return prepare_store(tensor, storages[tensor].view(), group)

    return HostRun(
        sessions.open(name),
        group=group,
        sources=[find_source(tensor) for tensor in nodes[0].inputs],
        targets=[(op.index, find_target(output)) for op, output in calls],
    )


def prepare_store(tensor: str, view: FloatArray, group: str) -> Callable[[Value], object]:
    """Return what copies a value that the host made into a tensor of devices.

    It raises HostError when the value has another shape: numpy would stretch it.
    """
    write = prepare_write(view)

    def store(value: Value) -> None:
        shape = getattr(value, "shape", None)  # a list or a dict has none
        if shape != view.shape:
            raise HostError(
                f"{group}: got {tensor!r} of shape {shape}, expected {view.shape}; "
                "look at the values that the model was fed"
            )
        write(value)

    return store


def _read_view(view: FloatArray) -> Callable[[], Value]:
    """Return what reads memory that devices write, in ONNX order: a copy where it lies otherwise."""
    return (lambda: view) if view.flags.c_contiguous else prepare_read(view)
