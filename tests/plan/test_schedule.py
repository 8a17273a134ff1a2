from dataclasses import replace

from codl.ir.regions import Region
from codl.partitioner.even import plan_even
from codl.plan.residency import HOST
from codl.plan.schedule import Call, Copy, Launch, Map, Meet, Publish, Unmap, make_schedule
from codl.plan.sharing import Arrangement, Sharing
from codl.plan.single import plan_single
from codl.plan.steps import Chain, Cut, Host, Plan, Run
from tests.arrangements import arrange_alike
from tests.graphs import host_between, residual_block

GRAPH = residual_block()
DEVICES = ("left", "right")
COHERENT, MAPPED, COPIED = (arrange_alike(sharing, 2) for sharing in Sharing)
BESIDE_DISCRETE = Arrangement(modes=(Sharing.COHERENT, Sharing.COPIED))
"""A CPU driver beside a device with memory of its own."""


def kinds(*, length: int, arrangement: Arrangement) -> list[str]:
    plan = plan_even(GRAPH, devices=DEVICES, max_chain_length=length)
    return [type(action).__name__ for action in make_schedule(GRAPH, plan, arrangement).actions]


def test_single_device_meets_once_at_the_end() -> None:
    schedule = make_schedule(GRAPH, plan_single(GRAPH, device="left"), COHERENT)
    assert [type(action) for action in schedule.actions] == [Launch] * 4 + [Meet]


def test_one_chain_meets_once_at_the_end() -> None:
    assert kinds(length=4, arrangement=COHERENT) == ["Launch"] * 8 + ["Meet"]


def test_halo_of_a_new_chain_needs_a_meeting() -> None:
    assert kinds(length=2, arrangement=COHERENT).count("Meet") == 2


def test_coherent_caches_hand_over_inputs_and_halos_and_nothing_else() -> None:
    plan = plan_even(GRAPH, devices=DEVICES, max_chain_length=2)

    coherent, copied = (make_schedule(GRAPH, plan, how).fetches for how in (COHERENT, COPIED))

    assert [{(one.tensor, one.source, one.destination) for one in step} for step in coherent] == [
        {("x", HOST, 0), ("x", HOST, 1)},
        {("b", 0, 1), ("b", 1, 0)},
    ]
    assert copied == ((), ())


def test_copied_memory_moves_inputs_halos_and_outputs() -> None:
    """The residual `a` is no halo: each device has the rows that it adds."""
    plan = plan_even(GRAPH, devices=DEVICES, max_chain_length=2)
    schedule = make_schedule(GRAPH, plan, COPIED)
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
    schedule = make_schedule(GRAPH, plan, COHERENT)
    published = [action for action in schedule.actions if isinstance(action, Publish)]
    assert {(action.tensor, action.device) for action in published} == {("a", 0), ("a", 1)}
    assert published[0].region == Region((0, 0, 0, 0), (1, 8, 6, 12))


def test_mapped_halo_is_held_by_its_reader_first_and_its_writer_then() -> None:
    plan = plan_even(GRAPH, devices=DEVICES, max_chain_length=2)
    actions = make_schedule(GRAPH, plan, MAPPED).actions
    held = [action for action in actions if isinstance(action, Map)]
    assert [(m.tensor, m.device, m.is_written) for m in held[:4]] == [
        ("b", 0, True),
        ("b", 1, False),
        ("b", 1, True),
        ("b", 0, False),
    ]
    assert held[0].region == held[1].region
    start = actions.index(held[0])
    assert actions[start : start + 4] == (*held[:2], Unmap(held=held[0]), Unmap(held=held[1]))
    assert actions[start - 1] == Meet(devices=(0, 1))


def test_mapped_devices_are_handed_the_inputs_and_hand_over_the_outputs() -> None:
    schedule = make_schedule(GRAPH, plan_even(GRAPH, devices=DEVICES, max_chain_length=4), MAPPED)
    assert [(m.tensor, m.device, m.is_written) for m in schedule.opening] == [("x", 0, True), ("x", 1, True)]
    assert schedule.actions[:2] == tuple(Unmap(held=held) for held in schedule.opening)
    last = [action for action in schedule.actions[-2:] if isinstance(action, Map)]
    assert [(m.tensor, m.device, m.is_written) for m in last] == [("y", 0, False), ("y", 1, False)]
    assert schedule.closing == tuple(Unmap(held=held) for held in last)


def test_mapped_input_read_by_two_steps_is_held_once() -> None:
    schedule = make_schedule(GRAPH, plan_even(GRAPH, devices=DEVICES, max_chain_length=1), MAPPED)
    assert [held.tensor for held in schedule.opening] == ["x", "x"]


def test_map_waits_for_work_that_its_device_has_left() -> None:
    """A device that reads another's region is idle when its own buffer is mapped."""
    cut = Cut(tensor="a", axis=2, bounds=(0, 6, 12))
    halves = Chain(nodes=("conv_a",), axis=2, cuts=(cut,))
    rest = (Run(node=name, device="left") for name in ("conv_b", "conv_c", "pool"))
    schedule = make_schedule(GRAPH, Plan(devices=DEVICES, steps=(halves, *rest)), MAPPED)
    busy: set[int] = set()
    for action in schedule.actions:
        match action:
            case Launch(device=device) | Publish(device=device):
                busy.add(device)
            case Meet(devices=devices):
                busy -= set(devices)
            case Map(device=device):
                assert device not in busy


