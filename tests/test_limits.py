"""Bounds on what a model may ask for: whole numbers, checked before memory or time is spent."""

import pytest

import codl
from codl.errors import InputError
from codl.limits import Limits


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "1", None])
def test_a_bound_is_a_whole_number_of_at_least_one(value: object) -> None:
    with pytest.raises(InputError, match=r"limits\.nodes: got .* expected a whole number"):
        Limits(nodes=value)  # type: ignore[arg-type]


def test_sessions_have_the_default_limits_unless_others_are_set() -> None:
    assert codl.SessionOptions().limits == Limits()
    assert codl.SessionOptions(limits=Limits(nodes=1)).limits.nodes == 1
