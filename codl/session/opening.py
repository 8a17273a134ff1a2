"""From a model's file to a session's tiers: read, checked, described, and on its way to kernels."""

import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from codl.devices.forks import make_lock
from codl.errors import InputError, InputTypeError, ModelError, ModelTypeError, UnsupportedError, suggest
from codl.frontend.declared import Shapes, Values, name_model
from codl.machine import Precision
from codl.options import SessionOptions
from codl.session.arguments import fix_argument, is_fixed
from codl.session.host_model import HostModel
from codl.session.known import Known
from codl.session.late import compile_late, load_late, read_late, share_late
from codl.session.tiers import Tier, Tiers
from codl.session.verdicts import make_verdict_key

if TYPE_CHECKING:
    from codl.frontend import LoadedModel, Source
    from codl.session.request import PlanRequest
    from codl.session.shared import Shared
    from codl.session.variants import Variant

Model = str | os.PathLike[str] | bytes
"""An ONNX file, or its content."""
_WARM_UPS = ("background", "block")


def check_options(options: Any, others: Mapping[str, Any]) -> SessionOptions:
    """Return options, the defaults for None.

    Args:
        options: As the session was given them.
        others: Arguments by name that a session does not have; it ignores them as ONNX Runtime does.

    Raises:
        InputTypeError: The options are something else, or one of them is among the other arguments.
        InputError: `warm_up` or `precision` is.
    """
    if misplaced := [name for name in others if name in SessionOptions.__slots__]:
        raise InputTypeError(
            f"{misplaced[0]}: got an argument of InferenceSession, expected an attribute of its options; "
            f"write InferenceSession(model, codl.SessionOptions({misplaced[0]}=...))"
        )
    if options is not None and not isinstance(options, SessionOptions):
        raise InputTypeError(f"sess_options: got {type(options).__name__}, expected codl.SessionOptions")
    found = options or SessionOptions()
    if found.warm_up not in _WARM_UPS:
        raise InputError(
            f"warm_up: got {found.warm_up!r}, expected one of {', '.join(_WARM_UPS)}"
            f"{suggest(str(found.warm_up), _WARM_UPS)}"
        )
    if found.precision not in list(Precision):
        raise InputError(
            f"precision: got {found.precision!r}, expected one of {', '.join(Precision)}"
            f"{suggest(str(found.precision), Precision)}"
        )
    return found


def check_model(model: Any) -> Model:
    """Return a model if it is a path or bytes.

    Raises:
        ModelTypeError: It is something else.
    """
    if not isinstance(model, str | os.PathLike | bytes):
        raise ModelTypeError(
            f"model: got {type(model).__name__}, expected a path or the bytes of an ONNX file"
        )
    return model


class Once:
    """A request that is resolved by the first thread that wants it.

    Args:
        resolve: Finds the devices, and measures what is not known of them.
    """

    def __init__(self, resolve: "Callable[[], PlanRequest]") -> None:
        self._resolve, self._lock = resolve, make_lock()
        self._request: PlanRequest | None = None

    def __call__(self) -> "PlanRequest":
        """Return the request; errors as in `resolve_request`."""
        with self._lock:
            if self._request is None:
                self._request = self._resolve()
            return self._request


def asks_for_something(options: SessionOptions) -> bool:
    """Return whether options name devices, a planner or a plan, which are used then however fast they are."""
    return any(wish is not None for wish in (options.devices, options.planner, options.plan))


