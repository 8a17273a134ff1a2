"""A small model on disk, and a way to run a command line in this process."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
import pytest

from codl.cli.main import main
from tools.networks import build


@dataclass(frozen=True)
class Done:
    """How a command line ended."""

    code: int
    out: str
    err: str

    @property
    def values(self) -> Any:
        """What it printed, as JSON: all of stdout, nothing else."""
        return json.loads(self.out)


Codl = Callable[..., Done]


@pytest.fixture
def codl(capsys: pytest.CaptureFixture[str]) -> Codl:
    """Run `codl` with some arguments; wrong usage ends with the code that a shell sees."""

    def run(*arguments: str | Path) -> Done:
        capsys.readouterr()
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as ended:
            code = int(ended.code or 0)
        printed = capsys.readouterr()
        return Done(code=code, out=printed.out, err=printed.err)

    return run


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network that runs in a few milliseconds."""
    path = tmp_path_factory.mktemp("models") / "small.onnx"
    onnx.save(build("mobilenet_v2", size=32, width=0.35), path)
    return path


@pytest.fixture
def own_sharing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Devices share as they do: simulated profiles know the price of no other way."""
    monkeypatch.delenv("CODL_SHARING", raising=False)
