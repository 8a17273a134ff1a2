"""Profiles as JSON, one file each, complete or not at all.

Whatever a file holds, reading it raises `ProfileError` or returns a profile that only holds sane numbers.
"""

import json
from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields
from pathlib import Path
from typing import Any, TypeVar

from codl.errors import ProfileError
from codl.files import read_text
from codl.latency.linear import LARGEST_US, format_model, parse_model, read_number
from codl.latency.profile import (
    COMPUTE,
    MEMORY,
    Coherence,
    DeviceProfile,
    HostCoherence,
    Meeting,
    Neighbour,
    Origin,
    Quality,
    RowModel,
)
from codl.machine import DeviceInfo, DeviceKind, Precision
from codl.outputs import write_output

PROFILE_FILE = "profile.json"
"""Name of a profile in a device's folder."""
_SCHEMA = 2
_MOST_BYTES = 1 << 20
_MOST_SLOWDOWN = 1000.0
_MOST_US_PER_KIB = 1000.0
_MOST_ENTRIES = 1024

Costs = TypeVar("Costs", Coherence, HostCoherence)


def save_profile(profile: DeviceProfile, path: Path) -> None:
    """Write a profile.

    Args:
        profile: What to write.
        path: A file, or a folder in which it becomes `profile.json`.

    Raises:
        ProfileError: It cannot be written; what was there before is as it was.
    """
    path = path if path.suffix == ".json" else path / PROFILE_FILE
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_output(path, format_lines(_format_profile(profile)), is_synced=True)
    except OSError as error:
        raise ProfileError(
            f"{path}: cannot write the profile of {profile.name} ({error.strerror or error}); free space "
            "or choose another folder (--output DIR), then run `codl profile` again: its samples are kept"
        ) from error


def load_profile(path: Path) -> DeviceProfile:
    """Return the profile in a file, or in a folder's `profile.json`.

    Raises:
        ProfileError: The file is missing, cannot be read, or holds no sane profile.
    """
    path = path if path.suffix == ".json" else path / PROFILE_FILE
    try:
        return _parse_profile(_read(path))
    except ProfileError as error:
        raise ProfileError(f"{path}: {error}; remove it and run `codl profile`") from error


def format_lines(value: Mapping[str, Any]) -> str:
    """Return JSON of two levels of lines: long enough to read, short enough to ship."""
    parts = []
    for name, item in value.items():
        if isinstance(item, dict):
            inner = ",\n  ".join(f"{json.dumps(key)}: {_dump(each)}" for key, each in item.items())
            parts.append(
                f" {json.dumps(name)}: {{\n  {inner}\n }}" if inner else f" {json.dumps(name)}: {{}}"
            )
        else:
            parts.append(f" {json.dumps(name)}: {json.dumps(item)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _dump(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _format_profile(profile: DeviceProfile) -> dict[str, Any]:
    return {
        "schema": _SCHEMA,
        "device": asdict(profile.info),
        "origin": str(profile.origin),
        "date": profile.date,
        "seconds": round(profile.seconds, 1),
        "repeatability_pm10": profile.repeatability_pm10,
        "reference_us": {name: float(f"{value:.6g}") for name, value in profile.reference_us.items()},
        "bandwidth_bytes_per_us": float(f"{profile.bandwidth_bytes_per_us:.6g}"),
        "shared_cache_bytes": profile.shared_cache_bytes,
        "launch_us": float(f"{profile.launch_us:.4g}"),
        "wait_us": float(f"{profile.wait_us:.4g}"),
        "sharing": {name: format_model(model) for name, model in sorted(profile.sharing.items())},
        "neighbours": {name: format_neighbour(one) for name, one in sorted(profile.neighbours.items())},
        "rows": {name: _format_row(row) for name, row in sorted(profile.rows.items())},
    }


def format_neighbour(neighbour: Neighbour) -> dict[str, Any]:
    """Return a neighbour as JSON values."""
    told: dict[str, Any] = {"slowdown": [[round(one, 4) for one in row] for row in neighbour.slowdown]}
    for name in ("meeting", "signal"):
        meeting = getattr(neighbour, name)
        if meeting is not None:
            told[name] = asdict(meeting)
    for name in ("coherence", "host"):
        costs = getattr(neighbour, name)
        if costs is not None:
            told[name] = {what: round(us, 5) for what, us in asdict(costs).items()}
    if neighbour.handing_us:
        told["handing_us"] = round(neighbour.handing_us, 3)
    return told


def _format_row(row: RowModel) -> dict[str, Any]:
    return {
        "digest": row.digest,
        "version": row.version,
        "us": format_model(row.model),
        "error": round(row.error, 3),
        "flop_us": float(f"{row.flop_us:.4g}"),
        "longest_us": float(f"{row.longest_us:.4g}"),
        "quality": {name: round(value, 3) for name, value in asdict(row.quality).items()},
    }


def _read(path: Path) -> Mapping[str, Any]:
    try:
        told = json.loads(read_text(path, most_bytes=_MOST_BYTES), parse_constant=_refuse_constant)
        if not isinstance(told, dict):
            raise ValueError(f"{type(told).__name__} instead of an object")
        if told.get("schema") != _SCHEMA:
            raise ValueError(f"schema {told.get('schema')!r} instead of {_SCHEMA}")
        return told
    except FileNotFoundError as error:
        raise ProfileError("got no such file, expected a profile") from error
    except (OSError, ValueError, RecursionError) as error:
        raise ProfileError(f"got {error}, expected a profile of schema {_SCHEMA}") from error


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text}, which is no number")


