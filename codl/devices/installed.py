"""Which OpenCL drivers are installed: the system's ICD files, and runtimes that pip put into the environment.

The ICD loader reads one directory of `.icd` files, each naming a driver library. Runtimes from PyPI bring no
usable one, so the loader is shown a private directory that holds the system's entries and theirs. An entry
whose library does not load is left out and remembered as a problem: it must not spoil the others.
"""

import ctypes
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from codl.assets import find_scratch_folder

SYSTEM_VENDORS = "/etc/OpenCL/vendors"
INTEL_PRELOADS = ("libimf.so", "libsvml.so", "libirng.so", "libintlc.so.5", "libtbb.so.12")
"""What the Intel runtime needs in the process, in this order, before its own library loads."""
INSTALL_REMEDY = "pip install 'codl[cpu]' (x86-64), or as root: apt-get install pocl-opencl-icd"
_ENTRY_POINTS = ("clGetExtensionFunctionAddress", "clIcdGetPlatformIDsKHR")
"""A driver library has one of them at least."""
_MAX_ICD_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Icd:
    """One driver library that the ICD loader is to open."""

    source: str
    """The `.icd` file or the PyPI package that names it."""
    library: str
    """Absolute path, or a name for the dynamic linker to search."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverProblem:
    """A driver that is installed and cannot be used, or only in part."""

    source: str
    message: str
    remedy: str

    def __str__(self) -> str:
        """Return the problem as one sentence."""
        return f"{self.source}: {self.message}; {self.remedy}"


def find_icds() -> tuple[tuple[Icd, ...], tuple[DriverProblem, ...]]:
    """Return the drivers whose libraries load, and a problem for each that does not.

    The libraries of the usable ones are loaded into the process by this.
    """
    usable: list[Icd] = []
    problems: list[DriverProblem] = []
    for found in (*_read_system_icds(), *_find_intel_runtime(), *_find_pocl_wheel()):
        problem = found if isinstance(found, DriverProblem) else _check_library(found)
        if problem is not None:
            problems.append(problem)
        if isinstance(found, Icd) and problem is None and not _is_listed(found, usable):
            usable.append(found)
    return tuple(usable), tuple(problems)


def leave_out_pocl(icds: Sequence[Icd], reason: str) -> tuple[tuple[Icd, ...], tuple[DriverProblem, ...]]:
    """Return the drivers without PoCL, and a problem with this reason for each that is left out."""
    kept = tuple(icd for icd in icds if "pocl" not in os.path.basename(icd.library))
    remedy = "free some space, or set POCL_CACHE_DIR"
    left = (
        DriverProblem(source=icd.source, message=reason, remedy=remedy) for icd in icds if icd not in kept
    )
    return kept, tuple(left)


@contextmanager
def private_vendors(icds: Sequence[Icd]) -> Iterator[None]:
    """Show the ICD loader exactly these drivers while the block runs; nothing is left behind.

    The loader reads the directory once, when the process first asks for platforms. Elsewhere than on Linux
    the system's own list is used, as where no folder can be made.
    """
    place = find_scratch_folder(_MAX_ICD_BYTES)
    if place is None or not sys.platform.startswith("linux"):
        yield
        return
    before = os.environ.get("OCL_ICD_VENDORS")
    with tempfile.TemporaryDirectory(prefix="codl-icd-", dir=place) as folder:
        for index, icd in enumerate(icds):
            (Path(folder) / f"{index:02d}.icd").write_bytes(os.fsencode(icd.library) + b"\n")
        os.environ["OCL_ICD_VENDORS"] = folder
        try:
            yield
        finally:
            if before is None:
                del os.environ["OCL_ICD_VENDORS"]
            else:
                os.environ["OCL_ICD_VENDORS"] = before


def _read_system_icds() -> Iterator[Icd | DriverProblem]:
    """Yield the entries of the directory, or of the single file, that the loader would have read."""
    place = Path(os.environ.get("OCL_ICD_VENDORS") or os.environ.get("OPENCL_VENDOR_PATH") or SYSTEM_VENDORS)
    try:
        files = [place] if place.is_file() else sorted(place.glob("*.icd"))
    except OSError as error:
        yield _unreadable(place, error)
        return
    for file in files:
        try:
            yield from _read_icd(file)
        except OSError as error:
            yield _unreadable(file, error)


def _read_icd(file: Path) -> Iterator[Icd | DriverProblem]:
    if not file.is_file():
        yield DriverProblem(source=str(file), message="not a file", remedy="remove it")
        return
    with file.open("rb") as stream:
        line = stream.read(_MAX_ICD_BYTES).strip()
    if not line or b"\0" in line or b"\n" in line:
        message = "empty" if not line else "holds no library name"
        yield DriverProblem(
            source=str(file), message=message, remedy="remove the file or reinstall its driver"
        )
    elif b"_emu" not in os.path.basename(line):  # FPGA emulators are no processors of this machine
        yield Icd(source=str(file), library=os.fsdecode(line))


def _unreadable(place: Path, error: OSError) -> DriverProblem:
    return DriverProblem(
        source=str(place), message=f"unreadable ({error.strerror})", remedy="check its permissions"
    )


def _find_intel_runtime() -> Iterator[Icd | DriverProblem]:
    """Yield Intel's CPU runtime from PyPI, whose own `.icd` file holds a placeholder instead of a path."""
    libraries = _packaged_files("intel-opencl-rt")
    if libraries is None:
        return
    source = "package intel-opencl-rt"
    library = libraries.get("libintelocl.so")
    if library is None:
        remedy = "pip install --force-reinstall intel-opencl-rt"
        yield DriverProblem(source=source, message="libintelocl.so is missing", remedy=remedy)
        return
    available = {
        **(_packaged_files("tbb") or {}),
        **(_packaged_files("intel-cmplr-lib-rt") or {}),
    }
    for name in INTEL_PRELOADS:
        try:
            ctypes.CDLL(str(available.get(name, library.parent / name)), mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            remedy = "pip install --force-reinstall intel-cmplr-lib-rt tbb"
            yield DriverProblem(
                source=source, message=f"{name} does not load ({_first_line(error)})", remedy=remedy
            )
            return
    yield Icd(source=source, library=str(library))


def _find_pocl_wheel() -> Iterator[Icd | DriverProblem]:
    """Yield the PoCL that comes as a wheel; pyopencl's own loader may find it by itself too."""
    libraries = _packaged_files("pocl-binary-distribution")
    if libraries is None:
        return
    source = "package pocl-binary-distribution"
    found = [path for name, path in libraries.items() if name.startswith("libpocl") and ".so" in name]
    if found:
        yield Icd(source=source, library=str(found[0]))
    else:
        remedy = "pip install --force-reinstall pocl-binary-distribution"
        yield DriverProblem(source=source, message="libpocl is missing", remedy=remedy)


def _packaged_files(package: str) -> dict[str, Path] | None:
    """Return the package's shared libraries that exist, by file name; None when it is not installed."""
    try:
        files = metadata.files(package)
    except metadata.PackageNotFoundError:
        return None
    located = {file.name: Path(str(file.locate())) for file in files or () if ".so" in file.name}
    return {name: path for name, path in located.items() if path.is_file()}


def _check_library(icd: Icd) -> DriverProblem | None:
    """Return why the library does not load; loading it here keeps it in the process for the ICD loader."""
    reinstall = "reinstall the driver or remove this entry"
    path = Path(icd.library)
    if path.is_absolute() and not path.exists():
        return DriverProblem(source=icd.source, message=f"{icd.library} does not exist", remedy=reinstall)
    try:
        library = ctypes.CDLL(icd.library, mode=os.RTLD_LOCAL)
    except (OSError, ValueError) as error:
        message = f"{icd.library!r} does not load ({_first_line(error)})"
        return DriverProblem(source=icd.source, message=message, remedy=reinstall)
    if not any(hasattr(library, name) for name in _ENTRY_POINTS):
        return DriverProblem(
            source=icd.source, message=f"{icd.library} is no OpenCL driver", remedy=reinstall
        )
    return None


def _is_listed(icd: Icd, others: Sequence[Icd]) -> bool:
    return os.path.realpath(icd.library) in {os.path.realpath(other.library) for other in others}


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0]
