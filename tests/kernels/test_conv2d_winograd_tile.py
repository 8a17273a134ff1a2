"""Minimal filtering by work-groups on every device: shapes, parts of sums, epilogues, cuts, walks."""

from dataclasses import replace

import numpy as np
import pytest

from codl.catalog.choose import choose
from codl.catalog.groups import choose_assembly
from codl.catalog.rows import conv2d_tile
from codl.catalog.rows import conv2d_winograd_tile as row_module
from codl.catalog.rows.conv2d_winograd_tile import IMPLEMENTATIONS, PARTS, SHAPES, TILES
from codl.catalog.spec import Selection
from codl.devices.opencl import Device, open_devices
from codl.devices.walker import WALK_VARIABLE
from codl.executor.compile import compile_plan
from codl.ir.graph import FloatArray, Shape
from codl.ir.ops import Conv2d, Epilogue
from codl.ir.regions import Boxes
from codl.plan.single import plan_single
from tests.exactness import DEVICES, cut_every_node
from tests.kernels.convolutions import Case, build
from tests.kernels.groups import as_gpu
from tests.kernels.harness import EPILOGUES, assert_right, cut, one_node_graph, run_node
from tests.kernels.test_conv2d_winograd import CASES, cuts_of, winograd
from tests.oracle import OPERATOR_TOLERANCE, relative_error

(ROW,) = IMPLEMENTATIONS
EACH_TILE = pytest.mark.parametrize("tile", TILES)
EACH_SHAPE = pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "x".join(map(str, shape)))
WINDOWS = {name: case for name, case in CASES.items() if case.kernel == (3, 3)}
MANY = winograd(image=(20, 25), inputs=36, outputs=140)
"""More tiles and channels than a tile of products holds, inputs that are no whole step."""


def select(device: Device, tile: int = 4, shape: tuple[int, int] = SHAPES[0], parts: int = 1) -> Selection:
    """Return the row with these parameters."""
    parameters = {
        "TILE": tile,
        "BM": shape[0],
        "BN": shape[1],
        "parts": parts,
        **choose_assembly(device.info),
    }
    return Selection(implementation=ROW, parameters=parameters)


@EACH_TILE
@pytest.mark.parametrize("case", WINDOWS.values(), ids=WINDOWS)
def test_agrees_with_onnx_runtime_and_cuts_keep_bits(device: Device, case: Case, tile: int) -> None:
    graph, feeds, reference = build(case)
    slices = cuts_of(reference.shape)
    assert_right(device, graph, feeds, reference, slices=slices, selection=select(device, tile))


@EACH_TILE
@EACH_SHAPE
@pytest.mark.parametrize("gap", [0, 3], ids=["dense", "spaced"])
def test_shapes_and_parts(device: Device, tile: int, shape: tuple[int, int], gap: int) -> None:
    graph, feeds, reference = build(replace(MANY, batch=2, epilogue=EPILOGUES["relu-before"]))
    slices = [*cut(reference.shape, 1, [20, 131]), *cut(reference.shape, 2, [6])]
    chosen = select(device, tile, shape, 3)
    assert_right(device, graph, feeds, reference, slices=slices, gap=gap, selection=chosen)


def test_bits_depend_on_parts_alone(device: Device) -> None:
    graph, feeds, _ = build(MANY)
    first, *others = (
        run_node(device, graph, feeds, selection=select(device, 4, shape, 2)).view(np.uint32)
        for shape in SHAPES
    )
    for other in others:
        np.testing.assert_array_equal(first, other)


@EACH_TILE
@pytest.mark.parametrize("batch", [8, 33])
def test_tiles_of_products_hold_many_images(device: Device, tile: int, batch: int) -> None:
    graph, feeds, reference = build(winograd(image=(6, 9), inputs=20, outputs=12, batch=batch))
    slices = [*cut(reference.shape, 0, [5]), *cut(reference.shape, 1, [3]), *cut(reference.shape, 2, [5])]
    assert_right(device, graph, feeds, reference, slices=slices, selection=select(device, tile))