def _parse_profile(told: Mapping[str, Any]) -> DeviceProfile:
    origin = told.get("origin")
    if origin not in list(Origin):
        raise ProfileError(f"origin: got {origin!r}, expected one of {[str(one) for one in Origin]}")
    reference = _entries(told.get("reference_us"), "reference_us")
    if not {COMPUTE, MEMORY} <= set(reference) and origin != Origin.SIMULATED:
        raise ProfileError(f"reference_us: got {sorted(reference)}, expected {COMPUTE} and {MEMORY}")
    repeatability = told.get("repeatability_pm10")
    sharing, neighbours, rows = (_entries(told.get(name), name) for name in ("sharing", "neighbours", "rows"))
    return DeviceProfile(
        info=_parse_info(told.get("device")),
        origin=Origin(origin),
        date=_text(told.get("date"), "date"),
        seconds=read_number(told.get("seconds"), "seconds"),
        repeatability_pm10=(
            None if repeatability is None else read_number(repeatability, "repeatability_pm10", largest=1.0)
        ),
        reference_us={
            name: read_number(value, f"reference_us.{name}", least=1e-3) for name, value in reference.items()
        },
        bandwidth_bytes_per_us=read_number(
            told.get("bandwidth_bytes_per_us"), "bandwidth_bytes_per_us", least=1e-3
        ),
        shared_cache_bytes=_count(told.get("shared_cache_bytes"), "shared_cache_bytes"),
        launch_us=read_number(told.get("launch_us"), "launch_us"),
        wait_us=read_number(told.get("wait_us"), "wait_us"),
        sharing={name: parse_model(one, f"sharing.{name}") for name, one in sharing.items()},
        neighbours={name: parse_neighbour(one, f"neighbours.{name}") for name, one in neighbours.items()},
        rows={name: _parse_row(one, f"rows.{name}") for name, one in rows.items()},
    )


def _parse_info(told: Any) -> DeviceInfo:
    """Return a device's facts, each of the type that its field has."""
    entries = _entries(told, "device")
    values: dict[str, Any] = {}
    for one in fields(DeviceInfo):
        if one.type is Precision:  # profiles are measured in float32
            continue
        where, value = f"device.{one.name}", entries.get(one.name)
        if one.default is not MISSING and entries.get(one.name, one.default) == one.default:
            continue
        if one.type is int:
            least = 0 if one.name == "local_memory_bytes" else 1
            values[one.name] = _count(value, where, least=least)
        elif one.type is bool:
            if type(value) is not bool:
                raise ProfileError(f"{where}: got {str(value)[:60]}, expected true or false")
            values[one.name] = value
        elif one.type is DeviceKind:
            if value not in list(DeviceKind):
                raise ProfileError(f"{where}: got {str(value)[:60]}, expected cpu, gpu or accelerator")
            values[one.name] = DeviceKind(value)
        else:
            values[one.name] = _text(value, where)
    return DeviceInfo(**values)


