"""Plans as text."""

from codl.plan.text import group_reasons


def test_reasons_that_differ_in_names_are_one() -> None:
    reasons = (
        "node 'a' (Conv): got an input of 5 axes, expected 4",
        "no kernel for TopK",
        "node 'b' (Conv): got an input of 5 axes, expected 4",
        "node 'c' (Conv): got an input of 3 axes, expected 4",
        "node 'd' (Conv): got an input of 5 axes, expected 4",
    )

    assert list(group_reasons(reasons)) == [f"{reasons[0]} (and 2 like it)", reasons[1], reasons[3]]
