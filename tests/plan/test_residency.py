from dataclasses import replace

from codl.ir.regions import Region
from codl.plan.residency import HOST, Residency, find_published
from codl.plan.shares import share_step
from codl.plan.steps import Chain, Cut
from tests.graphs import residual_block

GRAPH = residual_block()
DEVICES = ("left", "right")


def rows(begin: int, end: int, *, channels: int = 8, width: int = 12) -> Region:
    return Region((0, 0, begin, 0), (1, channels, end, width))


def chain(bounds: tuple[int, int, int]) -> Chain:
    cut = Cut(tensor="y", axis=2, bounds=bounds)
    return Chain(nodes=("conv_a", "conv_b", "conv_c", "pool"), axis=2, cuts=(cut,))


def test_inner_tensors_grow_by_the_halo_towards_the_head() -> None:
    left, right = share_step(chain((0, 3, 6)), GRAPH, DEVICES)
    assert left.computes == {
        "pool": rows(0, 3, width=6),
        "conv_c": rows(0, 6),
        "conv_b": rows(0, 7),
        "conv_a": rows(0, 8),
    }
    assert right.computes["conv_a"] == rows(4, 12)
    assert left.reads == {"x": rows(0, 9)}
    assert left.publishes == {"y": rows(0, 3, width=6)}


def test_device_with_an_empty_share_does_nothing() -> None:
    left, right = share_step(chain((0, 0, 6)), GRAPH, DEVICES)
    assert not left.computes
    assert not left.reads
    assert not left.publishes
    assert right.computes["pool"] == rows(0, 6, width=6)


def test_published_tensors_are_those_read_outside() -> None:
    assert find_published(("conv_a",), GRAPH) == ("a",)
    assert find_published(("conv_a", "conv_b"), GRAPH) == ("a", "b")
    assert find_published(("conv_a", "conv_b", "conv_c"), GRAPH) == ("c",)
    assert find_published(("pool",), GRAPH) == ("y",)


def test_published_tensors_are_found_without_a_search_of_all_outputs() -> None:
    class Outputs(tuple[str, ...]):
        __slots__ = ()

        def __contains__(self, name: object) -> bool:
            raise AssertionError(f"searched for {name!r}")

    graph = replace(GRAPH, outputs=Outputs(GRAPH.outputs))
    assert find_published(("pool",), graph) == ("y",)


def test_graph_input_comes_from_the_host_once() -> None:
    residency = Residency(GRAPH)
    first = residency.request("x", rows(0, 9), 0)
    second = residency.request("x", rows(2, 10), 0)
    assert [(t.source, t.region) for t in first] == [(HOST, rows(0, 9))]
    assert [(t.source, t.region) for t in second] == [(HOST, rows(9, 10))]


def test_only_what_is_missing_is_sent_and_its_owner_sends_it() -> None:
    residency = Residency(GRAPH)
    residency.publish("a", rows(0, 6), 0)
    residency.publish("a", rows(6, 12), 1)
    transfers = residency.request("a", rows(0, 8), 0)
    assert [(t.source, t.destination, t.region) for t in transfers] == [(1, 0, rows(6, 8))]
    assert residency.request("a", rows(0, 8), 0) == ()
