"""Resize and Upsample in their versions and modes, against ONNX Runtime."""

from typing import Any

import numpy as np
import onnx
import pytest

from codl.ir.ops import Coordinates, Resize2d, ResizeMode, Rounding
from tests.frontend.onnx_models import check_host, check_translation, make_model, node

SHAPE = [2, 3, 6, 5]
SCALES: dict[str, list[float]] = {
    "doubled": [1, 1, 2, 2],
    "odd": [1, 1, 1.7, 3],
    "halved": [1, 1, 0.5, 0.6],
    "mixed": [1, 1, 0.4, 2.5],
    "one axis": [1, 1, 1, 2],
    "to one row": [1, 1, 0.17, 2],
}


def resize(*, scales: Any = None, sizes: Any = None, opset: int = 17, **attributes: Any) -> onnx.ModelProto:
    """Return a model of one Resize, its scales or sizes as the opset wants them."""
    constants = {}
    if scales is not None:
        constants["scales"] = np.array(scales, np.float32)
    if sizes is not None:
        constants["sizes"] = np.array(sizes)
    if opset < 11:
        names = ["x", "scales"]
    else:
        names = ["x", "roi" if opset < 13 else "", "scales" if scales is not None else ""]
        names += [] if sizes is None else ["sizes"]
        constants |= {"roi": np.zeros(0, np.float32)} if opset < 13 else {}
        constants |= {"scales": np.zeros(0, np.float32)} if opset < 13 and scales is None else {}
        names = [name or ("scales" if opset < 13 and i == 2 else "") for i, name in enumerate(names)]
    resizing = node("Resize", names, ["y"], name="resize", **attributes)
    return make_model([resizing], inputs={"x": SHAPE}, constants=constants, opset=opset)


@pytest.mark.parametrize("scales", SCALES)
@pytest.mark.parametrize("coordinates", Coordinates)
@pytest.mark.parametrize("rounding", Rounding)
def test_translates_nearest(scales: str, coordinates: Coordinates, rounding: Rounding) -> None:
    model = resize(
        scales=SCALES[scales],
        mode="nearest",
        coordinate_transformation_mode=coordinates.value,
        nearest_mode=rounding.value,
    )

    graph = check_translation(model)

    vertical, horizontal = (float(np.float32(s)) for s in SCALES[scales][2:])
    op = Resize2d(
        mode=ResizeMode.NEAREST, scale=(vertical, horizontal), coordinates=coordinates, rounding=rounding
    )
    assert [n.op for n in graph.nodes] == [op]


@pytest.mark.parametrize("scales", SCALES)
@pytest.mark.parametrize("coordinates", Coordinates)
def test_translates_linear(scales: str, coordinates: Coordinates) -> None:
    model = resize(scales=SCALES[scales], mode="linear", coordinate_transformation_mode=coordinates.value)

    assert [n.kind for n in check_translation(model).nodes] == ["Resize2d"]


@pytest.mark.parametrize("opset", [11, 13, 18, 19])
@pytest.mark.parametrize("mode", ResizeMode)
@pytest.mark.parametrize("sizes", [[2, 3, 12, 10], [2, 3, 7, 3], [2, 3, 1, 5]], ids=str)
def test_takes_sizes(sizes: list[int], mode: ResizeMode, opset: int) -> None:
    graph = check_translation(resize(sizes=sizes, mode=mode.value, opset=opset))

    (only,) = graph.nodes
    assert isinstance(only.op, Resize2d)
    assert only.op.scale == tuple(float(np.float32(sizes[i]) / np.float32(SHAPE[i])) for i in (2, 3))


@pytest.mark.parametrize("opset", [11, 13, 18])
def test_takes_the_defaults_of_the_operator(opset: int) -> None:
    graph = check_translation(resize(scales=[1, 1, 2, 2], opset=opset))

    assert [n.op for n in graph.nodes] == [Resize2d(mode=ResizeMode.NEAREST, scale=(2.0, 2.0))]


