"""Operators that move, repeat or resample elements."""

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True, kw_only=True)
class Concat:
    """Concatenation of all inputs along `axis` (non-negative)."""

    axis: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reshape:
    """Same values in ONNX order under another shape. Input: x."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transpose:
    """Output axis i is input axis `order[i]`. Input: x, any shape."""

    order: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelShuffle:
    """[N, C, H, W]: channels seen as [groups, C/groups], transposed."""

    groups: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceToDepth:
    """[N, C, H, W] -> [N, C*b*b, H/b, W/b]."""

    block: int
    is_column_major: bool = False
    """As of `DepthToSpace`; ONNX has mode CRD of this one from opset 28 on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthToSpace:
    """[N, C, H, W] -> [N, C/(b*b), H*b, W*b]."""

    block: int
    is_column_major: bool = False
    """ONNX mode CRD: the block offset is innermost in the channels; otherwise (DCR) outermost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """out[i] = x[begin + i * step] along each axis; steps may be negative. Split makes one an output."""

    begin: tuple[int, ...]
    step: tuple[int, ...]


class PadMode(StrEnum):
    """What a padded element holds."""

    CONSTANT = "constant"
    REFLECT = "reflect"
    EDGE = "edge"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pad:
    """out[i] = x[i - before] along each axis; negative `before` crops."""

    before: tuple[int, ...]
    mode: PadMode = PadMode.CONSTANT
    value: float = 0.0


class ResizeMode(StrEnum):
    """How a resized element is made."""

    NEAREST = "nearest"
    LINEAR = "linear"


class Coordinates(StrEnum):
    """ONNX coordinate_transformation_mode of Resize."""

    HALF_PIXEL = "half_pixel"
    PYTORCH_HALF_PIXEL = "pytorch_half_pixel"
    ALIGN_CORNERS = "align_corners"
    ASYMMETRIC = "asymmetric"


class Rounding(StrEnum):
    """ONNX nearest_mode of Resize."""

    PREFER_FLOOR = "round_prefer_floor"
    PREFER_CEIL = "round_prefer_ceil"
    FLOOR = "floor"
    CEIL = "ceil"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resize2d:
    """Resizing of height and width, x [N, C, H, W] -> [N, C, OH, OW]."""

    mode: ResizeMode
    scale: tuple[float, float]
    """(vertical, horizontal), as given or output / input."""
    coordinates: Coordinates = Coordinates.HALF_PIXEL
    rounding: Rounding = Rounding.PREFER_FLOOR
