"""The session: load a model, plan it, run it."""

import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from codl.devices import drivers
from codl.devices.drivers import select_devices
from codl.devices.opencl import open_devices
from codl.errors import DeviceError, InputError, PlanError
from codl.executor.compile import compile_plan
from codl.executor.run import Executable
from codl.frontend import LoadedModel, load_model
from codl.ir.graph import FloatArray, Graph
from codl.machine import DeviceInfo
from codl.options import SessionOptions
from codl.partitioner.even import plan_even, plan_single
from codl.plan.steps import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeArg:
    """An input or output of a model: its name, its shape as declared, its ONNX type."""

    name: str
    shape: list[int | str | None]
    type: str


def make_plan(
    graph: Graph,
    *,
    planner: str,
    devices: Sequence[str],
    ratios: Sequence[float] | None = None,
    max_chain_length: int = 8,
    axes: Sequence[int] | None = None,
) -> Plan:
    """Return a plan of ``graph`` by the planner of that name.

    Args:
        graph: The network.
        planner: `even` or `single:<device>`.
        devices: Device names that the plan may use.
        ratios: Share of each device, for `even`.
        max_chain_length: Most operators in a chain.
        axes: Axes to cut along in order of preference, for `even`.

    Raises:
        PlanError: No such planner, or arguments it cannot work with.
    """
    if planner == "even":
        extra: dict[str, Any] = {} if axes is None else {"axes": axes}
        return plan_even(graph, devices=devices, ratios=ratios, max_chain_length=max_chain_length, **extra)
    kind, _, device = planner.partition(":")
    if kind == "single" and device:
        return plan_single(graph, device=device, devices=tuple(dict.fromkeys((*devices, device))))
    raise PlanError(f"planner: got {planner!r}, expected 'even' or 'single:<device>'")


def devices() -> tuple[DeviceInfo, ...]:
    """Return every OpenCL device of this machine.

    Raises:
        DriverError: There is no usable OpenCL driver; the message says what to install.
    """
    return drivers.devices()


def emulate_pair() -> None:
    """Let two CPU drivers, each on half of the cores, stand for a CPU and a GPU; before any driver loads.

    Raises:
        DeviceError: A driver is loaded already, or one of the two is missing.
    """
    drivers.emulate_pair()


def plan(
    model: str | os.PathLike[str] | bytes,
    *,
    devices: Sequence[str],
    planner: str = "even",
    ratios: Sequence[float] | None = None,
    max_chain_length: int = 8,
    axes: Sequence[int] | None = None,
) -> Plan:
    """Return a plan for a model without touching a device; arguments as in `make_plan`.

    Raises:
        ModelError: The model is broken, or has an operator codl cannot run.
        PlanError: No such planner, or arguments it cannot work with.
    """
    made = make_plan(
        load_model(model).graph,
        planner=planner,
        devices=devices,
        ratios=ratios,
        max_chain_length=max_chain_length,
        axes=axes,
    )
    return made if isinstance(model, bytes) else replace(made, model=os.fspath(model))


