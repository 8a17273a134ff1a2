"""The session: load a model, plan it, run it."""

import os
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext, suppress
from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from codl.devices.boundary import enough_memory
from codl.devices.forks import make_lock
from codl.errors import (
    CodlError,
    InputError,
    InputTypeError,
    PlanError,
    StoppedError,
)
from codl.frontend.declared import Argument
from codl.options import RunOptions, SessionOptions
from codl.session.arguments import describe_argument
from codl.session.binding import IOBinding
from codl.session.feeds import Feeds, check_feeds, check_output_names
from codl.session.late import profile_late, resolve_late
from codl.session.opening import Model, Once, Opening, asks_for_something, check_model, check_options
from codl.session.shortcut import Shortcut
from codl.values import HOST_PROVIDER, ModelMetadata, NodeArg, OrtValue, name_provider

if TYPE_CHECKING:
    from codl.ir.graph import Graph
    from codl.plan.steps import Plan
    from codl.session.variants import Variant

T = TypeVar("T")


class InferenceSession:
    """A model ready to run on the devices of this machine.

    The signature is that of `onnxruntime.InferenceSession`. `run` may be called
    from any thread; calls are serialised.

    ONNX Runtime answers while the model is planned and its kernels compile in the
    background, and goes on where it is faster; `SessionOptions.warm_up` changes that.
    A model whose inputs leave dimensions open has a plan for each set of shapes that
    comes often enough. Until its first run it has no `plan`.

    Args:
        path_or_bytes: ONNX file or its bytes.
        sess_options: Devices, planner, plan; by default what profiles say is fastest.
        providers: Accepted for compatibility, without effect.
        provider_options: Accepted for compatibility, without effect.

    Raises:
        ModelError: The model is broken, or has an operator that neither codl nor ONNX Runtime has.
        DeviceError: A device does not exist or its driver refuses it.
        PlanError: `sess_options.plan` is no sound plan for this model.
        ProfileError: The planner asked for needs profiles that the devices do not have.
    """

    @enough_memory("session")
    def __init__(
        self,
        path_or_bytes: str | os.PathLike[str] | bytes,
        sess_options: SessionOptions | None = None,
        providers: Sequence[Any] | None = None,
        provider_options: Sequence[Any] | None = None,
        **others: Any,
    ) -> None:
        del providers, provider_options
        options, model = check_options(sess_options, others), check_model(path_or_bytes)
        self._options, self._lock = options, make_lock()
        self._profiler = profile_late(options.profile_file_prefix) if options.enable_profiling else None
        self._shortcut: Shortcut | None = None
        self._plan: Plan | None = None
        self._graph: Graph | None = None
        """What remains of both when the session is closed."""
        self._request = request = Once(partial(resolve_late, options))
        is_blocking = options.warm_up == "block" or options.enable_profiling
        with ThreadPoolExecutor(1, "codl reader") as readers:  # reads while drivers load
            reading = readers.submit(self._open, model)
            if is_blocking or asks_for_something(options):
                request()
            self._opening = reading.result()
        with self._record("session_initialization"):
            self._opening.check()
            self._declared = self._opening.declared
            self._tiers, self._tier = self._opening.start(is_blocking=is_blocking)
        weakref.finalize(self, self._tiers.worker.stop)
        if self._profiler is not None:
            weakref.finalize(self, self._profiler.finish)

    def _open(self, model: Model) -> Opening:
        with self._record("model_loading_array" if isinstance(model, bytes) else "model_loading_uri"):
            return Opening(model, self._options, self._request)

    def _record(self, name: str) -> AbstractContextManager[None]:
        return nullcontext() if self._profiler is None else self._profiler.record(name)

    @property
    def plan(self) -> "Plan":
        """The plan in use: that of the last run where shapes change. Waits until it is made.

        Raises:
            PlanError: The model leaves dimensions open and has not run yet.
            CodlError: Why there is no plan.
        """
        return self._plan or self._find_variant().plan

    @property
    def graph(self) -> "Graph":
        """The network that the plan speaks of, after simplification and fusion.

        Raises:
            PlanError: The model leaves dimensions open and has not run yet.
        """
        tier = _known(self._tier, self._declared.inputs)
        if tier.variant is not None:
            return tier.variant.graph
        return self._graph or self._opening.load(tier.shapes, tier.initializers).graph

    def _find_variant(self) -> "Variant":
        return self._tiers.find_variant(_known(self._tier, self._declared.inputs))

    @property
    def served_by(self) -> str:
        """Who answers: `codl`, or `onnxruntime` while kernels compile and where it is faster."""
        is_codl = self._tier is not None and self._tier.variant is not None
        return "codl" if is_codl or not self._tiers.is_host_open else "onnxruntime"

    def ready(self) -> bool:
        """Return whether the kernels for the last run's shapes, or the only ones, are compiled."""
        return self.served_by == "codl"

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until kernels are compiled, or it is known that ONNX Runtime is faster.

        Args:
            timeout: Seconds after which to give up.

        Returns:
            Whether that was in time.

        Raises:
            CodlError: Why there are no kernels; ONNX Runtime goes on.
        """
        return self._tier is None or self._tiers.wait(self._tier, timeout)

    def when_ready(self, callback: Callable[["InferenceSession"], object]) -> None:
        """Call ``callback(session)`` in a thread of its own once `wait` would return or raise."""

        def tell() -> None:
            with suppress(CodlError):  # which the plan raises for those who ask for it
                self.wait()
            callback(self)

        threading.Thread(target=tell, name="codl when_ready", daemon=True).start()

    def get_inputs(self) -> list[NodeArg]:
        """Return the model's inputs, without initializers."""
        return [describe_argument(argument) for argument in self._declared.inputs]

    def get_outputs(self) -> list[NodeArg]:
        """Return the model's outputs."""
        return [describe_argument(argument) for argument in self._declared.outputs]

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Return the initializers that may be fed, and then win for that run."""
        return [describe_argument(argument) for argument in self._declared.overridable]

    def get_modelmeta(self) -> ModelMetadata:
        """Return what the model says about itself."""
        return self._declared.metadata

    def get_session_options(self) -> SessionOptions:
        """Return the options that the session was made with."""
        return self._options

    def get_providers(self) -> list[str]:
        """Return one name for each device that computes, then `CPUExecutionProvider`."""
        return [*(name_provider(name) for name in self._request().devices), HOST_PROVIDER]

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """Return an empty dict for each provider: they have no options."""
        return {name: {} for name in self.get_providers()}

    def set_providers(
        self, providers: Sequence[Any] | None = None, provider_options: Sequence[Any] | None = None
    ) -> None:
        """Accept providers without effect: `SessionOptions.devices` says where to run."""
        del providers, provider_options

    def enable_fallback(self) -> None:
        """Do nothing: no other provider steps in."""

    def disable_fallback(self) -> None:
        """Do nothing: no other provider steps in."""

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None = None,
    ) -> list[Any]:
        """Return the outputs of one inference, in the order asked for: arrays, or what ONNX Runtime returns.

        Args:
            output_names: Outputs wanted; None or empty for all.
            input_feed: An array for every input, of its type and shape; also `OrtValue` and nested lists.
            run_options: Only `terminate` has an effect.

        Raises:
            InputError: A feed is missing, unknown, or of the wrong dtype, rank or shape; an unknown output.
            StoppedError: `terminate` is set.
            HostError: ONNX Runtime failed at what it runs on the host.
        """
        wanted = check_output_names(output_names, self._declared.output_names)
        shortcut, declared = self._shortcut, self._declared
        is_plain = run_options is None and (output_names is None or len(set(wanted)) == len(wanted))
        if is_plain and shortcut is not None and shortcut.fits(input_feed):
            with self._lock:
                answer = self._tiers.answer(shortcut.tier, input_feed, wanted)
            if answer is not None:
                return answer
        feeds = check_feeds(input_feed, inputs=declared.inputs, overridable=declared.overridable)
        if not hasattr(run_options or RunOptions, "terminate"):
            raise InputTypeError(f"run_options: got {type(run_options).__name__}, expected codl.RunOptions")
        if run_options is not None and run_options.terminate:
            raise StoppedError("run: got run options with terminate set, expected it unset; nothing was run")
        with self._lock:
            outputs = self._run(feeds, wanted)
        if len(set(wanted)) == len(wanted):
            return [outputs[name] for name in wanted]
        return [
            deepcopy(outputs[name]) for name in wanted
        ]  # arrays of their own, however often they are named

    def _run(self, feeds: Feeds, wanted: Sequence[str]) -> Mapping[str, Any]:
        if self._tiers.is_closed:
            raise InputError("session: got run() after close(), expected an open session; create a new one")
        tier = self._tiers.find_fed(feeds)
        if self._tiers.is_host_open:
            self._opening.check(
                tier.shapes, tier.initializers
            )  # what a model with open dimensions claims, once
        if tier is not self._tier:
            self._tier, self._plan, self._graph = tier, None, None
        if self._profiler is None:
            self._shortcut = Shortcut(tier, feeds) if tier.variant is None else None
            return self._tiers.run(tier, feeds, wanted)
        variant = self._tiers.make(tier)
        with self._profiler.record("model_run"):
            outputs, trace = variant.run_traced(feeds.inputs)
        self._profiler.add_trace(trace, variant.graph)
        return outputs

    def run_with_ort_values(
        self,
        output_names: Sequence[str] | None,
        input_dict_ort_values: Mapping[str, OrtValue],
        run_options: RunOptions | None = None,
    ) -> list[OrtValue]:
        """Return what `run` returns as values."""
        return [OrtValue(array) for array in self.run(output_names, input_dict_ort_values, run_options)]

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        callback: Callable[[list[Any], Any, str], object],
        user_data: Any,
        run_options: RunOptions | None = None,
    ) -> None:
        """Run in a thread of its own, which calls ``callback(outputs, user_data, error)`` at the end.

        On failure there are no outputs and ``error`` is the message; on success it is empty.
        """

        def compute() -> None:
            try:
                outputs, problem = self.run(output_names, input_feed, run_options), ""
            except Exception as error:  # whatever it is, only the callback can tell of it
                outputs, problem = [], str(error)
            callback(outputs, user_data, problem)

        threading.Thread(target=compute, name="codl run_async").start()

    def io_binding(self) -> IOBinding:
        """Return a binding for this session."""
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: RunOptions | None = None) -> None:
        """Run on what is bound; the binding has the outputs then."""
        iobinding.run(run_options)

    def end_profiling(self) -> str:
        """Write the trace file and return its path; empty without profiling, or when it is written already.

        Raises:
            InputError: The file cannot be written.
        """
        return "" if self._profiler is None else self._profiler.finish()

    def get_profiling_start_time_ns(self) -> int:
        """Return when profiling began, on the clock of `time.monotonic_ns`; 0 without profiling."""
        return 0 if self._profiler is None else self._profiler.start_ns

    def close(self) -> None:
        """Give back buffers and kernels, and write the trace file if that is due; closing twice is fine."""
        with self._lock:
            tier = self._tier
            if tier is not None and tier.variant is not None:
                self._plan, self._graph = tier.variant.plan, tier.variant.graph
            self._tiers.close()
        self.end_profiling()

    def __repr__(self) -> str:
        """Return the session in a line: what it reads, what it returns, and its plan if there is one yet."""
        inputs, outputs = (
            ", ".join(one.name for one in some) for some in (self._declared.inputs, self._declared.outputs)
        )
        variant = None if self._tier is None else self._tier.variant
        plan = "" if variant is None else f", {variant.plan!r}"
        return f"<InferenceSession: {inputs} -> {outputs}{plan}>"

    def __enter__(self) -> "InferenceSession":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _known(value: T | None, inputs: Sequence[Argument]) -> T:
    if value is None:
        free = sorted({dim for argument in inputs for dim in argument.shape if isinstance(dim, str)})
        free += [argument.name for argument in inputs if not argument.has_rank]
        raise PlanError(
            f"session: got a model with open dimensions {free} that has not run yet, expected one that has; "
            "run it once, or set them with SessionOptions.add_free_dimension_override_by_name"
        )
    return value