def test_copies_cross_only_between_memories() -> None:
    plan = plan_even(GRAPH, devices=DEVICES, max_chain_length=2)
    actions = make_schedule(GRAPH, plan, BESIDE_DISCRETE).actions
    copies = [action.transfer for action in actions if isinstance(action, Copy)]
    assert {(c.tensor, c.source, c.destination) for c in copies} == {
        ("x", -1, 1),
        ("b", 0, 1),
        ("b", 1, 0),
        ("y", 1, -1),
    }
    assert {action.device for action in actions if isinstance(action, Publish)} == {0}


def test_what_one_sharer_was_sent_all_of_them_have() -> None:
    """Two coherent devices read the same halo of a discrete one: it is copied once."""
    names = ("left", "right", "far")
    arrangement = Arrangement(modes=(Sharing.COHERENT, Sharing.COHERENT, Sharing.COPIED))
    far = tuple(Run(node=name, device="far") for name in ("conv_a", "conv_b"))
    near = (Run(node="conv_c", device="left"), Run(node="pool", device="right"))
    graph = replace(GRAPH, outputs=("a", "y"))
    actions = make_schedule(graph, Plan(devices=names, steps=(*far, *near)), arrangement).actions
    copies = [action.transfer for action in actions if isinstance(action, Copy)]
    assert [(c.tensor, c.source, c.destination) for c in copies] == [("x", -1, 2), ("b", 2, 0), ("a", 2, 0)]


def test_mapped_device_is_held_while_a_copy_fills_or_empties_its_memory() -> None:
    arrangement = Arrangement(modes=(Sharing.MAPPED, Sharing.COPIED))
    runs = (("conv_a", "left"), ("conv_b", "right"), ("conv_c", "left"), ("pool", "left"))
    plan = Plan(devices=DEVICES, steps=tuple(Run(node=node, device=device) for node, device in runs))
    actions = make_schedule(GRAPH, plan, arrangement).actions
    for index, action in enumerate(actions):
        if isinstance(action, Copy):
            before, after = actions[index - 1], actions[index + 1]
            assert isinstance(before, Map)
            assert after == Unmap(held=before)
            assert before.is_written == (action.transfer.destination == 0)
    assert sum(isinstance(action, Copy) for action in actions) == 2


def test_host_waits_for_the_devices_that_it_reads_from() -> None:
    graph = host_between()
    actions = make_schedule(graph, plan_even(graph, devices=DEVICES), COHERENT).actions

    assert [type(action) for action in actions] == [Launch, Launch, Meet, Call, Launch, Launch, Meet]
    assert actions[3] == Call(step=1, reads=("a",), writes=("t",))


def test_host_tensors_cross_copied_memory() -> None:
    graph = host_between()
    actions = make_schedule(graph, plan_even(graph, devices=DEVICES), COPIED).actions
    copies = [action.transfer for action in actions if isinstance(action, Copy)]

    assert {(c.tensor, c.source, c.destination) for c in copies} == {
        ("x", -1, 0),
        ("x", -1, 1),
        ("a", 0, -1),
        ("a", 1, -1),
        ("t", -1, 0),
        ("t", -1, 1),
        ("y", 0, -1),
        ("y", 1, -1),
    }


def test_mapped_memory_is_held_while_the_host_reads_it() -> None:
    graph = host_between()
    schedule = make_schedule(
        replace(graph, outputs=("a", "y", "i")), plan_even(graph, devices=DEVICES), MAPPED
    )
    kinds = [type(action) for action in schedule.actions]
    call = kinds.index(Call)
    held = [action for action in schedule.actions[:call] if isinstance(action, Map)]

    assert [(m.tensor, m.device, m.is_written) for m in held] == [("a", 0, False), ("a", 1, False)]
    assert schedule.actions[call + 1 : call + 3] == tuple(Unmap(held=each) for each in held)
    assert {release.held.tensor for release in schedule.closing} == {"a", "y"}


def test_single_device_is_met_before_and_after_the_host() -> None:
    graph = host_between()
    actions = make_schedule(graph, plan_single(graph, device="left", devices=DEVICES), COHERENT).actions

    assert [action.devices for action in actions if isinstance(action, Meet)] == [(0,), (0,)]


SIGNALLING = Arrangement(modes=(Sharing.COHERENT, Sharing.COHERENT), signals=True)


def test_devices_meet_by_themselves_but_at_the_end() -> None:
    plan = plan_even(GRAPH, devices=DEVICES, max_chain_length=1)
    hosted, signalled = (make_schedule(GRAPH, plan, one).actions for one in (COHERENT, SIGNALLING))

    meetings = [action.is_signalled for action in signalled if isinstance(action, Meet)]
    assert len(meetings) > 1
    assert meetings == [True] * (len(meetings) - 1) + [False]
    assert [type(action) for action in signalled] == [type(action) for action in hosted]


def test_host_meets_whom_it_reads_from_and_all_that_they_have_met() -> None:
    """What the right device computed, which the left one has met, is done at the end as well."""
    nodes = [node.name for node in GRAPH.nodes]
    steps = [Run(node=nodes[0], device="right"), *(Run(node=name, device="left") for name in nodes[1:])]
    actions = make_schedule(GRAPH, Plan(devices=DEVICES, steps=tuple(steps)), SIGNALLING).actions

    meetings = [action for action in actions if isinstance(action, Meet)]
    assert meetings == [Meet(devices=(1,), is_signalled=True), Meet(devices=(0, 1))]


def test_host_waits_itself_before_a_step_of_its_own() -> None:
    graph = host_between()
    steps = (
        Run(node="conv_a", device="right"),
        Host(nodes=("top", "top/i")),
        Run(node="conv_b", device="left"),
    )
    actions = make_schedule(graph, Plan(devices=DEVICES, steps=steps), SIGNALLING).actions

    assert not any(action.is_signalled for action in actions if isinstance(action, Meet))
