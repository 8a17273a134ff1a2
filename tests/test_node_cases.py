"""ONNX's own test cases of single operators: what ONNX Runtime computes, codl computes too."""

import warnings
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest

import codl
from tests.frontend.onnx_models import open_onnxruntime

EVERY = 20
"""The fast test takes one case of so many."""
TOLERANCE = 1e-4
"""Of numbers up to 1, relative beyond; of float16 two last places: it is rounded at other nodes."""


@cache
def load_cases() -> tuple[Any, ...]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        return tuple(collect_testcases(None))


def find_errors(case: Any) -> Iterator[str]:
    """Yield a sentence for each difference; nothing where ONNX Runtime itself refuses to run."""
    data = case.model.SerializeToString()
    try:
        reference = open_onnxruntime(data)
    except Exception:  # its errors have no common base but this one
        return
    inputs = [argument.name for argument in reference.get_inputs()]
    outputs = [argument.name for argument in reference.get_outputs()]
    with codl.InferenceSession(data) as session:
        for values, _ in case.data_sets:
            feeds = dict(zip(inputs, map(to_array, values), strict=False))
            try:
                expected = reference.run(None, feeds)
            except Exception:
                continue
            for name, value, wanted in zip(outputs, session.run(None, feeds), expected, strict=True):
                if not is_close(value, wanted):
                    yield f"{case.name}: output {name!r} differs"


def to_array(value: Any) -> Any:
    """Return a scalar of numpy as an array, as sessions want it."""
    return np.asarray(value) if isinstance(value, np.generic) else value


def is_close(value: Any, expected: Any) -> bool:
    if expected is None or value is None:
        return value is expected
    if not isinstance(expected, np.ndarray):
        return len(value) == len(expected) and all(map(is_close, value, expected))
    if value.dtype != expected.dtype or value.shape != expected.shape:
        return False
    if value.dtype.kind not in "fiub":
        return bool(np.array_equal(value, expected))
    tolerance = 2 * np.finfo(np.float16).eps if value.dtype == np.float16 else TOLERANCE
    value, expected = value.astype(np.float64), expected.astype(np.float64)
    is_finite = np.isfinite(expected)
    if not np.array_equal(value[~is_finite], expected[~is_finite], equal_nan=True):
        return False
    scale = max(1.0, np.abs(expected[is_finite]).max(initial=0.0))
    return bool(np.abs(value[is_finite] - expected[is_finite]).max(initial=0.0) <= tolerance * scale)


def test_some_cases_compute_what_onnxruntime_computes() -> None:
    assert [problem for case in load_cases()[::EVERY] for problem in find_errors(case)] == []


@pytest.mark.heavy
def test_all_cases_compute_what_onnxruntime_computes() -> None:
    assert len(load_cases()) > 1000
    assert [problem for case in load_cases() for problem in find_errors(case)] == []
