"""Amounts of work: bytes from beyond caches, values of cut panels, waves on a GPU."""

from dataclasses import replace

import numpy as np
import pytest

from codl.catalog.choose import choose
from codl.catalog.spec import LaunchBatch, Parameters
from codl.ir.boxes import Boxes, Region
from codl.ir.ops import Activation, ActivationKind, Epilogue, ResidualOrder
from codl.latency.amounts.crossing import count_crossing, find_crossing
from codl.latency.amounts.epilogues import PLAIN, Epilogues
from codl.latency.amounts.halos import list_halos
from codl.latency.amounts.tiles import list_tiles
from codl.latency.amounts.traffic import count_constants, imbalance, list_traffic, miss_share
from codl.latency.amounts.waves import split_waves
from codl.latency.amounts.work import count_work
from codl.machine import DeviceKind
from tests.catalog.nodes import NODES, device_info

INFO = device_info(8)
GPU = replace(INFO, kind=DeviceKind.GPU, work_group_multiple=32)


def describe(name: str, axis: int, begin: list[int], end: list[int]) -> tuple[LaunchBatch, Parameters]:
    node, graph = NODES[name].node, NODES[name].graph
    boxes = Boxes.whole(graph.shape(node.output), len(end)).with_axis(axis, np.array(begin), np.array(end))
    chosen = choose(node, graph, INFO)
    (batch,) = chosen.implementation.describe(node, graph, boxes, INFO, chosen.parameters)
    return batch, chosen.parameters


def groups_of(batch: LaunchBatch, groups: list[int]) -> LaunchBatch:
    """Return a launch with some numbers of work-groups, all else being equal."""
    return replace(batch, global_size=np.array([[count, 1, 1] for count in groups]))


def test_nothing_is_missed_while_all_fits_and_all_from_twice_the_cache_on() -> None:
    assert miss_share(np.array([100.0, 1000.0, 1500.0, 2000.0, 9000.0]), 1000).tolist() == [0, 0, 0.5, 1, 1]


def test_one_group_has_one_of_four_units_to_itself() -> None:
    assert imbalance(np.array([1.0, 4.0, 5.0, 8.0]), INFO).tolist() == [4, 1, 1.6, 1]


def test_bytes_read_are_inputs_constants_and_residual() -> None:
    batch, _ = describe("conv-large", 2, [0], [28])
    batch = groups_of(batch, [4])

    plain = list_traffic(batch, PLAIN, INFO)
    wider = replace(batch, read_bytes=batch.read_bytes + batch.written_bytes)
    added = list_traffic(wider, Epilogues.of(Epilogue(residual=ResidualOrder.BEFORE)), INFO)

    assert plain["inputs"] + plain["constants"] == plain["read"]
    assert added["inputs"] + added["constants"] + added["residual"] == added["read"]
    assert added["residual"] == added["outputs"] == added["written"]


@pytest.mark.parametrize("name", ["conv-large", "depthwise"])
def test_two_cores_share_the_rows_that_windows_reach_beyond_their_own(name: str) -> None:
    batch, _ = describe(name, 2, [0, 0, 0], [13, 1, 2])
    inputs = np.array([300.0, 60.0, 80.0])

    assert list_halos(batch, inputs, INFO)["halo_inputs"].tolist() == [40, 0, 40]
    assert not list_halos(batch, inputs, replace(INFO, units=1))
    assert not list_halos(batch, inputs, GPU)


def test_products_of_matrices_share_no_rows() -> None:
    batch, _ = describe("matrix-times-matrix", 1, [0], [50])

    assert not list_halos(batch, np.ones(1), INFO)


def test_only_cut_panels_leave_value_by_value() -> None:
    batch, parameters = describe("conv-large", 1, [0, 0, 1], [64, 63, 64])
    found = list_tiles(batch, count_work(batch, parameters, INFO), parameters, PLAIN)

    assert found["slow_stores"][:2].tolist() == [0, 0]
    assert found["slow_stores"][2] > 0
    assert (found["ended_stores"] > 0).tolist() == [False, True, False]


def test_cut_panels_keep_vectors_whole_or_in_part() -> None:
    """A panel has two vectors of 8 channels."""
    batch, parameters = describe("conv-large", 1, [0, 8, 9, 4, 20, 8], [64, 64, 56, 9, 21, 40])
    found = list_tiles(batch, count_work(batch, parameters, INFO), parameters, PLAIN)

    vectors = found["stores"] / np.array([8, 8, 8, 2, 2, 6])
    assert (found["kept_stores"] / vectors).tolist() == [0, 1, 1, 0, 0, 2]
    assert (found["part_stores"] / vectors).tolist() == [0, 0, 1, 2, 1, 0]


@pytest.mark.parametrize(
    "epilogue",
    [
        Epilogue(activation=Activation(kind=ActivationKind.HARD_SWISH)),
        Epilogue(residual=ResidualOrder.AFTER),
    ],
    ids=["activation", "residual"],
)
def test_rare_epilogues_leave_value_by_value(epilogue: Epilogue) -> None:
    batch, parameters = describe("conv-large", 1, [0], [64])

    found = list_tiles(batch, count_work(batch, parameters, INFO), parameters, Epilogues.of(epilogue))

    assert found["slow_stores"] == found["stores"]


