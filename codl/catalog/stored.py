"""Where the databases of devices are: those that ship with codl, and the user's own, which win.

A database that cannot be used never stands in the way of an inference: one line in the log says so, and
kernels are chosen by rule.
"""

import logging
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from codl.assets import cache_dir, profiles_dir
from codl.catalog.choose import Databases
from codl.catalog.database import EMPTY, KernelDatabase, read_database
from codl.errors import ProfileError
from codl.machine import DeviceInfo

_LOG = logging.getLogger(__name__)
_FILE = "kernels.json"


def name_folder(info: DeviceInfo) -> str:
    """Return the folder of a device's profile, such as `intel_amd-epyc_v16_x2`.

    It tells the driver, the device, the lanes of its vectors and its compute units: on virtual machines
    processors of several generations bear one name.
    """
    model = re.sub(r"[^a-z0-9]+", "-", info.device_name.lower()).strip("-") or "unknown"
    return f"{info.driver}_{model}_v{info.vector_width}_x{info.units}"


def name_own_folder(info: DeviceInfo) -> str:
    """Return the folder of one generation of processors, such as `intel_amd-epyc_v16_x2_g25-17`.

    Where the generation is not known it is the folder of all.
    """
    generation = f"_g{info.generation.replace('.', '-')}" if info.generation else ""
    return f"{name_folder(info)}{generation}"


def shipped_path(info: DeviceInfo) -> Path:
    """Return where a database of this device would ship with codl.

    What is best on one generation of processors may not be on the next one, which bears the same name on
    virtual machines.
    """
    return profiles_dir() / name_own_folder(info) / _FILE


def user_path(info: DeviceInfo) -> Path:
    """Return where the user's own database of this device is kept; `CODL_CACHE_DIR` moves it."""
    return cache_dir() / "profiles" / name_folder(info) / _FILE


def load_databases(devices: Iterable[DeviceInfo]) -> Databases:
    """Return what was measured on each of some devices, by name."""
    return {info.name: load_database(info) for info in devices}


def load_database(info: DeviceInfo) -> KernelDatabase:
    """Return all that was measured on a device, read once a process as long as the files stay as they are."""
    paths = (shipped_path(info), user_path(info))
    return _load(info, tuple((path, _find_age(path)) for path in paths))


@cache
def _load(info: DeviceInfo, files: tuple[tuple[Path, int | None], ...]) -> KernelDatabase:
    database = EMPTY
    for path, age in files:
        if age is None:
            continue
        try:
            database = database.merged_with(read_database(path, info))
        except FileNotFoundError:
            continue
        except ProfileError as error:
            _LOG.warning("%s; kernels of %s are chosen by rule", error, info.name)
    return database


def _find_age(path: Path) -> int | None:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None
