"""Images of a device: where parts of tensors lie in texels of four channels."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from codl.catalog.images import LANES, measure_image
from codl.catalog.spec import TensorArg
from codl.devices.opencl import Device
from codl.ir.regions import Region


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageStorage:
    """A region of an image tensor in an OpenCL image, which may be larger than it need be."""

    region: Region
    image: Any
    column: int = 0
    row: int = 0
    """Texel of the region's first block and pixel."""

    def arguments(self) -> list[Any]:
        """Return the five kernel arguments: image, x and y of coordinate 0, texels to next block and n."""
        (n, c, h, w), (_, _, height, width) = self.region.begin, self.region.shape
        x, y = self.column - c // LANES * width - w, self.row - n * height - h
        return [self.image, *(np.int32(value) for value in (x, y, width, height))]


class Images:
    """The images of one node's launches, made when they are first asked for."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._known: dict[str, ImageStorage] = {}

    def find(self, arg: TensorArg) -> ImageStorage | None:
        """Return the image of an operand as the first candidate has it; None where it lies in a buffer.

        Raises:
            DeviceError: The driver refused the memory.
        """
        if arg.image is None:
            return None
        if arg.name not in self._known:
            region = arg.image.region(0)
            image = self._device.allocate_image(*measure_image(region))
            self._known[arg.name] = ImageStorage(region=region, image=image)
        return self._known[arg.name]
