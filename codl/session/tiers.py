"""Who answers a session's runs: ONNX Runtime at first, then the plan, or whichever of them is faster.

Each set of input shapes has its own plan, made in the background once that is worth the time.
"""

import hashlib
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from codl.devices.boundary import tell
from codl.devices.forks import is_lost, make_lock
from codl.devices.resident import give_back_memory
from codl.errors import CodlError, DeviceError, StoppedError
from codl.frontend.declared import Shapes, Values
from codl.session.background import Worker
from codl.session.feeds import Feeds
from codl.session.host_model import HostModel
from codl.session.trial import Trial
from codl.session.verdicts import keep_verdict, recall_verdict

if TYPE_CHECKING:
    from codl.session.variants import Variant

_LOG = logging.getLogger(__name__)
_DELAY_SECONDS = 2.0
"""From the session's making to the first work in its background."""
_WORTH_SECONDS = 1.0
"""What ONNX Runtime has taken for other shapes than the first before a plan is made for them."""
_MOST_BYTES = 1 << 30
"""Planned memory of all variants together, from which on the one that was not used for longest goes."""
_MOST_TIERS, _MOST_DOUBLINGS = 4096, 30
"""Sets of shapes that are remembered; how often their worth doubles at most while ONNX Runtime wins."""
_DIGEST_BYTES = 16
Build = Callable[[Shapes, Values, threading.Event | None], "Variant"]
"""Makes a variant for shapes of the inputs and values of initializers; an event ends that early."""


@dataclass(slots=True, eq=False, kw_only=True)
class Tier:
    """One set of shapes, and how far it has got."""

    shapes: Shapes
    initializers: Values
    variant: "Variant | None" = None
    """Ready to run."""
    trial: Trial | None = None
    """While it is not known who is faster."""
    is_requested: bool = False
    """A variant was made, is being made, or will not be."""
    error: CodlError | None = None
    """Why there is no variant."""
    is_slower: bool = False
    """ONNX Runtime was found to be faster."""
    host_seconds: float = 0.0
    """What ONNX Runtime has taken so far."""
    settled: threading.Event = field(default_factory=threading.Event)
    """There is a variant, or there will be none."""


