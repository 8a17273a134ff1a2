"""Kept kernel binaries: used when right, rebuilt from source when anything about them is wrong."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl
import pytest

from codl.cache.folders import KERNELS
from codl.devices import kernel_cache, opencl
from codl.devices.drivers import OpenedDevice, find_device
from codl.devices.kernel_cache import make_key
from codl.devices.opencl import Device
from codl.errors import DeviceError
from tests.processes import ROOT, clean_environment, evaluate

TEXT = "__kernel void twice(__global float *x) { x[get_global_id(0)] *= 2.0f; }"


@pytest.fixture
def opened() -> OpenedDevice:
    """A device whose binaries codl keeps."""
    try:
        return find_device("intel-cpu")
    except DeviceError:
        pytest.skip("no intel-cpu here")


@pytest.fixture
def handed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[bytes]:
    """The binaries that the driver got to see, with an empty cache and a source of its own."""
    seen: list[bytes] = []
    real = kernel_cache.create_program

    def spy(context: Any, cl_device: Any, binary: bytes, options: str) -> Any:
        seen.append(binary)
        return real(context, cl_device, binary, options)

    monkeypatch.setattr(kernel_cache, "create_program", spy)
    monkeypatch.setattr(opencl, "read_source", lambda path: TEXT)
    monkeypatch.setenv("CODL_CACHE_DIR", str(tmp_path / "cache"))
    return seen


def compute(opened: OpenedDevice) -> list[float]:
    """Return 2 * [0, 1, 2, 3] by a device that has built nothing yet."""
    device = Device(opened.info, opened.cl_device)
    kernel = device.kernel("twice.cl", "twice", {})
    buffer = device.allocate(4)
    values = np.arange(4, dtype=np.float32)
    cl.enqueue_copy(device.queue, buffer, values)
    kernel.set_args(buffer)
    cl.enqueue_nd_range_kernel(device.queue, kernel, (4,), None)
    cl.enqueue_copy(device.queue, values, buffer)
    device.finish()
    device.store_programs()
    return [float(value) for value in values]


def the_entry() -> Path:
    (path,) = KERNELS.files()
    return path


def test_second_device_loads_what_the_first_has_built(opened: OpenedDevice, handed: list[bytes]) -> None:
    assert compute(opened) == [0, 2, 4, 6]
    assert handed == []
    assert compute(opened) == [0, 2, 4, 6]
    assert len(handed) == 1
    assert KERNELS.describe(the_entry())["device"] == opened.info.name


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[5000] ^= 4
    path.write_bytes(bytes(content))


def flip_a_bit_of_the_header(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[200] ^= 1
    path.write_bytes(bytes(content))


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def empty(path: Path) -> None:
    os.truncate(path, 0)


def be_a_bare_binary(path: Path) -> None:
    path.write_bytes(b"\x7fELF" + bytes(5000))


@pytest.mark.parametrize("damage", [flip_a_bit, flip_a_bit_of_the_header, truncate, empty, be_a_bare_binary])
def test_damaged_entry_never_reaches_the_driver(
    opened: OpenedDevice, handed: list[bytes], damage: Callable[[Path], None]
) -> None:
    compute(opened)
    good = the_entry().read_bytes()
    damage(the_entry())

    assert compute(opened) == [0, 2, 4, 6]
    assert handed == []
    assert the_entry().stat().st_size == len(good)
    assert compute(opened) == [0, 2, 4, 6]
    assert len(handed) == 1


def test_foreign_entry_never_reaches_the_driver(
    opened: OpenedDevice, handed: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    compute(opened)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)

    assert compute(opened) == [0, 2, 4, 6]
    assert handed == []


def test_folder_open_to_others_is_not_used(opened: OpenedDevice, handed: list[bytes]) -> None:
    compute(opened)
    KERNELS.path.chmod(0o777)

    assert compute(opened) == [0, 2, 4, 6]
    assert handed == []


def test_entry_of_another_source_never_reaches_the_driver(
    opened: OpenedDevice, handed: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    compute(opened)
    content = the_entry().read_bytes()
    monkeypatch.setattr(opencl, "read_source", lambda path: TEXT.replace("2.0f", "3.0f"))
    key = make_key(opened.info, text=TEXT.replace("2.0f", "3.0f"), options="-cl-std=CL1.2")
    (KERNELS.path / f"{key}.codl").write_bytes(content)

    assert compute(opened) == [0, 3, 6, 9]
    assert handed == []


def test_binary_that_the_driver_refuses_is_built_from_source(
    opened: OpenedDevice, handed: list[bytes]
) -> None:
    compute(opened)
    KERNELS.write(the_entry().stem, {"binary": np.frombuffer(b"no program", np.uint8)}, about={})

    assert compute(opened) == [0, 2, 4, 6]
    assert handed == [b"no program"]
    assert compute(opened) == [0, 2, 4, 6]
    assert len(handed) == 2


@pytest.mark.parametrize("place", ["/dev/null/cache", "/proc/codl"])
def test_without_a_folder_everything_is_built(
    opened: OpenedDevice, handed: list[bytes], monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setenv("CODL_CACHE_DIR", place)

    assert compute(opened) == [0, 2, 4, 6]
    assert compute(opened) == [0, 2, 4, 6]
    assert handed == []


@pytest.mark.parametrize(
    "change",
    [
        {"driver_version": "another"},
        {"device_name": "another"},
        {"platform_version": "another"},
        {"vector_width": 3},
    ],
    ids=lambda change: next(iter(change)),
)
def test_key_changes_with_what_decides_a_binary(opened: OpenedDevice, change: dict[str, Any]) -> None:
    key = make_key(opened.info, text=TEXT, options="-DA=1")

    assert key != make_key(replace(opened.info, **change), text=TEXT, options="-DA=1")
    assert key != make_key(opened.info, text=TEXT, options="-DA=2")
    assert key != make_key(opened.info, text=TEXT + " ", options="-DA=1")


def test_interpreter_has_nothing_to_keep(opened: OpenedDevice, handed: list[bytes]) -> None:
    interpreter = OpenedDevice(info=replace(opened.info, driver="oclgrind"), cl_device=opened.cl_device)

    assert compute(interpreter) == [0, 2, 4, 6]
    assert compute(interpreter) == [0, 2, 4, 6]
    assert KERNELS.files() == ()
    assert handed == []


FILL = """
import json
from codl.catalog.table import IMPLEMENTATIONS
from codl.devices import kernel_cache, opencl
from codl.devices.opencl import open_device
seen = []
real = kernel_cache.create_program
kernel_cache.create_program = lambda *arguments: (seen.append(1), real(*arguments))[1]
device = open_device("intel-cpu")
row = next(row for row in IMPLEMENTATIONS if not row.allowed)
kernel = device.kernel(row.source, row.name, {})
device.store_programs()
print(json.dumps({"loaded": len(seen), "entry": kernel.function_name}))
"""


def test_two_processes_fill_one_cache(opened: OpenedDevice, tmp_path: Path) -> None:
    environment = clean_environment(CODL_CACHE_DIR=str(tmp_path))
    command = [sys.executable, "-W", "ignore", "-c", FILL]
    running = [
        subprocess.Popen(command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(2)
    ]
    for process in running:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors

    assert evaluate(FILL, CODL_CACHE_DIR=str(tmp_path))["loaded"] == 1
    assert [path.suffix for path in (tmp_path / "kernels").iterdir()] == [".codl"]


UNUSABLE = """
import json
from codl.devices.drivers import devices
print(json.dumps([info.driver for info in devices()]))
"""


@pytest.mark.parametrize(
    "changes",
    [
        {"CODL_CACHE_DIR": "/dev/null/cache"},
        {"CODL_CACHE_DIR": "/proc/codl"},
        {"HOME": "/proc/nobody", "XDG_CACHE_HOME": ""},
    ],
    ids=["no folder", "read-only", "no home"],
)
def test_every_driver_loads_where_no_cache_can_be(
    devices: tuple[OpenedDevice, ...], changes: dict[str, str]
) -> None:
    kept = dict(os.environ)
    os.environ.pop("POCL_CACHE_DIR", None)
    try:
        found = evaluate(UNUSABLE, **changes)
    finally:
        os.environ.clear()
        os.environ.update(kept)

    assert set(found) >= {opened.info.driver for opened in devices}
