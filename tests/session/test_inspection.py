"""What was measured, as an inspection shows it."""

import pytest

from codl.executor.trace import Event, EventKind, Trace
from codl.plan.single import plan_single
from codl.session.inspection import list_spans
from tests.graphs import residual_block

GRAPH = residual_block()
PLAN = plan_single(GRAPH, device="left")
FIRST, SECOND = (node.name for node in GRAPH.nodes[:2])
WALK = Event(
    kind=EventKind.LAUNCH,
    device="left",
    name=SECOND,
    start_us=10.0,
    duration_us=40.0,
    parts=((FIRST, 0.99), (SECOND, 0.01)),
)
TRACE = Trace(events=(WALK,), begin_us=0.0, duration_us=60.0)


@pytest.mark.parametrize(
    ("expected", "shares"),
    [
        pytest.param({(FIRST, "left"): 3.0, (SECOND, "left"): 1.0}, (0.75, 0.25), id="predicted"),
        pytest.param({(FIRST, "left"): 3.0}, (0.99, 0.01), id="one predicted"),
        pytest.param({(FIRST, "right"): 3.0}, (0.99, 0.01), id="operations"),
    ],
)
def test_a_launch_of_several_is_divided_as_predicted(
    expected: dict[tuple[str, str], float], shares: tuple[float, float]
) -> None:
    first, second = list_spans(TRACE, PLAN, expected)

    assert (first.name, second.name) == (FIRST, SECOND)
    assert first.duration_us == pytest.approx(40.0 * shares[0])
    assert second.duration_us == pytest.approx(40.0 * shares[1])
    assert second.start_us == pytest.approx(first.start_us + first.duration_us)