class Opening:
    """A model that a session opens.

    Args:
        model: The file or its content.
        options: The session's.
        request: Returns which plan to make.

    Raises:
        ModelError: The model is broken, or has an operator that neither codl nor ONNX Runtime knows.
    """

    def __init__(self, model: Model, options: SessionOptions, request: Once) -> None:
        self._model, self._options, self._request = model, options, request
        self._fixed, self._lock = dict(options.initializers), make_lock()
        self._known = Known(model, options)
        declared = self._known.recall()
        self._is_known = declared is not None
        """Whether it was opened before, and is sound."""
        self.source: Source | None = None
        """The model as it is declared, until it is not needed any more."""
        if declared is None:
            self.source, declared = read_late(model, options)
        self.declared, self._label = declared, name_model(model)
        self._digest = self.source.digest if self.source is not None else str(self._known.digest)
        self._loaded: list[LoadedModel] = []
        self._shared: Shared | None = None
        """What variants share, from the first one on."""
        self._shapes: Shapes | None = None
        if is_fixed(self.declared.inputs):
            self._shapes = {a.name: tuple(int(dim) for dim in a.shape) for a in self.declared.inputs}

    def check(self, shapes: Shapes | None = None, values: Values | None = None) -> None:
        """Load a model that was never opened, and find out all that its outputs are.

        Args:
            shapes: Of its inputs; those that it declares by default, where it leaves no dimension open.
            values: Of initializers.

        Raises:
            ModelError: The model is broken, or has an operator that neither codl nor ONNX Runtime knows.
        """
        shapes = self._shapes if shapes is None else shapes
        if self._is_known or shapes is None:
            return
        model = self.load(shapes, values or {})
        if self._shapes is not None:
            self._loaded.append(model)
            tensors = dict(zip((one.name for one in model.outputs), model.graph.outputs, strict=True))
            outputs = tuple(
                fix_argument(argument, model.graph.tensors[tensors[argument.name]])
                for argument in self.declared.outputs
            )
            self.declared = replace(self.declared, outputs=outputs)
        self._is_known = True
        self._known.keep(self.declared, digest=self._digest, what=self._label)

    def load(self, shapes: Shapes, values: Values) -> "LoadedModel":
        """Return the model for certain shapes and values of initializers; errors as in `load_source`."""
        with self._lock:  # shapes are written into what was read
            source = self.source or self._read_again()
            return load_late(source, shapes=shapes, initializers={**self._fixed, **values})

    def _read_again(self) -> "Source":
        source, _ = read_late(self._model, self._options)
        if source.digest != self._digest:
            raise ModelError(
                f"{self._label}: got another content than when the session was made, expected the same; "
                "make another session of it"
            )
        if self._shapes is None:  # other shapes may come
            self.source = source
        return source

    @property
    def _is_one(self) -> bool:
        """Whether the model has one variant only."""
        return self._shapes is not None and not self.declared.overridable

    def forget(self) -> None:
        """Free what was read: variants have copies of what they need."""
        self.source = None
        self._loaded.clear()

    def build(self, shapes: Shapes, values: Values, stop: threading.Event | None) -> "Variant":
        """Return the variant for certain shapes and initializers; errors as in `compile_variant`."""
        options = self._options
        if self._shared is None and not self._is_one:
            self._shared = share_late()
        return compile_late(
            self._loaded.pop() if self._loaded and not values else self.load(shapes, values),
            request=self._request(),
            is_verified=options.verify_plan,
            is_profiled=options.enable_profiling,
            host_threads=options.intra_op_num_threads,
            limits=options.limits,
            shared=self._shared,
            stop=stop,
        )

    def start(self, *, is_blocking: bool) -> tuple[Tiers, Tier | None]:
        """Return the model's tiers and the only one, where there is only one: made, or on its way.

        Args:
            is_blocking: Wait for kernels.
        """
        options, host = self._options, None
        if not is_blocking:
            with suppress(UnsupportedError):  # of what only codl computes the first run waits
                host = HostModel(self._model, options)
        tiers = Tiers(
            self.build,
            host=host,
            is_free=not asks_for_something(options),
            find_key=self._find_key,
            forget=self.forget if self._is_one else None,
            label=self._label,
        )
        if self._shapes is None:
            return tiers, None
        tier = tiers.find(self._shapes, {})
        if host is None:
            tiers.make(tier)
        else:
            tiers.request(tier)
        return tiers, tier

    def _find_key(self, tier: Tier) -> str:
        """Return under which key it is kept that ONNX Runtime is faster."""
        shapes: Mapping[str, tuple[int, ...]] = tier.shapes
        options = self._options
        return make_verdict_key(
            self._digest, shapes, threads=options.intra_op_num_threads, precision=options.precision
        )
