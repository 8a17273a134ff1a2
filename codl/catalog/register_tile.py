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
_ROWS = {4: (1, 2, 4, 6), 8: (1, 2, 4, 6), 16: (1, 4, 8, 10, 14)}
"""By vector lanes, the tile heights to choose from: with two vectors a row they fill 16 or 32 registers."""
_ROW_COST, _TILE_COST = 2, 3
"""Work of one row, and of what every tile does besides (its weights, its start), in halves of a row."""


def choose_tile(vector_width: int, *, rows: int, channels: int) -> Parameters:
    """Return MR, NR and VECTOR for an operator with this many output rows and channels.

    Args:
        vector_width: Native float32 lanes of the device.
        rows: Output pixels of one image, or rows of a matrix, of the whole operator.
        channels: Output channels that one panel can cover: those of one group.
    """
    lanes = max(4, min(16, vector_width))
    while lanes > 4 and channels <= lanes // 2:
        lanes //= 2
    vectors = 1 if channels <= lanes else 2
    if rows == 1 and channels >= 4 * lanes:
        vectors = 4
    height = min(
        _ROWS[lanes], key=lambda height: (-(-rows // height) * (height * _ROW_COST + _TILE_COST), height)
    )
    return {"MR": height, "NR": lanes * vectors, "VECTOR": lanes}


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
