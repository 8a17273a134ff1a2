"""Sets up `.venv` in the checkout with everything that codl and its tools need; standard library only.

`enter_environment` is the first thing that tools/demo.py and tools/test.py call. The first start installs,
with a line for each step; later starts see that nothing changed and go straight on.
"""

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv"
EXTRAS = "cpu,pocl,profile,test"
CANNOT = 2
SYSTEM_DRIVER = "pocl-opencl-icd"
BROWSER = "chromium-driver"
_NETWORK_SIGNS = (
    "NewConnectionError",
    "Failed to establish a new connection",
    "Temporary failure in name resolution",
    "Could not connect",
    "Connection refused",
    "Network is unreachable",
    "ProxyError",
    "Read timed out",
    "ConnectTimeoutError",
)


class SetupError(Exception):
    """Setting up cannot go on; the message is one line that says what to do."""


def enter_environment(script: str, arguments: Sequence[str]) -> None:
    """Return when this process runs inside a complete `.venv`; else make one and start the script there.

    Args:
        script: Path of the script that calls this.
        arguments: Its arguments.
    """
    try:
        with hold_lock():
            prepare()
    except SetupError as error:
        stop(str(error))
    except OSError as error:
        stop(f"{error}. What to do: make {ROOT} writable, with some gigabytes free")
    except KeyboardInterrupt:
        stop("interrupted; start again to go on")
    if Path(sys.prefix).resolve() != VENV.resolve():
        sys.stdout.flush()
        python = str(find_python())
        os.execv(python, [python, str(Path(script).resolve()), *arguments])


def prepare() -> None:
    """Make `.venv` complete; returns at once when it is."""
    stamp = read_stamp()
    is_root = hasattr(os, "geteuid") and os.geteuid() == 0
    is_current = stamp.get("key") == compute_key() and find_python().exists()
    if is_current and (stamp.get("asked_system") or not is_root):
        return
    if is_root:
        install_system_driver()
    if not is_current:
        make_venv()
        install_packages()
    text = json.dumps({"key": compute_key(), "asked_system": is_root or bool(stamp.get("asked_system"))})
    partial = VENV / "codl-setup.partial"
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, stamp_file())


def compute_key() -> str:
    """Return a digest of all that decides what is installed: what pyproject.toml says, and this Python."""
    digest = hashlib.sha256((ROOT / "pyproject.toml").read_bytes())
    digest.update(f"{EXTRAS} {sys.version_info[:2]} {ROOT}".encode())
    return digest.hexdigest()


def stamp_file() -> Path:
    """Return the file that says what is installed; it is written last."""
    return VENV / "codl-setup.json"


def read_stamp() -> dict[str, object]:
    """Return what was installed, or nothing when that is unknown."""
    try:
        told = json.loads(stamp_file().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}


def find_python() -> Path:
    """Return the interpreter of `.venv`, which may not exist."""
    return VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def make_venv() -> None:
    """Make `.venv` unless one that works is there; a broken or half-made one is made anew."""
    if VENV.is_dir() and run_quietly([str(find_python()), "-m", "pip", "--version"]).returncode == 0:
        return
    if VENV.is_symlink() or VENV.is_file():
        VENV.unlink()
    elif VENV.exists():
        say("removing a broken .venv")
        shutil.rmtree(VENV)
    with timed("making .venv"):
        made = run_quietly([sys.executable, "-m", "venv", str(VENV)])
    if made.returncode:
        shutil.rmtree(VENV, ignore_errors=True)
        if "ensurepip" in made.stdout or "No module named venv" in made.stdout:
            raise SetupError(
                "this Python has no venv module. What to do: as root, apt-get install python3-venv"
            )
        raise SetupError(f"making .venv failed ({last_line(made.stdout)}). What to do: make {ROOT} writable")


def install_packages() -> None:
    """Install codl from the checkout with its extras, showing each package as pip comes to it."""
    command = [
        str(find_python()),
        "-m",
        "pip",
        "install",
        "--disable-pip-version-check",
        "--progress-bar",
        "off",
    ]
    log: list[str] = []
    with (
        timed(f"installing codl[{EXTRAS}]"),
        subprocess.Popen(
            [*command, "--editable", f"{ROOT}[{EXTRAS}]"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as process,
    ):
        for line in process.stdout or ():
            log.append(line)
            words = line.split()
            if words[:1] == ["Collecting"]:
                say(f"  {words[1]}")
            elif words[:2] == ["Installing", "collected"]:
                say("  unpacking")
    if process.returncode:
        raise SetupError(explain_pip_failure("".join(log)))


def explain_pip_failure(log: str) -> str:
    """Return one line that says why pip failed and what to do."""
    if any(sign in log for sign in _NETWORK_SIGNS):
        return "cannot reach PyPI. What to do: connect to the network, or set PIP_INDEX_URL; start again"
    errors = [line for line in log.splitlines() if line.startswith("ERROR")]
    return f"pip failed: {errors[0] if errors else last_line(log)}. What to do: mend that, then start again"


def install_system_driver() -> None:
    """Install the system's PoCL, a fast second device, on Debian and Ubuntu; going on without it is fine."""
    if not is_system_driver_present():
        install_from_system(SYSTEM_DRIVER, otherwise="the drivers from PyPI")


def install_browser() -> None:
    """Install Chromium, which the tests of pages drive, on Debian as root; going on without it is fine."""
    is_root = hasattr(os, "geteuid") and os.geteuid() == 0
    if is_root and shutil.which("chromedriver") is None:
        install_from_system(BROWSER, otherwise="those tests skipped")


def install_from_system(package: str, *, otherwise: str) -> None:
    """Install a package with apt-get where there is one; what comes otherwise is said when that fails."""
    if shutil.which("apt-get") is None:
        return
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "install", "-y", "--no-install-recommends", package]
    with timed(f"apt-get install {package}"):
        done = run_quietly(install, environment)
        if done.returncode:
            run_quietly(["apt-get", "update"], environment)
            done = run_quietly(install, environment)
    if done.returncode:
        say(f"  not installed ({last_line(done.stdout)}); going on with {otherwise}")


def is_system_driver_present() -> bool:
    """Return whether the system's list of OpenCL drivers names PoCL."""
    return any(Path("/etc/OpenCL/vendors").glob("*pocl*.icd"))


def run_quietly(
    command: Sequence[str], environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command and return how it ended, with all it said in `stdout`; a missing program just fails."""
    try:
        return subprocess.run(
            list(command),
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
    except OSError as error:
        return subprocess.CompletedProcess(list(command), 127, stdout=str(error))


@contextlib.contextmanager
def hold_lock() -> Iterator[None]:
    """Let one process at a time set up, where the system can do that."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with (ROOT / "pyproject.toml").open("rb") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            say("waiting for another setup of this checkout")
            fcntl.flock(stream, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def timed(what: str) -> Iterator[None]:
    """Say what is being done, and afterwards how long it took."""
    say(f"{what} ...")
    start = time.monotonic()
    yield
    say(f"{what}: {time.monotonic() - start:.0f} s")


def last_line(text: str) -> str:
    """Return the last line that says something."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no message")


def say(text: str) -> None:
    """Print a line of progress."""
    print(f"[setup] {text}", file=sys.stderr, flush=True)


def stop(message: str) -> NoReturn:
    """End the process: it cannot go on, and one line says why."""
    print(f"setup: {message}", file=sys.stderr, flush=True)
    raise SystemExit(CANNOT)
