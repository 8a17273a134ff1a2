"""What minimal filtering costs processors of many vector registers, and of 16: measured, in flops."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

READ_COST, MOVED_COST = 1.5, 15.0
"""Flops that take as long as reading a byte of filters once, and as moving a byte of transformed inputs or
products out to memory and back.

Source:
    2 cores of an Emerald Rapids, 235 Gflop/s: 14 shapes of VGG-16, YOLOv2 and ResNet-50, fused and staged.
    2 cores of a Zen 5, 540 Gflop/s, read 50 GB/s.
"""
FAR_MOVED_COST = 40.0
"""The same for transformed inputs or products that no shared cache holds.

Source:
    2 cores of a Zen 3: 80 x 80 and 160 x 160 of 256 channels. 2 cores of a Granite Rapids, Intel's driver,
    staged against fused: 160 x 160 of 256, 128 and 64 channels 1.12, 1.32 and 1.59 of the time, 80 x 80 of
    256 and 128 0.89 and 1.18, 20 x 20 to 64 x 64 of 256 0.86 to 0.94.
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Costs:
    """What differs between processors of many vector registers and of 16."""

    heights: Mapping[tuple[int, int], tuple[int, ...]]
    """By lanes of a vector and vectors of a panel, tiles of a register tile."""
    step: int
    """Work of a step of K in addition to its products, in products of a vector."""
    staged_step: int
    """The same of a staged register tile."""
    staged_gain: Mapping[int, float]
    """By vectors of a panel, what a product of a staged register tile takes."""
    first_read: tuple[float, float]
    """Flops that take as long as reading a byte of filters in a fused launch's first pass over them: where
    passes stay in the shared cache, and where not.
    """
    next_read: tuple[float, float]
    """The same for its other passes."""
    far_read: float
    """The same for any pass over filters that come from memory in every inference."""
    far_bytes: int
    """Filters, as they are in the model, from which on they do: of networks that no shared cache holds."""
    near_moved: int
    """Floats of scratch memory that stay in the shared cache."""
    most_filters: float
    """Filters, inputs times outputs, up to which tiles of 4 pay on a small image.

    Source:
        14 x 14, time of tiles of 2 over that of 4: 256 x 256 filters 1.35 on 2 cores of a Zen 5, 512 x 512
        1.05 there and 1.1 to 1.2 on 2 cores of an Emerald Rapids; 13 x 13, 1024 x 1024 filters 0.9, but
        1.25 on 2 cores of a Zen 3, where products cost more.
    """


MANY = Costs(
    heights={
        (4, 1): (4, 6),
        (4, 2): (4, 6),
        (8, 1): (4, 6),
        (8, 2): (4, 6),
        (16, 1): (8, 10, 12, 14),
        (16, 2): (7, 8, 10, 11, 12, 13, 14),
        (16, 3): (7, 8, 9),
    },
    step=7,
    staged_step=4,
    staged_gain={1: 1.1, 2: 0.955, 3: 0.935},
    first_read=(READ_COST, 4.0),
    next_read=(READ_COST, 4.0),
    far_read=11.0,
    far_bytes=2 << 20,
    near_moved=1 << 23,
    most_filters=1 << 18,
)
"""Source:
    As `READ_COST`. One core of a Granite Rapids, both drivers, seven shapes of 3 x 3 and 7 x 7, staged in 7
    x 48 to 9 x 48 and 10 x 32 to 14 x 32: by tiles, those that fill up the last register tile counted, all
    take 1.0 to 1.045 of the time of 9 x 48. Fused 13 x 32 takes 0.95 to 1.09 of the time of staged, 20 x 20
    to 52 x 52. Filters that miss the shared cache take 2.5 flops on 2 cores of a Zen 5. Those of whole
    networks come at 45 GB/s beside 490 Gflop/s to 2 cores of a Granite Rapids: by that 14 x 14 outputs of
    256 and 512 channels take tiles of 2. Best of four settings tried on these networks: ResNet-50 takes 0.98
    of the time, ZFNet-512 0.97, VGG-16 0.97 to 0.98 in three runs and 1.06 in one; on an Emerald Rapids 1.08
    [0.93, 1.15].
"""
FEW = Costs(
    heights={(4, 1): (4, 6), (4, 2): (4, 6), (8, 1): (4, 6), (8, 2): (4, 5, 6), (8, 3): (4,)},
    step=2,
    staged_step=2,
    staged_gain={1: 1.0, 2: 1.0, 3: 1.0},
    first_read=(READ_COST, READ_COST),
    next_read=(READ_COST / 2, READ_COST / 2),
    far_read=4.0,
    far_bytes=1 << 20,
    near_moved=1 << 21,
    most_filters=inf,
)
"""Source:
    2 cores of a Zen 3, both CPU drivers, 19 shapes of the benchmark networks, fused and staged, 4 x 16 to
    6 x 16 and 4 x 24. What is chosen takes 1.02 and 1.01 times as long as the best, by the other costs 1.06
    and 1.10. Beyond the shared cache: 14 x 14 of 256 and 512 channels inside of networks, staged against
    filters transformed when they are read; 80 x 80 and 160 x 160 of 256 channels, against fused. What is then
    chosen takes up to 1.06, in the geometric mean 1.01 of the time of the best on 18 shapes.
"""
