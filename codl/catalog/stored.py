"""Where the databases of devices are: in the user's cache folder, written by `codl tune`.

A database that cannot be used never stands in the way of an inference: one line in the log says so, and
kernels are chosen by rule.
"""

import logging
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from codl.assets import cache_dir
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


def user_path(info: DeviceInfo) -> Path:
    """Return where the database of a device is kept; `CODL_CACHE_DIR` moves it."""
    return cache_dir() / "profiles" / name_folder(info) / _FILE


def load_databases(devices: Iterable[DeviceInfo]) -> Databases:
    """Return what was measured on each of some devices, by name."""
    return {info.name: load_database(info) for info in devices}


def load_database(info: DeviceInfo) -> KernelDatabase:
    """Return all that was measured on a device, read once a process as long as its file stays as it is."""
    path = user_path(info)
    return _load(info, path, _find_age(path))


@cache
def _load(info: DeviceInfo, path: Path, age: int | None) -> KernelDatabase:
    if age is not None:
        try:
            return read_database(path, info)
        except FileNotFoundError:
            return EMPTY
        except ProfileError as error:
            _LOG.warning("%s; kernels of %s are chosen by rule", error, info.name)
    return EMPTY


def _find_age(path: Path) -> int | None:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None
