"""Small graphs built by hand, for what needs no model file."""

import numpy as np

from codl.ir.graph import Graph, HostModel, Node, Tensor
from codl.ir.ops import Conv2d, Epilogue, HostCall, Pool2d, PoolKind, ResidualOrder


def residual_block(*, height: int = 12, channels: int = 8) -> Graph:
    """Return pool(conv_c(conv_b(conv_a(x))) + conv_a(x)): one tensor that skips a chain."""
    image = (1, channels, height, height)
    half = (1, channels, height // 2, height // 2)
    shapes = {"x": image, "a": image, "b": image, "c": image, "y": half}
    weights = {f"w{name}": np.ones((channels, channels, 3, 3), np.float32) for name in "abc"}
    conv = Conv2d(kernel=(3, 3), pads=(1, 1, 1, 1))
    nodes = (
        Node(name="conv_a", op=conv, inputs=("x", "wa"), output="a"),
        Node(name="conv_b", op=conv, inputs=("a", "wb"), output="b"),
        Node(
            name="conv_c",
            op=conv,
            inputs=("b", "wc", "a"),
            output="c",
            epilogue=Epilogue(residual=ResidualOrder.BEFORE),
        ),
        Node(
            name="pool", op=Pool2d(kind=PoolKind.MAX, kernel=(2, 2), stride=(2, 2)), inputs=("c",), output="y"
        ),
    )
    tensors = {name: Tensor(name=name, shape=shape) for name, shape in shapes.items()}
    tensors |= {name: Tensor(name=name, shape=value.shape) for name, value in weights.items()}
    return Graph(
        name="residual_block", nodes=nodes, inputs=("x",), outputs=("y",), tensors=tensors, constants=weights
    )


def two_branches(*, length: int = 3, size: int = 8) -> Graph:
    """Return two rows of convolutions that read the same input and never meet."""
    conv, shape = Conv2d(kernel=(3, 3), pads=(1, 1, 1, 1)), (1, 8, size, size)
    weight = np.ones((8, 8, 3, 3), np.float32)
    nodes = tuple(
        Node(
            name=f"{branch}{index}",
            op=conv,
            inputs=(f"{branch}{index - 1}" if index else "x", "w"),
            output=f"{branch}{index}",
        )
        for index in range(length)
        for branch in ("a", "b")
    )
    tensors = {name: Tensor(name=name, shape=shape) for name in ("x", *(node.output for node in nodes))}
    tensors["w"] = Tensor(name="w", shape=weight.shape)
    outputs = (f"a{length - 1}", f"b{length - 1}")
    return Graph(
        name="two_branches",
        nodes=nodes,
        inputs=("x",),
        outputs=outputs,
        tensors=tensors,
        constants={"w": weight},
    )


def host_between() -> Graph:
    """Return conv_b(top(conv_a(x))) where the host computes top, whose second output is one of the graph."""
    image = (1, 8, 12, 12)
    conv, inputs = Conv2d(kernel=(3, 3), pads=(1, 1, 1, 1)), ("a",)
    nodes = (
        Node(name="conv_a", op=conv, inputs=("x", "w"), output="a"),
        Node(name="top", op=HostCall(group="host/1", index=0), inputs=inputs, output="t"),
        Node(name="top/i", op=HostCall(group="host/1", index=1), inputs=inputs, output="i"),
        Node(name="conv_b", op=conv, inputs=("t", "w"), output="y"),
    )
    weight = np.ones((8, 8, 3, 3), np.float32)
    tensors = {name: Tensor(name=name, shape=image) for name in "xaty"}
    tensors["w"] = Tensor(name="w", shape=weight.shape)
    tensors["i"] = Tensor(name="i", shape=image, type="tensor(int64)", is_on_host=True)
    model = HostModel(content=b"", operators=("TopK",), reasons=("no kernel for TopK",))
    return Graph(
        name="host_between",
        nodes=nodes,
        inputs=("x",),
        outputs=("y", "i"),
        tensors=tensors,
        constants={"w": weight},
        host_models={"host/1": model},
    )
