"""Journals: what was appended is there, whatever was cut short; one process writes at a time."""

from pathlib import Path

import pytest

from codl.cache.journal import Journal, read_journal


def test_reads_what_was_appended_by_several_writers_in_turn(tmp_path: Path) -> None:
    path = tmp_path / "made" / "on the way.jsonl"
    for value in (1, 2):
        with Journal(path) as journal:
            journal.append({"value": value})
            journal.append({"text": "täglich\n"})

    assert list(read_journal(path)) == [
        {"value": 1},
        {"text": "täglich\n"},
        {"value": 2},
        {"text": "täglich\n"},
    ]


def test_a_line_that_was_cut_short_costs_no_other(tmp_path: Path) -> None:
    path = tmp_path / "cut.jsonl"
    path.write_text('{"value": 1}\n{"val')

    with Journal(path) as journal:
        journal.append({"value": 2})

    assert list(read_journal(path)) == [{"value": 1}, {"value": 2}]


@pytest.mark.parametrize("line", ["[1]", "1", "nothing", "[" * 100_000, "\udcff", ""])
def test_leaves_out_lines_that_are_no_objects(tmp_path: Path, line: str) -> None:
    path = tmp_path / "damaged.jsonl"
    path.write_bytes(f'{line}\n{{"value": 1}}\n'.encode(errors="surrogateescape"))

    assert list(read_journal(path)) == [{"value": 1}]


def test_has_one_writer_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal(path), pytest.raises(BlockingIOError):
        Journal(path)
    Journal(path).close()


def test_a_second_close_does_nothing(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl", sync_every=100)
    journal.append({"value": 1})
    journal.close()
    journal.close()

    assert list(read_journal(journal.path)) == [{"value": 1}]


def test_a_journal_that_is_no_file_is_empty(tmp_path: Path) -> None:
    assert list(read_journal(tmp_path / "none.jsonl")) == []
    assert list(read_journal(tmp_path)) == []
