"""Which drivers are found, and under which names, whatever else is installed; each in its own process."""

import json
import os
import shutil
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

from codl.devices import drivers, limits
from codl.devices.drivers import OpenedDevice
from codl.devices.facts import parse_version
from codl.devices.installed import SYSTEM_VENDORS
from codl.errors import DeviceError
from codl.machine import DeviceInfo, DeviceKind
from tests.processes import evaluate, run_python

SYSTEM_POCL = Path(SYSTEM_VENDORS) / "pocl.icd"
PRELUDE = """
import json, os
import pyopencl
os.environ["PYOPENCL_HOME"] = "/nonexistent"   # its loader would look there for the PoCL wheel by itself
from codl.devices import installed
from codl.devices.drivers import *
from codl.errors import *
def keep_packages(*kept):
    read = installed._packaged_files
    installed._packaged_files = lambda package: read(package) if package in kept else None
INTEL = ("intel-opencl-rt", "intel-cmplr-lib-rt", "tbb")
"""
NAMES = "print(json.dumps([info.name for info in devices()]))"
needs_system_pocl = pytest.mark.skipif(not SYSTEM_POCL.exists(), reason="no system PoCL")


def has_intel() -> bool:
    try:
        return bool(distribution("intel-opencl-rt"))
    except PackageNotFoundError:
        return False


needs_intel = pytest.mark.skipif(not has_intel(), reason="no Intel runtime from PyPI")


@pytest.fixture
def vendors(tmp_path: Path) -> Path:
    folder = tmp_path / "vendors"
    folder.mkdir()
    return folder


def add_system_pocl(vendors: Path, name: str = "pocl.icd") -> None:
    shutil.copy(SYSTEM_POCL, vendors / name)


def test_no_driver_is_one_clear_error(vendors: Path) -> None:
    code = (
        PRELUDE
        + """
keep_packages()
try:
    load()
except DriverError as error:
    print(json.dumps(str(error)))
"""
    )

    message = evaluate(code, OCL_ICD_VENDORS=str(vendors))

    assert "no device found" in message
    assert "codl[cpu]" in message
    assert "pocl-opencl-icd" in message


@needs_system_pocl
def test_finds_a_system_driver_alone(vendors: Path) -> None:
    add_system_pocl(vendors)

    assert evaluate(PRELUDE + "keep_packages()\n" + NAMES, OCL_ICD_VENDORS=str(vendors)) == ["pocl-cpu"]


@needs_intel
def test_finds_the_intel_runtime_alone(vendors: Path) -> None:
    assert evaluate(PRELUDE + "keep_packages(*INTEL)\n" + NAMES, OCL_ICD_VENDORS=str(vendors)) == [
        "intel-cpu"
    ]


@needs_intel
@needs_system_pocl
@pytest.mark.parametrize("name", ["00.icd", "zz.icd"])
def test_finds_both_in_any_order(vendors: Path, name: str) -> None:
    add_system_pocl(vendors, name)

    names = evaluate(PRELUDE + "keep_packages(*INTEL)\n" + NAMES, OCL_ICD_VENDORS=str(vendors))

    assert names == ["intel-cpu", "pocl-cpu"]


@needs_system_pocl
def test_takes_a_single_icd_file_for_the_system(vendors: Path) -> None:
    add_system_pocl(vendors)

    names = evaluate(PRELUDE + "keep_packages()\n" + NAMES, OCL_ICD_VENDORS=str(vendors / "pocl.icd"))

    assert names == ["pocl-cpu"]


