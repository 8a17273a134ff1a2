"""Files with damaged bytes load or raise codl's own errors; nothing else comes out, nothing is printed."""

import random
from collections.abc import Callable

import numpy as np
import onnx
import pytest

from codl.errors import CodlError
from codl.frontend import load_graph
from tests.frontend.onnx_models import make_model, node, random_array
from tests.hostile.damaged import damage


def mixed_model(*, opset: int, ir_version: int) -> onnx.ModelProto:
    """Return a model with little weight: most of its bytes are structure."""
    constants = {"w": random_array(2, 2, 2, 2), "v": random_array(2, 3), "c": random_array(3)}
    nodes = [
        node("Conv", ["x", "w"], ["a"], name="stem", pads=[1, 0, 1, 0], strides=[2, 2], group=1),
        node("LeakyRelu", ["a"], ["b"], name="leak", alpha=0.1),
        node("MaxPool", ["b"], ["d"], name="pool", kernel_shape=[2, 2], auto_pad="SAME_UPPER"),
        node("GlobalAveragePool", ["d"], ["e"], name="mean"),
        node("Flatten", ["e"], ["f"], name="flat"),
        node("Gemm", ["f", "v", "c"], ["g"], name="head", transB=0),
        node("Softmax", ["g"], ["y"], name="soft", axis=1),
    ]
    return make_model(
        nodes, inputs={"x": [1, 2, 6, 6]}, constants=constants, opset=opset, ir_version=ir_version
    )


def moving_model(*, opset: int, ir_version: int) -> onnx.ModelProto:
    """Return a model of operators that move, resample and normalize, as the opset writes them."""
    integers = {"starts": [0, -4], "ends": [99, -1], "axes": [2, 3], "pads": [0, 0, 1, 0, 0, 0, 0, 2]}
    constants = {name: np.array(value) for name, value in integers.items() if opset >= 13}
    constants |= {"scales": np.array([1, 1, 2, 1.5], np.float32)} if opset >= 9 else {}
    constants |= {"w": random_array(2, 3, 2, 2), "s": random_array(4), "p": random_array(4, 1, 1)}
    constants |= {"five": np.array([1, 2, 2, 5, -1]), "four": np.array([1, 4, 5, -1])}
    cut = integers if opset < 13 else {}
    resize = ["r", "", "scales"] if opset >= 13 else ["r", "scales"] if opset >= 9 else ["r"]
    nodes = [
        node("ConvTranspose", ["x", "w"], ["a"], name="up", strides=[2, 2], pads=[1, 1, 0, 1], group=1),
        node("Concat", ["a", "a"], ["b"], name="twice", axis=1),
        node("Split", ["b"], ["c", "d", "e"], name="split", axis=1),
        node("Concat", ["c", "d"], ["f"], name="join", axis=1),
        node("InstanceNormalization", ["f", "s", "s"], ["g"], name="norm", epsilon=0.1),
        node("LRN", ["g"], ["h"], name="lrn", size=3, alpha=0.1),
        node("PRelu", ["h", "p"], ["i"], name="slope"),
        node("Reshape", ["i", "five"], ["j"], name="open"),
        node("Transpose", ["j"], ["k"], name="swap", perm=[0, 2, 1, 3, 4]),
        node("Reshape", ["k", "four"], ["l"], name="shut"),
        node(
            "Slice",
            ["l", *("starts", "ends", "axes")][: 4 if opset >= 13 else 1],
            ["m"],
            name="cut",
            **{name: value for name, value in cut.items() if name != "pads"},
        ),
        node(
            "Pad",
            ["m", "pads"][: 2 if opset >= 13 else 1],
            ["r"],
            name="rim",
            **{name: value for name, value in cut.items() if name == "pads"},
        ),
        node(
            "Resize" if opset >= 13 else "Upsample",
            resize,
            ["t"],
            name="grow",
            mode="linear",
            **({} if opset >= 9 else {"scales": [1.0, 1.0, 2.0, 1.5]}),
        ),
        node("ReduceMean", ["t"], ["u"], name="mean", keepdims=1),
        node("HardSigmoid", ["u"], ["v"], name="gate", alpha=0.1),
        node("Div", ["t", "v"], ["q"], name="ratio"),
        node("DepthToSpace", ["q"], ["y"], name="deal", blocksize=2),
    ]
    return make_model(
        nodes, inputs={"x": [1, 2, 3, 4]}, constants=constants, opset=opset, ir_version=ir_version
    )


@pytest.mark.parametrize("opset", [7, 9, 13, 17])
def test_starts_from_sound_models(opset: int) -> None:
    for build in (mixed_model, moving_model):
        load_graph(build(opset=opset, ir_version=7).SerializeToString())


@pytest.mark.parametrize("build", [mixed_model, moving_model])
@pytest.mark.parametrize(("opset", "ir_version"), [(7, 3), (9, 4), (13, 7), (17, 8)])
def test_raises_nothing_but_own_errors(
    build: Callable[..., onnx.ModelProto], opset: int, ir_version: int, capfd: pytest.CaptureFixture[str]
) -> None:
    data = build(opset=opset, ir_version=ir_version).SerializeToString()
    dice = random.Random(opset)
    refused = 0

    for _ in range(700):
        try:
            load_graph(damage(data, dice))
        except CodlError:
            refused += 1

    assert refused > 300
    assert capfd.readouterr() == ("", "")
