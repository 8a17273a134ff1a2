"""Constants are measured near and far, and only far where nothing else can be."""

from dataclasses import replace

import pytest

from codl.catalog.choose import choose
from codl.catalog.layers import Layer
from codl.ir.ops import Conv2d, Pool2d, PoolKind
from codl.ir.regions import Region
from codl.profiler.case import Case
from codl.profiler.sampler import count_walk
from tests.catalog.nodes import device_info

INFO = device_info(16)


def make_case(channels: int, *, end: int | None = None) -> Case:
    layer = Layer(
        op=Conv2d(kernel=(1, 1)),
        inputs=((1, channels, 14, 14), (channels, channels, 1, 1)),
        constants=(1,),
        output=(1, channels, 14, 14),
    )
    graph = layer.make_graph()
    region = Region.whole(layer.output).cut(1, 0, end or channels)
    return Case(layer=layer, selection=choose(graph.nodes[-1], graph, INFO), region=region)


POOL = Layer(
    op=Pool2d(kind=PoolKind.MAX, kernel=(2, 2), stride=(2, 2)), inputs=((1, 8, 8, 8),), output=(1, 8, 4, 4)
)


def test_every_other_case_is_far_and_always_the_same_ones() -> None:
    cases = [make_case(64, end=end) for end in range(1, 65)]
    placed = [case.place_constants(INFO, 1 << 24) for case in cases]
    far = [case.are_constants_far for case in placed]
    assert 16 <= sum(far) <= 48
    assert placed == [case.place_constants(INFO, 1 << 24) for case in cases]
    assert len({case.key for case in (*cases, *placed)}) == len(cases) + sum(far)


@pytest.mark.parametrize("end", [256, 500, 512])
def test_more_than_a_cache_has_room_for_is_far(end: int) -> None:
    case = make_case(512, end=end)
    assert case.place_constants(INFO, 1 << 20).are_constants_far
    assert not case.place_constants(INFO, 0).are_constants_far


def test_what_has_no_packed_constants_is_never_far() -> None:
    graph = POOL.make_graph()
    case = Case(layer=POOL, selection=choose(graph.nodes[-1], graph, INFO), region=Region.whole(POOL.output))
    assert case.count_constant_bytes(INFO) == 0
    assert not case.place_constants(INFO, 1).are_constants_far


def test_slices_count_as_what_they_read() -> None:
    whole, half = make_case(1536), make_case(1536, end=768)
    assert whole.count_constant_bytes(INFO) == pytest.approx(2 * half.count_constant_bytes(INFO), rel=0.1)


def test_far_constants_are_walked_through_the_further_the_more_they_are() -> None:
    sizes = (64, 512, 1536)
    far = [replace(make_case(channels), are_constants_far=True) for channels in sizes]

    few, more, most = (count_walk(case.count_memory_bytes(INFO)) for case in far)

    assert few == count_walk(make_case(1536).count_memory_bytes(INFO)) == 0 < more < most
