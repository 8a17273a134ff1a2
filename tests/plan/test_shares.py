from codl.partitioner.even import plan_even, plan_single
from codl.plan.residency import share_step
from codl.plan.shares import Sharer
from tests.graphs import residual_block

GRAPH = residual_block()
DEVICES = ("left", "right")


def test_remembered_shares_are_those_of_the_step() -> None:
    sharer = Sharer(GRAPH, DEVICES)
    plans = [
        plan_even(GRAPH, devices=DEVICES, max_chain_length=2),
        plan_single(GRAPH, device="right", devices=DEVICES),
    ]

    for plan in [*plans, *plans]:
        for step in plan.steps:
            assert sharer.share(step) == share_step(step, GRAPH, DEVICES)