def test_groups_of_a_wave_cost_less_than_one_after_the_other() -> None:
    batch, _ = describe("conv-large", 1, [0], [64])
    groups = [1, 4, 64, 4 * 32, 4 * 32 + 4, 4 * 64]
    steps = np.array([-(-count // GPU.units) for count in groups]) * 10.0

    found = split_waves(groups_of(batch, groups), {"steps": steps, "launches": np.ones(6)}, GPU)

    assert set(found) == {"steps@1", "steps@4", "steps@8", "steps@16", "steps@32"}
    assert found["steps@1"].tolist() == [10, 10, 10, 10, 20, 20]
    whole_wave = np.sum(list(found.values()), axis=0)
    assert whole_wave[3] == 32 * 10
    assert whole_wave[5] == 64 * 10
    assert (np.diff(whole_wave) >= 0).all()


def test_cpus_have_no_waves() -> None:
    batch, _ = describe("conv-large", 1, [0], [64])

    assert split_waves(batch, {"steps": np.ones(1)}, INFO) == {}


def test_cut_between_channels_takes_a_piece_of_each_line() -> None:
    shape = (1, 64, 10, 20)
    whole = Region.whole(shape)
    boxes = Boxes.of([whole, whole.cut(2, 0, 5), whole.cut(1, 0, 16)])

    found = count_crossing([(boxes, shape)])

    assert found.pieces.tolist() == [0, 0, 200]
    assert found.piece_lines.tolist() == [0, 0, 200]
    assert found.span_bytes.tolist() == [4 * 64 * 200, 4 * 64 * 100, 4 * 64 * 200]


def test_first_lines_of_long_pieces_are_waited_for() -> None:
    shape = (1, 256, 10, 20)
    whole = Region.whole(shape)

    found = count_crossing([(Boxes.of([whole.cut(1, 0, end) for end in (17, 48, 200)]), shape)])

    assert (found.piece_lines / found.pieces).tolist() == [2, 3, 4]


def test_lines_behind_a_piece_are_fetched_in_vain_where_there_are_any() -> None:
    shape = (1, 256, 10, 20)
    whole = Region.whole(shape)

    found = count_crossing([(Boxes.of([whole.cut(1, 0, end) for end in (16, 48, 128, 208, 256)]), shape)])

    assert found.unused_piece_lines.tolist() == [2 * 200, 6 * 200, 8 * 200, 3 * 200, 0]


def test_cut_inputs_are_crossed_too() -> None:
    conv = NODES["depthwise"]
    whole = Region.whole(conv.graph.shape(conv.node.output))

    found = find_crossing(conv.node, conv.graph, Boxes.of([whole.cut(1, 0, 1)]))

    own = count_crossing([(Boxes.of([whole.cut(1, 0, 1)]), whole.end)])
    assert found.pieces[0] > own.pieces[0] > 0


def test_operators_side_by_side_keep_their_own_epilogues() -> None:
    batch, parameters = describe("conv-large", 1, [0, 1, 0], [64, 64, 63])
    each = [
        Epilogue(activation=Activation(kind=ActivationKind.TANH)),
        Epilogue(residual=ResidualOrder.BEFORE),
    ]
    counts, parts = (2, 1), (slice(0, 2), slice(2, 3))
    together = {
        **list_traffic(batch, Epilogues.join(each, counts), INFO),
        **list_tiles(batch, count_work(batch, parameters, INFO), parameters, Epilogues.join(each, counts)),
    }

    for epilogue, part in zip(each, parts, strict=True):
        alone = {
            **list_traffic(batch, Epilogues.of(epilogue), INFO),
            **list_tiles(batch, count_work(batch, parameters, INFO), parameters, Epilogues.of(epilogue)),
        }
        for name, amounts in together.items():
            expected = alone[name][part] if name in alone else np.zeros(part.stop - part.start)
            assert np.array_equal(amounts[part], expected), name


def test_activations_have_vectors_of_their_own() -> None:
    each = [Epilogue(activation=Activation(kind=kind)) for kind in (ActivationKind.RELU, ActivationKind.TANH)]

    found = Epilogues.join(each, (1, 2)).split_kinds()

    assert {kind: np.asarray(is_kind).tolist() for kind, is_kind in found.items()} == {
        ActivationKind.RELU: [True, False, False],
        ActivationKind.TANH: [False, True, True],
    }
    assert Epilogues.join(each[:1] * 2, (1, 2)) == Epilogues.of(each[0])


def test_the_slower_of_memory_and_products_sets_the_pace() -> None:
    batch, parameters = describe("conv-large", 2, [0, 0, 0], [1, 7, 28])

    found = list_tiles(batch, count_work(batch, parameters, INFO), parameters, PLAIN)

    constants, products = count_constants(batch), found["products"]
    for name, rate in (("paced_2B", 2), ("paced_4B", 4), ("paced_8B", 8)):
        np.testing.assert_array_equal(found[name], np.maximum(constants, rate * products))
    assert (np.diff(found["paced_8B"]) >= 0).all()
    assert found["paced_2B"][0] == constants[0] > 2 * products[0]
