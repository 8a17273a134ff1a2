"""The wheel holds kernels and profiles, and works from site-packages."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.processes import ROOT, clean_environment

CODE = """
import codl
from codl import assets
from pathlib import Path
package = Path(codl.__file__).parent
assert package.is_relative_to(r"{target}"), package
assert assets.kernels_dir().is_relative_to(package), assets.kernels_dir()
assert assets.profiles_dir().is_relative_to(package), assets.profiles_dir()
name = next(path for path in sorted(assets.kernels_dir().rglob("*.cl")))
assert assets.read_kernel(name.relative_to(assets.kernels_dir()).as_posix())
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = ["-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    run(*command, cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


def run(*arguments: str, cwd: Path, python: str | Path = sys.executable, **changes: str) -> None:
    done = subprocess.run(
        [python, *arguments],
        cwd=cwd,
        env=clean_environment(**changes),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_wheel_holds_every_kernel_and_profile(wheel: Path) -> None:
    held = set(zipfile.ZipFile(wheel).namelist())

    for folder in ("kernels", "profiles"):
        for path in (ROOT / folder).rglob("*"):
            if path.is_file():
                assert f"codl/_data/{path.relative_to(ROOT).as_posix()}" in held


def test_wheel_holds_what_reports_are_made_of(wheel: Path) -> None:
    held = set(zipfile.ZipFile(wheel).namelist())

    for path in (ROOT / "codl" / "report" / "assets").iterdir():
        assert path.relative_to(ROOT).as_posix() in held


def test_wheel_holds_no_tests_or_tools(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()

    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"codl"}


def test_wheel_works_from_site_packages(wheel: Path, tmp_path: Path) -> None:
    target = tmp_path / "site-packages"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    run("-m", "pip", "install", "--no-deps", "--no-index", "--target", str(target), str(wheel), cwd=elsewhere)

    run("-c", CODE.format(target=target), cwd=elsewhere, PYTHONPATH=str(target))
    run("-m", "codl", "--version", cwd=elsewhere, PYTHONPATH=str(target))


def test_wheel_works_in_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    """Its dependencies come from the package index, as they did for the environment of this test."""
    environment = tmp_path / "environment"
    run("-m", "venv", str(environment), cwd=tmp_path)
    python = environment / "bin" / "python"

    run("-m", "pip", "install", "-q", str(wheel), cwd=tmp_path, python=python, PYTHONPATH="")
    run("-c", CODE.format(target=environment), cwd=tmp_path, python=python, PYTHONPATH="")
