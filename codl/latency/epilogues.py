"""Epilogues of many candidates, which may be of several operators."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from codl.ir.ops import Epilogue

Claims = bool | npt.NDArray[np.bool_]
"""One answer for all candidates, or [count]."""


@dataclass(frozen=True, slots=True)
class Epilogues:
    """Epilogues of some operators, and how many candidates each of these has."""

    each: tuple[Epilogue, ...]
    counts: tuple[int, ...] = ()
    """Not needed for a single one."""

    @classmethod
    def of(cls, epilogue: Epilogue) -> "Epilogues":
        """Return what all candidates have in common."""
        return cls((epilogue,))

    @classmethod
    def join(cls, each: Sequence[Epilogue], counts: Sequence[int]) -> "Epilogues":
        """Return the epilogues of candidates that stand one operator's after the other's."""
        return cls.of(each[0]) if len(set(each)) == 1 else cls(tuple(each), tuple(counts))

    def find(self, holds: Callable[[Epilogue], bool]) -> Claims:
        """Return of which candidates something holds."""
        claims = list(map(holds, self.each))
        return claims[0] if len(set(claims)) == 1 else np.repeat(claims, self.counts)


PLAIN = Epilogues.of(Epilogue())
"""Nothing is done to any."""
