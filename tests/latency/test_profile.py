"""Profiles as values: what they are bound to."""

import pytest

from codl.catalog.table import IMPLEMENTATIONS
from codl.latency import profile
from codl.latency.profile import digest_implementation, digest_launches


def test_samples_outlive_what_predictors_count(monkeypatch: pytest.MonkeyPatch) -> None:
    row = IMPLEMENTATIONS[0]
    launches, predictor = digest_launches(row), digest_implementation(row)
    monkeypatch.setattr(profile, "_COUNTING", profile._COUNTING[:-1])

    assert digest_launches(row) == launches
    assert digest_implementation(row) != predictor
