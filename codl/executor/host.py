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
        if group not in self._sessions:
            model = self._graph.host_models[group]
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = self._threads
            # Threads that wait for work in a loop would take the cores that drivers compute on.
            options.add_session_config_entry("session.intra_op.allow_spinning", "0")
            label = f"{self._graph.name}: {group}: got a part {list(model.operators)}"
            self._sessions[group] = open_host_session(model.content, options, label=label)
        return self._sessions[group]


def prepare_call(
    nodes: Sequence[Node],
    graph: Graph,
    *,
    sessions: HostSessions,
    storages: Mapping[str, Storage],
    loose: dict[str, Value],
) -> Callable[[], None]:
    """Return the call that computes all nodes of a group: values in, one run of ONNX Runtime, values out.

    It raises HostError when ONNX Runtime fails.

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
        view = storages[tensor].view()
        return (lambda: view) if view.flags.c_contiguous else prepare_read(view)

    def find_target(tensor: str) -> Callable[[Value], object]:
        if graph.tensors[tensor].is_on_host:
            return partial(loose.__setitem__, tensor)
        return prepare_store(tensor, storages[tensor].view(), group)

    session = sessions.open(name)
    inputs, outputs = session.get_inputs(), session.get_outputs()
    sources = [(one.name, find_source(tensor)) for one, tensor in zip(inputs, nodes[0].inputs, strict=True)]
    names = [outputs[op.index].name for op, _ in calls]
    targets = [find_target(output) for _, output in calls]

    def run() -> None:
        feeds = {name: read() for name, read in sources}
        try:
            values = session.run(names, feeds)
        except Exception as error:  # ONNX Runtime's errors have no common base but this one
            raise HostError(
                f"{group}: ONNX Runtime failed with {' '.join(str(error).split())}, "
                "expected success; look at the values that the model was fed"
            ) from error
        for take, value in zip(targets, values, strict=True):
            take(value)

    return run


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
