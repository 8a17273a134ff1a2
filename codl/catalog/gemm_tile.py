"""The register tile of kernels/common/gemm_tile.h: its sizes for a device, constants packed for it."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import gcd

import numpy as np
import numpy.typing as npt

from codl.catalog.spec import Parameters
from codl.ir.graph import FloatArray
from codl.ir.regions import IntArray
from codl.machine import DeviceInfo, DeviceKind

ALLOWED_TILES: Mapping[str, tuple[int, ...]] = {
    "MR": (1, 2, 3, 4, 5, 6, 8, 9, 10, 12, 14),
    "VECTORS": (1, 2, 3, 4, 5),
    "VECTOR": (4, 8, 16),
}
"""Allowed values of the tile's parameters."""
_SPARE_REGISTERS = 3
"""Registers that the end of a tile uses besides its accumulators; without them sums pass through memory."""
FEW_REGISTERS = 16
"""Up to as many, vectors are short and tiles do less in a step: what is called FEW here is for these."""
_WEIGHT_COST, _WEIGHT_COST_FEW = 5, 2.5
"""Work of a vector of weights from a core's second-level cache, in products of a vector.

Source: 4 x 4 vectors take 1.1 times as long a product as 6 x 4 on Emerald Rapids; on Zen 5 as long. On Zen 3
4 x 3 take 0.95 to 1 times as long as 5 x 2.
"""
_WEIGHT_COST_UNFETCHED = 7
"""The same in kernels that do not prefetch weights.

Source: 1024 x 1024 x 1024 and 1024 x 1040 x 1024 on 2 cores of a Granite Rapids: 5 x 4 vectors take 1.23 of
the time of 10 x 2, 6 x 4 1.13, 8 x 3 1.07, 9 x 3, 12 x 2 and 14 x 2 1.03.
"""
_INPUT_COST_FEW, _VECTOR_COST_FEW = 0.2, 0.5
"""With few registers, cycles in a step of K for an input and for a vector of weights, multiply-adds apart.

Source: 147 1x1 convolutions of the benchmark networks on Zen 3, tiles of 6 x 2, 4 x 3 and 5 x 2. With Intel's
driver what is chosen takes 1.011 times as long as the best on two cores and 1.018 on one, 1.021 and 1.023
with 0.2 for both; with PoCL 1.028 and 1.009 instead of 1.022 and 1.009.
"""
WAYS, WAY_FLOATS = 8, 1024
"""A core's first-level cache: lines that it keeps of addresses so many floats apart."""
_CROWD_COST = 0.64
"""Cycles in a step of K, for the square of how many rows of a tile are more than that cache keeps.

Source:
    1x1 convolutions of 1024 and 2048 to 256 channels over 14 x 14, both cores of a Zen 4, Intel's driver:
    tiles of 9, 10, 12 and 14 rows take 1.04, 1.13, 1.38 and 1.82 times as long as with 1040 channels,
    of 8 and fewer as long; with PoCL 14 rows take 1.33.
"""
_LINE_FLOATS, _SPLIT_COST = 16, 8.0
"""Floats of a cache line; cycles for each row of a tile that ends within one, where residuals are read.

Source of the second:
    Another panel reads the rest of such a line long after. With residuals, 1x1 convolutions of 64 channels to
    256 and of 128 to 512 take 1.16 to 1.22 times as long by 4 x 3 vectors of 8 as by 4 x 2, without 0.98
    to 1.03 (Zen 3, one core, Intel's driver). Of 195 cases there and with PoCL, 4 to 16 choose best.
"""
_POINTERS, _POINTER_COST_FEW = 8, 0.5
"""Rows whose pointers stay in registers; cycles in a step of K for each further one.

Source: 34 channels to 34 over 28 x 28 on Zen 3, Intel's driver: steps of 6, 8, 10, 12 and 14 rows
of one vector take 6.4, 7.4, 9.6, 14 and 18 cycles.
"""
_LEAST_STEPS, _LEAST_STEPS_FEW = 1024, 4096
"""Steps of K that make a work-item worth its start, about 3 us: short sums take several panels and tiles.

Source of the second: 14 1x1 convolutions of the benchmark networks on Zen 3 take 0.95 times as long as with
1024, with both CPU drivers, one core and two.
"""
_ITEMS_PER_UNIT = 16
"""Work-items for each compute unit where there are enough tiles: the last ones leave a unit idle briefly."""
_TILE_COST, _ROW_COST, _STORE_COST, _SPILL_COST = 10.0, 4.0, 2.0, 60.0
"""Work of a tile, of each of its rows, of storing one vector, and of too few registers, in cycles.

Source: fitted to 1x1 convolutions of the benchmark networks on AVX-512 with Intel's driver, every tile tried.
Where there are 16 registers all good tiles use all of them, and none was seen to take longer for it (Zen 3).
"""


def is_tile(parameters: Parameters, info: DeviceInfo) -> bool:
    """Return whether the accumulators, a row of weights and one input stay in a device's registers."""
    return _count_registers(parameters, info.vector_width) <= info.vector_registers


