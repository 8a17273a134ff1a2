"""Pooling on every device: windows, padding, tile edges, cuts, NaN."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from onnx import helper

from codl.catalog.rows.pool import IMPLEMENTATIONS
from codl.catalog.spec import Selection
from codl.devices.opencl import Device
from codl.ir.graph import FloatArray, Graph
from codl.ir.ops import Pads, Pair, Pool2d, PoolKind
from tests.kernels.harness import assert_right, one_node_graph, random_array, run_node, run_onnx
from tests.kernels.slices import EDGES, slices_of

(ROW,) = IMPLEMENTATIONS
KINDS = pytest.mark.parametrize("kind", list(PoolKind))


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A pooling as ONNX writes it."""

    x: tuple[int, int, int, int]
    kernel: Pair = (3, 3)
    stride: Pair = (1, 1)
    dilation: Pair = (1, 1)
    pads: Pads = (0, 0, 0, 0)
    ceil: bool = False
    counts_padding: bool = False


CASES = {
    "halved": Case(x=(2, 40, 9, 11), stride=(2, 2), pads=(1, 1, 1, 1)),
    "two-by-two": Case(x=(1, 16, 7, 8), kernel=(2, 2), stride=(2, 2)),
    "rounded-up": Case(x=(1, 70, 8, 9), stride=(2, 2), pads=(1, 1, 1, 1), ceil=True),
    "rounded-up-counting": Case(
        x=(1, 20, 8, 9), stride=(2, 2), pads=(1, 1, 1, 1), ceil=True, counts_padding=True
    ),
    "wide": Case(x=(1, 24, 6, 7), kernel=(5, 5), pads=(2, 2, 2, 2), counts_padding=True),
    "beyond-image": Case(x=(1, 5, 3, 2), kernel=(7, 7), pads=(3, 3, 3, 3)),
    "global": Case(x=(2, 130, 5, 4), kernel=(5, 4)),
    "asymmetric": Case(x=(1, 17, 9, 8), kernel=(3, 2), stride=(1, 3), pads=(2, 0, 1, 1)),
    "few-channels": Case(x=(1, 3, 10, 12), stride=(2, 1)),
}


def build(case: Case, kind: PoolKind, x: FloatArray | None = None) -> tuple[Graph, FloatArray, FloatArray]:
    """Return the graph of one pooling, its input and ONNX Runtime's result."""
    x = random_array(*case.x) if x is None else x
    counting: dict[str, Any] = {"count_include_pad": 1} if case.counts_padding else {}
    node = helper.make_node(
        "MaxPool" if kind is PoolKind.MAX else "AveragePool",
        ["x"],
        ["y"],
        kernel_shape=case.kernel,
        strides=case.stride,
        pads=case.pads,
        ceil_mode=int(case.ceil),
        **(counting if kind is PoolKind.AVERAGE else {}),
        **({"dilations": case.dilation} if kind is PoolKind.MAX else {}),
    )
    reference = run_onnx([node], {"x": x})
    op = Pool2d(
        kind=kind,
        kernel=case.kernel,
        stride=case.stride,
        dilation=case.dilation,
        pads=case.pads,
        counts_padding=case.counts_padding,
    )
    return one_node_graph(op, {"x": x}, reference.shape), x, reference


@KINDS
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_agrees_with_onnx_runtime_and_cuts_keep_bits(device: Device, case: Case, kind: PoolKind) -> None:
    graph, x, reference = build(case, kind)
    assert_right(device, graph, {"x": x}, reference, slices=slices_of(reference.shape))


@KINDS
@pytest.mark.parametrize("channels", EDGES.values(), ids=EDGES)
def test_tile_edges(device: Device, channels: int, kind: PoolKind) -> None:
    graph, x, reference = build(Case(x=(1, channels, 5, 6), pads=(1, 1, 1, 1)), kind)
    lanes = Selection(implementation=ROW, parameters={"VECTOR": 4, "AVERAGE": int(kind is PoolKind.AVERAGE)})
    assert_right(
        device, graph, {"x": x}, reference, slices=slices_of(reference.shape), gap=0, selection=lanes
    )


def test_dilated_maximum(device: Device) -> None:
    case = Case(x=(1, 24, 9, 10), kernel=(3, 2), dilation=(2, 3), pads=(1, 1, 0, 1), stride=(2, 1))
    graph, x, reference = build(case, PoolKind.MAX)
    assert_right(device, graph, {"x": x}, reference, slices=slices_of(reference.shape))


def test_maximum_of_a_window_wholly_in_the_padding(device: Device) -> None:
    case = Case(x=(1, 20, 1, 4), kernel=(2, 2), dilation=(2, 1), pads=(1, 0, 1, 0))
    graph, x, reference = build(case, PoolKind.MAX)
    np.testing.assert_array_equal(run_node(device, graph, {"x": x}), reference)


@KINDS
@pytest.mark.parametrize("channels", [3, 16, 40])
def test_nan_spreads_to_all_windows_that_hold_it(device: Device, channels: int, kind: PoolKind) -> None:
    x = random_array(1, channels, 6, 7)
    x[0, 1, 2, 3] = np.nan
    x[0, 2] = np.array([np.inf, -np.inf], np.float32)[np.arange(7) % 2]
    graph, _, _ = build(Case(x=(1, channels, 6, 7)), kind, x)
    value = run_node(device, graph, {"x": x})
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))
    with np.errstate(invalid="ignore"):
        expected = windows.max((-1, -2)) if kind is PoolKind.MAX else windows.mean((-1, -2))
    np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-5)


def test_maximum_of_minus_infinities_stays(device: Device) -> None:
    x = np.full((1, 20, 4, 4), -np.inf, np.float32)
    graph, _, _ = build(Case(x=(1, 20, 4, 4), pads=(1, 1, 1, 1)), PoolKind.MAX, x)
    np.testing.assert_array_equal(run_node(device, graph, {"x": x}), x)