def test_takes_scales_of_some_axes() -> None:
    graph = check_translation(resize(scales=[2, 3], axes=[-1, 2], opset=18))

    assert [n.op for n in graph.nodes] == [Resize2d(mode=ResizeMode.NEAREST, scale=(3.0, 2.0))]


@pytest.mark.parametrize("mode", ResizeMode)
@pytest.mark.parametrize(
    ("op_type", "scales"),
    [
        ("Resize 10", "halved"),
        *(
            (op_type, scales)
            for op_type in ("Resize 10", "Upsample 9", "Upsample 7")
            for scales in ("doubled", "odd", "one axis")
        ),
    ],
)
def test_translates_old_versions(op_type: str, scales: str, mode: ResizeMode) -> None:
    name, version = op_type.split()
    if version == "7":
        upsample = node(name, ["x"], ["y"], mode=mode.value, scales=[float(s) for s in SCALES[scales]])
        model = make_model([upsample], inputs={"x": SHAPE}, opset=7)
    else:
        upsample = node(name, ["x", "s"], ["y"], mode=mode.value)
        constants = {"s": np.array(SCALES[scales], np.float32)}
        model = make_model([upsample], inputs={"x": SHAPE}, constants=constants, opset=int(version))

    assert [n.kind for n in check_translation(model).nodes] == ["Resize2d"]


@pytest.mark.parametrize("opset", [9, 10, 17])
def test_rounds_sizes_as_onnx_runtime_does(opset: int) -> None:
    names = ["x", "s"] if opset < 11 else ["x", "", "s"]
    enlarging = node("Upsample" if opset == 9 else "Resize", names, ["a"])
    scales = np.array([1, 1, 1.7, 2.3], np.float32)
    model = make_model(
        [enlarging, node("Flatten", ["a"], ["y"])],
        inputs={"x": [1, 1, 10, 10]},
        constants={"s": scales},
        opset=opset,
    )

    graph = check_translation(model, infers_shapes=False)

    assert graph.shape("a") == (1, 1, 17, 23)


@pytest.mark.parametrize("factor", [1.0, 1.1])
def test_removes_resize_to_the_same_size(factor: float) -> None:
    model = resize(scales=[1, 1, factor, 1])
    model.graph.node.append(node("Relu", ["y"], ["z"]))
    model.graph.output[0].name = "z"

    assert [n.kind for n in check_translation(model).nodes] == ["Unary"]


UNSUPPORTED: dict[str, tuple[dict[str, Any], str]] = {
    "cubic": ({"scales": [1, 1, 2, 2], "mode": "cubic"}, "got mode cubic, expected one of nearest, linear"),
    "cropped": (
        {"scales": [1, 1, 2, 2], "coordinate_transformation_mode": "half_pixel_symmetric", "opset": 19},
        "got coordinate_transformation_mode half_pixel_symmetric",
    ),
    "antialias": (
        {"scales": [1, 1, 0.5, 2], "mode": "linear", "antialias": 1, "opset": 18},
        "got antialias 1",
    ),
    "channels": ({"scales": [1, 2, 1, 1]}, "got scales [1.0, 2.0, 1.0, 1.0]"),
    "aspect ratio": (
        {"sizes": [2, 3, 12, 12], "keep_aspect_ratio_policy": "not_larger", "opset": 18},
        "got keep_aspect_ratio_policy not_larger",
    ),
    "both ways in the old version": (
        {"scales": [1, 1, 0.5, 2], "opset": 10},
        "got scales [0.5, 2.0], expected enlarging or shrinking, not both",
    ),
}


@pytest.mark.parametrize("case", UNSUPPORTED)
def test_leaves_to_the_host_what_has_no_kernel(case: str) -> None:
    arguments, expected = UNSUPPORTED[case]
    check_host(resize(**arguments), reason=f"node 'resize' (Resize): {expected}")
