"""The register tile of kernels/common/register_tile.h: its sizes for a device, constants packed for it."""

from collections.abc import Mapping

import numpy as np

from codl.catalog.spec import Parameters
from codl.ir.graph import FloatArray

ALLOWED_TILES: Mapping[str, tuple[int, ...]] = {
    "MR": (1, 2, 4, 6, 8, 10, 12, 14),
    "NR": (4, 8, 16, 32, 64),
    "VECTOR": (4, 8, 16),
}
"""Allowed values of the tile's parameters; NR is 1, 2 or 4 vectors."""
_HEIGHTS = {
    (4, 1): (1, 2, 4, 6),
    (4, 2): (1, 2, 4, 6),
    (4, 4): (1,),
    (8, 1): (1, 2, 4, 6),
    (8, 2): (1, 2, 4, 6),
    (8, 4): (1,),
    (16, 1): (1, 4, 8, 10, 14),
    (16, 2): (1, 4, 8, 10, 14),
    (16, 4): (1, 2, 4, 6),
}
"""By lanes of a vector and vectors of a row, tile heights that 16 (up to 8 lanes) or 32 registers hold."""
_ROW_COST, _TILE_COST = 2, 3
"""Work of one row, and of what every tile does besides (its weights, its start), in halves of a row."""
_SHALLOW = 256
"""Steps of K up to which the start of a tile weighs so much that a low and wide tile is faster.

Source: AVX-512, both CPU drivers: against 12 x 32, a tile of 6 x 64 takes 0.8 of the time for a 7x7
convolution of 3 channels, 0.9 for a 1x1 of 64, the same from K = 1152 on. At K = 4096 a panel of 64 is 1 MiB,
a whole cache.
"""


def choose_tile(vector_width: int, *, rows: int, channels: int, depth: int) -> Parameters:
    """Return MR, NR and VECTOR for an operator with this many output rows and channels.

    Args:
        vector_width: Native float32 lanes of the device.
        rows: Output pixels of one image, or rows of a matrix, of the whole operator.
        channels: Output channels that one panel can cover: those of one group.
        depth: Steps of K: products summed for each output.
    """
    lanes = max(4, min(16, vector_width))
    while lanes > 4 and channels <= lanes // 2:
        lanes //= 2
    vectors = _count_vectors(lanes, rows=rows, channels=channels, depth=depth)
    height = min(
        _HEIGHTS[lanes, vectors],
        key=lambda height: (-(-rows // height) * (height * _ROW_COST + _TILE_COST), height),
    )
    return {"MR": height, "NR": lanes * vectors, "VECTOR": lanes}


def _count_vectors(lanes: int, *, rows: int, channels: int, depth: int) -> int:
    """Return how many vectors a row of the tile has: four where rows are few or the sum is short."""
    widest = 4 * lanes
    if rows == 1 and channels >= widest:
        return 4
    padding = -channels % widest
    if lanes == 16 and depth <= _SHALLOW and padding * 8 <= channels:
        return 4
    return 1 if channels <= lanes else 2


def pack_panels(weights: FloatArray, bias: FloatArray | None, *, groups: int, nr: int) -> FloatArray:
    """Return weights as panels [groups * ceil(channels / nr), 1 + K, nr]: the bias, then K rows of weights.

    Panels never straddle groups; channels beyond a group's last are zeros.

    Args:
        weights: [all output channels, K], K in the order in which a kernel walks it.
        bias: [all output channels]; zeros when absent.
        groups: Groups of output channels, equally large.
        nr: Channels of a panel.
    """
    outputs, depth = weights.shape
    channels = outputs // groups
    panels = -(-channels // nr)
    padded = np.zeros((groups, panels * nr, 1 + depth), np.float32)
    if bias is not None:
        padded[:, :channels, 0] = bias.reshape(groups, channels)
    padded[:, :channels, 1:] = weights.reshape(groups, channels, depth)
    split = padded.reshape(groups * panels, nr, 1 + depth)
    return np.ascontiguousarray(split.transpose(0, 2, 1))
