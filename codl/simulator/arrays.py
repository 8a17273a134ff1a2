"""The arrays that planners work with."""

from collections.abc import Iterable
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def list_parts(sizes: Iterable[int]) -> list[slice]:
    """Return the slices of an array that consecutive parts of the given sizes take."""
    return [slice(start, stop) for start, stop in pairwise(accumulate(sizes, initial=0))]
