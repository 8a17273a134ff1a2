"""Models that ONNX Runtime computes faster than any plan, kept on disk: later processes compile nothing."""

import hashlib
import json
import time
from collections.abc import Mapping, Sequence

import numpy as np

from codl.assets import VERSION
from codl.cache.folders import PLANS
from codl.cache.sealed import SealedFile
from codl.devices.processor import describe_host
from codl.errors import CacheError
from codl.runtime import onnxruntime

_ENTRY = "verdict"
_VALID_SECONDS = 7 * 24 * 3600.0
"""After which it is tried again: the machine may have been busy."""


def make_verdict_key(
    digest: str, shapes: Mapping[str, Sequence[int]], *, threads: int, precision: str
) -> str:
    """Return what tells a verdict from all others: model, shapes, options, machine and versions.

    Args:
        digest: Of the model.
        shapes: Of its inputs.
        threads: Of ONNX Runtime, as the session's options have them.
        precision: Of the session's options.
    """
    facts = [digest, {name: [*shape] for name, shape in shapes.items()}, threads, precision]
    versions = [VERSION, onnxruntime.__version__]
    return hashlib.sha256(json.dumps([facts, describe_host(), versions]).encode()).hexdigest()


def recall_verdict(key: str) -> float | None:
    """Return what ONNX Runtime took over what the plan took, where it was lately found to be faster."""
    return PLANS.read(key, _read)


def keep_verdict(key: str, ratio: float, *, what: str) -> None:
    """Keep that ONNX Runtime is faster.

    Args:
        key: From `make_verdict_key`.
        ratio: What it took over what the plan took.
        what: The model, for people.
    """
    told = json.dumps({"ratio": ratio, "since": time.time()}).encode()
    about = {"what": f"{what}: ONNX Runtime is faster"}
    PLANS.write(key, {_ENTRY: np.frombuffer(told, np.uint8)}, about=about)


def _read(entry: SealedFile) -> float:
    try:
        told = json.loads(entry.text(_ENTRY))
        ratio, since = float(told["ratio"]), float(told["since"])
    except (KeyError, ValueError, TypeError) as error:
        raise CacheError(f"{entry.path}: holds no verdict ({error}); remove it") from error
    if not 0 <= time.time() - since < _VALID_SECONDS:
        raise CacheError(f"{entry.path}: holds a verdict that is out of date; remove it")
    return ratio
