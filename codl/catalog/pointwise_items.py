"""How a 1x1 convolution's tiles and panels become work-items: on a core, on cores that steal, on a GPU."""

from dataclasses import dataclass

import numpy as np

from codl.catalog.gemm_tile import share_tiles
from codl.catalog.spec import Parameters, busiest_share, can_steal, ceil_div, spread, stolen_steps
from codl.ir.regions import IntArray
from codl.machine import DeviceInfo, DeviceKind

_UNIT_PARTS = 6
"""Parts of its inputs that a unit which steals takes one after the other: each stays in its caches."""
_UNIT_ITEMS = np.arange(4, 9)
"""Work-items that a compute unit may take: the last ones leave a unit idle, and each has a start."""
_START_STEPS, _LATE_SHARE = 100, 0.1
"""Steps of K that take as long as the start of a work-item; the share of one that a unit waits at the end."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Items:
    """Work-items of many candidates; every array has one entry a candidate."""

    tiles: IntArray
    """Row tiles of an item."""
    panels: IntArray
    """Its panels."""
    part_tiles: IntArray
    """Row tiles of a part, whose items are neighbours in the grid."""
    part_panels: IntArray
    """Its panels."""
    grid: IntArray
    """[count, 3] Items of a part along its tiles and along its panels, and parts of all images."""
    busiest: IntArray
    """Items of the busiest compute unit."""
    busiest_tiles: IntArray
    """Its tiles, each with one panel."""
    least_tiles: IntArray
    """Those of them that it has in any case."""


def share_items(
    tiles: IntArray,
    panels: IntArray,
    images: IntArray,
    *,
    depth: int,
    info: DeviceInfo,
    parameters: Parameters,
) -> Items:
    """Return what a work-item takes.

    Args:
        tiles: [count] Row tiles of each candidate in one image.
        panels: [count] Its panels.
        images: [count] Its images.
        depth: Steps of K.
        info: The device.
        parameters: Of the kernel.
    """
    units, every, is_stolen = info.units, tiles * panels * images, can_steal(info)
    part_tiles, part_panels = tiles, panels
    if is_stolen:
        part_tiles, part_panels = _part(tiles, panels, images, units=units, parameters=parameters)
        unit_steps = every * depth // units
        item = _divide(part_tiles, part_panels, unit_steps, depth=depth, parameters=parameters)
    elif info.kind is DeviceKind.CPU:
        item = _share(tiles, panels, images, depth=depth, parameters=parameters)
    else:  # many work-items hide what each of them waits for
        item = share_tiles(tiles, panels, images, depth=depth, info=info)
    item_tiles, item_panels = item
    parts = ceil_div(tiles, part_tiles) * ceil_div(panels, part_panels) * images
    grid = np.stack([ceil_div(part_tiles, item_tiles), ceil_div(part_panels, item_panels), parts], axis=1)
    busiest = spread(grid.prod(axis=1), units)
    if is_stolen:  # no unit has more to do than another one
        busiest_tiles = least_tiles = spread(every, units)
    else:
        busiest_tiles = busiest * item_panels * item_tiles
        full_items = tiles // item_tiles * images * (panels // item_panels)
        least_tiles = busiest_share(item_panels * item_tiles, full_items=full_items, units=units)
    return Items(
        tiles=item_tiles,
        panels=item_panels,
        part_tiles=part_tiles,
        part_panels=part_panels,
        grid=grid,
        busiest=busiest,
        busiest_tiles=busiest_tiles,
        least_tiles=least_tiles,
    )


def _share(
    tiles: IntArray, panels: IntArray, images: IntArray, *, depth: int, parameters: Parameters
) -> tuple[IntArray, IntArray]:
    """Return tiles and panels of an item for a CPU's only core: a few items, each with all panels."""
    blocks = np.clip(_UNIT_ITEMS[:, None] // images, 1, tiles)
    item_tiles = np.maximum(ceil_div(tiles, blocks), np.minimum(_least_tiles(parameters), tiles))
    items, steps = ceil_div(tiles, item_tiles) * images, item_tiles * panels * depth
    best = np.argmin(items * (steps + _START_STEPS) + _LATE_SHARE * steps, axis=0)
    return item_tiles[best, np.arange(len(tiles))], panels


def _part(
    tiles: IntArray, panels: IntArray, images: IntArray, *, units: int, parameters: Parameters
) -> tuple[IntArray, IntArray]:
    """Return tiles and panels of a part, whose inputs stay in a core's caches while its panels pass by.

    Units that steal begin with panels of their own, each reading its weights and all inputs, or with pixels
    of their own, each reading all weights and its inputs: with what is less.
    """
    rows, channels = tiles * parameters["MR"], panels * (parameters["VECTORS"] * parameters["VECTOR"])
    part_panels = np.where((channels < rows) | (images >= units), panels, ceil_div(panels, units))
    blocks = ceil_div(np.full_like(tiles, _UNIT_PARTS * units), ceil_div(panels, part_panels) * images)
    return ceil_div(tiles, np.clip(blocks, 1, tiles)), part_panels


def _divide(
    tiles: IntArray, panels: IntArray, unit_steps: IntArray, *, depth: int, parameters: Parameters
) -> tuple[IntArray, IntArray]:
    """Return tiles and panels of an item of a part, of which a unit has ``unit_steps`` steps of K in all."""
    wanted = stolen_steps(unit_steps)
    least = np.minimum(_least_tiles(parameters), tiles)
    pieces = np.maximum(tiles // np.maximum(wanted // depth, least), 1)
    together = np.where(pieces > 1, 1, np.clip(wanted // (depth * tiles), 1, panels))
    return ceil_div(tiles, pieces), ceil_div(panels, ceil_div(panels, together))


def _least_tiles(parameters: Parameters) -> IntArray:
    """Return how many tiles ask together for the next panel: a number, or [count] of several operators."""
    return np.where(parameters["FETCH"], parameters["VECTORS"], 1)
