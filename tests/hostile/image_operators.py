"""How a random node is added of operators over images; ONNX Runtime leaves out what is not legal."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.hostile.sketch import Sketch

Add = Callable[[Sketch], Any]
_PADS = ("NOTSET", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")


def spatial(sketch: Sketch) -> tuple[str, int]:
    """Return an image of one to three axes beyond batch and channels, mostly two, and how many."""
    axes = int(sketch.choose([2, 2, 2, 2, 2, 1, 3]))
    return sketch.pick(least=axes + 2, most=axes + 2), axes


def windows(sketch: Sketch, axes: int, *, is_dilated: bool = True) -> dict[str, Any]:
    """Return random attributes of a window, without its size."""
    found: dict[str, Any] = {"auto_pad": sketch.choose(_PADS)}
    if found["auto_pad"] == "NOTSET" and sketch.flip(0.7):
        found["pads"] = sketch.rng.integers(0, 3, 2 * axes).tolist()
    if sketch.flip():
        found["strides"] = sketch.rng.integers(1, 4, axes).tolist()
    if is_dilated and sketch.flip(0.3):
        found["dilations"] = sketch.rng.integers(1, 3, axes).tolist()
    if sketch.flip(0.3):
        del found["auto_pad"]
    return found


def convolution(op_type: str) -> Add:
    """Return what adds a convolution in groups, or a transposed one."""

    def add(sketch: Sketch) -> Any:
        x, axes = spatial(sketch)
        channels = sketch.values[x].shape[1]
        groups = int(sketch.choose([g for g in range(1, channels + 1) if channels % g == 0]))
        outs, kernel = int(sketch.rng.integers(1, 4)), sketch.shape(axes, largest=4)
        ends = [groups * outs, channels // groups] if op_type == "Conv" else [channels, outs]
        weight = sketch.array([*ends, *kernel]) / np.float32(2)
        inputs = [x, sketch.constant(weight) if sketch.flip(0.9) else sketch.feed(weight)]
        if sketch.flip(0.6):
            inputs.append(sketch.constant(sketch.array([groups * outs])))
        found = windows(sketch, axes)
        if op_type == "ConvTranspose" and sketch.flip(0.3):
            found["output_padding"] = sketch.rng.integers(0, 2, axes).tolist()
        return sketch.add(op_type, inputs, group=groups, **found)

    return add


def pool(op_type: str) -> Add:
    """Return what adds a pooling."""

    def add(sketch: Sketch) -> Any:
        x, axes = spatial(sketch)
        found = windows(sketch, axes, is_dilated=op_type == "MaxPool" or sketch.opset >= 19)
        if op_type == "AveragePool" and str(found.get("auto_pad")).startswith("SAME"):
            found.pop("dilations", None)  # ONNX Runtime pads as if there were none
        if sketch.flip(0.3):
            found["ceil_mode"] = int(sketch.flip())
        if op_type == "AveragePool" and sketch.flip(0.3):
            found["count_include_pad"] = 1
        lengths = sketch.values[x].shape[2:]
        kernel = [min(pair) for pair in zip(sketch.shape(axes, largest=3), lengths, strict=True)]
        if op_type == "MaxPool" and sketch.flip(0.15):
            return sketch.add_all(op_type, [x], 2, kernel_shape=kernel, **found)
        return sketch.add(op_type, [x], kernel_shape=kernel, **found)

    return add


def batch_norm(sketch: Sketch) -> Any:
    """Add a batch normalization with random statistics."""
    x = sketch.pick(least=2)
    channels = sketch.values[x].shape[1]
    weights = [sketch.constant(sketch.array([channels])) for _ in range(3)]
    variance = sketch.constant(np.abs(sketch.array([channels])) + np.float32(0.1))
    found = {"epsilon": 1e-3} if sketch.flip() else {}
    return sketch.add("BatchNormalization", [x, *weights, variance], **found)


def instance_norm(sketch: Sketch) -> Any:
    """Add a normalization of each image of each channel."""
    x = sketch.pick(least=3, fits=lambda value: value[0, 0].size > 1)
    weights = [sketch.constant(sketch.array([sketch.values[x].shape[1]])) for _ in range(2)]
    return sketch.add("InstanceNormalization", [x, *weights], epsilon=1e-2)


def response_norm(sketch: Sketch) -> Any:
    """Add a normalization over neighbouring channels."""
    return sketch.add("LRN", [sketch.pick(least=3)], size=int(sketch.choose([1, 3, 5])), alpha=0.1)


def resize(sketch: Sketch) -> Any:
    """Add a resize to factors or lengths, of every mode, as the opset writes it."""
    x = sketch.pick(least=3 if sketch.flip(0.2) else 4, most=4)
    rank = sketch.values[x].ndim
    factors = [1.0, 1.0, *(float(sketch.choose([0.5, 1.0, 1.5, 2.0, 3.0])) for _ in range(rank - 2))]
    mode = sketch.choose(["nearest", "linear", *(["cubic"] if sketch.opset >= 11 else [])])
    if sketch.opset < 9:
        return sketch.add("Upsample", [x], scales=factors, mode=mode)
    scales = sketch.constant(np.array(factors, np.float32))
    if sketch.opset < 11:
        return sketch.add("Upsample" if sketch.opset < 10 else "Resize", [x, scales], mode=mode)
    ways = ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "tf_crop_and_resize"]
    roundings = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]
    found = {"coordinate_transformation_mode": sketch.choose(ways), "nearest_mode": sketch.choose(roundings)}
    roi = sketch.constant(np.array([0.0] * rank + [1.0] * rank, np.float32))
    if sketch.flip(0.3):
        lengths = [*sketch.values[x].shape[:2], *sketch.shape(rank - 2, largest=9)]
        return sketch.add("Resize", [x, roi, "", sketch.integers(*lengths)], mode=mode, **found)
    return sketch.add("Resize", [x, roi if sketch.opset < 13 else "", scales], mode=mode, **found)
