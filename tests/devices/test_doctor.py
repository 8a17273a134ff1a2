"""The doctor finds what works by using it, and survives drivers that do not."""

import dataclasses
import json
import sys
from pathlib import Path

import pytest

from codl.devices import checks, doctor
from codl.devices.checks import check_coherence, check_device
from codl.devices.drivers import OpenedDevice
from codl.devices.findings import Finding, Status
from codl.devices.meeting import can_signal
from codl.devices.signal_checks import check_signals
from codl.machine import DeviceKind
from tests.processes import run_python


def broken(subject: str) -> Finding:
    return Finding(subject=subject, check="launch", status=Status.BROKEN, message="no", remedy="mend it")


def test_working_devices_pass_every_check(devices: tuple[OpenedDevice, ...]) -> None:
    for opened in devices:
        findings = list(check_device(opened))

        assert {finding.status for finding in findings} == {Status.OK}, findings
        assert {"launch", "copy", "images", "fp16"} <= {finding.check for finding in findings}


def test_unified_gpu_may_need_a_map(devices: tuple[OpenedDevice, ...]) -> None:
    for opened in devices:
        gpu = dataclasses.replace(opened, info=dataclasses.replace(opened.info, kind=DeviceKind.GPU))
        if gpu.info.is_unified:
            findings = {finding.check: finding.status for finding in check_device(gpu)}
            assert findings["host memory"] is Status.OK


def test_cpu_drivers_are_coherent(devices: tuple[OpenedDevice, ...]) -> None:
    cpus = [opened for opened in devices if opened.info.kind is DeviceKind.CPU]
    if len(cpus) < 2:
        pytest.skip("needs two CPU drivers")

    (finding,) = check_coherence(cpus[0], cpus[1])

    assert finding.status is Status.OK, finding.message


def test_cpu_drivers_wait_for_each_other(devices: tuple[OpenedDevice, ...]) -> None:
    cpus = [opened for opened in devices if opened.info.kind is DeviceKind.CPU]
    if len(cpus) < 2 or not can_signal([opened.info for opened in cpus[:2]]):
        pytest.skip("needs two CPU drivers with cores of their own")

    (finding,) = check_signals(cpus[0], cpus[1])

    assert finding.status is Status.OK, finding.message


def test_who_cannot_wait_for_another_is_not_checked(devices: tuple[OpenedDevice, ...]) -> None:
    gpu = dataclasses.replace(devices[0], info=dataclasses.replace(devices[0].info, kind=DeviceKind.GPU))

    assert list(check_signals(devices[0], gpu)) == []


def test_wrong_numbers_are_broken(devices: tuple[OpenedDevice, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "SOURCE", checks.SOURCE.replace("src[i] + value", "src[i] - value"))

    findings = {finding.check: finding for finding in check_device(devices[0])}

    assert findings["host memory"].status is Status.BROKEN
    assert findings["host memory"].remedy


def test_a_build_error_is_told_in_one_line(
    devices: tuple[OpenedDevice, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "IMAGE_SOURCE", "this is no kernel")
    opened = dataclasses.replace(devices[0], info=dataclasses.replace(devices[0].info, has_images=True))

    finding = next(one for one in check_device(opened) if one.check == "images")

    assert finding.status is Status.BROKEN
    assert "\n" not in finding.message


def test_a_driver_that_kills_its_process_is_a_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\nkill -ABRT $$\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))

    findings = doctor.diagnose()

    assert "ended its process (signal 6" in findings[0].message
    assert any(finding.message == "no device found" and finding.remedy for finding in findings)


def test_a_broken_twin_is_only_a_warning() -> None:
    excused = doctor._excuse_spare(broken("pocl-cpu-2"), ["intel-cpu", "pocl-cpu"])

    assert excused.status is Status.WARN
    assert "pocl-cpu works" in excused.remedy


@pytest.mark.parametrize("subject", ["pocl-cpu", "nvidia-gpu", "intel-cpu + pocl-cpu", "/etc/x.icd"])
def test_a_broken_driver_without_a_twin_stays_broken(subject: str) -> None:
    assert doctor._excuse_spare(broken(subject), ["intel-cpu"]) == broken(subject)


def test_an_unwritable_cache_is_broken(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    assert doctor._find_write_problem(tmp_path / "file") is not None
    assert doctor._find_write_problem(tmp_path / "new" / "deeper") is None


def test_command_reports_a_missing_library_and_exits_with_1(tmp_path: Path) -> None:
    (tmp_path / "gone.icd").write_text("/nonexistent/libgone.so\n")

    done = run_python("-m", "codl", "doctor", "--json", OCL_ICD_VENDORS=str(tmp_path))

    assert done.returncode == 1
    found = {finding["subject"]: finding for finding in json.loads(done.stdout)}
    assert found[str(tmp_path / "gone.icd")]["status"] == "broken"
    assert found[str(tmp_path / "gone.icd")]["remedy"]
