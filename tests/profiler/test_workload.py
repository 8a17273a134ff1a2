"""The workload: the same at every start, slices inside their layers, both sides of a step."""

from dataclasses import replace
from itertools import islice, pairwise

import numpy as np
import pytest

from codl.ir.boxes import Boxes, Region
from codl.latency.epilogues import Epilogues
from codl.latency.features import extract_features
from codl.profiler.case import Case
from codl.profiler.workload import (
    RowWork,
    iterate_row,
    load_pairs,
    load_workload,
    merge,
    share_out,
)
from tests.catalog.nodes import device_info

INFO = device_info(8)
WORKS = share_out(load_workload(), INFO)


def draw(count: int) -> list[Case]:
    return list(islice(merge(WORKS, {work.row.name: iterate_row(work, INFO) for work in WORKS}), count))


def test_second_start_wants_the_same_cases() -> None:
    assert [case.key for case in draw(300)] == [case.key for case in draw(300)]


def test_no_case_is_wanted_twice() -> None:
    keys = [case.key for case in draw(600)]

    assert len(set(keys)) == len(keys)


def test_weights_are_shares() -> None:
    assert sum(work.weight for work in WORKS) == pytest.approx(1.0)
    assert all(work.weight > 0.005 for work in WORKS)


def test_kernels_that_some_network_spends_its_time_on_weigh_more() -> None:
    weights = {work.row.name: work.weight for work in WORKS}

    assert weights["depthwise_conv2d_rows__buffer"] > 1.5 * weights["layout_pad__buffer"]
    assert weights["conv2d_pointwise__buffer"] > 4 * weights["layout_pad__buffer"]


def test_most_cuts_between_channels_lie_where_planners_cut() -> None:
    ends = [
        (case.region.begin[1], case.region.end[1], case.layer.output[1])
        for case in draw(1500)
        if len(case.layer.output) == 4 and case.region.end[1] - case.region.begin[1] < case.layer.output[1]
    ]

    aligned = [begin % 16 == 0 and (end % 16 == 0 or end == length) for begin, end, length in ends]
    assert len(aligned) > 100
    assert np.mean(aligned) > 0.6


def test_every_kernel_comes_early() -> None:
    first = {case.selection.implementation.name for case in draw(400)}

    assert first == {work.row.name for work in WORKS}


@pytest.mark.parametrize("work", WORKS, ids=[work.row.name for work in WORKS])
def test_first_cases_want_few_programs(work: RowWork) -> None:
    first = list(islice(iterate_row(work, INFO), 6))

    assert len({str(case.selection) for case in first}) <= 2


def test_regions_lie_inside_their_layers() -> None:
    for case in draw(600):
        whole = Region.whole(case.layer.output)
        assert not case.region.is_empty
        assert whole.contains(case.region)


@pytest.mark.parametrize("work", WORKS, ids=[work.row.name for work in WORKS])
def test_cases_are_whole_layers_and_slices(work: RowWork) -> None:
    cases = list(islice(iterate_row(work, INFO), 60))
    wholes = [case.region == Region.whole(case.layer.output) for case in cases]

    assert any(wholes)
    assert not all(wholes)


def test_steps_come_in_pairs_with_different_unit_counts() -> None:
    work = next(work for work in WORKS if work.row.name == "conv2d_gemm__buffer")
    cases = list(islice(iterate_row(work, INFO), 200))
    pairs = [
        (one, other)
        for one, other in pairwise(cases)
        if one.layer == other.layer and _is_one_longer(one.region, other.region)
    ]

    assert len(pairs) >= 10
    for one, other in pairs:
        assert _count_units(one) != _count_units(other)


def _is_one_longer(one: Region, other: Region) -> bool:
    same = [a == b for a, b in zip(one.end, other.end, strict=True)]
    return one.begin == other.begin and same.count(False) == 1 and sum(other.end) == sum(one.end) + 1


def _count_units(case: Case) -> list[int]:
    batches = case.selection.implementation.describe(
        case.node, case.graph, Boxes.of([case.region]), INFO, case.selection.parameters
    )
    return [int(units[0]) for batch in batches for units in batch.units.values()]


def test_layers_that_networks_spend_most_on_come_first() -> None:
    layers = load_workload()
    info = device_info(16)

    (work,) = [work for work in share_out(layers, info) if work.row.name == "conv2d_pointwise__buffer"]

    used = [bool(layer.uses) for layer in work.layers]
    assert used == sorted(used, reverse=True)
    wholes = [case.layer for case in islice(iterate_row(work, info), 60)]
    assert len({layer.key for layer in work.layers[:10]} & {layer.key for layer in wholes}) >= 8


def test_features_of_all_that_is_measured_are_known() -> None:
    """Launches of several nodes have arguments of other kernels, but not all that those have."""
    for units in (1, 4):
        info = replace(device_info(16), units=units)
        for work in share_out((*load_workload(), *load_pairs()), info):
            for case in islice(iterate_row(work, info), 6):
                parameters, graph = case.selection.parameters, case.graph
                boxes = Boxes.of([case.region])
                batches = work.row.describe(graph.nodes[-1], graph, boxes, info, parameters)
                epilogues = Epilogues.of(case.layer.epilogue)
                found = extract_features(batches, parameters, info, epilogues=epilogues)
                assert np.isfinite(found.values).all()
                assert (found.values >= 0).all()
