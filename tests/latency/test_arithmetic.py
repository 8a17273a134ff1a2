"""Times that arithmetic alone tells: what descriptions of launches would have said."""

from dataclasses import replace

import numpy as np
import pytest

from codl.assets import profiles_dir
from codl.catalog.table import IMPLEMENTATIONS
from codl.ir.boxes import Boxes
from codl.ir.ops import Concat, Conv2d, Pool2d, Reshape, Resize2d, Unary
from codl.ir.regions import OutputBoxes, Region
from codl.latency.arithmetic import count_value_flops, predict_arithmetic
from codl.latency.files import load_profile
from codl.latency.predictor import Predictor
from codl.latency.question import Question
from codl.latency.questions import answer_questions
from codl.latency.store import SIMULATED
from tests.catalog.nodes import NODES, Sample, device_info, sample
from tests.latency.profiles import make_profile

TOLD = {
    name: one
    for name, one in NODES.items()
    if isinstance(one.node.op, Concat | Conv2d | Pool2d | Reshape | Resize2d | Unary)
}


def _slice(known: Sample) -> OutputBoxes:
    whole = Region.whole(known.graph.shape("y"))
    last = len(whole.end) - 1
    boxes = Boxes.of([whole, whole.cut(1, 0, 3), whole.cut(min(2, last), 0, max(1, whole.end[-2] // 3))])
    return OutputBoxes.find(known.node, known.graph, boxes)


def _ask(known: Sample, predictors: list[Predictor], *, asks_memory: bool = False) -> Question:
    selections = tuple(one.choose(known.node, known.graph) for one in predictors)
    return Question(node=known.node, out=_slice(known), selections=selections, asks_memory=asks_memory)


def _load_simulated() -> list[Predictor]:
    folders = [profiles_dir() / SIMULATED / f"snapdragon-855-{kind}" for kind in ("cpu", "gpu")]
    return [Predictor(profile, profile.info) for profile in map(load_profile, folders)]


@pytest.mark.parametrize("name", TOLD)
def test_values_take_the_flops_that_every_row_describes(name: str) -> None:
    known, info = TOLD[name], device_info(16)
    out, each = _slice(known), count_value_flops(known.node, known.graph)
    accepted = {row.name: row.accepts(known.node, known.graph, info) for row in IMPLEMENTATIONS}

    described = {
        row.name: row.describe(known.node, known.graph, out, info, parameters)
        for row in IMPLEMENTATIONS
        if (parameters := accepted[row.name]) is not None
    }

    assert each is not None
    assert described
    for batches in described.values():
        assert np.array_equal(np.sum([batch.flops for batch in batches], axis=0), each * out.size)


@pytest.mark.parametrize("name", TOLD)
def test_arithmetic_tells_the_times_that_descriptions_tell(name: str) -> None:
    known, predictors = TOLD[name], _load_simulated()
    question = _ask(known, predictors)

    computed = predict_arithmetic([question], known.graph, predictors)
    found = answer_questions([question], known.graph, predictors)
    described = answer_questions([replace(question, asks_memory=True)], known.graph, predictors)

    assert computed.keys() == {(0, 0), (0, 1)}
    assert np.array_equal(np.stack([computed[0, 0], computed[0, 1]]), described.us)
    assert np.array_equal(found.us, described.us)
    assert np.array_equal(found.uncertainties, described.uncertainties)


def test_arithmetic_tells_times_of_tensors_of_several_ranks_at_once() -> None:
    predictors = _load_simulated()
    known = [
        sample(Unary(), {"x": shape}, (), shape, "elementwise_unary__buffer")
        for shape in ((1, 24), (1, 8, 6, 6))
    ]
    questions = [_ask(one, predictors) for one in known]

    together = predict_arithmetic(questions, known[0].graph, predictors)

    for place, question in enumerate(questions):
        alone = predict_arithmetic([question], known[place].graph, predictors)
        assert all(np.array_equal(together[place, device], alone[0, device]) for device in (0, 1))


def test_arithmetic_alone_tells_nothing_of_a_measured_device() -> None:
    known, info = NODES["conv-large"], device_info(16)
    predictors = [Predictor(make_profile(info), info)]

    assert predict_arithmetic([_ask(known, predictors)], known.graph, predictors) == {}


def test_launches_are_described_where_memory_matters() -> None:
    known, predictors = NODES["conv-large"], _load_simulated()

    asked = _ask(known, predictors, asks_memory=True)

    assert predict_arithmetic([asked], known.graph, predictors) == {}
    assert (answer_questions([asked], known.graph, predictors).memory_us > 0).all()
