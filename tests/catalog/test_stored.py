"""Where databases come from; broken ones never stand in the way."""

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from codl.catalog.choose import Rung, explain_choice
from codl.catalog.database import EMPTY, format_database
from codl.catalog.stored import load_database, load_databases, name_folder, user_path
from tests.catalog.nodes import conv, device_info
from tests.catalog.test_database import database_of, entry_for

INFO = replace(device_info(16), name="here-cpu", device_name="AMD EPYC (7-Zip)!", units=2)
CASE = conv(16, 64, 28)


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODL_CACHE_DIR", str(tmp_path / "cache"))
    user_path(INFO).parent.mkdir(parents=True)


def test_folder_names_driver_device_lanes_and_units() -> None:
    assert name_folder(INFO) == "test_amd-epyc-7-zip_v16_x2"


def test_without_files_nothing_is_known() -> None:
    assert load_database(INFO) == EMPTY


def test_databases_go_by_the_names_of_devices() -> None:
    user_path(INFO).write_text(format_database(database_of(entry_for(CASE)), INFO))

    assert load_databases([INFO]) == {"here-cpu": database_of(entry_for(CASE))}


def test_a_changed_file_is_read_again() -> None:
    assert load_database(INFO) == EMPTY
    user_path(INFO).write_text(format_database(database_of(entry_for(CASE)), INFO))

    assert load_database(INFO) == database_of(entry_for(CASE))


@pytest.mark.parametrize("content", [b"{", b"\xff", b'{"schema": 2}'])
def test_a_broken_file_is_one_warning_and_rules_choose(
    content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    user_path(INFO).write_bytes(content)

    with caplog.at_level(logging.WARNING):
        database = load_database(INFO)

    assert explain_choice(CASE.node, CASE.graph, INFO, database).rung is Rung.HEURISTIC
    (record,) = caplog.records
    assert str(user_path(INFO)) in record.getMessage()
    assert "chosen by rule" in record.getMessage()