@needs_system_pocl
def test_broken_icds_are_reported_and_spoil_nothing(vendors: Path) -> None:
    add_system_pocl(vendors)
    (vendors / "missing.icd").write_text("/nonexistent/libdriver.so\n")
    (vendors / "unknown.icd").write_text("libnosuchdriver.so.1\n")
    (vendors / "garbage.icd").write_bytes(os.urandom(300) + b"\0\n\xff")
    (vendors / "empty.icd").write_text("")
    (vendors / "other.icd").write_text("libc.so.6\n")
    (vendors / "folder.icd").mkdir()
    (vendors / "intel-fpga_emu.icd").write_text("/nonexistent/libintelocl_emu.so\n")
    code = (
        PRELUDE
        + """
keep_packages()
names = [info.name for info in devices()]
print(json.dumps([names, sorted([os.path.basename(p.source), p.message, p.remedy] for p in find_problems())]))
"""
    )

    names, problems = evaluate(code, OCL_ICD_VENDORS=str(vendors))

    assert names == ["pocl-cpu"]
    assert [problem[0] for problem in problems] == [
        "empty.icd",
        "folder.icd",
        "garbage.icd",
        "missing.icd",
        "other.icd",
        "unknown.icd",
    ]
    assert all(message and remedy for _, message, remedy in problems)


@needs_system_pocl
@pytest.mark.parametrize("before", ["", "pyopencl.get_platforms()"], ids=["imported", "used"])
def test_coexists_with_a_client_that_used_pyopencl_first(vendors: Path, before: str) -> None:
    add_system_pocl(vendors)

    names = evaluate(f"{PRELUDE}\n{before}\n{NAMES}", OCL_ICD_VENDORS=str(vendors))

    assert "pocl-cpu" in names


def test_loading_leaves_no_files_and_no_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CODL_CACHE_DIR", raising=False)  # it moves the drivers' own
    code = (
        PRELUDE
        + """
before = dict(os.environ)
find_problems()
print(json.dumps(before == dict(os.environ)))
"""
    )

    assert evaluate(code, TMPDIR=str(tmp_path))
    # `.ses` is onnxruntime's own, from its import.
    assert [path.name for path in tmp_path.iterdir() if path.name != ".ses"] == []


def test_driver_caches_follow_the_cache_folder(tmp_path: Path) -> None:
    code = PRELUDE + "find_problems()\nprint(json.dumps(os.environ['POCL_CACHE_DIR']))"

    assert Path(evaluate(code, CODL_CACHE_DIR=str(tmp_path))).is_relative_to(tmp_path)


def test_importing_codl_loads_no_driver() -> None:
    code = "import json, codl; print(json.dumps('libpocl' in open('/proc/self/maps').read()))"

    assert not evaluate(code)


def test_pair_after_loading_is_refused() -> None:
    code = (
        PRELUDE
        + """
find_problems()
try:
    emulate_pair()
except DeviceError as error:
    print(json.dumps(str(error)))
"""
    )

    assert "before anything uses devices" in evaluate(code)


@needs_system_pocl
def test_pair_after_a_client_loaded_a_driver_is_refused() -> None:
    done = run_python(
        "-W",
        "ignore",
        "-c",
        PRELUDE + "pyopencl.get_platforms()\nemulate_pair()\nload()",
        OCL_ICD_VENDORS=SYSTEM_VENDORS,
    )

    assert "already loaded" in done.stderr.splitlines()[-1]


@needs_intel
@needs_system_pocl
@pytest.mark.parametrize("asked", ["variable", "call"])
def test_pair_gives_each_driver_half_of_the_cores(asked: str) -> None:
    code = (
        PRELUDE
        + """
import sys
if sys.argv[1:] == ["call"]: emulate_pair()
from codl.devices.limits import count_cores
print(json.dumps([[d.info.name, d.info.units] for d in select_devices()] + [max(1, count_cores() // 2)]))
"""
    )
    done = run_python(
        "-W", "ignore", "-c", code, asked, **({"CODL_EMULATE_PAIR": "1"} if asked == "variable" else {})
    )
    *pair, half = json.loads(done.stdout.splitlines()[-1])

    assert pair == [["intel-cpu", half], ["pocl-cpu", half]]


def test_pair_pins_the_caller_and_lets_go_again() -> None:
    code = (
        PRELUDE
        + """
from codl.devices.limits import pinned_caller
emulate_pair(); find_problems()
before = os.sched_getaffinity(0)
with pinned_caller():
    inside = os.sched_getaffinity(0)
print(json.dumps([sorted(before), sorted(inside), sorted(os.sched_getaffinity(0))]))
"""
    )

    before, inside, after = evaluate(code)

    assert before == after
    assert set(inside) <= set(before)
    assert len(before) == 1 or len(inside) < len(before)