class InferenceSession:
    """A model ready to run on the devices of this machine.

    The signature is that of `onnxruntime.InferenceSession`. `run` may be called
    from any thread; calls are serialised.

    Args:
        path_or_bytes: ONNX file or its bytes.
        sess_options: Devices, planner, plan; defaults run everything on the best single device.
        providers: Accepted for compatibility, without effect.
        provider_options: Accepted for compatibility, without effect.

    Raises:
        ModelError: The model is broken, or has an operator codl cannot run.
        DeviceError: A device does not exist or its driver refuses it.
        PlanError: `sess_options.plan` is no sound plan for this model.
    """

    def __init__(
        self,
        path_or_bytes: str | os.PathLike[str] | bytes,
        sess_options: SessionOptions | None = None,
        providers: Sequence[Any] | None = None,
        provider_options: Sequence[Any] | None = None,
        **_: Any,
    ) -> None:
        del providers, provider_options
        options = sess_options or SessionOptions()
        self._lock = threading.Lock()
        self._model: LoadedModel = load_model(path_or_bytes, dimensions=options.free_dimensions)
        graph = self._model.graph
        self._plan = self._choose_plan(graph, options)
        self._executable: Executable | None = compile_plan(
            graph, self._plan, open_devices(self._plan.devices)
        )

    def _choose_plan(self, graph: Graph, options: SessionOptions) -> Plan:
        if options.plan is not None:
            return options.plan if isinstance(options.plan, Plan) else Plan.load(options.plan)
        names = [opened.info.name for opened in select_devices(options.devices)]
        planner = options.planner
        if planner is None:
            planner = f"single:{names[0]}"
        if planner.startswith("single:"):
            wanted = select_devices([planner.partition(":")[2]])[0].info.name
            return make_plan(graph, planner=f"single:{wanted}", devices=(wanted,))
        if options.devices is None and planner == "even":
            raise DeviceError(
                "planner 'even' divides work without knowing speeds: name the devices it may use"
            )
        return make_plan(
            graph,
            planner=planner,
            devices=names,
            ratios=options.ratios,
            max_chain_length=options.max_chain_length,
            axes=options.axes,
        )

    @property
    def plan(self) -> Plan:
        """The plan in use."""
        return self._plan

    @property
    def graph(self) -> Graph:
        """The network that the plan speaks of, after simplification and fusion."""
        return self._model.graph

    def get_inputs(self) -> list[NodeArg]:
        """Return the model's inputs, without initializers."""
        return [NodeArg(name=a.name, shape=list(a.shape), type=a.type) for a in self._model.inputs]

    def get_outputs(self) -> list[NodeArg]:
        """Return the model's outputs."""
        return [NodeArg(name=a.name, shape=list(a.shape), type=a.type) for a in self._model.outputs]

    def get_providers(self) -> list[str]:
        """Return what computes: one name for each device of the plan."""
        return [f"codl:{name}" for name in self._plan.devices]

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: Any = None,
    ) -> list[FloatArray]:
        """Return the outputs of one inference, in the order asked for.

        Args:
            output_names: Outputs wanted; None or empty for all.
            input_feed: An array for every input, float32, of the input's shape.
            run_options: Accepted for compatibility, without effect.

        Raises:
            InputError: A feed is missing, unknown, or of the wrong dtype, rank or shape; an unknown output.
        """
        del run_options
        wanted = self._check_outputs(output_names)
        feeds = self._check_feeds(input_feed)
        with self._lock:
            if self._executable is None:
                raise InputError(
                    "session: got run() after close(), expected an open session; create a new one"
                )
            outputs = self._executable.run(feeds)
        return [outputs[name] for name in wanted]

    def _check_outputs(self, names: Sequence[str] | None) -> tuple[str, ...]:
        known = self._model.graph.outputs
        for name in names or ():
            if name not in known:
                raise InputError(
                    f"output {name!r}: the model has no such output, expected one of {list(known)}"
                )
        return tuple(names or known)

    def _check_feeds(self, feed: Mapping[str, Any]) -> dict[str, FloatArray]:
        graph = self._model.graph
        for name in feed:
            if name not in graph.inputs:
                raise InputError(
                    f"input {name!r}: the model has no such input, expected {list(graph.inputs)}"
                )
        return {name: _check_feed(name, feed, graph.shape(name)) for name in graph.inputs}

    def close(self) -> None:
        """Give back buffers and kernels; closing twice is fine."""
        with self._lock:
            self._executable = None

    def __enter__(self) -> "InferenceSession":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _check_feed(name: str, feed: Mapping[str, Any], shape: tuple[int, ...]) -> FloatArray:
    if name not in feed:
        raise InputError(f"input {name!r}: missing, expected float32 of shape {list(shape)}")
    value = feed[name]
    if not isinstance(value, np.ndarray):
        raise InputError(f"input {name!r}: got {type(value).__name__}, expected a numpy array of float32")
    if value.dtype != np.float32:
        raise InputError(f"input {name!r}: got dtype {value.dtype}, expected float32")
    if value.ndim != len(shape):
        raise InputError(f"input {name!r}: got rank {value.ndim}, expected {len(shape)} for {list(shape)}")
    if value.shape != shape:
        raise InputError(f"input {name!r}: got shape {list(value.shape)}, expected {list(shape)}")
    return value
