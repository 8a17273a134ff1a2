"""Seeds of fuzzing are read; what fuzzing found once raises nothing but codl's own errors."""

from pathlib import Path

import pytest

from tests.fuzz.readers import KEPT, READERS, is_refused


@pytest.mark.parametrize("name", READERS)
def test_seeds_are_sound(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODL_CACHE_DIR", str(tmp_path))
    reader = READERS[name]
    refused = [is_refused(reader, seed, tmp_path) for seed in reader.make_seeds()]
    assert refused
    assert not any(refused) or name == "plan"  # each seed is a plan of one network and of no other


@pytest.mark.parametrize("path", sorted(KEPT.glob("*/*")), ids=lambda path: f"{path.parent.name}-{path.name}")
def test_finds_are_refused_or_read(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODL_CACHE_DIR", str(tmp_path))
    is_refused(READERS[path.parent.name], path.read_bytes(), tmp_path)