class Tiers:
    """The sets of shapes that a session was lately fed.

    Args:
        build: Makes variants.
        host: The whole model in ONNX Runtime; None: runs wait for their variant.
        is_free: Whether ONNX Runtime goes on where it is faster.
        find_key: Returns under which key that is kept for later processes.
        forget: Called when the only variant is made, or will not be; None where there may be more of them.
        label: The model, for the log.
    """

    def __init__(
        self,
        build: Build,
        *,
        host: HostModel | None,
        is_free: bool,
        find_key: Callable[[Tier], str],
        forget: Callable[[], None] | None,
        label: str,
    ) -> None:
        self._build: Build | None = build
        self._host, self._is_free, self._find_key, self._label = host, is_free, find_key, label
        self._forget, self.is_closed = forget, False
        self._tiers: OrderedDict[Any, Tier] = OrderedDict()
        self._lock = make_lock()
        """Over the dictionary."""
        self.worker = Worker(delay=_DELAY_SECONDS)
        self._losses = 0
        """Sets of shapes in a row at which ONNX Runtime was faster."""

    def __len__(self) -> int:
        """Return how many sets of shapes have a variant."""
        return sum(tier.variant is not None for tier in self._tiers.values())

    @property
    def is_host_open(self) -> bool:
        """Whether ONNX Runtime holds the whole model."""
        return self._host is not None

    def find(self, shapes: Shapes, initializers: Values) -> Tier:
        """Return the tier of shapes and values, a new one where there is none."""
        key = (*shapes.values(), *((name, _digest(value)) for name, value in initializers.items()))
        with self._lock:
            tier = self._tiers.get(key)
            if tier is None:
                tier = self._tiers[key] = Tier(shapes=shapes, initializers=initializers)
                while len(self._tiers) > _MOST_TIERS:
                    self._tiers.popitem(last=False)
            self._tiers.move_to_end(key)
        return tier

    def find_fed(self, feeds: Feeds) -> Tier:
        """Return the tier of some feeds."""
        shapes = {
            name: np.shape(value) if isinstance(value, np.ndarray) else ()
            for name, value in feeds.inputs.items()
        }
        return self.find(shapes, feeds.initializers)

    def run(self, tier: Tier, feeds: Feeds, wanted: Sequence[str]) -> Mapping[str, Any]:
        """Return outputs by name, computed by ONNX Runtime or by the plan."""
        variant, host = tier.variant, self._host
        if host is None:
            return self.make(tier).run(feeds.inputs)
        start = time.perf_counter()
        if variant is None:
            outputs: Mapping[str, Any] = host.run(feeds, wanted)
            self._note(tier, time.perf_counter() - start)
            return outputs
        if any(map(is_lost, variant.plan.devices)):  # in a child
            return host.run(feeds, wanted)
        if tier.trial is None:
            if self._forget is not None:
                self._host = host = None  # nothing may hold it when memory is given back
                self.worker.submit(lambda stop: give_back_memory())
                self.worker.hurry()
            return variant.run(feeds.inputs)
        outputs = host.run(feeds, wanted) if tier.trial.is_host_next else variant.run(feeds.inputs)
        self._judge(tier, tier.trial, time.perf_counter() - start)
        return outputs

    def _note(self, tier: Tier, taken: float) -> None:
        """Let a variant be made where ONNX Runtime has taken long enough."""
        tier.host_seconds += taken
        if not tier.is_requested and tier.host_seconds > _WORTH_SECONDS * 2 ** min(
            self._losses, _MOST_DOUBLINGS
        ):
            self.request(tier)

    def answer(self, tier: Tier, feeds: Mapping[str, Any], wanted: Sequence[str]) -> list[Any] | None:
        """Return the outputs of sound feeds where ONNX Runtime alone answers them, else None."""
        host = self._host
        if host is None or tier.variant is not None:
            return None
        start = time.perf_counter()
        outputs = host.answer(feeds, wanted)
        self._note(tier, time.perf_counter() - start)
        return outputs

    def make(self, tier: Tier) -> "Variant":
        """Return the tier's variant, made now if there is none."""
        if tier.variant is None:
            assert self._build is not None, "closed"
            self._make_room()
            tier.variant = self._build(tier.shapes, tier.initializers, None)
            self._settle(tier)
        return tier.variant

    def find_variant(self, tier: Tier) -> "Variant":
        """Return a tier's variant, waiting until it is made; errors as in `wait`.

        Where ONNX Runtime is faster, one is made to be looked at.
        """
        self.wait(tier)
        if tier.is_slower and self._build is not None:
            return self._build(tier.shapes, tier.initializers, None)
        return tier.variant or self.make(tier)

    def request(self, tier: Tier) -> None:
        """Let the tier's variant be made in the background, once; not where it is known to be slower."""
        if tier.is_requested:
            return
        tier.is_requested = True
        if self._is_free and recall_verdict(self._find_key(tier)) is not None:
            _LOG.info("%s: ONNX Runtime answers: it was faster before", self._label)
            tier.is_slower = True
            self._settle(tier)
            return
        self.worker.submit(lambda stop: self._make_behind(tier, stop))

    def wait(self, tier: Tier, timeout: float | None = None) -> bool:
        """Return whether within so many seconds it is clear who answers, or is on trial; begin at once.

        Raises:
            CodlError: Why there is no variant.
        """
        if self._host is None:
            return True
        self.request(tier)
        self.worker.hurry()
        if not tier.settled.wait(timeout):
            return False
        if tier.error is not None:
            raise tier.error
        return True

    def _settle(self, tier: Tier) -> None:
        tier.settled.set()
        if self._forget is not None:
            self._forget()

    def close(self) -> None:
        """Stop what is done in the background and give everything back."""
        self.is_closed = True
        self.worker.stop()
        with self._lock:
            for tier in self._tiers.values():
                tier.variant = None
                tier.settled.set()
            self._tiers.clear()
        self._build, self._host = None, None

    def _make_behind(self, tier: Tier, stop: threading.Event) -> None:
        """Make a tier's variant while others answer, its first launch included: drivers compile then too."""
        start = time.perf_counter()
        build = self._build
        try:
            if build is None:
                raise StoppedError("session: closed while its kernels were compiled")
            self._make_room()
            variant = build(tier.shapes, tier.initializers, stop)
            variant.warm_up()
            give_back_memory()
            if self.is_closed:
                return
            tier.trial = Trial() if self._is_free else None
            tier.variant = variant
            self._settle(tier)
            _LOG.info("%s: kernels are ready after %.1f s", self._label, time.perf_counter() - start)
        except Exception as error:  # whatever it is, ONNX Runtime goes on
            if tier.variant is None:
                tier.error = error if isinstance(error, CodlError) else DeviceError(tell(error))
            if not isinstance(error, StoppedError):
                _LOG.warning("%s: ONNX Runtime goes on, as there is no plan: %s", self._label, error)
            self._settle(tier)

    def _judge(self, tier: Tier, trial: Trial, taken: float) -> None:
        trial.note(taken)
        is_slower = trial.find_winner()
        if is_slower is None:
            return
        who = "ONNX Runtime goes on" if is_slower else "the plan runs from now on"
        _LOG.info("%s: %s: it takes %.2f of the plan's time", self._label, who, trial.ratio)
        tier.trial, tier.is_slower = None, is_slower
        self._losses = self._losses + 1 if is_slower else 0
        if is_slower:
            tier.variant = None
            keep_verdict(self._find_key(tier), trial.ratio, what=self._label)

    def _make_room(self) -> None:
        """Let variants go until their memory is bounded, those first that were not used for longest."""
        with self._lock:
            made = [tier for tier in self._tiers.values() if tier.variant is not None]
        for place, tier in enumerate(made):
            if _count_bytes([other.variant for other in made[place:]]) > _MOST_BYTES:
                tier.variant, tier.is_requested, tier.host_seconds = None, False, 0.0
                tier.settled.clear()


def _count_bytes(variants: Sequence["Variant | None"]) -> int:
    """Return the memory of variants; constants that several of them have count once."""
    executables = [variant.executable for variant in variants if variant is not None]
    constants = {key: size for one in executables for key, size in one.constant_bytes.items()}
    activations = sum(one.activation_bytes for each in executables for one in each.plan.memory)
    return activations + sum(constants.values())


def _digest(value: np.ndarray[Any, Any]) -> tuple[tuple[int, ...], bytes]:
    """Return what tells an array from every other: users may write into the same one between runs."""
    digest = hashlib.blake2b(np.asarray(value, order="C").tobytes(), digest_size=_DIGEST_BYTES)
    return value.shape, digest.digest()
