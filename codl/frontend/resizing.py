"""Translations of Pad, Resize and Upsample."""

from collections.abc import Mapping
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from codl.frontend.draft import Draft, Translations
from codl.frontend.onnx_node import OnnxNode
from codl.frontend.scales import find_scales_input, spread_scales
from codl.ir.graph import Shape
from codl.ir.ops import Coordinates, Pad, PadMode, Resize2d, ResizeMode, Rounding

_OLD_MODES = {"bilinear": "linear"}
"""Names that Upsample's first versions allowed."""


def translate_pad(draft: Draft, node: OnnxNode) -> None:
    """Add a `Pad`; pads and value were attributes before opset 11 and are inputs since."""
    mode = node.text("mode", "constant")
    if mode not in list(PadMode):
        raise node.unsupported(got=f"mode {mode}", expected=f"one of {', '.join(PadMode)}")
    x, shape = draft.first_operand(node)
    before, after = _read_pads(draft, node, rank=len(shape))
    if not any((*before, *after)):
        draft.add_alias(node.output, x)
        return
    _check_repeats(node, PadMode(mode), shape, before=before, after=after)
    value = node.number("value", 0.0)
    name = node.optional_input(2)
    if name is not None:
        value = draft.scalar(name, node=node)
    op = Pad(before=before, mode=PadMode(mode), value=value if mode == PadMode.CONSTANT else 0.0)
    padded = tuple(front + length + back for length, front, back in zip(shape, before, after, strict=True))
    draft.check_shape(node.output, padded, node=node)
    draft.add_node(op, (x,), node.output, shape=padded, name=node.name)


def _read_pads(draft: Draft, node: OnnxNode, *, rank: int) -> tuple[Shape, Shape]:
    """Return the elements added before and after each axis; negative ones are taken away."""
    pads = draft.integers_of(node, "pads", index=1)
    if pads is None:
        raise node.broken(got="no pads", expected="two values for each axis")
    axes = draft.integers_of(node, "axes", index=3) or tuple(range(rank))
    if len(pads) != 2 * len(axes) or any(not -rank <= axis < rank for axis in axes):
        raise node.broken(
            got=f"{len(pads)} pads of axes {list(axes)}", expected=f"two for each of at most {rank} axes"
        )
    before, after = [0] * rank, [0] * rank
    for place, axis in enumerate(axes):
        before[axis % rank], after[axis % rank] = pads[place], pads[place + len(axes)]
    return tuple(before), tuple(after)


def _check_repeats(node: OnnxNode, mode: PadMode, shape: Shape, *, before: Shape, after: Shape) -> None:
    """Raise `UnsupportedError` where padding repeats elements that were cropped, or mirrors twice."""
    if mode is PadMode.CONSTANT:
        return
    for length, front, back in zip(shape, before, after, strict=True):
        kept = length + min(front, 0) + min(back, 0)
        if kept < 1 or (mode is PadMode.REFLECT and max(front, back) >= kept):
            raise node.unsupported(
                got=f"mode {mode} with pads {[*before, *after]} of an input {list(shape)}",
                expected="less padding than there are elements",
            )


_SAMPLING: Mapping[str, type[StrEnum]] = {
    "mode": ResizeMode,
    "coordinate_transformation_mode": Coordinates,
    "nearest_mode": Rounding,
}
"""What decides how elements are made, with the words that kernels know."""


def translate_resize(draft: Draft, node: OnnxNode) -> None:
    """Add a `Resize2d` for Resize or Upsample."""
    if node.integer("antialias", 0):
        raise node.unsupported(got="antialias 1", expected="0")
    x = draft.operand(node.inputs[0], node=node)
    shape, out_shape = draft.tensors[x].shape, draft.shape(node.output, node=node)
    scales = _read_scales(draft, node, shape=shape, out_shape=out_shape)
    if len(shape) != 4 or scales[:2] != (1.0, 1.0):
        raise node.unsupported(
            got=f"scales {list(scales)} of an input of {len(shape)} axes",
            expected="4 axes, of which height and width are scaled",
        )
    if shape == out_shape:  # ONNX Runtime copies then, whatever the scales
        draft.add_alias(node.output, x)
        return
    scale = (scales[2], scales[3])
    words = _read_sampling(node, scale=scale)
    for what, known in _SAMPLING.items():
        if words[what] not in list(known):
            raise node.unsupported(got=f"{what} {words[what]}", expected=f"one of {', '.join(known)}")
    op = Resize2d(
        mode=ResizeMode(words["mode"]),
        scale=scale,
        coordinates=Coordinates(words["coordinate_transformation_mode"]),
        rounding=Rounding(words["nearest_mode"]),
    )
    draft.add_node(op, (x,), node.output, shape=out_shape, name=node.name)


def _read_scales(draft: Draft, node: OnnxNode, *, shape: Shape, out_shape: Shape) -> tuple[float, ...]:
    """Return the factor of each axis as float32: stated, or output / input where sizes are stated."""
    sizes = node.optional_input(3) if node.opset > 10 else None
    if sizes is not None:
        policy = node.text("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            raise node.unsupported(got=f"keep_aspect_ratio_policy {policy}", expected="stretch")
        draft.value(sizes, node=node)
        return tuple((np.array(out_shape, np.float32) / np.array(shape, np.float32)).tolist())
    name = find_scales_input(node)
    stated: npt.ArrayLike | None = node.numbers("scales") if name is None else draft.value(name, node=node)
    factors = None if stated is None else spread_scales(node, stated, rank=len(shape))
    if factors is None:
        raise node.broken(got="scales that are no factor for each axis", expected=f"{len(shape)} factors")
    return factors


def _read_sampling(node: OnnxNode, *, scale: tuple[float, float]) -> dict[str, str]:
    """Return how elements are made, by the names of `_SAMPLING`.

    Before opset 11 the operator named neither coordinates nor rounding: ONNX Runtime takes the element
    at or before the output's place when it enlarges, the one at or behind it when it shrinks.
    """
    mode = node.text("mode", "nearest")
    if node.opset >= 11:
        coordinates = node.text("coordinate_transformation_mode", "half_pixel")
        rounding = node.text("nearest_mode", "round_prefer_floor")
        return {"mode": mode, "coordinate_transformation_mode": coordinates, "nearest_mode": rounding}
    mode = _OLD_MODES.get(mode, mode)
    shrinks, enlarges = any(s < 1 for s in scale), any(s > 1 for s in scale)
    if shrinks and enlarges and mode == "nearest":
        raise node.unsupported(got=f"scales {list(scale)}", expected="enlarging or shrinking, not both")
    rounding = Rounding.CEIL if shrinks else Rounding.FLOOR
    return {"mode": mode, "coordinate_transformation_mode": Coordinates.ASYMMETRIC, "nearest_mode": rounding}


TRANSLATIONS: Translations = {
    "Pad": translate_pad,
    "Resize": translate_resize,
    "Upsample": translate_resize,
}
