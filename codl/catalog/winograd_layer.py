"""What the sizes of minimal filtering depend on, and the sizes that there are."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from codl.catalog.spec import Parameters
from codl.catalog.winograd_costs import Costs


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """What the sizes of minimal filtering depend on."""

    lanes: int
    taps: int
    """Products of an output in a plain sum."""
    outputs: int
    images: int
    image: tuple[int, int]
    """Rows and columns of the output."""
    depths: tuple[tuple[int, int], ...]
    """Tiles that the operator may be computed in, and the sums of one point of each."""
    costs: Costs
    may_stream: bool
    """Whether filters may be transformed when they are read."""
    is_fetching: bool
    """Whether the device can prefetch memory."""
    local_bytes: int
    """Of local memory that a work-group may take."""
    units: int
    """Compute units."""


@lru_cache(maxsize=256)
def list_sizes(
    costs: Costs, lanes: int, is_narrow: bool, tile: int, is_fetching: bool
) -> Sequence[Parameters]:
    """Return the sizes that a tile may be computed in; panels wider than all outputs are left out.

    Args:
        costs: Of the processor.
        lanes: Of a vector.
        is_narrow: Whether one vector holds all outputs.
        tile: Outputs along each side of a tile.
        is_fetching: Whether filters are prefetched.
    """
    return [
        {"TILE": tile, "FETCH": int(is_fetching), "MR": height, "NR": vectors * lanes, "VECTOR": lanes}
        for (width, vectors), heights in costs.heights.items()
        if width == lanes and (vectors == 1) == is_narrow
        for height in heights
    ]
