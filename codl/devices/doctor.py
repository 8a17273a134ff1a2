"""What is wrong with the OpenCL drivers of this machine, and what to do about it.

Every driver is tried in a process of its own: one that crashes is a finding, not the end of the doctor.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

from codl.assets import cache_dir
from codl.devices.awake import AWAKE_VARIABLE, LATENCY_FILE, can_keep_awake
from codl.devices.findings import Finding, Status
from codl.devices.installed import INSTALL_REMEDY
from codl.devices.meeting import SIGNALS_VARIABLE
from codl.devices.pocl_cache import find_pocl_cache

_LIMIT_SECONDS = 120


def diagnose() -> tuple[Finding, ...]:
    """Return what every check found: drivers, then each device, sharing between CPU drivers, and caches."""
    found = list(_run_checks("OpenCL", "drivers"))
    names = [finding.subject for finding in found if finding.check == "device"]
    working = []
    for name in names:
        findings = _run_checks(name, "device", name)
        found += findings
        if all(finding.status is Status.OK for finding in findings):
            working.append(name)
    if not working:
        message = "no device works" if names else "no device found"
        found.append(Finding.judge("OpenCL", "devices", message, is_right=False, remedy=INSTALL_REMEDY))
    cpus = [name for name in working if name.split("-")[1] == "cpu"]
    for first, second in combinations(cpus, 2):
        for what in ("coherence", "signals"):
            found += _run_checks(f"{first} + {second}", what, first, second)
    found += _check_caches()
    found += _check_cores()
    return tuple(_excuse_spare(finding, working) for finding in found)


def _run_checks(subject: str, what: str, *names: str) -> Sequence[Finding]:
    """Return the findings of one kind of check, made in a child process."""
    package_parent = str(Path(__file__).absolute().parents[2])
    path = os.pathsep.join(filter(None, (package_parent, os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "-W", "ignore", "-m", "codl.devices.checks", what, *names]
    try:
        done = subprocess.run(
            command,
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LIMIT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return [_tell_failure(subject, what, f"did not end within {_LIMIT_SECONDS} s")]
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        how = f"signal {-done.returncode}" if done.returncode < 0 else f"exit code {done.returncode}"
        return [_tell_failure(subject, what, f"the driver ended its process ({how}: {last})")]
    return [Finding(**{**told, "status": Status(told["status"])}) for told in json.loads(lines[-1])]


def _tell_failure(subject: str, what: str, message: str) -> Finding:
    remedy = f"set {SIGNALS_VARIABLE}=0" if what == "signals" else "reinstall or remove this driver"
    return Finding.judge(subject, what, message, is_right=False, remedy=remedy)


def _excuse_spare(finding: Finding, working: Sequence[str]) -> Finding:
    """Return a broken device's finding as a mere warning when a twin of the same driver and kind works."""
    family = "-".join(finding.subject.split("-")[:2])
    twins = [name for name in working if name.split("-")[:2] == finding.subject.split("-")[:2]]
    if finding.status is not Status.BROKEN or not twins or " " in family:
        return finding
    remedy = f"none needed: {twins[0]} works and is used instead; remove the broken driver to silence this"
    return replace(finding, status=Status.WARN, remedy=remedy)


def _check_caches() -> Iterator[Finding]:
    """Yield whether codl's and the drivers' cache folders can be written."""
    for subject, folder, variable in (
        ("codl's cache", cache_dir(), "CODL_CACHE_DIR"),
        ("PoCL's cache", find_pocl_cache(), "POCL_CACHE_DIR"),
    ):
        problem = _find_write_problem(folder)
        yield Finding.judge(
            subject,
            "writable",
            str(folder) if problem is None else f"{folder}: {problem}",
            is_right=problem is None,
            remedy=f"set {variable} to a folder of yours that can be written",
        )


def _check_cores() -> Iterator[Finding]:
    """Yield whether cores can be kept awake, on systems that let a program ask for it."""
    if os.path.exists(LATENCY_FILE):
        can = can_keep_awake()
        yield Finding(
            subject="idle cores",
            check="stay awake",
            status=Status.OK if can else Status.WARN,
            message="during runs" if can else f"{LATENCY_FILE} is not written: devices may be slow to begin",
            remedy="" if can else f"let your user write {LATENCY_FILE}, and do not set {AWAKE_VARIABLE}=0",
        )


def _find_write_problem(folder: Path) -> str | None:
    """Return why no file can be made in a folder, or below the nearest one that exists; None when it can."""
    place = next(path for path in (folder, *folder.parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=place):
            return None
    except OSError as error:
        return error.strerror or str(error)
