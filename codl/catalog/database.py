"""What was measured to be the best kernel for a shape on a device: `kernels.json`, read and written as data.

An entry holds for the kernel that was measured: each implementation stands in the file with the digest of
its source, and entries of a kernel that has been edited since are left out, they alone.
"""

import json
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from pathlib import Path
from sys import float_info
from typing import Any

from codl.catalog.shape_key import ShapeKey
from codl.catalog.source import digest_row
from codl.catalog.spec import Implementation, Parameters, Selection
from codl.catalog.table import IMPLEMENTATIONS
from codl.errors import ProfileError
from codl.files import read_text
from codl.machine import DeviceInfo

SCHEMA = 1
_MOST_SIZE = 2**40
_FACTS = ("driver", "device_name", "vector_width", "units")
"""Facts that a device must share with the one that was measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The best kernel known for a shape."""

    key: ShapeKey
    implementation: str
    """Name of the row."""
    parameters: Parameters
    seconds: float
    """Time of the whole operator, corrected for background load."""
    bound_seconds: float | None = None
    """What no launch with these parameters can be faster than."""
    default_seconds: float | None = None
    """Time of what would be chosen without the entry."""
    candidates: int = 0
    """Valid sets of parameters, over all rows that accept the node."""
    measured: int = 0
    """How many of them were run."""
    date: str = ""
    """When, ISO 8601."""


@dataclass(frozen=True, kw_only=True)
class KernelDatabase:
    """Entries of one device by shape."""

    entries: Mapping[ShapeKey, Entry] = field(default_factory=dict)
    stale: int = 0
    """Entries left out because their kernel has changed since."""
    named: Mapping[Hashable, Selection] = field(default_factory=dict, repr=False)
    """Kernels that are taken whatever was measured, by the class of operators (`find_class`)."""

    def tell(self) -> str:
        """Return all that choices depend on, as text."""
        named = sorted(f"{key!r}: {selection}" for key, selection in self.named.items())
        return f"{self!r} {named}"

    def find_exact(self, key: ShapeKey) -> Entry | None:
        """Return the entry of a shape."""
        return self.entries.get(key)

    def find_nearest(self, key: ShapeKey, *, limit: float) -> tuple[Entry, ...]:
        """Return the entries of the same class up to ``limit`` doublings away, nearest first."""
        known = self._nearest.get((key, limit))
        if known is None:
            found = sorted(
                (
                    (key.distance(entry.key), str(entry.key), entry)
                    for entry in self._families.get(key.family, ())
                ),
                key=lambda item: item[:2],
            )
            known = tuple(entry for distance, _, entry in found if distance <= limit)
            self._nearest[key, limit] = known
        return known

    @cached_property
    def _families(self) -> Mapping[Any, list[Entry]]:
        known: dict[Any, list[Entry]] = {}
        for entry in self.entries.values():
            known.setdefault(entry.key.family, []).append(entry)
        return known

    @cached_property
    def _nearest(self) -> dict[tuple[ShapeKey, float], tuple[Entry, ...]]:
        """What was looked up before."""
        return {}


EMPTY = KernelDatabase()


def format_database(
    database: KernelDatabase, info: DeviceInfo, rows: Iterable[Implementation] = IMPLEMENTATIONS
) -> str:
    """Return a database as the text of `kernels.json`."""
    known = {row.name: row for row in rows}
    entries = sorted(database.entries.values(), key=lambda entry: str(entry.key))
    used = sorted({entry.implementation for entry in entries})
    values = {
        "schema": SCHEMA,
        "device": {"name": info.name, "driver_version": info.driver_version}
        | {name: getattr(info, name) for name in _FACTS},
        "implementations": {name: digest_row(known[name]) for name in used},
    }
    head = json.dumps(values, indent=1)[: -len("\n}")]
    lines = ",\n  ".join(json.dumps(entry_to_json(entry)) for entry in entries)
    return f'{head},\n "entries": [\n  {lines}\n ]\n}}\n'


def entry_to_json(entry: Entry) -> dict[str, Any]:
    """Return an entry as JSON values."""
    return {
        "kind": entry.key.kind,
        "traits": dict(entry.key.traits),
        "sizes": dict(entry.key.sizes),
        "implementation": entry.implementation,
        "parameters": dict(entry.parameters),
        "seconds": entry.seconds,
        "bound_seconds": entry.bound_seconds,
        "default_seconds": entry.default_seconds,
        "candidates": entry.candidates,
        "measured": entry.measured,
        "date": entry.date,
    }