@needs_intel
@needs_system_pocl
def test_pair_has_drivers_start_their_threads_off_pocls_cores() -> None:
    code = (
        PRELUDE
        + """
from codl.devices.drivers import default_devices
from codl.devices.limits import pinned_caller
emulate_pair(); find_problems()
makers = []
import pyopencl as cl
Context = cl.Context
class Watched(Context):
    def __init__(self, devices):
        makers.append(sorted(os.sched_getaffinity(0)))
        super().__init__(devices)
cl.Context = Watched
from codl.devices.opencl import open_device
default_devices(); open_device("intel-cpu")
with pinned_caller():
    cores = sorted(os.sched_getaffinity(0))
print(json.dumps([makers, cores]))
"""
    )

    makers, cores = evaluate(code)

    assert len(makers) >= 3, "a context for each probe, and one to work in"
    assert all(allowed == cores for allowed in makers)


@pytest.mark.parametrize(
    ("newer", "older"),
    [
        ("3.1+debian", "3.0-rc2"),
        ("3.0", "3.0-rc2"),
        ("580.95", "575.1"),
        ("5.0", "3.1+debian"),
        ("2026.22.10", "2025.9"),
    ],
)
def test_orders_driver_versions(newer: str, older: str) -> None:
    assert parse_version(newer) > parse_version(older)


@pytest.mark.parametrize(
    ("driver", "variable", "value", "units"),
    [
        ("intel", "DPCPP_CPU_NUM_CUS", "3", 3),
        ("intel", "CL_CONFIG_CPU_TBB_NUM_WORKERS", "2", 2),
        ("pocl", "POCL_MAX_PTHREAD_COUNT", "1", 1),
        ("pocl", "POCL_CPU_MAX_CU_COUNT", "64", 8),
        ("pocl", "POCL_MAX_PTHREAD_COUNT", "many", 8),
        ("oclgrind", "DPCPP_CPU_NUM_CUS", "3", 8),
    ],
)
def test_units_obey_the_environment(
    monkeypatch: pytest.MonkeyPatch, driver: str, variable: str, value: str, units: int
) -> None:
    for name in (
        "DPCPP_CPU_NUM_CUS",
        "CL_CONFIG_CPU_TBB_NUM_WORKERS",
        "POCL_MAX_PTHREAD_COUNT",
        "POCL_CPU_MAX_CU_COUNT",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, value)
    monkeypatch.setattr(limits, "count_cores", lambda: 8)

    assert limits.effective_units(driver, 16) == units


@pytest.mark.parametrize("chosen", ["", "64KB"], ids=["by default", "by the user"])
def test_local_memory_is_as_large_as_a_cache_while_drivers_load(
    monkeypatch: pytest.MonkeyPatch, chosen: str
) -> None:
    variable = "CL_CONFIG_CPU_FORCE_LOCAL_MEM_SIZE"
    monkeypatch.delenv(variable, raising=False)
    if chosen:
        monkeypatch.setenv(variable, chosen)

    with limits.widened_local_memory():
        assert os.environ[variable] == (chosen or "1MB")

    assert os.environ.get(variable, "") == chosen


