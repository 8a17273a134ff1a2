"""The register tile of kernels/common/gemm_tile.h: its sizes for a device, constants packed for it."""

from collections.abc import Iterator, Mapping

import numpy as np

from codl.catalog.spec import Parameters
from codl.ir.graph import FloatArray
from codl.machine import DeviceInfo

ALLOWED_TILES: Mapping[str, tuple[int, ...]] = {
    "MR": (1, 2, 3, 4, 5, 6, 8, 9, 10, 12, 14),
    "VECTORS": (1, 2, 3, 4, 5),
    "VECTOR": (4, 8, 16),
}
"""Allowed values of the tile's parameters."""
_SPARE_REGISTERS = 3
"""Registers that the end of a tile uses beside its accumulators; without them it passes through memory."""
_WEIGHT_COST = 5
"""Work of a vector of weights from a core's second-level cache, in products of a vector.

Source: 4 x 4 vectors take 1.1 times as long a product as 6 x 4 on Emerald Rapids; on Zen 5 as long.
"""
_TILE_COST, _ROW_COST, _STORE_COST, _SPILL_COST = 10.0, 4.0, 2.0, 60.0
"""Work of a tile, of each of its rows, of storing one vector, and of too few registers, in cycles.

Source: fitted to 1x1 convolutions of the benchmark networks on AVX-512 with Intel's driver, every tile tried.
"""


def is_tile(parameters: Parameters, info: DeviceInfo) -> bool:
    """Return whether the accumulators, a row of weights and one input stay in a device's registers."""
    return _count_registers(parameters, info) <= info.vector_registers


def _count_registers(parameters: Parameters, info: DeviceInfo, spare: int = 0) -> int:
    rows, vectors = parameters["MR"], parameters["VECTORS"]
    return (rows * vectors + vectors + 1 + spare) * -(-parameters["VECTOR"] // info.vector_width)


def choose_tile(info: DeviceInfo, *, rows: int, channels: int, depth: int) -> Parameters:
    """Return MR, VECTORS and VECTOR by which an operator takes the fewest cycles.

    Args:
        info: The device.
        rows: Output pixels of one image, or rows of a matrix, of the whole operator.
        channels: Output channels that one panel can cover: those of one group.
        depth: Steps of K: products summed for each output.
    """
    lanes = max(4, min(16, info.vector_width))
    while lanes > 4 and channels < lanes:
        lanes //= 2
    return min(
        _iterate_tiles(lanes, info),
        key=lambda tile: _count_cycles(tile, info, rows=rows, channels=channels, depth=depth),
    )


def _iterate_tiles(lanes: int, info: DeviceInfo) -> Iterator[Parameters]:
    for vectors in ALLOWED_TILES["VECTORS"]:
        for rows in ALLOWED_TILES["MR"]:
            tile = {"MR": rows, "VECTORS": vectors, "VECTOR": lanes}
            if is_tile(tile, info):
                yield tile


def _count_cycles(tile: Parameters, info: DeviceInfo, *, rows: int, channels: int, depth: int) -> float:
    """Return what one group costs: products, loads and weights from a cache in K's steps, and ends."""
    height, vectors = tile["MR"], tile["VECTORS"]
    tiles = -(-rows // height) * count_panels(channels, tile)
    step = max(height * vectors, height + vectors, _WEIGHT_COST * vectors, 8) / 2
    is_full = _count_registers(tile, info, _SPARE_REGISTERS) > info.vector_registers
    ends = _TILE_COST + height * _ROW_COST + height * vectors * _STORE_COST + is_full * _SPILL_COST
    return tiles * (depth * step + ends)


def count_panels(channels: int, parameters: Parameters) -> int:
    """Return how many panels cover the channels of one group."""
    return -(-channels // (parameters["VECTORS"] * parameters["VECTOR"]))


def pack_panels(
    weights: FloatArray, bias: FloatArray | None, *, groups: int, vectors: int, lanes: int
) -> FloatArray:
    """Return weights as panels [groups * panels of a group, 1 + K, vectors * lanes], the bias in row 0.

    Vector v of a group begins at channel v * lanes, or so far before that it ends with the group's last one.

    Args:
        weights: [all output channels, K], K in the order in which a kernel walks it.
        bias: [all output channels]; zeros when absent.
        groups: Groups of output channels, equally large.
        vectors: Vectors of a panel.
        lanes: Channels of a vector.
    """
    outputs, depth = weights.shape
    channels = outputs // groups
    panels = -(-channels // (vectors * lanes))
    starts = np.minimum(np.arange(panels * vectors) * lanes, max(0, channels - lanes))
    taken = (starts[:, None] + np.arange(lanes)).reshape(-1)
    padded = np.zeros((groups, max(channels, lanes), 1 + depth), np.float32)
    if bias is not None:
        padded[:, :channels, 0] = bias.reshape(groups, channels)
    padded[:, :channels, 1:] = weights.reshape(groups, channels, depth)
    split = padded[:, taken].reshape(groups * panels, vectors * lanes, 1 + depth)
    return np.ascontiguousarray(split.transpose(0, 2, 1))
