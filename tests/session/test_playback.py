"""Plans played call by call between guards, with what they compute unchanged."""

from collections.abc import Sequence

import numpy as np
import pytest

from codl.devices.drivers import OpenedDevice
from codl.devices.opencl import open_device
from codl.errors import ProfileError
from codl.executor.compile import compile_plan
from codl.executor.run import Executable
from codl.partitioner.even import plan_even, plan_single
from codl.plan.steps import Plan
from codl.profiler.quiet import Calm, Mood, Reading
from codl.profiler.survey import Survey
from codl.session.playback import measure_launches, measure_nodes
from tests.graphs import residual_block

GRAPH = residual_block(height=48, channels=32)
FEEDS = {"x": np.ones(GRAPH.shape("x"), np.float32)}


@pytest.fixture(scope="module")
def surveys(devices: tuple[OpenedDevice, ...]) -> list[Survey]:
    """Of two devices of this machine."""
    if len(devices) < 2:
        pytest.skip("needs two devices")
    return [Survey(open_device(opened.info.name)) for opened in devices[:2]]


def prepare(plan: Plan, surveys: list[Survey]) -> Executable:
    return compile_plan(GRAPH, plan, [survey.stopwatch.device for survey in surveys])


def test_network_takes_time_on_one_device_and_stays_right(surveys: list[Survey]) -> None:
    name = surveys[0].device.info.name
    executable = prepare(plan_single(GRAPH, device=name), surveys[:1])
    expected = executable.run(FEEDS)["y"]

    assert measure_launches(executable, surveys[0], FEEDS, patience_seconds=0.2) > 0
    np.testing.assert_array_equal(executable.run(FEEDS)["y"], expected)


def test_disturbed_runs_do_not_count(surveys: list[Survey], monkeypatch: pytest.MonkeyPatch) -> None:
    executable = prepare(plan_single(GRAPH, device=surveys[0].device.info.name), surveys[:1])
    numbers: dict[int, int] = {}
    counted: list[int] = []

    def is_fourth(calm: Calm, mood: Mood) -> bool:
        return numbers.setdefault(id(mood), len(numbers)) % 4 == 0

    def find(readings: Sequence[Reading], *args: float, **more: float) -> tuple[float, float]:
        counted.append(len(readings))
        return 1.0, 0.0

    monkeypatch.setattr(Calm, "is_calm", is_fourth)
    monkeypatch.setattr("codl.session.playback.find_quiet", find)
    measure_launches(executable, surveys[0], FEEDS, patience_seconds=60.0)

    assert len(numbers) == 4 * 8
    assert set(counted) == {8}


def test_part_of_a_plan_takes_time_on_two_devices(surveys: list[Survey]) -> None:
    names = [survey.device.info.name for survey in surveys]
    executable = prepare(plan_even(GRAPH, devices=names, max_chain_length=2), surveys)

    taken = measure_nodes(executable, surveys, FEEDS, nodes=["conv_a"], patience_seconds=0.2)

    assert len(taken.busy) == 2
    assert all(busy > 0 for busy in taken.busy)
    assert taken.total > 0


def test_nodes_that_nobody_computes_are_named(surveys: list[Survey]) -> None:
    names = [survey.device.info.name for survey in surveys]
    executable = prepare(plan_even(GRAPH, devices=names), surveys)

    with pytest.raises(ProfileError, match="conv_x"):
        measure_nodes(executable, surveys, FEEDS, nodes=["conv_x"], patience_seconds=0.2)
