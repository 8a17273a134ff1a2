"""Models whose shapes lie: each computes what ONNX Runtime computes, or is a typed error."""

import random
import zlib
from typing import Any

import numpy as np
import onnx
import pytest

from codl.errors import CodlError
from codl.frontend import load_graph
from codl.frontend.translate import TRANSLATIONS
from tests.frontend.lies import CASES, LIES
from tests.frontend.onnx_models import open_onnxruntime
from tests.graph_reference import evaluate
from tests.oracle import NETWORK_TOLERANCE, random_feeds, relative_error

TRIES = 1
"""Of each lie about each operator."""


def test_every_translated_operator_is_lied_about() -> None:
    assert set(CASES) == set(TRANSLATIONS)


@pytest.mark.parametrize("op_type", CASES)
def test_computes_the_truth_when_it_is_not_lied_to(op_type: str) -> None:
    for case in CASES[op_type]:
        assert judge(case.build(op_type)) == "right"


@pytest.mark.parametrize("op_type", CASES)
def test_computes_the_truth_or_raises_a_typed_error(op_type: str) -> None:
    rng = random.Random(zlib.crc32(op_type.encode()))
    for case in CASES[op_type]:
        for lie, tell in LIES.items():
            for _ in range(TRIES):
                model = case.build(op_type)
                tell(model, rng)
                verdict = judge(model)
                assert verdict in ("right", "refused", "on the host"), (
                    lie,
                    verdict,
                    onnx.printer.to_text(model),
                )


def judge(model: onnx.ModelProto) -> str:
    """Return what becomes of a model."""
    data = model.SerializeToString()
    try:
        graph = load_graph(data)
    except CodlError:
        return "refused"
    if graph.host_models:
        return "on the host"
    feeds = random_feeds(model)
    with np.errstate(all="ignore"):  # of infinities among the weights
        actual = evaluate(graph, feeds)[graph.outputs[0]]
    try:
        (expected,) = open_onnxruntime(data).run(None, dict(feeds))
    except Exception as error:  # ONNX Runtime's errors have no common base but this one
        return f"refused by ONNX Runtime alone: {error}"
    return "right" if is_equal(actual, expected) else f"wrong: {actual.shape}, {expected.shape}"


def is_equal(actual: Any, expected: Any) -> bool:
    """Return whether arrays agree, what is not finite included."""
    if actual.shape != expected.shape or not np.array_equal(np.isfinite(actual), np.isfinite(expected)):
        return False
    finite = np.isfinite(expected)
    return relative_error(actual[finite].astype(np.float32), expected[finite]) <= NETWORK_TOLERANCE
