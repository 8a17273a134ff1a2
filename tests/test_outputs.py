"""Files that a user names for results: what is replaced, what is written in place, what is refused."""

import errno
import os
import stat
from pathlib import Path

import pytest

from codl.outputs import check_output, check_output_folder, write_output
from tests.disks import small_disk


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_new_file_is_written_whole(tmp_path: Path) -> None:
    write_output(tmp_path / "a", "é")

    assert (tmp_path / "a").read_bytes() == "é".encode()
    assert names(tmp_path) == ["a"]


def test_a_regular_file_is_replaced_and_keeps_its_rights(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    path.chmod(0o640)

    with path.open() as held:
        write_output(path, b"new")
        assert held.read() == "old"

    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.parametrize("exists", [True, False], ids=["to a file", "to nothing"])
def test_a_link_stays_and_what_it_points_to_is_written(tmp_path: Path, exists: bool) -> None:
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder" / "target", tmp_path / "link"
    if exists:
        target.write_text("old")
    link.symlink_to(target)

    write_output(link, "new")

    assert link.is_symlink()
    assert target.read_text() == "new"


def test_a_file_of_two_names_stays_one(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a long old text")
    os.link(tmp_path / "a", tmp_path / "b")

    write_output(tmp_path / "a", "new")

    assert (tmp_path / "b").read_text() == "new"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="has no such device")
def test_devices_stay_devices(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("/dev/null")

    write_output("/dev/null", "lost")
    write_output(link, "lost")
    with pytest.raises(OSError, match="No space left"):
        write_output("/dev/full", "too much")

    assert all(stat.S_ISCHR(os.stat(path).st_mode) for path in ("/dev/null", "/dev/full", link))


def test_a_pipe_without_a_reader_is_an_error(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(OSError, match=os.strerror(errno.ENXIO)):
        write_output(tmp_path / "pipe", "text")


def test_a_pipe_takes_what_is_written(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)

    write_output(tmp_path / "pipe", "text")

    assert os.read(reader, 100) == b"text"
    os.close(reader)


def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("old")

    with small_disk(10), pytest.raises(OSError, match="too large"):
        write_output(path, "x" * 1000)

    assert path.read_text() == "old"
    assert names(tmp_path) == ["a"]


def test_the_longest_name_can_be_written(tmp_path: Path) -> None:
    write_output(tmp_path / ("n" * 255), "text")

    assert names(tmp_path) == ["n" * 255]


@pytest.mark.parametrize("path", ["missing/a", "file/a", ".", "zero\0byte", "n" * 256, "loop"])
def test_what_cannot_be_written_is_found_before(
    tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    Path("loop").symlink_to("loop")
    before = names(tmp_path)

    with pytest.raises(OSError, match=r"."):
        check_output(path)
    with pytest.raises(OSError, match=r"."):
        write_output(path, "text")

    assert names(tmp_path) == before


def test_a_folder_for_outputs_may_be_missing_but_no_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    check_output_folder(tmp_path / "new" / "folder")
    for path in ("file", "file/folder", "zero\0byte"):
        with pytest.raises(OSError, match=r"."):
            check_output_folder(tmp_path / path)

    assert names(tmp_path) == ["file"]
