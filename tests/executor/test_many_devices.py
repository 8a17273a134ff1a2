"""Three drivers in one plan, in a process of their own: even and random plans against ONNX Runtime."""

import pytest

import codl
from codl.devices.facts import parse_version
from codl.frontend import load_graph
from codl.plan.check import check_plan
from codl.plan.steps import Chain
from tests.processes import evaluate
from tools.networks import build

_LEAST_MESA = 23
"""With rusticl of Mesa 22.3.6 results are wrong; it warns that it takes arguments of kernels as uniform."""
PRELUDE = """
import json
from codl.devices.drivers import load
infos = {one.info.name: one.info for one in load()}
"""
RUN = """
import numpy as np
from codl.devices.opencl import open_devices
from codl.partitioner.even import plan_even
from tests.exactness import Case
from tests.frontend.onnx_models import make_model, node, random_array
from tests.random_plans import draw_plan
nodes = [
    node("Conv", ["x", "v"], ["a"], pads=[1] * 4),
    node("Relu", ["a"], ["b"]),
    node("Conv", ["b", "w"], ["c"], pads=[1] * 4),
    node("Add", ["b", "c"], ["d"]),
    node("MaxPool", ["d"], ["y"], kernel_shape=[2, 2], strides=[2, 2]),
]
weights = {name: 0.1 * random_array(12, 12, 3, 3) for name in "vw"}
case = Case(make_model(nodes, inputs={"x": [3, 12, 12, 12]}, constants=weights))
devices = open_devices(names)
plans = [plan_even(case.graph, devices=names, max_chain_length=8)]
plans += [draw_plan(case.graph, names, np.random.default_rng(seed)) for seed in range(6)]
assert any(len(cut.bounds) == 4 for step in plans[0].steps for cut in getattr(step, "cuts", ()))
print(json.dumps([error for plan in plans for error in case.find_errors(plan, devices)]))
"""


@pytest.mark.parametrize("third", ["rusticl-cpu", "pocl-cpu-2"])
def test_three_drivers_agree_with_onnx_runtime(third: str) -> None:
    found = evaluate(
        PRELUDE + "print(json.dumps({name: infos[name].driver_version for name in infos}))",
        RUSTICL_ENABLE="llvmpipe",
    )
    names = ("intel-cpu", "pocl-cpu", third)
    if missing := set(names) - set(found):
        pytest.skip(f"no {', '.join(sorted(missing))}")
    if third == "rusticl-cpu" and parse_version(found[third])[0] < (_LEAST_MESA,):
        pytest.skip(f"Mesa {found[third]}, whose results its own compiler calls doubtful")
    assert evaluate(PRELUDE + f"names = {names!r}\n" + RUN, RUSTICL_ENABLE="llvmpipe") == []


@pytest.mark.parametrize("planner", ["dynamic", "greedy", "even"])
def test_several_devices_of_one_name_are_planned_for(planner: str) -> None:
    model = build("resnet50", size=64, width=0.25, batch=8).SerializeToString()
    names = ("nvidia-gpu", "nvidia-gpu-2", "nvidia-gpu-3:8", "pocl-cpu")
    plan = codl.plan(model, devices=names, planner=planner)
    check_plan(plan, load_graph(model))
    assert plan.devices == names
    if planner == "even":
        assert any(isinstance(step, Chain) and len(step.cuts[0].bounds) == 5 for step in plan.steps)


def test_batches_are_cut_along_n() -> None:
    model = build("resnet50", size=64, width=0.25, batch=8).SerializeToString()
    plan = codl.plan(model, devices=("intel-cpu", "pocl-cpu"), planner="dynamic", axes=(0,))
    cuts = [step for step in plan.steps if isinstance(step, Chain)]
    assert cuts
    assert {step.axis for step in cuts} == {0}
    assert all(step.cuts[0].bounds[-1] == 8 for step in cuts)
