"""Convolutions of random values with ONNX Runtime's result, for the tests of every convolution kernel."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from onnx import helper

from codl.ir.graph import FloatArray, Graph
from codl.ir.ops import Conv2d, Epilogue, Pads, Pair, ResidualOrder
from tests.kernels.harness import apply_epilogue, one_node_graph, random_array, run_onnx


@dataclass(frozen=True, kw_only=True)
class Case:
    """A convolution of random values."""

    image: Pair
    inputs: int
    outputs: int
    kernel: Pair = (3, 3)
    stride: Pair = (1, 1)
    dilation: Pair = (1, 1)
    pads: Pads = (1, 1, 1, 1)
    groups: int = 1
    batch: int = 1
    has_bias: bool = True
    tile: Pair = (1, 1)
    epilogue: Epilogue = field(default_factory=Epilogue)
    weight: float = 1.0
    """Standard deviation of the weights."""


def build(
    case: Case, *, round_factors: Callable[[FloatArray], FloatArray] = lambda value: value
) -> tuple[Graph, dict[str, FloatArray], FloatArray]:
    """Return the graph, its feeds and ONNX Runtime's result of rounded factors."""
    x = random_array(case.batch, case.inputs, *case.image)
    weights = random_array(case.outputs, case.inputs // case.groups, *case.kernel)
    constants = {"w": weights * np.float32(case.weight)}
    if case.has_bias:
        constants["b"] = random_array(case.outputs)
    conv = helper.make_node(
        "Conv",
        ["x", *constants],
        ["conv"],
        strides=case.stride,
        dilations=case.dilation,
        pads=case.pads,
        group=case.groups,
    )
    rounded = {"x": round_factors(x), **constants, "w": round_factors(constants["w"])}
    plain = run_onnx([conv], rounded)
    op = Conv2d(
        kernel=case.kernel,
        stride=case.stride,
        dilation=case.dilation,
        pads=case.pads,
        groups=case.groups,
        has_bias=case.has_bias,
        tile=case.tile,
    )
    feeds = {"x": x}
    if case.epilogue.residual is not ResidualOrder.NONE:
        feeds["r"] = random_array(*plain.shape, seed=1)
    graph = one_node_graph(
        op,
        {"x": x, **constants, **{name: feeds[name] for name in feeds if name != "x"}},
        plain.shape,
        constants=constants,
        epilogue=case.epilogue,
    )
    return graph, feeds, apply_epilogue(plain, case.epilogue, feeds.get("r"))