def _count_registers(parameters: Parameters, width: int, spare: int = 0) -> int:
    rows, vectors = parameters["MR"], parameters["VECTORS"]
    return (rows * vectors + vectors + 1 + spare) * -(-parameters["VECTOR"] // width)


def choose_tile(
    info: DeviceInfo,
    *,
    rows: int,
    channels: int,
    depth: int,
    pitch: int = 0,
    prefetches: bool = True,
    has_residual: bool = False,
) -> Parameters:
    """Return MR, VECTORS and VECTOR by which an operator takes the fewest cycles.

    Args:
        info: The device.
        rows: Output pixels of one image, or rows of a matrix, of the whole operator.
        channels: Output channels that one panel can cover: those of one group.
        depth: Steps of K: products summed for each output.
        pitch: Floats from one row of the input to the next; 0 where rows do not lie so.
        prefetches: Whether the kernel prefetches weights.
        has_residual: Whether the end of a tile reads a residual.
    """
    lanes = choose_lanes(info, channels)
    tiles = list_tiles(lanes, info.vector_width, info.vector_registers, prefetches=prefetches)
    crowd = pitch if info.kind is DeviceKind.CPU else 0
    cycles = tiles.count_cycles(rows, channels, depth, info.units, pitch=crowd, has_residual=has_residual)
    return dict(tiles.parameters[int(np.argmin(cycles))])


def choose_lanes(info: DeviceInfo, channels: int) -> int:
    """Return VECTOR for panels that cover ``channels``."""
    lanes = max(4, min(16, info.vector_width))
    while lanes > 4 and channels < lanes:
        lanes //= 2
    return lanes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tiles:
    """Tiles that stay in a device's registers, and what they cost: arrays over them."""

    parameters: tuple[Parameters, ...]
    rows: npt.NDArray[np.int64]
    channels: npt.NDArray[np.int64]
    step_cycles: npt.NDArray[np.float64]
    """Products, loads and weights from a cache in one of K's steps."""
    end_cycles: npt.NDArray[np.float64]
    """Beginning a tile, and storing it."""

    def find(self, parameters: Parameters) -> int:
        """Return the place of the tile that a kernel with these parameters has."""
        return self.parameters.index({name: parameters[name] for name in ALLOWED_TILES})

    def count_cycles(
        self, rows: int, channels: int, depth: int, units: int, *, pitch: int = 0, has_residual: bool = False
    ) -> npt.NDArray[np.float64]:
        """Return what one group costs: with few tiles some of the units wait for the others' last one.

        Rows of the input that lie a ``pitch`` apart may crowd a few places of the first-level cache, which
        then loses each line before all of its values were used.
        """
        tiles = -(-rows // self.rows) * -(-channels // self.channels)
        tiles = -(-tiles // units) * units
        crowd = -(-np.minimum(self.rows, rows) // (WAY_FLOATS // gcd(pitch, WAY_FLOATS))) if pitch else 0
        crowd_cycles = _CROWD_COST * np.square(np.maximum(crowd - WAYS, 0))
        split_cycles = _SPLIT_COST * has_residual * self.rows * (self.channels % _LINE_FLOATS != 0)
        step_cycles, end_cycles = self.step_cycles + crowd_cycles, self.end_cycles + split_cycles
        return np.asarray(tiles * (depth * step_cycles + end_cycles))


@lru_cache(maxsize=64)
def list_tiles(lanes: int, width: int, registers: int, *, prefetches: bool = True) -> Tiles:
    """Return the tiles of vectors of ``lanes`` for registers of a width, the same object each time."""
    found = [
        {"MR": rows, "VECTORS": vectors, "VECTOR": lanes}
        for vectors in ALLOWED_TILES["VECTORS"]
        for rows in ALLOWED_TILES["MR"]
    ]
    found = [tile for tile in found if _count_registers(tile, width) <= registers]
    rows, vectors = (np.array([tile[name] for tile in found], np.int64) for name in ("MR", "VECTORS"))
    is_few = registers <= FEW_REGISTERS
    spare = 0 if is_few else _SPARE_REGISTERS
    wide_cost = _WEIGHT_COST if prefetches else _WEIGHT_COST_UNFETCHED
    weight_cost = _WEIGHT_COST_FEW if is_few else wide_cost
    load_cycles = np.zeros(len(rows))
    if is_few:
        load_cycles += rows * _INPUT_COST_FEW + vectors * _VECTOR_COST_FEW
        load_cycles += np.maximum(rows - _POINTERS, 0) * _POINTER_COST_FEW
    spills = np.array([_count_registers(tile, width, spare) > registers for tile in found])
    steps = [rows * vectors, rows + vectors, weight_cost * vectors, np.full_like(rows, 8)]
    return Tiles(
        parameters=tuple(found),
        rows=rows,
        channels=vectors * lanes,
        step_cycles=np.max(steps, axis=0) / 2 + load_cycles,
        end_cycles=_TILE_COST + rows * _ROW_COST + rows * vectors * _STORE_COST + spills * _SPILL_COST,
    )


def count_panels(channels: int, parameters: Parameters) -> int:
    """Return how many panels cover the channels of one group."""
    return -(-channels // (parameters["VECTORS"] * parameters["VECTOR"]))


def share_tiles(
    tiles: IntArray, panels: IntArray, images: IntArray, *, depth: int, info: DeviceInfo
) -> tuple[IntArray, IntArray]:
    """Return tiles and panels of a work-item: several tiles of one panel, or all panels of its tiles.

    Args:
        tiles: [count] Row tiles of each candidate in one image or matrix.
        panels: [count] Its panels.
        images: [count] Its images or matrices.
        depth: Steps of K.
        info: The device, for whose compute units short work-items still are enough.
    """
    least = _LEAST_STEPS if info.vector_registers > FEW_REGISTERS else _LEAST_STEPS_FEW
    fair = np.maximum(tiles * images * panels // (_ITEMS_PER_UNIT * info.units), 1)
    wanted = np.minimum(fair, -(-least // depth))
    item_panels = np.where(wanted >= panels, panels, 1)
    return np.clip(wanted // item_panels, 1, tiles), item_panels


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
