"""Packed constants kept between processes, mapped from their file until they are where devices read them.

Files stand under the graph's digest, the code that packs, and the arrays they hold. Plans that need other
layouts add files of their own.
"""

import hashlib
from collections.abc import Mapping

from codl.assets import digest_code
from codl.cache.folders import WEIGHTS
from codl.cache.sealed import SealedFile
from codl.errors import CacheError
from codl.ir.graph import FloatArray, Graph

_NAME_DIGITS = 16


class PackedCache:
    """The packed constants of one graph that earlier runs have kept; none for a graph without a digest."""

    def __init__(self, graph: Graph) -> None:
        self._name = graph.name
        self._prefix: str | None = None
        self._files: list[SealedFile] = []
        if graph.digest is not None:
            self._prefix = _digest(graph.digest, digest_code("catalog", "ir"))
            for key in WEIGHTS.keys(self._prefix):
                WEIGHTS.read(key, self._files.append)

    def load(self, key: str) -> FloatArray | None:
        """Return a packed constant, read-only and on a page of its own, or None when it is not kept."""
        for file in tuple(self._files):
            if key in file:
                try:
                    return file.floats(key)
                except CacheError:
                    self._files.remove(file)
                    WEIGHTS.remove(file.path.stem)
        return None

    def let_go(self) -> None:
        """Free the memory of what was loaded; what is used again is read from the file again."""
        for file in self._files:
            file.let_go()

    def store(self, arrays: Mapping[str, FloatArray]) -> None:
        """Keep packed constants, if the graph can be known again."""
        if self._prefix is not None and arrays:
            key = f"{self._prefix}-{_digest(*sorted(arrays))[:_NAME_DIGITS]}"
            WEIGHTS.write(key, arrays, about={"what": f"{self._name}, {len(arrays)} packed constants"})


def _digest(*words: str) -> str:
    return hashlib.sha256("\0".join(words).encode()).hexdigest()
