"""Networks of which the host computes a part: at the beginning, in the middle, at the end, all of it."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.frontend.onnx_models import make_model, node, random_array

IMAGE = [1, 8, 12, 12]
FLOAT16, BOOL, INT64 = TensorProto.FLOAT16, TensorProto.BOOL, TensorProto.INT64
WEIGHTS = {name: random_array(8, 8, 3, 3, seed=index) / 8 for index, name in enumerate("abc")}


def conv(x: str, weight: str, y: str) -> onnx.NodeProto:
    return node("Conv", [x, weight], [y], name=f"conv_{weight}", pads=[1, 1, 1, 1])


def images(
    nodes: Sequence[onnx.NodeProto], *, outputs: Sequence[str] = ("y",), domain: str = "", **constants: Any
) -> onnx.ModelProto:
    """Return a model over an image with the weights a, b and c."""
    read = {name for each in nodes for name in each.input}
    weights = {name: value for name, value in WEIGHTS.items() if name in read}
    types = {"i": INT64, "k": INT64}
    model = make_model(
        nodes, inputs={"x": IMAGE}, outputs=outputs, constants=weights | constants, types=types
    )
    if domain:
        model.opset_import.append(helper.make_opsetid(domain, 1))
    return model


def gate() -> onnx.ModelProto:
    """An operator on the host in the middle, with a skip connection around it."""
    return images(
        [
            conv("x", "a", "p"),
            node("Div", ["p", "root"], ["q"]),
            node("Atan", ["q"], ["r"]),
            node("Add", ["r", "one"], ["s"]),
            node("Mul", ["p", "s"], ["t"]),
            node("Mul", ["t", "half"], ["u"]),
            conv("u", "b", "v"),
            node("Add", ["v", "p"], ["w"]),
            node("Relu", ["w"], ["y"]),
        ],
        root=np.float32(2**0.5),
        one=np.float32(1),
        half=np.float32(0.5),
    )


def einsum() -> onnx.ModelProto:
    """An operator on the host first."""
    return images([node("Einsum", ["x"], ["p"], equation="nchw->nchw"), conv("p", "a", "q"), relu("q", "y")])


def relu(x: str, y: str) -> onnx.NodeProto:
    return node("Relu", [x], [y])


def classifier() -> onnx.ModelProto:
    """Two operators on the host last, one of them with two outputs, of int64."""
    nodes = [
        conv("x", "a", "p"),
        node("GlobalAveragePool", ["p"], ["q"]),
        node("Flatten", ["q"], ["r"]),
        node("Gemm", ["r", "m"], ["s"]),
        node("TopK", ["s", "five"], ["y", "i"]),
        node("ArgMax", ["s"], ["k"], axis=1),
    ]
    return images(nodes, outputs=["y", "i", "k"], m=random_array(8, 20), five=np.array([5]))


def hard_max() -> onnx.ModelProto:
    """A choice along an axis that kernels cut, and the sum behind it."""
    nodes = [
        conv("x", "a", "p"),
        node("Hardmax", ["p"], ["q"], axis=-1),
        node("Add", ["q", "p"], ["r"]),
        conv("r", "b", "y"),
    ]
    return images(nodes)


def embedding() -> onnx.ModelProto:
    """Token ids in, a row of a table for each, convolution behind it."""
    nodes = [
        node("Gather", ["table", "ids"], ["e"]),
        node("Transpose", ["e"], ["t"], perm=[0, 2, 1]),
        node("Reshape", ["t", "shape"], ["p"]),
        conv("p", "a", "q"),
        relu("q", "y"),
    ]
    constants = {"table": random_array(30, 8), "shape": np.array([2, 8, 4, 4]), "a": WEIGHTS["a"]}
    return make_model(nodes, inputs={"ids": [2, 16]}, constants=constants, types={"ids": INT64})


def masked_embedding() -> onnx.ModelProto:
    """Token ids that the host compares, so that it picks rows of the table, too; convolution behind both."""
    nodes = [
        node("Gather", ["table", "ids"], ["e"]),
        node("Equal", ["ids", "one"], ["m"]),
        node("Cast", ["m"], ["f"], to=TensorProto.FLOAT),
        node("Unsqueeze", ["f", "last"], ["g"]),
        node("Mul", ["e", "g"], ["h"]),
        node("Transpose", ["h"], ["t"], perm=[0, 2, 1]),
        node("Reshape", ["t", "shape"], ["p"]),
        conv("p", "a", "y"),
    ]
    constants = {"table": random_array(30, 8), "shape": np.array([2, 8, 4, 4]), "a": WEIGHTS["a"]}
    constants |= {"one": np.array(1), "last": np.array([-1])}
    return make_model(nodes, inputs={"ids": [2, 16]}, constants=constants, types={"ids": INT64})


def mask() -> onnx.ModelProto:
    """A condition as input, a chain of types, two parts on the host with kernels between and around."""
    nodes = [
        conv("x", "a", "p"),
        node("Greater", ["p", "zero"], ["g"]),
        node("And", ["g", "m"], ["n"]),
        node("Cast", ["n"], ["o"], to=INT64),
        node("Cast", ["o"], ["f"], to=TensorProto.FLOAT),
        node("Mul", ["f", "p"], ["r"]),
        conv("r", "b", "s"),
        node("Where", ["m", "s", "p"], ["t"]),
        conv("t", "c", "y"),
    ]
    constants: dict[str, Any] = {**WEIGHTS, "zero": np.array(0, np.float32)}
    return make_model(nodes, inputs={"x": IMAGE, "m": IMAGE}, constants=constants, types={"m": BOOL})


def detection() -> onnx.ModelProto:
    """Shapes that data decide at the end."""
    nodes = [
        conv("x", "a", "p"),
        node("Sigmoid", ["p"], ["q"]),
        node("Reshape", ["q", "flat"], ["r"]),
        node("Slice", ["r", "n0", "n4", "two"], ["boxes"]),
        node("Slice", ["r", "n4", "n5", "two"], ["wide"]),
        node("Transpose", ["wide"], ["scores"], perm=[0, 2, 1]),
        node("NonMaxSuppression", ["boxes", "scores", "many", "near", "least"], ["i"]),
        node("Slice", ["i", "two", "three", "one"], ["j"]),
        node("Squeeze", ["j", "one"], ["k"]),
        node("Squeeze", ["boxes", "n0"], ["flatboxes"]),
        node("Gather", ["flatboxes", "k"], ["y"]),
    ]
    constants: dict[str, Any] = {
        "flat": np.array([1, -1, 8]),
        **{name: np.array([value]) for name, value in {"n0": 0, "n4": 4, "n5": 5}.items()},
        **{name: np.array([value]) for name, value in {"one": 1, "two": 2, "three": 3}.items()},
        "many": np.array([20]),
        "near": np.array([0.5], np.float32),
        "least": np.array([0.4], np.float32),
    }
    return images(nodes, outputs=["y", "i"], **constants)


def recurrent() -> onnx.ModelProto:
    """GRU and LSTM between kernels, their own weights with them."""
    nodes = [
        conv("x", "a", "p"),
        node("Reshape", ["p", "steps"], ["q"]),
        node("GRU", ["q", "gw", "gr"], ["g", ""], hidden_size=8),
        node("Squeeze", ["g", "one"], ["s"]),
        node("LSTM", ["s", "lw", "lr"], ["", "h"], hidden_size=8),
        node("Reshape", ["h", "row"], ["t"]),
        node("Gemm", ["t", "m"], ["y"]),
    ]
    return images(
        nodes,
        steps=np.array([12, 1, 96]),
        gw=random_array(1, 24, 96) / 10,
        gr=random_array(1, 24, 8),
        one=np.array([1]),
        lw=random_array(1, 32, 8),
        lr=random_array(1, 32, 8, seed=3),
        row=np.array([1, 8]),
        m=random_array(8, 5),
    )


def branch() -> onnx.ModelProto:
    """An If whose branches read tensors of devices."""

    def body(name: str, *nodes: onnx.NodeProto) -> onnx.GraphProto:
        return helper.make_graph(
            list(nodes), name, [], [helper.make_tensor_value_info(name, TensorProto.FLOAT, IMAGE)]
        )

    choice = node(
        "If",
        ["is"],
        ["u"],
        then_branch=body("then", node("Add", ["p", "q"], ["then"])),
        else_branch=body("else", node("Mul", ["p", "q"], ["else"])),
    )
    nodes = [
        conv("x", "a", "p"),
        conv("x", "b", "q"),
        node("ReduceMean", ["p"], ["r"], keepdims=0),
        node("Greater", ["r", "zero"], ["is"]),
        choice,
        conv("u", "c", "y"),
    ]
    return images(nodes, zero=np.float32(0))


def half() -> onnx.ModelProto:
    """A part in float16, with a weight of that type."""
    nodes = [
        conv("x", "a", "p"),
        node("Cast", ["p"], ["q"], to=FLOAT16),
        node("Add", ["q", "h"], ["r"]),
        node("Sin", ["r"], ["s"]),
        node("Cast", ["s"], ["t"], to=TensorProto.FLOAT),
        conv("t", "b", "y"),
    ]
    return images(nodes, h=random_array(1, 8, 1, 1).astype(np.float16))


def runtime_only() -> onnx.ModelProto:
    """Two branches with an operator of ONNX Runtime alone in each, met in one call."""
    nodes = [
        conv("x", "a", "p"),
        conv("x", "b", "q"),
        node("Gelu", ["p"], ["r"], domain="com.microsoft"),
        node("QuickGelu", ["q"], ["s"], domain="com.microsoft"),
        node("Add", ["r", "s"], ["t"]),
        conv("t", "c", "y"),
    ]
    return images(nodes, domain="com.microsoft")


def several_outputs() -> onnx.ModelProto:
    """Sorted channels beside unsorted ones: outputs of one node for kernels and for the host."""
    nodes = [
        conv("x", "a", "p"),
        node("Split", ["p"], ["q", "r"], axis=1),
        node("TopK", ["q", "many"], ["s", "i"], axis=3),
        node("Concat", ["s", "r"], ["t"], axis=1),
        conv("t", "b", "y"),
        node("ReduceMax", ["i"], ["k"], keepdims=0),
    ]
    return images(nodes, outputs=["y", "k"], many=np.array([12]))


def around() -> onnx.ModelProto:
    """Host, kernels, host, kernels, with tensors that skip over each of them."""
    nodes = [
        node("Sin", ["x"], ["p"]),
        conv("p", "a", "q"),
        node("Add", ["q", "x"], ["r"]),
        node("Cos", ["r"], ["s"]),
        node("Mul", ["s", "p"], ["t"]),
        conv("t", "b", "u"),
        node("Add", ["u", "s"], ["v"]),
        node("Einsum", ["v", "p"], ["w"], equation="nchw,nchw->nchw"),
        node("Add", ["w", "q"], ["y"]),
    ]
    return images(nodes, outputs=["y", "p", "s"])


def sequence() -> onnx.ModelProto:
    """A value that is no tensor between two nodes of the host."""
    nodes = [
        conv("x", "a", "p"),
        node("SplitToSequence", ["p"], ["q"], axis=2),
        node("ConcatFromSequence", ["q"], ["r"], axis=2),
        conv("r", "b", "y"),
    ]
    return images(nodes)


def all_host() -> onnx.ModelProto:
    """Nothing for a kernel, and five axes."""
    nodes = [
        node("Reshape", ["x", "five"], ["p"]),
        node("Exp", ["p"], ["q"]),
        node("ReduceSum", ["q", "axes"], ["y"]),
    ]
    return images(nodes, five=np.array([1, 2, 4, 12, 12]), axes=np.array([1, 4]))


MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    build.__name__: build
    for build in (
        gate,
        einsum,
        classifier,
        hard_max,
        masked_embedding,
        mask,
        detection,
        recurrent,
        branch,
        half,
        runtime_only,
        several_outputs,
        around,
        sequence,
        all_host,
    )
}
"""Name -> what builds it."""

_DRAWN = {
    "Relu": 1,
    "Tanh": 1,
    "Atan": 1,
    "Softsign": 1,
    "Add": 2,
    "Mul": 2,
    "Max": 2,
    "Concat": 2,
    "Conv": 1,
}
"""Operators of random networks and how many tensors they read; the host has Atan, Softsign and Max."""


def draw_model(rng: np.random.Generator, *, count: int = 14) -> onnx.ModelProto:
    """Return a network of ``count`` random nodes, with random outputs beside the last one."""
    channels = {"x": 8}
    nodes: list[onnx.NodeProto] = []
    for index in range(count):
        op_type, known, y = str(rng.choice(list(_DRAWN))), list(channels), f"t{index}"
        first = str(rng.choice(known[-4:]))
        alike = [name for name in known if channels[name] == channels[first]]
        second = str(rng.choice(known if op_type == "Concat" else alike))
        reads = [first, second][: _DRAWN[op_type]]
        if op_type == "Concat" and channels[first] + channels[second] > 32:
            op_type = "Softsign"
            reads = [first]
        if op_type == "Conv" and channels[first] != 8:
            op_type = "Relu"
        channels[y] = sum(channels[name] for name in reads) if op_type == "Concat" else channels[first]
        match op_type:
            case "Conv":
                nodes.append(node("Conv", [first, str(rng.choice(list("abc")))], [y], pads=[1, 1, 1, 1]))
            case "Concat":
                nodes.append(node("Concat", reads, [y], axis=1))
            case _:
                nodes.append(node(op_type, reads, [y]))
    others = [f"t{index}" for index in range(count - 1) if rng.random() < 0.2]
    return images(nodes, outputs=[f"t{count - 1}", *others])
