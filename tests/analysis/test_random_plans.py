"""Whatever a plan is, it can be explained, written down and changed."""

import json

import numpy as np
import pytest

from codl.frontend import load_graph
from codl.ir.graph import Graph
from codl.plan.edit import Change, change_plan
from codl.report.html import render_html
from codl.report.perfetto import list_trace_events
from codl.report.picture import draw_timeline
from codl.report.table import list_rows
from tests.random_plans import draw_plan
from tests.report.samples import NAMES, inspect
from tools.networks import build


@pytest.fixture(scope="module")
def network() -> Graph:
    return load_graph(build("resnet50", size=64, width=0.25).SerializeToString())


@pytest.mark.parametrize("seed", range(2))
def test_random_plan_is_explained_in_every_way(network: Graph, seed: int) -> None:
    rng = np.random.default_rng(seed)
    plan = draw_plan(network, NAMES, rng)

    found = inspect(network, plan)

    assert found.totals.parts is not None
    assert sum(found.totals.parts.values()) == pytest.approx(found.totals.predicted_us)
    assert len(list_rows(found)) == len(network.nodes)
    json.dumps([found.to_json(), list_trace_events(found)], allow_nan=False)
    assert render_html(found)
    assert draw_timeline(found)
    name = str(rng.choice([node.name for node in network.nodes]))
    changed = change_plan(plan, network, [Change(node=name, device="right")])
    assert inspect(network, changed).totals.predicted_us
