"""Files with damaged bytes load or raise codl's own errors; nothing else comes out, nothing is printed."""

import random

import onnx
import pytest

from codl.errors import CodlError
from codl.frontend import load_graph
from tests.frontend.onnx_models import make_model, node, random_array


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


def damage(data: bytes, dice: random.Random) -> bytes:
    """Return the bytes with one to three places replaced, flipped, cut out or filled in."""
    damaged = bytearray(data)
    for _ in range(dice.randint(1, 3)):
        place = dice.randrange(len(damaged))
        match dice.randrange(4):
            case 0:
                damaged[place] = dice.randrange(256)
            case 1:
                damaged[place] ^= 1 << dice.randrange(8)
            case 2:
                del damaged[place : place + dice.randint(1, 4)]
            case _:
                damaged[place:place] = dice.randbytes(dice.randint(1, 3))
    return bytes(damaged)


@pytest.mark.parametrize(("opset", "ir_version"), [(7, 3), (13, 7), (22, 10)])
def test_raises_nothing_but_own_errors(
    opset: int, ir_version: int, capfd: pytest.CaptureFixture[str]
) -> None:
    data = mixed_model(opset=opset, ir_version=ir_version).SerializeToString()
    dice = random.Random(opset)
    refused = 0

    for _ in range(700):
        try:
            load_graph(damage(data, dice))
        except CodlError:
            refused += 1

    assert refused > 300
    assert capfd.readouterr() == ("", "")
