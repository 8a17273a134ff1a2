"""Pad in its versions and modes, against ONNX Runtime, and what of it a window absorbs."""

from typing import Any

import numpy as np
import pytest

import codl
from codl.ir.graph import Graph
from codl.ir.ops import Conv2d, Pad, PadMode, Pool2d, PoolKind
from tests.frontend.onnx_models import check_host, check_translation, make_model, node, random_array
from tests.oracle import random_feeds

SHAPE = [2, 4, 6, 5]


def translate(*nodes: Any, opset: int = 17, outputs: Any = ("y",), **constants: Any) -> Graph:
    """Return the graph of nodes that read x and constants, having compared it with ONNX Runtime."""
    return check_translation(
        make_model(nodes, inputs={"x": SHAPE}, outputs=outputs, constants=constants, opset=opset)
    )


def kinds(graph: Graph) -> list[str]:
    return [n.kind for n in graph.nodes]


PADS = [0, 0, 1, 2, 0, 0, 3, 1]


@pytest.mark.parametrize("mode", PadMode)
@pytest.mark.parametrize("opset", [7, 11, 13, 18])
def test_translates_pad(mode: PadMode, opset: int) -> None:
    if opset < 11:
        pad = node("Pad", ["x"], ["y"], mode=mode.value, pads=PADS, value=0.5)
        graph = translate(pad, opset=opset)
    else:
        pad = node("Pad", ["x", "p", "v"], ["y"], mode=mode.value)
        graph = translate(pad, opset=opset, p=np.array(PADS), v=np.float32(0.5))

    value = 0.5 if mode is PadMode.CONSTANT else 0.0
    assert [n.op for n in graph.nodes] == [Pad(before=(0, 0, 1, 2), mode=mode, value=value)]
    assert graph.shape("y") == (2, 4, 10, 8)


@pytest.mark.parametrize("mode", PadMode)
@pytest.mark.parametrize(
    "pads", [[0, -1, -2, 2, 0, 2, 3, -1], [1, 0, 5, -1, -1, 0, -2, -2], [0, 0, -1, 0, 0, 0, 0, -1]], ids=str
)
def test_translates_pad_that_crops(mode: PadMode, pads: list[int]) -> None:
    if mode is PadMode.REFLECT:
        pads = [min(p, 2) if i % 4 else 0 for i, p in enumerate(pads)]
    graph = translate(node("Pad", ["x", "p"], ["y"], mode=mode.value), p=np.array(pads))

    assert [n.op for n in graph.nodes] == [Pad(before=tuple(pads[:4]), mode=mode)]


def test_translates_pad_of_some_axes() -> None:
    pad = node("Pad", ["x", "p", "", "a"], ["y"])

    graph = translate(pad, opset=18, p=np.array([1, 0, 2, 3]), a=np.array([-1, 1]))

    assert [n.op for n in graph.nodes] == [Pad(before=(0, 0, 0, 1))]
    assert graph.shape("y") == (2, 7, 6, 8)


def test_removes_pad_of_nothing() -> None:
    graph = translate(
        node("Tanh", ["x"], ["a"]),
        node("Pad", ["a", "p"], ["b"]),
        node("Relu", ["b"], ["y"]),
        p=np.zeros(8, np.int64),
    )

    assert kinds(graph) == ["Unary", "Unary"]


def test_leaves_pad_to_the_host() -> None:
    pad = node("Pad", ["x", "p"], ["y"], name="rim", mode="wrap")
    model = make_model([pad], inputs={"x": SHAPE}, constants={"p": np.array(PADS)}, opset=19)

    check_host(model, reason="node 'rim' (Pad): got mode wrap")


def test_pad_that_nobody_computes_fails_when_it_runs() -> None:
    pad = node("Pad", ["x", "p"], ["y"], name="rim", mode="reflect")
    pads = np.array([0, 0, 6, 0, 0, 0, 0, 0])
    model = make_model([pad], inputs={"x": SHAPE}, constants={"p": pads}, opset=19)

    with pytest.raises(codl.HostError, match=r"host/1 of model: ONNX Runtime failed.*'rim'"):
        codl.InferenceSession(model.SerializeToString()).run(None, random_feeds(model))


class TestFoldingOfZeros:
    ZEROS = np.array(PADS)

    def test_goes_into_a_convolution(self) -> None:
        conv = node("Conv", ["a", "w"], ["y"], pads=[1, 0, 0, 1], strides=[2, 1])

        graph = translate(node("Pad", ["x", "p"], ["a"]), conv, p=self.ZEROS, w=random_array(3, 4, 3, 3))

        assert [n.op for n in graph.nodes] == [Conv2d(kernel=(3, 3), stride=(2, 1), pads=(2, 2, 3, 2))]

    @pytest.mark.parametrize("counts", [0, 1])
    def test_goes_into_an_average_without_padding_of_its_own(self, counts: int) -> None:
        pool = node("AveragePool", ["a"], ["y"], kernel_shape=[3, 2], count_include_pad=counts)

        graph = translate(node("Pad", ["x", "p"], ["a"]), pool, p=self.ZEROS)

        op = Pool2d(kind=PoolKind.AVERAGE, kernel=(3, 2), pads=(1, 2, 3, 1), counts_padding=True)
        assert [n.op for n in graph.nodes] == [op]

    @pytest.mark.parametrize(
        ("op_type", "attributes"),
        [("MaxPool", {}), ("AveragePool", {"pads": [1, 1, 1, 1]})],
    )
    def test_stays_before_a_pooling_that_would_change(self, op_type: str, attributes: Any) -> None:
        pool = node(op_type, ["a"], ["y"], kernel_shape=[2, 2], **attributes)

        graph = translate(node("Pad", ["x", "p"], ["a"]), pool, p=self.ZEROS)

        assert kinds(graph) == ["Pad", "Pool2d"]

    @pytest.mark.parametrize(
        ("attributes", "pads", "value"),
        [
            ({"mode": "edge"}, PADS, 0.0),
            ({}, PADS, 0.5),
            ({}, [0, 0, -1, 1, 0, 0, 1, 1], 0.0),
            ({}, [0, 1, 1, 1, 0, -1, 1, 1], 0.0),
        ],
        ids=["repeats", "is not zero", "crops", "moves channels"],
    )
    def test_stays_when_it(self, attributes: Any, pads: list[int], value: float) -> None:
        graph = translate(
            node("Pad", ["x", "p", "v"], ["a"], **attributes),
            node("Conv", ["a", "w"], ["y"]),
            p=np.array(pads),
            v=np.float32(value),
            w=random_array(3, 4, 3, 3),
        )

        assert kinds(graph) == ["Pad", "Conv2d"]

    def test_stays_when_something_else_reads_it(self) -> None:
        graph = translate(
            node("Pad", ["x", "p"], ["a"]),
            node("Conv", ["a", "w"], ["y"]),
            outputs=("y", "a"),
            p=self.ZEROS,
            w=random_array(3, 4, 3, 3),
        )

        assert kinds(graph) == ["Pad", "Conv2d"]
