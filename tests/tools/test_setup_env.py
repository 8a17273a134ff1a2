"""Setting up: what it says when it cannot, and that it does nothing twice. No network is used."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import ROOT
from tools import setup_env
from tools.setup_env import SetupError


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty checkout that setup_env takes for its own, and nobody is root."""
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    monkeypatch.setattr(setup_env, "ROOT", tmp_path)
    monkeypatch.setattr(setup_env, "VENV", tmp_path / ".venv")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    return tmp_path


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The steps that were taken, none of which does anything but make the interpreter's file."""
    taken: list[str] = []

    def make_venv() -> None:
        taken.append("venv")
        setup_env.find_python().parent.mkdir(parents=True, exist_ok=True)
        setup_env.find_python().write_text("")

    monkeypatch.setattr(setup_env, "make_venv", make_venv)
    monkeypatch.setattr(setup_env, "install_packages", lambda: taken.append("packages"))
    monkeypatch.setattr(setup_env, "install_system_driver", lambda: taken.append("driver"))
    return taken


def failed(output: str, code: int = 1) -> subprocess.CompletedProcess[str]:
    return subprocess.CompletedProcess([], code, stdout=output)


@pytest.mark.parametrize("script", ["demo.py", "test.py"])
def test_scripts_check_the_python_before_anything_newer(script: str) -> None:
    text = (ROOT / "tools" / script).read_text(encoding="utf-8")
    code = text.replace("sys.version_info", "(3, 8, 1)")

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert done.stderr == "Python 3.8 is too old. What to do: start it with Python 3.11 or newer\n"


@pytest.mark.usefixtures("checkout")
def test_second_start_does_nothing(steps: list[str]) -> None:
    setup_env.prepare()
    setup_env.prepare()

    assert steps == ["venv", "packages"]


def test_changed_requirements_are_installed(checkout: Path, steps: list[str]) -> None:
    setup_env.prepare()
    (checkout / "pyproject.toml").write_text("[project]\ndependencies = ['new']\n")
    setup_env.prepare()

    assert steps == ["venv", "packages"] * 2


@pytest.mark.usefixtures("checkout")
def test_lost_interpreter_is_made_again(steps: list[str]) -> None:
    setup_env.prepare()
    setup_env.find_python().unlink()
    setup_env.prepare()

    assert steps == ["venv", "packages"] * 2


@pytest.mark.usefixtures("checkout")
def test_root_is_asked_for_the_system_driver_once(steps: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    setup_env.prepare()
    monkeypatch.setattr("os.geteuid", lambda: 0)
    setup_env.prepare()
    setup_env.prepare()

    assert steps == ["venv", "packages", "driver"]


@pytest.mark.parametrize("text", ["", "{", "[1]", "\0"])
def test_spoilt_stamp_counts_as_none(checkout: Path, steps: list[str], text: str) -> None:
    (checkout / ".venv").mkdir()
    setup_env.stamp_file().write_text(text)

    setup_env.prepare()

    assert steps == ["venv", "packages"]


def test_broken_environment_is_removed_and_made_anew(checkout: Path) -> None:
    (checkout / ".venv" / "bin").mkdir(parents=True)
    (checkout / ".venv" / "bin" / "python").write_text("not a program")
    (checkout / ".venv" / "bin" / "python").chmod(0o755)

    setup_env.make_venv()

    done = setup_env.run_quietly([str(setup_env.find_python()), "-m", "pip", "--version"])
    assert done.returncode == 0


@pytest.mark.usefixtures("checkout")
@pytest.mark.parametrize("output", ["No module named venv", "ensurepip is not available"])
def test_missing_venv_module_says_what_to_install(output: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup_env, "run_quietly", lambda *_: failed(output))

    with pytest.raises(SetupError, match="apt-get install python3-venv"):
        setup_env.make_venv()


@pytest.mark.parametrize(
    ("log", "said"),
    [
        (
            "WARNING: Retrying ... NewConnectionError ...\nERROR: No matching distribution",
            "cannot reach PyPI",
        ),
        ("ERROR: No space left on device\n", "No space left on device"),
        ("", "no message"),
    ],
)
def test_pip_failure_is_one_line(log: str, said: str) -> None:
    message = setup_env.explain_pip_failure(log)

    assert said in message
    assert "What to do" in message
    assert "\n" not in message


def test_script_ends_with_2_and_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], checkout: Path
) -> None:
    def refuse() -> None:
        raise SetupError("the reason. What to do: this")

    monkeypatch.setattr(setup_env, "prepare", refuse)

    with pytest.raises(SystemExit) as ended:
        setup_env.enter_environment(str(checkout / "x.py"), [])

    assert ended.value.code == 2
    assert capsys.readouterr().err == "setup: the reason. What to do: this\n"


def test_browser_is_installed_for_root_alone_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(setup_env, "install_from_system", lambda package, **_: asked.append(package))
    for user, driver in ((1000, None), (0, "/usr/bin/chromedriver"), (0, None)):
        monkeypatch.setattr("os.geteuid", lambda user=user: user)
        monkeypatch.setattr("shutil.which", lambda _, driver=driver: driver)

        setup_env.install_browser()

    assert asked == ["chromium-driver"]


def test_failing_apt_is_not_fatal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[list[str]] = []

    def run(command: list[str], *_: object) -> subprocess.CompletedProcess[str]:
        asked.append(command[:2])
        return failed("E: Unable to locate package")

    monkeypatch.setattr("shutil.which", lambda _: "/usr/bin/apt-get")
    monkeypatch.setattr(setup_env, "is_system_driver_present", lambda: False)
    monkeypatch.setattr(setup_env, "run_quietly", run)

    setup_env.install_system_driver()

    assert asked == [["apt-get", "install"], ["apt-get", "update"], ["apt-get", "install"]]
    assert "Unable to locate package" in capsys.readouterr().err
