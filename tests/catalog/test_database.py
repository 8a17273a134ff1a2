"""The database of kernels: what it keeps, what it forgets, and every way in which a file can be wrong."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from codl.catalog import database as database_module
from codl.catalog.database import (
    EMPTY,
    Entry,
    KernelDatabase,
    format_database,
    parse_database,
    read_database,
)
from codl.catalog.shape_key import make_shape_key
from codl.catalog.source import digest_row
from codl.errors import ProfileError
from tests.catalog.nodes import NODES, Sample, conv, device_info

INFO = device_info(16)
GEMM, DEPTHWISE = "conv2d_gemm__buffer", "depthwise_conv2d_rows__buffer"


def entry_for(case: Sample, implementation: str = GEMM, *, seconds: float = 1e-3, **tile: int) -> Entry:
    return Entry(
        key=make_shape_key(case.node, case.graph),
        implementation=implementation,
        parameters=tile or {"MR": 6, "NR": 64, "VECTOR": 16, "FETCH": 0},
        seconds=seconds,
        bound_seconds=seconds / 2,
        candidates=60,
        measured=9,
        date="2026-01-01T00:00:00+00:00",
    )


def database_of(*entries: Entry) -> KernelDatabase:
    return KernelDatabase(entries={entry.key: entry for entry in entries})


KNOWN = database_of(
    entry_for(conv(16, 64, 28)), entry_for(NODES["depthwise"], DEPTHWISE, MR=6, NR=16, VECTOR=16)
)


def test_survives_its_file() -> None:
    assert parse_database(format_database(KNOWN, INFO), INFO) == KNOWN
    assert parse_database(format_database(EMPTY, INFO), INFO) == EMPTY


def test_file_names_device_and_kernels() -> None:
    values = json.loads(format_database(KNOWN, INFO))

    assert values["device"] == {
        "name": "test-cpu",
        "driver_version": "1",
        "driver": "test",
        "device_name": "test",
        "vector_width": 16,
        "units": 4,
    }
    assert set(values["implementations"]) == {GEMM, DEPTHWISE}


def test_an_edited_kernel_makes_its_own_entries_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    text = format_database(KNOWN, INFO)
    monkeypatch.setattr(
        database_module, "digest_row", lambda row: "edited" if row.name == GEMM else digest_row(row)
    )

    found = parse_database(text, INFO)

    assert [entry.implementation for entry in found.entries.values()] == [DEPTHWISE]
    assert found.stale == 1


def test_an_entry_of_an_unknown_kernel_is_stale() -> None:
    text = format_database(KNOWN, INFO).replace(DEPTHWISE, "depthwise_by_magic__buffer")

    assert parse_database(text, INFO).stale == 1


def test_nearest_come_first_and_far_ones_not_at_all() -> None:
    wanted = make_shape_key(*_node(conv(16, 64, 28)))
    half, same, far = (entry_for(conv(16, outputs, 28)) for outputs in (32, 63, 512))

    found = database_of(far, half, same).find_nearest(wanted, limit=1.5)

    assert found == (same, half)


def test_other_classes_are_never_near() -> None:
    wanted = make_shape_key(*_node(NODES["depthwise"]))

    assert database_of(entry_for(conv(24, 24, 14))).find_nearest(wanted, limit=100.0) == ()


def _node(case: Sample) -> Any:
    return case.node, case.graph


def broken(change: str) -> str:
    """Return the text of a good database with something wrong in it."""
    values = json.loads(format_database(KNOWN, INFO))
    first = values["entries"][0]
    match change:
        case "schema":
            values["schema"] = 99
        case "no device":
            del values["device"]
        case "entries are no list":
            values["entries"] = {}
        case "entry is no object":
            values["entries"][0] = 3
        case "text for a number":
            first["parameters"]["MR"] = "6; rm -rf"
        case "boolean for a number":
            first["parameters"]["MR"] = True
        case "negative size":
            first["sizes"]["N"] = -1
        case "huge size":
            first["sizes"]["N"] = 10**30
        case "negative time":
            first["seconds"] = -1.0
        case "infinite time":
            return json.dumps(values).replace('"seconds": 0.001', '"seconds": 1e999')
        case "NaN":
            return json.dumps(values).replace('"seconds": 0.001', '"seconds": NaN')
        case "traits are no text":
            first["traits"]["kernel"] = ["3x3"]
        case "no name":
            del first["implementation"]
    return json.dumps(values)


@pytest.mark.parametrize(
    "change",
    [
        "schema",
        "no device",
        "entries are no list",
        "entry is no object",
        "text for a number",
        "boolean for a number",
        "negative size",
        "huge size",
        "negative time",
        "infinite time",
        "NaN",
        "traits are no text",
        "no name",
    ],
)
def test_refuses_what_is_no_database(change: str) -> None:
    with pytest.raises(ProfileError, match=r"got .* expected"):
        parse_database(broken(change), INFO)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "3", "[" * 100_000, '{"schema": 1}', "\0"])
def test_refuses_what_is_no_json(text: str) -> None:
    with pytest.raises(ProfileError, match="expected"):
        parse_database(text, INFO)


@pytest.mark.parametrize(
    "other",
    [
        replace(INFO, units=2),
        replace(INFO, vector_width=8),
        replace(INFO, device_name="another"),
        replace(INFO, driver="another"),
    ],
    ids=["units", "vector", "device", "driver"],
)
def test_refuses_another_devices(other: Any) -> None:
    with pytest.raises(ProfileError, match="device"):
        parse_database(format_database(KNOWN, INFO), other)


def test_a_file_error_names_the_file_and_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "kernels.json"
    path.write_bytes(b"\xff\xfe{}")
    with pytest.raises(ProfileError, match=r"kernels\.json.*remove it"):
        read_database(path, INFO)
    with pytest.raises(ProfileError, match="remove it"):
        read_database(tmp_path, INFO)
    with pytest.raises(FileNotFoundError):
        read_database(tmp_path / "none", INFO)
