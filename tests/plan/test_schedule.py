from codl.ir.regions import Region
from codl.partitioner.even import plan_even, plan_single
from codl.plan.schedule import Copy, Launch, Meet, Publish, make_schedule
from tests.graphs import residual_block

GRAPH = residual_block()
DEVICES = ("left", "right")


def kinds(*, length: int, is_copied: bool) -> list[str]:
    plan = plan_even(GRAPH, devices=DEVICES, max_chain_length=length)
    return [type(action).__name__ for action in make_schedule(GRAPH, plan, is_copied=is_copied).actions]


def test_single_device_meets_once_at_the_end() -> None:
    schedule = make_schedule(GRAPH, plan_single(GRAPH, device="left"), is_copied=False)
    assert [type(action) for action in schedule.actions] == [Launch] * 4 + [Meet]


def test_one_chain_meets_once_at_the_end() -> None:
    assert kinds(length=4, is_copied=False) == ["Launch"] * 8 + ["Meet"]


def test_halo_of_a_new_chain_needs_a_meeting() -> None:
    assert kinds(length=2, is_copied=False).count("Meet") == 2


def test_copied_memory_moves_inputs_halos_and_outputs() -> None:
    """The residual `a` is no halo: each device has the rows that it adds."""
    plan = plan_even(GRAPH, devices=DEVICES, max_chain_length=2)
    schedule = make_schedule(GRAPH, plan, is_copied=True)
    copies = [action.transfer for action in schedule.actions if isinstance(action, Copy)]
    assert {(c.tensor, c.source, c.destination) for c in copies} == {
        ("x", -1, 0),
        ("x", -1, 1),
        ("b", 0, 1),
        ("b", 1, 0),
        ("y", 0, -1),
        ("y", 1, -1),
    }


def test_own_part_is_published_when_more_is_computed() -> None:
    plan = plan_even(GRAPH, devices=DEVICES, max_chain_length=2)
    schedule = make_schedule(GRAPH, plan, is_copied=False)
    published = [action for action in schedule.actions if isinstance(action, Publish)]
    assert {(action.tensor, action.device) for action in published} == {("a", 0), ("a", 1)}
    assert published[0].region == Region((0, 0, 0, 0), (1, 8, 6, 12))
