"""The user's own database of a device: read before a session, replaced whole after each shape."""

from collections.abc import Sequence
from pathlib import Path

from codl.catalog.database import EMPTY, KernelDatabase, format_database, read_database
from codl.catalog.spec import Implementation
from codl.catalog.table import IMPLEMENTATIONS
from codl.errors import ProfileError
from codl.machine import DeviceInfo
from codl.outputs import write_output


def write_database(
    path: Path,
    database: KernelDatabase,
    info: DeviceInfo,
    rows: Sequence[Implementation] = IMPLEMENTATIONS,
) -> None:
    """Write a database; an existing file is replaced at once or not at all.

    Raises:
        ProfileError: It cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_output(path, format_database(database, info, rows), is_synced=True)
    except OSError as error:
        raise ProfileError(
            f"{path}: got {error.strerror or error}, expected a database that can be written; "
            "free or unlock its disk, or set CODL_CACHE_DIR; what was measured before is kept"
        ) from error


def read_user_database(path: Path, info: DeviceInfo) -> KernelDatabase:
    """Return the user's database, which may not exist yet.

    Raises:
        ProfileError: It cannot be read, or is another device's.
    """
    try:
        return read_database(path, info)
    except FileNotFoundError:
        return EMPTY
