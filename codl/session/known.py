"""What models declare that were opened before: a session of one begins without reading it.

A model is known by its content, codl's code and the options that change what it declares. One with weights in
other files, or with other values of its initializers, is read each time.
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from codl.assets import digest_code
from codl.cache.folders import MODELS
from codl.cache.sealed import SealedFile
from codl.errors import CacheError, CodlError
from codl.files import open_regular
from codl.frontend.declared import Argument
from codl.options import SessionOptions
from codl.values import ModelMetadata

_ENTRY = "declared"


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """What a model declares, with the options' dimensions in it."""

    inputs: tuple[Argument, ...]
    overridable: tuple[Argument, ...]
    """Initializers that may be fed."""
    outputs: tuple[Argument, ...]
    output_names: tuple[str, ...]
    """As declared: a model may list an output twice."""
    metadata: ModelMetadata


class Known:
    """A model's place among those that were opened before.

    Args:
        model: The file or its content.
        options: The session's.
    """

    def __init__(self, model: str | os.PathLike[str] | bytes, options: SessionOptions) -> None:
        self.digest: str | None = None
        """SHA-256 of the content; None where it does not tell everything."""
        self._key = ""
        if options.initializers or options.external_files:
            return
        try:
            self.digest = _digest(model, most_bytes=options.limits.model_bytes)
        except (OSError, CodlError):  # reading it tells why
            return
        wishes = [sorted(options.free_dimensions.items()), sorted(options.denoted_dimensions.items())]
        facts = [self.digest, wishes, repr(options.limits), digest_code("frontend", "session")]
        self._key = hashlib.sha256(json.dumps(facts).encode()).hexdigest()

    def recall(self) -> Declared | None:
        """Return what the model declares, if that is known."""
        return MODELS.read(self._key, _read) if self.digest is not None else None

    def keep(self, declared: Declared, *, digest: str, what: str) -> None:
        """Keep what a sound model declares.

        Args:
            declared: Inputs, outputs, metadata.
            digest: Of the model with all that lies beside it.
            what: The model, for people.
        """
        if digest == self.digest:
            told = np.frombuffer(json.dumps(asdict(declared)).encode(), np.uint8)
            MODELS.write(self._key, {_ENTRY: told}, about={"what": f"{what}, declared"})


def _digest(model: str | os.PathLike[str] | bytes, *, most_bytes: int) -> str | None:
    if isinstance(model, bytes):
        return hashlib.sha256(model).hexdigest() if len(model) <= most_bytes else None
    with open_regular(model) as (descriptor, found), os.fdopen(os.dup(descriptor), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() if found.st_size <= most_bytes else None


def _read(entry: SealedFile) -> Declared:
    try:
        told = json.loads(entry.text(_ENTRY))
        return Declared(
            inputs=_read_arguments(told["inputs"]),
            overridable=_read_arguments(told["overridable"]),
            outputs=_read_arguments(told["outputs"]),
            output_names=tuple(told["output_names"]),
            metadata=ModelMetadata(**told["metadata"]),
        )
    except (KeyError, ValueError, TypeError) as error:
        raise CacheError(f"{entry.path}: holds no declaration ({error}); remove it") from error


def _read_arguments(told: Sequence[Mapping[str, Any]]) -> tuple[Argument, ...]:
    return tuple(Argument(**{**one, "shape": tuple(one["shape"])}) for one in told)
