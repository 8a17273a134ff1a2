"""Images in tests of kernels: canaries around what a launch may write, NaN where it has not written yet."""

import numpy as np
import pyopencl as cl

from codl.catalog.images import measure_image
from codl.catalog.spec import TensorArg
from codl.devices.images import ImageStorage
from codl.devices.opencl import Device
from codl.ir.graph import FloatArray
from codl.ir.regions import Region

CANARY = np.array([0x7F5A5A5A], np.uint32).view(np.float32)[0]
"""A finite value of 2.9e38: read by mistake it shows in the result as well."""
_BORDER = 2
"""Texels around an image that nothing may touch."""
_INNER = (slice(_BORDER, -_BORDER), slice(_BORDER, -_BORDER))


class GuardedImages:
    """Images of a node's launches, canaries around each, NaN inside."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._known: dict[str, ImageStorage] = {}

    def find(self, arg: TensorArg) -> ImageStorage | None:
        """Return the image of an operand; None where it lies in a buffer."""
        if arg.image is None:
            return None
        if arg.name not in self._known:
            region = arg.image.region(0)
            width, height = measure_image(region)
            size = (width + 2 * _BORDER, height + 2 * _BORDER)
            texels = np.full((height + 2 * _BORDER, width + 2 * _BORDER, 4), CANARY, np.float32)
            texels[_INNER] = np.nan
            image = self._device.allocate_image(*size)
            cl.enqueue_copy(self._device.queue, image, texels, origin=(0, 0), region=size)
            self._known[arg.name] = ImageStorage(region=region, image=image, column=_BORDER, row=_BORDER)
        return self._known[arg.name]

    def assert_untouched(self) -> None:
        """Assert that nothing outside the images' regions was written, and zeros beyond their channels."""
        for name, storage in self._known.items():
            width, height = storage.image.shape
            texels = np.empty((height, width, 4), np.float32)
            cl.enqueue_copy(self._device.queue, texels, storage.image, origin=(0, 0), region=(width, height))
            if not storage.region.is_empty:
                self._assert_zeros(name, storage.region, texels[_INNER])
            texels[_INNER] = CANARY
            assert (texels.view(np.uint32) == 0x7F5A5A5A).all(), f"wrote outside the image of {name}"

    def _assert_zeros(self, name: str, region: Region, texels: FloatArray) -> None:
        height, width = texels.shape[0], region.shape[3]
        lanes = texels.reshape(height, -1, width, 4).transpose(1, 3, 0, 2).reshape(-1, height, width)
        first = region.begin[1] % 4
        others = np.concatenate([lanes[:first], lanes[first + region.shape[1] :]])
        assert (others == 0).all(), f"left something in lanes beyond the channels of {name}"
