"""The register tile of kernels/common/register_tile.h: its sizes for a device, constants packed for it."""

from collections.abc import Mapping

import numpy as np

from codl.catalog.spec import Parameters
from codl.ir.graph import FLOAT_BYTES, FloatArray

ALLOWED_TILES: Mapping[str, tuple[int, ...]] = {
    "MR": (1, 2, 4, 6, 8, 10, 12, 14),
    "NR": (4, 8, 12, 16, 24, 32, 48, 64),
    "VECTOR": (4, 8, 16),
}
"""Allowed values of the tile's parameters; NR is 1 to 4 vectors."""
_HEIGHTS = {
    (4, 1): (1, 2, 4, 6),
    (4, 2): (1, 2, 4, 6),
    (4, 4): (1,),
    (8, 1): (1, 2, 4, 6),
    (8, 2): (1, 2, 4, 6),
    (8, 4): (1,),
    (16, 1): (1, 4, 8, 10, 14),
    (16, 2): (1, 4, 8, 10, 14),
    (16, 3): (1, 4, 6, 8),
    (16, 4): (1, 2, 4, 6),
}
"""By lanes of a vector and vectors of a row, tile heights that 16 (up to 8 lanes) or 32 registers hold."""
_LOAD_COST = 0.5
"""Work of loading a weight vector or an input in a step of K, in products of one vector.

Source:
    AVX-512, both CPU drivers, 1x1 convolutions of 96 to 1024 channels: 6 x 64, 8 x 48, 14 x 32, 14 x 16.
"""
_LEAST_STEP = 8
"""Products in flight that two multipliers of four cycles want: a smaller tile takes as long."""
_TILE_COST, _ROW_COST, _VECTOR_COST = 60, 8, 4
"""Work of starting a tile, placing each row, storing each vector, in products of one vector."""
_PANEL_BYTES = 320 << 10
"""Most weights of a panel of three or four vectors: its few rows read all of it from a core's cache."""


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
    shapes = (
        (height, vectors)
        for vectors in _list_vectors(lanes, rows=rows, channels=channels, depth=depth)
        for height in _HEIGHTS[lanes, vectors]
    )

    def count_work(shape: tuple[int, int]) -> tuple[float, int]:
        height, vectors = shape
        size = height * vectors
        step = max(size, _LEAST_STEP) + _LOAD_COST * (height + vectors)
        tile = depth * step + _TILE_COST + _ROW_COST * height + _VECTOR_COST * size
        return -(-rows // height) * -(-channels // (vectors * lanes)) * tile, size

    height, vectors = min(shapes, key=count_work)
    return {"MR": height, "NR": lanes * vectors, "VECTOR": lanes}


def _list_vectors(lanes: int, *, rows: int, channels: int, depth: int) -> tuple[int, ...]:
    """Return how many vectors a row of the tile may have."""
    if rows == 1 and channels >= 4 * lanes:
        return (4,)
    if lanes < 16:
        return (1,) if channels <= lanes else (2,)
    wide = (vectors for vectors in (3, 4) if vectors * lanes * depth * FLOAT_BYTES <= _PANEL_BYTES)
    return 1, 2, *wide


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