@EACH_TILE
@pytest.mark.parametrize("images", [1, 3, 4])
def test_batches_are_computed_in_slabs(
    device: Device, tile: int, images: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = winograd(image=(6, 9), inputs=20, outputs=12, batch=8)
    graph, feeds, reference = build(replace(case, epilogue=EPILOGUES["relu-before"]))
    chosen = select(device, tile)
    whole = run_node(device, graph, feeds, selection=chosen)
    every = sum(row_module._count_floats(graph.nodes[0], graph, chosen.parameters))
    monkeypatch.setattr(row_module, "_MOST_SCRATCH", every * images // 8)
    batches = ROW.describe(
        graph.nodes[0], graph, Boxes.whole(reference.shape, 1), device.info, chosen.parameters
    )
    assert len(batches) == 3 * -(-8 // images)
    assert all(one.scratch is not None and int(one.scratch[0]) <= every * images // 8 for one in batches)
    slices = [*cut(reference.shape, 0, [3]), *cut(reference.shape, 0, [4]), *cut(reference.shape, 2, [5])]
    assert_right(device, graph, feeds, reference, slices=slices, selection=chosen)
    value = run_node(device, graph, feeds, selection=chosen)
    np.testing.assert_array_equal(value.view(np.uint32), whole.view(np.uint32))
    monkeypatch.setattr(row_module, "_MOST_SCRATCH", every // 8 - 1)
    assert row_module._fits(graph.nodes[0], graph, device.info, chosen.parameters) is False


@pytest.mark.heavy
@pytest.mark.parametrize("groups", ["0", "1"])
def test_slabs_are_walked(device: Device, groups: str, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = as_gpu(device)
    graph, feeds, reference = build(winograd(image=(12, 12), inputs=32, outputs=32, batch=5))
    monkeypatch.setattr(conv2d_tile, "estimate_best_us", lambda node, graph, info: 1e9)
    monkeypatch.setattr(row_module, "_MOST_SCRATCH", 1 << 16)
    assert choose(graph.nodes[0], graph, gpu.info).implementation is ROW
    monkeypatch.setenv(WALK_VARIABLE, groups)
    executable = compile_plan(graph, plan_single(graph, device=gpu.info.name), [gpu])
    assert executable.launch_count == 1 if groups == "1" else executable.launch_count > 3
    for _ in range(2):
        assert relative_error(executable.run(feeds)["y"], reference) <= OPERATOR_TOLERANCE


def test_large_batches_take_no_more_scratch_memory(device: Device) -> None:
    gpu = as_gpu(device)
    for batch in (1, 8, 32, 512):
        op = Conv2d(
            kernel=(3, 3),
            stride=(1, 1),
            dilation=(1, 1),
            pads=(1, 1, 1, 1),
            groups=1,
            has_bias=False,
            tile=(4, 4),
        )
        inputs: dict[str, Shape | FloatArray] = {
            "x": (batch, 64, 56, 56),
            "w": np.zeros((64, 64, 3, 3), np.float32),
        }
        graph = one_node_graph(op, inputs, (batch, 64, 56, 56), constants=["w"])
        (node,) = graph.nodes
        parameters = ROW.accepts(node, graph, gpu.info)
        assert parameters is not None
        whole = Boxes.whole(graph.shape("y"), 1)
        batches = ROW.describe(node, graph, whole, gpu.info, parameters)
        assert all(int(one.scratch[0]) <= 1 << 26 for one in batches if one.scratch is not None)


@EACH_TILE
@pytest.mark.parametrize("epilogue", EPILOGUES.values(), ids=EPILOGUES)
def test_epilogues(device: Device, epilogue: Epilogue, tile: int) -> None:
    graph, feeds, reference = build(winograd(image=(5, 7), epilogue=epilogue))
    slices = [*cut(reference.shape, 1, [3]), *cut(reference.shape, 2, [1]), *cut(reference.shape, 3, [5])]
    assert_right(device, graph, feeds, reference, slices=slices, selection=select(device, tile))


@EACH_TILE
@pytest.mark.parametrize("parts", [1, 8])
def test_many_channels_stay_accurate(device: Device, tile: int, parts: int) -> None:
    graph, feeds, reference = build(winograd(image=(8, 8), inputs=512, outputs=8))
    value = run_node(device, graph, feeds, selection=select(device, tile, parts=parts))
    assert relative_error(value, reference) <= OPERATOR_TOLERANCE


@pytest.mark.parametrize("groups", ["1", pytest.param("2", marks=pytest.mark.heavy)])
def test_walks_have_the_bits_of_launches(
    device: Device, groups: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = as_gpu(device)
    graph, feeds, reference = build(winograd(image=(28, 28), inputs=64, outputs=64))
    monkeypatch.setattr(conv2d_tile, "estimate_best_us", lambda node, graph, info: 1e9)
    assert choose(graph.nodes[0], graph, gpu.info).implementation is ROW
    plan, values = plan_single(graph, device=gpu.info.name), []
    for wanted in ("0", groups):
        monkeypatch.setenv(WALK_VARIABLE, wanted)
        executable = compile_plan(graph, plan, [gpu])
        if wanted == groups == "2" and executable.launch_count != 1:
            pytest.skip("a device whose groups do not run together")
        assert executable.launch_count == (3 if wanted == "0" else 1)
        values.append(executable.run(feeds)["y"])
    np.testing.assert_array_equal(values[0].view(np.uint32), values[1].view(np.uint32))
    assert relative_error(values[1], reference) <= OPERATOR_TOLERANCE


@pytest.mark.parametrize("axis", [1, 2])
def test_a_cut_over_a_pair_is_exact(axis: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WALK_VARIABLE, "1")
    monkeypatch.setattr(conv2d_tile, "estimate_best_us", lambda node, graph, info: 1e9)
    graph, feeds, reference = build(winograd(image=(20, 25), inputs=20, outputs=24))
    first, *others = open_devices(DEVICES)
    devices = [as_gpu(first), *others]
    assert choose(graph.nodes[0], graph, devices[0].info).implementation is ROW
    executable = compile_plan(graph, cut_every_node(graph, DEVICES, axis, 7), devices)
    assert relative_error(executable.run(feeds)["y"], reference) <= OPERATOR_TOLERANCE


def test_is_chosen_where_it_saves_time(device: Device) -> None:
    info = replace(as_gpu(device).info, units=132)
    many, _, _ = build(winograd(image=(56, 56), inputs=256, outputs=64))
    few, _, _ = build(winograd(image=(16, 16), inputs=16, outputs=16))
    rows = [choose(graph.nodes[0], graph, info).implementation for graph in (many, few)]
    assert rows == [ROW, *conv2d_tile.IMPLEMENTATIONS]
    parameters = choose(many.nodes[0], many, info).parameters
    assert parameters["parts"] in PARTS
    assert ROW.accepts(many.nodes[0], many, replace(info, local_memory_bytes=1 << 15)) is None
