"""The user's own database of a device: read before a session, replaced whole after each shape."""

import os
from collections.abc import Sequence
from pathlib import Path

from codl.catalog.database import EMPTY, KernelDatabase, format_database, read_database
from codl.catalog.spec import Implementation
from codl.catalog.table import IMPLEMENTATIONS
from codl.errors import ProfileError
from codl.machine import DeviceInfo


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
    temporary: str | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        name = str(path.with_name(f".{path.name}.{os.getpid()}"))
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        temporary = name
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(format_database(database, info, rows))
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        temporary = None
    except OSError as error:
        raise ProfileError(
            f"{path}: got {error.strerror or error}, expected a database that can be written; "
            "free or unlock its disk, or set CODL_CACHE_DIR; what was measured before is kept"
        ) from error
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)


def read_user_database(path: Path, info: DeviceInfo) -> KernelDatabase:
    """Return the user's database, which may not exist yet.

    Raises:
        ProfileError: It cannot be read, or is another device's.
    """
    try:
        return read_database(path, info)
    except FileNotFoundError:
        return EMPTY
