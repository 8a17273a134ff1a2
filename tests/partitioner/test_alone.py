"""One device alone: the short way comes to what walking through a run of its plan comes to."""

from dataclasses import replace
from functools import cache

import pytest

from codl.frontend import load_model
from codl.ir.graph import Graph
from codl.latency.predictor import Predictor
from codl.latency.profile import HostCoherence
from codl.partitioner.alone import is_lone
from codl.partitioner.cost import Pricer
from codl.partitioner.even import plan_single
from codl.partitioner.tables import Tables
from codl.plan.sharing import Sharing, arrange_alike
from tests.graphs import host_between, residual_block
from tests.partitioner.profiles import make_predictors
from tests.partitioner.test_pairs import teach_pairs
from tools.networks import build


def teach_maps(predictor: Predictor) -> Predictor:
    """Return a predictor that also knows what it costs to map memory: as much as to copy it."""
    sharing = predictor.profile.sharing
    known = {**sharing, "map": sharing["read"], "unmap": sharing["write"]}
    return Predictor(replace(predictor.profile, sharing=known), predictor.info)


HOST_COSTS = HostCoherence(input_us=0.3, output_us=0.7)
LEFT, RIGHT = map(teach_maps, make_predictors(slower=2.0, host=HOST_COSTS))


@cache
def load(name: str) -> Graph:
    """Return a small network: with residuals, maxima behind convolutions, or concatenations."""
    if name == "residual":
        return residual_block(height=64)
    if name == "host":
        return host_between()
    size = {} if name == "inception_v1" else {"size": 64}
    return load_model(build(name, **size).SerializeToString()).graph


@pytest.mark.parametrize("sharing", Sharing)
@pytest.mark.parametrize("name", ["residual", "yolov2", "mobilenet_v2", "inception_v1", "host"])
def test_device_alone_takes_what_its_plan_is_priced_at(name: str, sharing: Sharing) -> None:
    graph, arrangement = load(name), arrange_alike(sharing, 2)
    for predictors in ((LEFT, RIGHT), (LEFT, teach_pairs(RIGHT))):
        named: dict[str, Predictor] = {one.info.name: one for one in predictors}
        pricer = Pricer(graph=graph, predictors=named, tables=Tables(graph, predictors))
        for place, device in enumerate(named):
            plan = plan_single(graph, device=device, devices=tuple(named))

            walked = pricer.price_all([plan], arrangement)[0].predicted_us

            assert pricer.find_alone_us(place, arrangement) == walked


def test_network_with_a_step_of_the_host_is_not_for_one_device() -> None:
    assert is_lone(load("residual"))
    assert not is_lone(load("host"))
