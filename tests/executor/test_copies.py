"""Copies between ONNX order and the order that devices store tensors in."""

import numpy as np
import pytest

from codl.executor.copies import prepare_read, prepare_write
from codl.ir.graph import FloatArray, Shape

SHAPES: dict[str, Shape] = {
    "number": (),
    "matrix": (3, 5),
    "empty": (0, 64, 20, 20),
    "one-channel": (2, 1, 9, 7),
    "colours": (2, 3, 9, 7),
    "few-channels": (1, 8, 130, 130),
    "many-channels": (2, 64, 19, 23),
    "one-pixel": (3, 1000, 1, 1),
    "small-image": (2, 96, 15, 17),
    "one-row": (1, 32, 1, 700),
    "one-column": (1, 32, 700, 1),
    "wide": (1, 64, 3, 300),
    "odd-channels-of-a-large-image": (1, 19, 100, 103),
    "channels-beyond-a-block": (1, 8224, 16, 17),
}
EACH_SHAPE = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
EACH_GAP = pytest.mark.parametrize("gap", [0, 3], ids=["dense", "among-others"])


def place(shape: Shape, gap: int) -> FloatArray:
    """Return memory of devices in ONNX order: channels of an image innermost, others before and after."""
    if len(shape) != 4:
        return np.full(shape, np.nan, np.float32)
    images, channels, rows, columns = shape
    memory = np.full((images, rows, columns, channels + 2 * gap), np.nan, np.float32)
    return memory.transpose(0, 3, 1, 2)[:, gap : gap + channels]


def draw(shape: Shape) -> FloatArray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


@EACH_GAP
@EACH_SHAPE
def test_what_is_read_is_the_callers_own_and_in_onnx_order(shape: Shape, gap: int) -> None:
    view, expected = place(shape, gap), draw(shape)
    view[...] = expected

    value = prepare_read(view)()
    view[...] = np.nan

    np.testing.assert_array_equal(value, expected)
    assert value.shape == shape
    assert value.flags.c_contiguous
    assert value.flags.owndata


@EACH_GAP
@EACH_SHAPE
def test_what_is_written_lies_where_devices_read_it(shape: Shape, gap: int) -> None:
    view, value = place(shape, gap), draw(shape)
    write = prepare_write(view)

    write(value)

    np.testing.assert_array_equal(view, value)
    if view.base is not None and gap:
        assert np.count_nonzero(np.isfinite(view.base)) == value.size


def test_every_read_is_a_new_array() -> None:
    view = place((1, 64, 20, 20), 0)
    view[...] = 1.0
    read = prepare_read(view)

    first, second = read(), read()

    assert not np.shares_memory(first, second)
    assert not np.shares_memory(first, view)


def test_more_channels_than_there_is_room_for_are_refused() -> None:
    with pytest.raises(ValueError, match="shape"):
        prepare_write(place((1, 3, 4, 4), 0))(draw((1, 4, 4, 4)))
