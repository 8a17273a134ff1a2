"""Sealed files: whole, the user's own, bounded; whatever is wrong with one, it reads as absent."""

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from codl.cache.folders import CacheFolder
from codl.cache.sealed import PAGE_BYTES, Array, SealedFile
from codl.errors import CacheError

KEY = "a" * 64
NUMBERS = np.arange(3000, dtype=np.float32).reshape(3, 1000)
ARRAYS: dict[str, Array] = {
    "text": np.frombuffer(b"some text", np.uint8),
    "numbers": NUMBERS,
    "scalar": np.array(4, np.float32),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CacheFolder:
    monkeypatch.setenv("CODL_CACHE_DIR", str(tmp_path / "cache"))
    return CacheFolder("things", limit_bytes=1 << 20)


def entry_of(folder: CacheFolder) -> Path:
    return folder.path / f"{KEY}.codl"


def read_all(entry: SealedFile) -> tuple[bytes, Array, Array]:
    return entry.text("text"), entry.floats("numbers"), entry.floats("scalar")


def write(folder: CacheFolder, key: str = KEY) -> bool:
    return folder.write(key, ARRAYS, about={"what": "things"})


def test_what_is_written_is_read_back(folder: CacheFolder) -> None:
    assert write(folder)
    found = folder.read(KEY, read_all)

    assert found is not None
    text, numbers, scalar = found
    assert text == b"some text"
    assert np.array_equal(numbers, NUMBERS)
    assert scalar.shape == ()
    assert scalar == 4
    assert numbers.ctypes.data % PAGE_BYTES == 0
    assert not numbers.flags.writeable
    assert folder.path.stat().st_mode & 0o777 == 0o700
    assert entry_of(folder).stat().st_mode & 0o777 == 0o600
    assert list(folder.find_problems()) == []
    assert folder.describe(entry_of(folder)) == {"what": "things"}


def test_every_flipped_bit_of_the_content_is_found(folder: CacheFolder) -> None:
    write(folder)
    good = entry_of(folder).read_bytes()
    header_end = good.index(b"\n") + 1 + int(good[: good.index(b"\n")].split()[-1])
    numbers, scalar = len(good) - 4 * PAGE_BYTES, len(good) - PAGE_BYTES
    for place in (*range(0, header_end, 23), *range(numbers, numbers + NUMBERS.nbytes, 997), scalar + 3):
        write(folder)
        damaged = bytearray(good)
        damaged[place] ^= 1 << (place % 8)
        entry_of(folder).write_bytes(bytes(damaged))
        assert folder.read(KEY, read_all) is None, place
        assert not entry_of(folder).exists()


@pytest.mark.parametrize("length", [0, 1, 70, 1000, PAGE_BYTES, -1])
def test_truncated_entry_is_removed(folder: CacheFolder, length: int) -> None:
    write(folder)
    good = entry_of(folder).read_bytes()
    entry_of(folder).write_bytes(good[:length])

    assert len(list(folder.find_problems())) == 1
    assert folder.read(KEY, read_all) is None
    assert not entry_of(folder).exists()


def be_longer(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0")


def be_another(path: Path) -> None:
    path.write_bytes(b"something else entirely\n" * 500)


def be_of_another_schema(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"codl-sealed 1", b"codl-sealed 9", 1))


def be_writable_by_others(path: Path) -> None:
    path.chmod(0o666)


def be_a_link(path: Path) -> None:
    elsewhere = path.with_suffix(".elsewhere")
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


@pytest.mark.parametrize(
    "change", [be_longer, be_another, be_of_another_schema, be_writable_by_others, be_a_link]
)
def test_wrong_entry_is_not_read(folder: CacheFolder, change: Callable[[Path], None]) -> None:
    write(folder)
    change(entry_of(folder))

    assert len(list(folder.find_problems())) == 1
    assert folder.read(KEY, read_all) is None
    assert write(folder)
    assert folder.read(KEY, read_all) is not None


def test_entry_under_another_key_is_not_read(folder: CacheFolder) -> None:
    write(folder)
    entry_of(folder).rename(folder.path / f"{'b' * 64}.codl")

    assert folder.read("b" * 64, read_all) is None


def test_entry_of_another_user_is_not_read(folder: CacheFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)

    assert folder.read(KEY, read_all) is None
    assert "belongs to user" in next(folder.find_problems())
    assert not write(folder)
    assert entry_of(folder).exists()


def test_folder_that_others_may_write_is_not_used(folder: CacheFolder) -> None:
    write(folder)
    folder.path.chmod(0o777)

    assert folder.read(KEY, read_all) is None
    assert not write(folder, "c" * 64)
    assert "may be written by others" in next(folder.find_problems())
    assert entry_of(folder).exists()


def test_folder_that_others_may_only_read_is_closed_to_them(folder: CacheFolder) -> None:
    write(folder)
    folder.path.chmod(0o755)

    assert folder.read(KEY, read_all) is not None
    assert folder.path.stat().st_mode & 0o777 == 0o700


def test_use_that_finds_an_entry_wrong_removes_it(folder: CacheFolder) -> None:
    write(folder)

    def refuse(entry: SealedFile) -> None:
        raise CacheError(str(entry.path))

    assert folder.read(KEY, refuse) is None
    assert not entry_of(folder).exists()


@pytest.mark.parametrize("place", ["/dev/null/cache", "/proc/codl"])
def test_impossible_folder_keeps_and_finds_nothing(
    folder: CacheFolder, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setenv("CODL_CACHE_DIR", place)

    assert not write(folder)
    assert folder.read(KEY, read_all) is None
    assert folder.files() == ()
    assert folder.clear() == 0


def test_read_only_folder_is_read_and_nothing_is_left_behind(
    folder: CacheFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    monkeypatch.setattr(os, "utime", refuse)

    assert not write(folder, "d" * 64)
    assert folder.read(KEY, read_all) is not None


def test_full_disk_leaves_no_half_file(folder: CacheFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)

    assert not write(folder)
    assert list(folder.path.iterdir()) == []


def test_entries_longest_unused_make_room(folder: CacheFolder) -> None:
    keys = [f"{index:064d}" for index in range(3)]
    for index, key in enumerate(keys):
        write(folder, key)
        os.utime(folder.path / f"{key}.codl", (index, index))
    size = (folder.path / f"{keys[0]}.codl").stat().st_size
    small = CacheFolder("things", limit_bytes=3 * size)
    small.read(keys[0], read_all)

    assert write(small, "e" * 64)
    assert small.keys() == (keys[0], keys[2], "e" * 64)
    assert not CacheFolder("things", limit_bytes=size - 1).write("f" * 64, ARRAYS, about={})


def test_scarce_disk_space_is_left_alone(folder: CacheFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=50_000))

    assert not write(folder)
    assert folder.files() == ()


def test_abandoned_temporary_files_go(folder: CacheFolder) -> None:
    write(folder)
    old, young = folder.path / ".old.tmp", folder.path / ".young.tmp"
    for path in (old, young):
        path.write_bytes(b"half")
    os.utime(old, (time.time() - 7200,) * 2)

    write(folder)

    assert not old.exists()
    assert young.exists()
    assert folder.clear() == 1
    assert list(folder.path.iterdir()) == []
