"""A plan edited by hand: every cut moves to a quarter, and the plan is run.

Example:
    CODL_EMULATE_PAIR=1 python examples/split_by_hand.py model.onnx intel-cpu pocl-cpu
"""

import sys
from dataclasses import replace

import codl
from codl.plan.steps import Chain, Cut


def move(cut: Cut) -> Cut:
    """Return a cut between two devices with a quarter for the first."""
    end = cut.bounds[-1]
    return replace(cut, bounds=(0, end // 4, end))


def main() -> None:
    """Plan a model evenly over two devices, without chains; move the cuts; run the plan."""
    model, first, second = sys.argv[1:]
    plan = codl.plan(model, devices=(first, second), planner="even", max_chain_length=1)
    steps = tuple(
        replace(step, cuts=tuple(map(move, step.cuts))) if isinstance(step, Chain) else step
        for step in plan.steps
    )
    options = codl.SessionOptions(warm_up="block")
    options.plan = replace(plan, steps=steps)
    with codl.InferenceSession(model, options) as session:
        cuts = sum(isinstance(step, Chain) for step in session.plan.steps)
        print(f"{cuts} of {len(session.plan.steps)} steps are cut at a quarter")


if __name__ == "__main__":
    main()
