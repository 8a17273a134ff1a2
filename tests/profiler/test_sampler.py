"""Cases and references measured in turn, for real."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import pytest

from codl.devices.opencl import Device
from codl.devices.script import Played
from codl.machine import DeviceKind
from codl.profiler import sampler as sampling
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
    readings = measure_references([device, device])
    for found in (sampler.find_references_us(), *(one.reference_us for one in readings)):
        assert set(found) == {"compute", "memory"}
        assert min(found.values()) > 0
    assert all(0 <= one.start_us < 1e4 for one in readings)


def test_work_and_start_of_a_kernel_are_told_apart(device: Device) -> None:
    cpu = replace(device.info, kind=DeviceKind.CPU, units=16)
    rounds = [{"compute": 90e-6, "memory": 1e-3, "twice": 130e-6}] * 4
    disturbed = [{"compute": 900e-6, "memory": 1e-3, "twice": 900e-6}]
    found = sampling._summarise(rounds + disturbed, cpu)
    assert found.start_us == pytest.approx(50)
    assert found.reference_us == pytest.approx({"compute": 202, "memory": 1000})
    for other in (replace(cpu, kind=DeviceKind.GPU), replace(cpu, units=1)):
        assert sampling._summarise(rounds, other).start_us == 0


def test_scripts_take_what_undisturbed_rounds_take() -> None:
    totals = iter([10.0, 30.0, 10.0, 10.0] * 10)

    def play() -> Played:
        total = next(totals)
        return Played(total, (total - 4.0, 1.0))

    timing = measure_scripts({"one": play}, seconds=0)["one"]

    assert (timing.busy, timing.rest, timing.rounds) == ((6.0, 1.0), 4.0, 8)
