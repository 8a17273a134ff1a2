from codl.ir.graph import Node
from codl.ir.regions import Region, input_regions
from codl.partitioner.even import plan_even
from codl.plan.shares import Sharer, share_step, share_steps
from codl.plan.single import plan_single
from tests.graphs import residual_block

GRAPH = residual_block()
DEVICES = ("left", "right")
PLANS = [
    plan_even(GRAPH, devices=DEVICES, max_chain_length=2),
    plan_even(GRAPH, devices=DEVICES, ratios=(0.2, 0.8)),
    plan_single(GRAPH, device="right", devices=DEVICES),
]


def test_remembered_shares_are_those_of_the_step() -> None:
    sharer = Sharer(GRAPH, DEVICES)

    for plan in [*PLANS, *PLANS]:
        assert sharer.share(plan.steps) == tuple(share_step(step, GRAPH, DEVICES) for step in plan.steps)


def test_steps_of_many_plans_are_followed_as_each_alone() -> None:
    asked = []

    def find_reads(node: Node, region: Region) -> tuple[Region, ...] | None:
        if region != Region.whole(GRAPH.shape(node.output)):
            return None
        asked.append(node.name)
        return input_regions(node, GRAPH, region)

    steps = [step for plan in PLANS for step in plan.steps]

    found = share_steps(steps, GRAPH, DEVICES, find_reads)

    for step, shares in zip(steps, found, strict=True):
        for share, alone in zip(shares, share_step(step, GRAPH, DEVICES), strict=True):
            assert share == alone
            assert list(share.reads) == list(alone.reads)
    assert sorted(asked) == ["conv_a", "conv_b", "conv_c", "pool"]