def read_database(path: Path, info: DeviceInfo) -> KernelDatabase:
    """Return the database in a file, without entries whose kernel has changed since.

    Raises:
        ProfileError: The file cannot be read, is no database, or was measured on another device.
        FileNotFoundError: There is no such file.
    """
    try:
        return parse_database(read_text(path), info)
    except FileNotFoundError:
        raise
    except (OSError, UnicodeDecodeError) as error:
        raise ProfileError(f"{path}: got {error}, expected a database of kernels; remove it") from error
    except ProfileError as error:
        raise ProfileError(f"{path}: {error}; remove it and run `codl tune`") from error


def parse_database(text: str, info: DeviceInfo) -> KernelDatabase:
    """Return the database in a text; see `read_database`."""
    try:
        values = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ProfileError(f"got {error}, expected JSON") from error
    fields = _object(values, "database")
    if fields.get("schema") != SCHEMA:
        raise ProfileError(f"schema: got {fields.get('schema')!r}, expected {SCHEMA}")
    measured_on = _object(fields.get("device"), "device")
    for name in _FACTS:
        if measured_on.get(name) != getattr(info, name):
            got, expected = measured_on.get(name), getattr(info, name)
            raise ProfileError(f"device.{name}: got {got!r}, expected {expected!r} of {info.name}")
    digests = _object(fields.get("implementations"), "implementations")
    rows = {row.name: row for row in IMPLEMENTATIONS}
    entries: dict[ShapeKey, Entry] = {}
    stale = 0
    listed = fields.get("entries")
    if not isinstance(listed, list):
        raise ProfileError(f"entries: got {type(listed).__name__}, expected a list")
    for index, item in enumerate(listed):
        entry = read_entry(item, f"entries[{index}]")
        row = rows.get(entry.implementation)
        if row is None or digests.get(row.name) != digest_row(row):
            stale += 1
        else:
            entries[entry.key] = entry
    return KernelDatabase(entries=entries, stale=stale)


def read_entry(values: Any, where: str) -> Entry:
    """Return the entry that `entry_to_json` wrote.

    Raises:
        ProfileError: It is none.
    """
    fields = _object(values, where)
    return Entry(
        key=ShapeKey(
            kind=_string(fields, where, "kind"),
            traits=tuple(sorted(_strings(fields.get("traits"), f"{where}.traits").items())),
            sizes=tuple(_counts(fields.get("sizes"), f"{where}.sizes").items()),
        ),
        implementation=_string(fields, where, "implementation"),
        parameters=_counts(fields.get("parameters"), f"{where}.parameters"),
        seconds=_seconds(fields, where, "seconds") or inf,
        bound_seconds=_seconds(fields, where, "bound_seconds"),
        default_seconds=_seconds(fields, where, "default_seconds"),
        candidates=_counts({"n": fields.get("candidates", 0)}, f"{where}.candidates")["n"],
        measured=_counts({"n": fields.get("measured", 0)}, f"{where}.measured")["n"],
        date=_string({"date": "", **fields}, where, "date"),
    )


def _object(values: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(values, dict):
        raise ProfileError(f"{where}: got {type(values).__name__}, expected an object")
    return values


def _string(fields: Mapping[str, Any], where: str, name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise ProfileError(f"{where}.{name}: got {value!r}, expected text")
    return value


def _strings(values: Any, where: str) -> dict[str, str]:
    return {name: _string(_object(values, where), where, name) for name in _object(values, where)}


def _counts(values: Any, where: str) -> dict[str, int]:
    found = _object(values, where)
    for name, value in found.items():
        if type(value) is not int or not 0 <= value < _MOST_SIZE:
            raise ProfileError(f"{where}.{name}: got {value!r}, expected a whole number")
    return dict(found)


def _seconds(fields: Mapping[str, Any], where: str, name: str) -> float | None:
    value = fields.get(name)
    if value is None:
        return None
    if type(value) not in (int, float) or not 0 < value <= float_info.max:
        raise ProfileError(f"{where}.{name}: got {value!r}, expected a time in seconds, or null")
    return float(value)


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is no number")
