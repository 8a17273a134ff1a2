"""Depthwise convolution on every device: tile edges, windows, epilogues, cuts."""

import numpy as np
import pytest

from codl.catalog.choose import choose
from codl.catalog.rows.depthwise import IMPLEMENTATIONS
from codl.catalog.spec import Selection
from codl.devices.opencl import Device
from codl.ir.ops import Epilogue
from codl.ir.regions import Region
from tests.kernels.convolutions import Case, build
from tests.kernels.harness import EPILOGUES, assert_right, cut, run_node

(ROW,) = IMPLEMENTATIONS


def depthwise(channels: int, **more: object) -> Case:
    """Return a convolution with one filter a channel."""
    return Case(inputs=channels, outputs=channels, groups=channels, **more)  # type: ignore[arg-type]


CASES = {
    "usual": depthwise(40, image=(9, 21)),
    "strided": depthwise(20, image=(11, 14), stride=(2, 2)),
    "five-by-five": depthwise(17, image=(7, 9), kernel=(5, 5), pads=(2, 2, 2, 2)),
    "asymmetric": depthwise(6, image=(8, 10), kernel=(3, 2), stride=(1, 3), pads=(0, 1, 2, 0)),
    "dilated": depthwise(9, image=(12, 13), dilation=(3, 2), pads=(3, 2, 3, 2)),
    "kernel-beyond-image": depthwise(8, image=(2, 3), kernel=(7, 7), pads=(3, 3, 3, 3)),
    "all-padding-rows": depthwise(8, image=(2, 3), kernel=(1, 1), pads=(2, 2, 2, 2)),
    "batch-without-bias": depthwise(12, image=(5, 5), batch=2, has_bias=False),
    "one-channel": depthwise(1, image=(6, 6)),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_agrees_with_onnx_runtime_and_cuts_keep_bits(device: Device, case: Case) -> None:
    graph, feeds, reference = build(case)
    assert choose(graph.nodes[0], graph, device.info).implementation is ROW
    shape = reference.shape
    slices = [
        *cut(shape, 0, [1]),
        *cut(shape, 1, [1, shape[1] // 2, shape[1] - 1]),
        Region.whole(shape).cut(1, shape[1] // 4, shape[1] - 1 - shape[1] // 4),
        *cut(shape, 2, [1, shape[2] // 2, shape[2] - 1]),
        *cut(shape, 3, [shape[3] // 3]),
        Region.whole(shape).cut(1, 2, 5).cut(2, shape[2] // 2, shape[2]).cut(3, 1, shape[3]),
    ]
    assert_right(device, graph, feeds, reference, slices=[region for region in slices if not region.is_empty])


@pytest.mark.parametrize(
    "channels", [pytest.param(n, id=name) for name, n in {"lt": 3, "eq": 4, "div": 12, "gt": 13}.items()]
)
@pytest.mark.parametrize(
    "columns", [pytest.param(n, id=name) for name, n in {"lt": 5, "eq": 6, "div": 12, "gt": 13}.items()]
)
def test_tile_edges(device: Device, columns: int, channels: int) -> None:
    graph, feeds, reference = build(depthwise(channels, image=(3, columns)))
    tile = Selection(implementation=ROW, parameters={"MR": 6, "NR": 4, "VECTOR": 4})
    slices = [*cut(reference.shape, 1, [channels // 2]), *cut(reference.shape, 3, [columns // 2])]
    assert_right(device, graph, feeds, reference, slices=slices, selection=tile)


@pytest.mark.parametrize("kernel", [2, 3, 5, 7, 9])
@pytest.mark.parametrize("columns", [4, 6, 7, 13])
@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (2, 1), (1, 2)])
def test_windows_at_the_sides(device: Device, kernel: int, columns: int, stride: int, dilation: int) -> None:
    """Runs whose windows reach less far past the image than taps are asked of, as far, and farther."""
    reach = (kernel - 1) * dilation
    image = (3, max(1, (columns - 1) * stride + 1 + reach % 2))
    pads = (1, reach // 2, 1, reach // 2)
    case = depthwise(
        9, image=image, kernel=(2, kernel), stride=(1, stride), dilation=(1, dilation), pads=pads
    )
    graph, feeds, reference = build(case)
    tile = Selection(implementation=ROW, parameters={"MR": 6, "NR": 4, "VECTOR": 4})
    assert reference.shape[3] == columns
    assert_right(device, graph, feeds, reference, slices=cut(reference.shape, 1, [4, 7]), selection=tile)


@pytest.mark.parametrize("epilogue", EPILOGUES.values(), ids=EPILOGUES)
def test_epilogues(device: Device, epilogue: Epilogue) -> None:
    graph, feeds, reference = build(depthwise(19, image=(4, 5), epilogue=epilogue))
    assert_right(device, graph, feeds, reference, slices=cut(reference.shape, 1, [3, 16, 18]))


def test_dense_storage_gives_the_bits_of_spaced_storage(device: Device) -> None:
    graph, feeds, _ = build(CASES["usual"])
    np.testing.assert_array_equal(
        run_node(device, graph, feeds, gap=0), run_node(device, graph, feeds, gap=3)
    )
