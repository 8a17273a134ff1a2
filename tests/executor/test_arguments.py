"""Kernel arguments of a tensor, at the edge of what 32 bits count."""

import pytest

from codl.catalog.spec import plain_arg
from codl.devices.launch import tensor_arguments
from codl.devices.memory import place_in
from codl.errors import DeviceError
from codl.ir.graph import Shape
from codl.ir.regions import Region

LIMIT = 2**31


def arguments(shape: Shape, base: int) -> list[object]:
    return tensor_arguments(plain_arg("x", shape), place_in(Region.whole(shape), None, base=base))


def test_last_place_that_32_bits_reach_is_taken() -> None:
    assert arguments((1, 8, 16, 16), LIMIT - 8 * 16 * 16 - 1)[1] == LIMIT - 8 * 16 * 16 - 1


def test_tensor_too_far_from_its_buffers_start_is_named_by_its_place() -> None:
    base = LIMIT - 8 * 16 * 16
    with pytest.raises(DeviceError, match=rf"'x': got a place at elements {base} to {LIMIT} .*smaller batch"):
        arguments((1, 8, 16, 16), base)


def test_tensor_too_large_is_named_by_its_size() -> None:
    with pytest.raises(DeviceError, match=rf"'x': got {LIMIT} elements.*cut it"):
        arguments((1, 2, 2**15, 2**15), 0)
