"""Which convolutions are marked for computation in tiles."""

import numpy as np
import pytest

from codl.frontend.tiling import mark_tiles
from codl.ir.ops import Conv2d, Pair
from tests.kernels.harness import one_node_graph


def marked(
    op: Conv2d,
    *,
    image: Pair = (28, 28),
    inputs: int = 32,
    outputs: int = 32,
    is_constant: bool = True,
    tap: float = 0.0,
) -> Pair:
    """Return the tile of a convolution after marking; one of its taps may be special."""
    weight = np.zeros((outputs, inputs // op.groups, *op.kernel), np.float32)
    weight[-1, -1, -1, -1] = tap
    out = (1, outputs, *image)
    graph = one_node_graph(
        op, {"x": (1, inputs, 28, 28), "w": weight}, out, constants=["w"] if is_constant else []
    )
    found = mark_tiles(graph).nodes[0].op
    assert isinstance(found, Conv2d)
    return found.tile


USUAL = Conv2d(kernel=(3, 3), pads=(1, 1, 1, 1))


@pytest.mark.parametrize(
    ("image", "tile"),
    [((224, 224), 4), ((20, 40), 4), ((14, 14), 4), ((10, 60), 2), ((7, 7), 2), ((6, 6), 1)],
)
def test_tiles_grow_with_the_image(image: Pair, tile: int) -> None:
    assert marked(USUAL, image=image) == (tile, tile)


@pytest.mark.parametrize(
    ("kernel", "tile"), [((4, 4), 3), ((5, 5), 4), ((7, 7), 3), ((8, 8), 3), ((9, 9), 4), ((3, 5), 4)]
)
def test_larger_windows_have_the_tiles_that_save_most(kernel: Pair, tile: int) -> None:
    op = Conv2d(kernel=kernel)
    assert marked(op) == marked(op, image=(8, 8)) == marked(op, outputs=3) == (tile, tile)


@pytest.mark.parametrize(
    "op",
    [
        Conv2d(kernel=(1, 7)),
        Conv2d(kernel=(3, 3), stride=(2, 2)),
        Conv2d(kernel=(3, 3), dilation=(2, 2)),
        Conv2d(kernel=(3, 3), groups=2),
    ],
    ids=["flat window", "strided", "dilated", "groups"],
)
def test_leaves_other_windows_alone(op: Conv2d) -> None:
    assert marked(op) == (1, 1)


def test_leaves_few_channels_and_computed_weights_alone() -> None:
    assert marked(USUAL, inputs=8) == marked(USUAL, outputs=8) == (1, 1)
    assert marked(USUAL, is_constant=False) == (1, 1)


@pytest.mark.parametrize("tap", [np.nan, np.inf, -np.inf, 3e38, -3e38])
def test_leaves_weights_alone_whose_transforms_are_not_finite(tap: float) -> None:
    assert marked(USUAL, tap=tap) == (1, 1)
    assert marked(USUAL, tap=1e20) == marked(USUAL)
