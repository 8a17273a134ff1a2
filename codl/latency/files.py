"""Profiles as JSON: `device.json` and `predictors.json` in one folder, complete or not at all.

Whatever a file holds, reading it raises `ProfileError` or returns a profile that only holds sane numbers.
"""

import json
from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields
from pathlib import Path
from typing import Any, TypeVar

from codl.errors import ProfileError
from codl.files import read_text
from codl.latency.features import Counting
from codl.latency.known import format_layers, parse_layers
from codl.latency.linear import LARGEST_US, LinearModel, format_model, parse_model, read_number
from codl.latency.profile import (
    COMPUTE,
    MEMORY,
    SCHEMA,
    Coherence,
    DeviceKey,
    DeviceProfile,
    HostCoherence,
    Meeting,
    Neighbour,
    Origin,
    Quality,
    RowModel,
)
from codl.machine import DeviceInfo, DeviceKind
from codl.outputs import write_output

DEVICE_FILE, PREDICTORS_FILE = "device.json", "predictors.json"
_MOST_BYTES = 4 << 20
_MOST_SLOWDOWN = 1000.0
_MOST_US_PER_KIB = 1000.0
_MOST_ENTRIES = 4096

Facts = TypeVar("Facts", DeviceInfo, DeviceKey)
Costs = TypeVar("Costs", Coherence, HostCoherence)


def save_profile(profile: DeviceProfile, folder: Path) -> None:
    """Write both files of a profile.

    Raises:
        ProfileError: They cannot be written; what was there before is as it was, file by file.
    """
    predictors = {
        "schema": SCHEMA,
        "device": asdict(profile.key),
        "rows": {name: _format_row(row) for name, row in sorted(profile.rows.items())},
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_output(folder / PREDICTORS_FILE, format_lines(predictors), is_synced=True)
        write_output(folder / DEVICE_FILE, format_lines(_format_device(profile)), is_synced=True)
    except OSError as error:
        raise ProfileError(
            f"{folder}: cannot write the profile of {profile.name} ({error.strerror or error}); free space "
            "or choose another folder (--output DIR), then run `codl profile` again: its samples are kept"
        ) from error


def load_profile(path: Path) -> DeviceProfile:
    """Return the profile in a folder, which one of its files may stand for.

    Raises:
        ProfileError: A file is missing, cannot be read, or holds no sane profile.
    """
    folder = path.parent if path.is_file() else path
    device, predictors = (_read(folder / name) for name in (DEVICE_FILE, PREDICTORS_FILE))
    try:
        where = DEVICE_FILE
        profile = _parse_device(device)
        where = PREDICTORS_FILE
        if _parse_facts(predictors.get("device"), DeviceKey) != profile.key:
            raise ProfileError("device: got another device's predictors, expected those of device.json")
        rows = _entries(predictors.get("rows"), "rows")
        return profile.with_rows({name: _parse_row(told, f"rows.{name}") for name, told in rows.items()})
    except ProfileError as error:
        raise ProfileError(f"{folder / where}: {error}; remove it and run `codl profile`") from error


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
    """Return JSON without blanks: a profile of many layers is mostly separators."""
    return json.dumps(value, separators=(",", ":"))


def _format_device(profile: DeviceProfile) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
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
    told = {"digest": row.digest, **format_model(row.model), "quality": _format_quality(row.quality)}
    if row.layers:
        told["layers"] = format_layers(row.layers)
    if row.known is not None:
        told["known"] = _format_quality(row.known)
    if row.counting is not Counting.ITEMS:
        told["counting"] = str(row.counting)
    if row.is_carried:
        told["carried"] = True
    doubts = {"doubt": row.doubt, "known_doubt": row.known_doubt}
    return told | {name: round(value, 4) for name, value in doubts.items() if value is not None}


def _format_quality(quality: Quality) -> dict[str, float]:
    return {name: round(value, 4) for name, value in asdict(quality).items()}


def _read(path: Path) -> Mapping[str, Any]:
    try:
        told = json.loads(read_text(path, most_bytes=_MOST_BYTES), parse_constant=_refuse_constant)
        if not isinstance(told, dict):
            raise ValueError(f"{type(told).__name__} instead of an object")
        if told.get("schema") != SCHEMA:
            raise ValueError(f"schema {told.get('schema')!r} instead of {SCHEMA}")
        return told
    except FileNotFoundError as error:
        raise ProfileError(f"{path}: got no such file, expected a profile; run `codl profile`") from error
    except (OSError, ValueError, RecursionError) as error:
        raise ProfileError(
            f"{path}: got {error}, expected a profile of schema {SCHEMA}; remove it and run `codl profile`"
        ) from error


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text}, which is no number")


def _parse_device(told: Mapping[str, Any]) -> DeviceProfile:
    origin = told.get("origin")
    if origin not in list(Origin):
        raise ProfileError(f"origin: got {origin!r}, expected one of {[str(one) for one in Origin]}")
    reference = _entries(told.get("reference_us"), "reference_us")
    if not {COMPUTE, MEMORY} <= set(reference) and origin != Origin.SIMULATED:
        raise ProfileError(f"reference_us: got {sorted(reference)}, expected {COMPUTE} and {MEMORY}")
    repeatability = told.get("repeatability_pm10")
    sharing, neighbours = (_entries(told.get(name), name) for name in ("sharing", "neighbours"))
    return DeviceProfile(
        info=_parse_facts(told.get("device"), DeviceInfo),
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
        shared_cache_bytes=_count(told.get("shared_cache_bytes", 0), "shared_cache_bytes"),
        launch_us=read_number(told.get("launch_us"), "launch_us"),
        wait_us=read_number(told.get("wait_us"), "wait_us"),
        sharing={name: parse_model(one, f"sharing.{name}") for name, one in sharing.items()},
        neighbours={name: parse_neighbour(one, f"neighbours.{name}") for name, one in neighbours.items()},
    )


def _parse_facts(told: Any, kind: type[Facts]) -> Facts:
    """Return a device's facts, each of the type that its field has."""
    entries = _entries(told, "device")
    values: dict[str, Any] = {}
    for one in fields(kind):
        where, value = f"device.{one.name}", entries.get(one.name)
        if one.default is not MISSING and entries.get(one.name, one.default) == one.default:
            continue  # older files do not tell
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
    return kind(**values)


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
    known, counting = entries.get("known"), entries.get("counting", str(Counting.ITEMS))
    is_carried = entries.get("carried", False)
    if type(is_carried) is not bool:
        raise ProfileError(f"{where}.carried: got {str(is_carried)[:60]!r}, expected true or false")
    if counting not in list(Counting):
        raise ProfileError(f"{where}.counting: got {str(counting)[:60]!r}, expected items or work")
    doubts = {
        name: read_number(entries[name], f"{where}.{name}", largest=LARGEST_US)
        for name in ("doubt", "known_doubt")
        if entries.get(name) is not None
    }
    return RowModel(
        digest=_text(entries.get("digest"), f"{where}.digest"),
        model=_parse_checked_model(entries, where),
        quality=_parse_quality(entries.get("quality"), f"{where}.quality"),
        layers=parse_layers(entries.get("layers", {}), f"{where}.layers"),
        known=None if known is None else _parse_quality(known, f"{where}.known"),
        counting=Counting(counting),
        is_carried=is_carried,
        **doubts,
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


def _parse_checked_model(told: Mapping[str, Any], where: str) -> LinearModel:
    model = parse_model(told, where)
    if not any(model.coefficients):
        raise ProfileError(f"{where}.us: got zeros only, expected a kernel that takes time")
    return model


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
