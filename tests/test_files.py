"""Whatever lies in the place of a file: each reader ends at once, by an error or with nothing read."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import codl
from codl.cache.folders import CacheFolder
from codl.cache.journal import read_journal
from codl.catalog.database import read_database
from codl.catalog.layers import load_layers
from codl.cli.main import main
from codl.errors import CodlError, ModelError
from codl.files import read_file, read_text
from codl.frontend import load_graph
from codl.latency.files import load_profile
from codl.limits import Limits
from codl.plan.steps import Plan
from codl.report.annotate import annotate_model
from tests.catalog.nodes import device_info
from tests.exactness import DEVICES
from tests.frontend.onnx_models import make_model, node

pytestmark = pytest.mark.timeout(60)

INFO = device_info(8)
OPTIONS = codl.SessionOptions(planner=f"single:{DEVICES[0]}")


def make_huge(path: Path) -> None:
    path.touch()
    os.truncate(path, 20 << 30)


STRANGE: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "endless": lambda path: path.symlink_to("/dev/zero"),
    "terminal": lambda path: path.symlink_to("/dev/tty"),
    "folder": lambda path: path.mkdir(),
    "circle": lambda path: path.symlink_to(path),
    "huge": make_huge,
}


@pytest.fixture(params=STRANGE)
def strange(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "strange.json"
    STRANGE[request.param](path)
    return path


def test_only_regular_files_of_the_expected_size_are_read(strange: Path) -> None:
    with pytest.raises(OSError, match="strange"):
        read_text(strange)


def test_names_that_no_file_can_have_are_refused_as_missing_files_are() -> None:
    for name in ("nul\0character", "surrogate\ud800", "x" * 5000, ""):
        with pytest.raises(OSError, match="Errno"):
            read_file(name, most_bytes=1)


def test_reads_up_to_the_limit_and_not_beyond(tmp_path: Path) -> None:
    path = tmp_path / "four"
    path.write_bytes(b"four")

    assert read_file(path, most_bytes=4) == b"four"
    with pytest.raises(OSError, match="4 bytes, more than the limit of 3"):
        read_file(path, most_bytes=3)


@pytest.mark.parametrize(
    "read",
    [
        lambda path: codl.InferenceSession(path, OPTIONS),
        load_graph,
        Plan.load,
        load_layers,
        lambda path: read_database(path, INFO),
        lambda path: load_profile(path.parent),
    ],
    ids=["session", "model", "plan", "workload", "kernels", "profile"],
)
def test_every_reader_refuses_what_is_no_file(
    strange: Path, read: Callable[[Path], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codl.latency.files.PROFILE_FILE", strange.name)

    with pytest.raises(CodlError, match="strange"):
        read(strange)


def test_a_journal_that_is_no_file_is_empty_and_a_huge_one_is_refused(strange: Path) -> None:
    if strange.is_file():
        with pytest.raises(OSError, match="strange"):
            list(read_journal(strange))
    else:
        assert list(read_journal(strange)) == []


def test_cache_entry_that_is_no_file_is_no_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODL_CACHE_DIR", str(tmp_path))
    folder = CacheFolder("things", limit_bytes=1 << 20)
    assert folder.write("key", {"bytes": np.zeros(1, np.uint8)}, about={})
    for make in (STRANGE["pipe"], STRANGE["endless"]):
        (folder.path / "key.codl").unlink()
        make(folder.path / "key.codl")

        assert folder.read("key", lambda entry: entry.text("bytes")) is None
        assert len(list(folder.find_problems())) == 1


def test_command_line_refuses_what_is_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pipe, model = tmp_path / "pipe", tmp_path / "net.onnx"
    os.mkfifo(pipe)
    onnx.save(make_model([node("Relu", ["x"], ["y"])], inputs={"x": [4]}), model)

    assert main(["inspect", str(pipe)]) == 2
    planner = f"single:{DEVICES[0]}"
    assert main(["run", str(model), "--planner", planner, "--input", f"x={pipe}"]) == 2
    assert "no plain file" in capsys.readouterr().err


def test_a_model_that_turned_into_a_pipe_is_not_annotated(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(ModelError, match="pipe"):
        annotate_model(tmp_path / "pipe", tmp_path / "copy.onnx", None, {})  # type: ignore[arg-type]


def save_with_external(path: Path, entries: dict[str, str], *, dims: list[int]) -> None:
    """Save y = x + w, where w lies in `weights.bin`."""
    model = make_model([node("Add", ["x", "w"], ["y"])], inputs={"x": [4]})
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=dims)
    weight.data_location = TensorProto.EXTERNAL
    for key, value in {"location": "weights.bin", **entries}.items():
        weight.external_data.add(key=key, value=value)
    model.graph.initializer.append(weight)
    path.write_bytes(model.SerializeToString())


@pytest.mark.parametrize("entries", [{}, {"offset": "4096"}, {"length": "16"}])
def test_of_a_huge_file_of_weights_only_those_of_the_model_are_read(
    tmp_path: Path, entries: dict[str, str]
) -> None:
    save_with_external(tmp_path / "net.onnx", entries, dims=[4])
    (tmp_path / "weights.bin").touch()
    os.truncate(tmp_path / "weights.bin", 1 << 40)

    assert load_graph(tmp_path / "net.onnx").shape("w") == (4,)


@pytest.mark.parametrize(
    ("entries", "dims", "message"),
    [
        ({"length": "32"}, [4], "length 32 for 16 bytes"),
        ({"length": "-1"}, [4], "length"),
        ({"length": "many"}, [4], "many"),
        ({"offset": "1099511627775"}, [4], "weights"),
        ({}, [-4], "shape"),
        ({}, [1 << 40, 1 << 40], r"Limits\.initializer_bytes"),
    ],
)
def test_external_weights_that_do_not_fit_are_refused(
    tmp_path: Path, entries: dict[str, str], dims: list[int], message: str
) -> None:
    save_with_external(tmp_path / "net.onnx", entries, dims=dims)
    (tmp_path / "weights.bin").touch()
    os.truncate(tmp_path / "weights.bin", 1 << 40)

    with pytest.raises(ModelError, match=message):
        load_graph(tmp_path / "net.onnx")


def test_limits_of_bytes_are_checked_before_anything_is_read(tmp_path: Path) -> None:
    save_with_external(tmp_path / "net.onnx", {}, dims=[4])
    (tmp_path / "weights.bin").write_bytes(bytes(16))
    size = (tmp_path / "net.onnx").stat().st_size

    with pytest.raises(ModelError, match=f"{size} bytes, more than the limit of {size - 1}"):
        load_graph(tmp_path / "net.onnx", limits=Limits(model_bytes=size - 1))
    with pytest.raises(ModelError, match=r"Limits\.model_bytes"):
        load_graph((tmp_path / "net.onnx").read_bytes(), limits=Limits(model_bytes=size - 1))
    with pytest.raises(ModelError, match=r"Limits\.initializer_bytes"):
        load_graph(tmp_path / "net.onnx", limits=Limits(initializer_bytes=15))
    load_graph(tmp_path / "net.onnx", limits=Limits(model_bytes=size, initializer_bytes=16 + size))
