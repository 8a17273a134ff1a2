"""Cases and references measured in turn, for real."""

from collections.abc import Iterator
from itertools import islice

import pytest

from codl.devices.opencl import Device
from codl.devices.script import Played
from codl.profiler.case import Case
from codl.profiler.sampler import LEAST_ROUNDS, Sampler, measure_references
from codl.profiler.scripts import measure_scripts
from codl.profiler.workload import iterate_row, share_out
from tests.profiler.layers import small_layers

COUNT = 3


@pytest.fixture(scope="module")
def sampler(device: Device) -> Sampler:
    return Sampler(device)


def list_cases(device: Device) -> Iterator[Case]:
    work = next(work for work in share_out(small_layers(), device.info) if "unary" in work.row.name)
    return islice(iterate_row(work, device.info), COUNT)


def test_every_case_is_measured(sampler: Sampler, device: Device) -> None:
    samples = list(sampler.measure(list_cases(device)))

    assert len({sample.key for sample in samples}) == COUNT
    assert all(sample.rounds >= LEAST_ROUNDS for sample in samples)
    assert all(min(sample.ratios.values()) > 0 for sample in samples)
    assert all(0 <= sample.memory_share <= 1 for sample in samples)


def test_references_are_known_with_and_without_cases(sampler: Sampler, device: Device) -> None:
    for found in (sampler.find_references_us(), *measure_references([device, device])):
        assert set(found) == {"compute", "memory"}
        assert min(found.values()) > 0


def test_scripts_take_what_undisturbed_rounds_take() -> None:
    totals = iter([10.0, 30.0, 10.0, 10.0] * 10)

    def play() -> Played:
        total = next(totals)
        return Played(total, (total - 4.0, 1.0))

    timing = measure_scripts({"one": play}, seconds=0)["one"]

    assert (timing.busy, timing.rest, timing.rounds) == ((6.0, 1.0), 4.0, 8)