def fake(name: str, *, processor: str = "cpu X") -> OpenedDevice:
    driver, kind = name.split("-")[:2]
    info = DeviceInfo(
        name=name,
        kind=DeviceKind(kind),
        driver=driver,
        device_name=name,
        platform_name=driver,
        platform_version="OpenCL 3.0",
        driver_version="1",
        processor=processor,
        units=4,
        vector_width=8,
        work_group_multiple=1,
        max_work_group_size=1024,
        local_memory_bytes=1 << 15,
        global_memory_bytes=1 << 30,
        alignment_bytes=128,
        has_images=False,
        has_fp16=False,
        is_unified=kind == "cpu",
    )
    return OpenedDevice(info=info, cl_device=name)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with three CPU drivers, the third broken, and two GPUs; without the pair."""
    opened = (
        fake("intel-cpu"),
        fake("pocl-cpu"),
        fake("pocl-cpu-2"),
        fake("nvidia-gpu", processor="pci 1"),
        fake("nvidia-gpu-2", processor="pci 2"),
    )
    loaded = drivers._Loaded(devices=opened, problems=(), is_pair=False)
    monkeypatch.setattr(drivers, "_load_all", lambda: loaded)
    monkeypatch.setattr(drivers, "find_fault", lambda device: "broken" if device == "pocl-cpu-2" else None)


def names_of(opened: tuple[OpenedDevice, ...]) -> list[str]:
    return [one.info.name for one in opened]


@pytest.mark.usefixtures("machine")
class TestSelection:
    def test_default_is_one_driver_for_each_processor(self) -> None:
        assert names_of(drivers.select_devices()) == ["intel-cpu", "nvidia-gpu", "nvidia-gpu-2"]

    def test_default_obeys_a_given_rank(self) -> None:
        chosen = drivers.default_devices(rank=lambda info: 0.0 if info.driver == "pocl" else 1.0)

        assert names_of(chosen)[0] == "pocl-cpu"

    def test_default_passes_over_a_broken_driver(self) -> None:
        chosen = drivers.default_devices(rank=lambda info: 0.0 if info.name == "pocl-cpu-2" else 1.0)

        assert names_of(chosen)[0] == "intel-cpu"

    def test_names_and_kinds_keep_their_order(self) -> None:
        assert names_of(drivers.select_devices(["gpu", "pocl-cpu"])) == ["nvidia-gpu", "pocl-cpu"]

    def test_unknown_name_lists_what_exists(self) -> None:
        with pytest.raises(DeviceError, match=r"'amd-gpu'.*intel-cpu, pocl-cpu"):
            drivers.find_device("amd-gpu")

    @pytest.mark.parametrize("kind", ["accelerator", ""])
    def test_missing_kind_is_an_error(self, kind: str) -> None:
        with pytest.raises(DeviceError, match="expected one of"):
            drivers.find_device(kind)

    def test_two_drivers_of_one_processor_are_refused(self) -> None:
        with pytest.raises(DeviceError, match="two drivers of one processor"):
            drivers.select_devices(["intel-cpu", "pocl-cpu"])

    def test_one_device_twice_is_refused(self) -> None:
        with pytest.raises(DeviceError, match="twice"):
            drivers.select_devices(["cpu", "intel-cpu"])

    def test_empty_list_is_refused(self) -> None:
        with pytest.raises(DeviceError, match="empty list"):
            drivers.select_devices([])

    def test_nothing_that_works_is_an_error(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(drivers, "find_fault", lambda _: "broken")

        with pytest.raises(DeviceError, match="none works"):
            drivers.select_devices()


@pytest.mark.usefixtures("machine")
class TestPairSelection:
    @pytest.fixture(autouse=True)
    def pair(self, monkeypatch: pytest.MonkeyPatch, machine: None) -> None:
        loaded = drivers._Loaded(devices=drivers.load(), problems=(), is_pair=True)
        monkeypatch.setattr(drivers, "_load_all", lambda: loaded)

    def test_default_is_the_pair(self) -> None:
        assert names_of(drivers.select_devices()) == ["intel-cpu", "pocl-cpu"]

    def test_kinds_name_its_roles(self) -> None:
        assert names_of(drivers.select_devices(["cpu", "gpu"])) == ["intel-cpu", "pocl-cpu"]

    def test_two_copies_of_one_driver_are_still_refused(self) -> None:
        with pytest.raises(DeviceError, match="two drivers of one processor"):
            drivers.select_devices(["pocl-cpu", "pocl-cpu-2"])

    def test_missing_member_says_what_to_install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(drivers, "find_fault", lambda device: "refuses" if "pocl" in device else None)

        with pytest.raises(DeviceError, match=r"no working pocl-cpu .*refuses.*apt-get install"):
            drivers.select_devices()
