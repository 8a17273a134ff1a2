"""Small graphs built by hand, for what needs no model file."""

import numpy as np

from codl.ir.graph import Graph, Node, Tensor
from codl.ir.ops import Conv2d, Epilogue, Pool2d, PoolKind, ResidualOrder


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