def parse_neighbour(told: Any, where: str) -> Neighbour:
    """Return the neighbour in JSON values.

    Raises:
        ProfileError: It is none.
    """
    entries = _entries(told, where)
    table = entries.get("slowdown")
    if not isinstance(table, list) or [len(row) if isinstance(row, list) else 0 for row in table] != [2, 2]:
        raise ProfileError(f"{where}.slowdown: got {str(table)[:60]}, expected two rows of two numbers")
    (a, b), (c, d) = (
        [read_number(one, f"{where}.slowdown", least=0.5, largest=_MOST_SLOWDOWN) for one in row]
        for row in table
    )
    meeting, signal = (
        None if entries.get(name) is None else _parse_meeting(entries[name], f"{where}.{name}")
        for name in ("meeting", "signal")
    )
    coherence, host = entries.get("coherence"), entries.get("host")
    return Neighbour(
        slowdown=((a, b), (c, d)),
        meeting=meeting,
        signal=signal,
        coherence=None if coherence is None else _parse_costs(coherence, Coherence, f"{where}.coherence"),
        host=None if host is None else _parse_costs(host, HostCoherence, f"{where}.host"),
        handing_us=read_number(entries.get("handing_us", 0.0), f"{where}.handing_us"),
    )


def _parse_costs(told: Any, kind: type[Costs], where: str) -> Costs:
    """Return costs of a KiB each."""
    values = _entries(told, where)
    return kind(
        **{
            one.name: read_number(values.get(one.name), f"{where}.{one.name}", largest=_MOST_US_PER_KIB)
            for one in fields(kind)
        }
    )


def _parse_meeting(told: Any, where: str) -> Meeting:
    values = _entries(told, where)
    return Meeting(
        median_us=read_number(values.get("median_us"), f"{where}.median_us"),
        p95_us=read_number(values.get("p95_us"), f"{where}.p95_us"),
        samples=_count(values.get("samples"), f"{where}.samples"),
    )


def _parse_row(told: Any, where: str) -> RowModel:
    entries = _entries(told, where)
    return RowModel(
        model=parse_model(entries.get("us"), f"{where}.us"),
        digest=_text(entries.get("digest"), f"{where}.digest"),
        version=_count(entries.get("version"), f"{where}.version"),
        quality=_parse_quality(entries.get("quality"), f"{where}.quality"),
        **{
            name: read_number(entries.get(name), f"{where}.{name}", largest=LARGEST_US)
            for name in ("error", "flop_us", "longest_us")
        },
    )


def _parse_quality(told: Any, where: str) -> Quality:
    entries = _entries(told, where)
    shares = {
        name: read_number(entries.get(name), f"{where}.{name}", largest=1.0)
        for name in ("pm5", "pm10", "flops_pm10")
    }
    return Quality(
        samples=_count(entries.get("samples"), f"{where}.samples"),
        rmspe=read_number(entries.get("rmspe"), f"{where}.rmspe", largest=LARGEST_US),
        **shares,
    )


def _entries(told: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(told, dict) or len(told) > _MOST_ENTRIES:
        raise ProfileError(f"{where}: got {type(told).__name__!s}, expected an object")
    return told


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str) or len(value) > 1000:
        raise ProfileError(f"{where}: got {str(value)[:60]!r}, expected text")
    return value


def _count(value: Any, where: str, *, least: int = 0) -> int:
    if type(value) is not int or not least <= value < 1 << 40:
        raise ProfileError(f"{where}: got {str(value)[:60]}, expected a count")
    return value
