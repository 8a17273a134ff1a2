"""The log of samples: nothing is lost, nothing damaged is believed, one writer at a time."""

import os
from pathlib import Path

import pytest

from codl.errors import ProfileError
from codl.profiler.log import History, Sample, SampleLog, read_log
from tests.processes import run_python


def sample(key: str = "a") -> Sample:
    return Sample(
        key=key,
        row="conv2d_gemm__buffer",
        digest="0",
        layer={"op": {}},
        parameters={"MR": 6},
        begin=(0, 0),
        end=(1, 2),
        ratios={"compute": 0.5, "memory": 0.25},
        memory_share=0.25,
        spread=0.01,
        rounds=5,
        at=1.5,
    )


def write(path: Path, *keys: str) -> None:
    with SampleLog(path) as log:
        for key in keys:
            log.add(sample(key))


def test_samples_survive(tmp_path: Path) -> None:
    path = tmp_path / "below" / "samples.jsonl"

    write(path, "a", "b")
    write(path, "c")

    assert read_log(path).samples == [sample("a"), sample("b"), sample("c")]


def test_end_of_a_campaign_survives(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    with SampleLog(path) as log:
        log.add_end()

    history = read_log(path)

    assert len(history.ends) == 1
    assert history.ends[0] > 0


def test_no_log_is_an_empty_one(tmp_path: Path) -> None:
    assert read_log(tmp_path / "none") == History(samples=[], ends=[])


def test_cut_line_is_left_out_and_the_next_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    write(path, "a", "b")
    text = path.read_text()
    path.write_text(text[:-20])

    write(path, "c")

    assert [one.key for one in read_log(path).samples] == ["a", "c"]


@pytest.mark.parametrize(
    "line",
    [
        "",
        "null",
        "[]",
        "7",
        '"text"',
        "{}",
        "[" * 100_000,
        '{"sample": {}}',
        '{"sample": null}',
        '{"end": -1}',
        '{"end": "x"}',
        '{"end": NaN}',
    ],
)
def test_damaged_line_is_left_out(tmp_path: Path, line: str) -> None:
    path = tmp_path / "samples.jsonl"
    write(path, "a")
    with path.open("a") as file:
        file.write(line + "\n")
    write(path, "b")

    assert [one.key for one in read_log(path).samples] == ["a", "b"]


def test_second_profiler_is_told(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    code = (
        f"from pathlib import Path; from codl.profiler.log import SampleLog; SampleLog(Path({str(path)!r}))"
    )
    with SampleLog(path) as log:
        log.add(sample())
        done = run_python("-W", "ignore", "-c", code)

    assert done.returncode != 0
    assert "another profiler at work" in done.stderr
    assert [one.key for one in read_log(path).samples] == ["a"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full disk to write to")
def test_full_disk_is_told(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    path.symlink_to("/dev/full")

    with (
        pytest.raises(ProfileError, match=r"cannot write \(No space left.*free space"),
        SampleLog(path) as log,
    ):
        log.add(sample())


@pytest.mark.skipif(os.geteuid() == 0, reason="root can write everywhere")
def test_read_only_folder_is_told(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(ProfileError, match="CODL_CACHE_DIR"):
            SampleLog(tmp_path / "below" / "samples.jsonl")
    finally:
        tmp_path.chmod(0o700)


def test_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")

    with pytest.raises(ProfileError, match="CODL_CACHE_DIR"):
        SampleLog(tmp_path / "file" / "samples.jsonl")
