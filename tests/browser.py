"""A headless Chromium, driven by the W3C WebDriver protocol over plain HTTP."""

import base64
import json
import os
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

DRIVER = shutil.which("chromedriver")
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chromium-browser")
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


class Browser:
    """One window.

    Args:
        session: Address of the WebDriver session.
    """

    def __init__(self, session: str) -> None:
        self._session = session

    def open(self, page: Path, *, is_drawn: bool = True) -> None:
        """Load a file, and wait until its script has drawn everything, if it has one that does."""
        self._send("POST", "/url", {"url": page.as_uri()})
        if is_drawn:
            self.wait_until("return document.documentElement.dataset.ready === 'true'")

    def wait_until(self, script: str) -> None:
        """Wait until a script returns something that is true."""
        for _ in range(600):
            if self.run(script):
                return
            time.sleep(0.05)
        raise AssertionError(f"{script}: never came true; the console says {self.log()}")

    def run(self, script: str, *arguments: object) -> Any:
        """Return what a script returns."""
        return self._send("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def find(self, selector: str) -> str:
        """Return an element's reference."""
        found = self._send("POST", "/element", {"using": "css selector", "value": selector})
        return str(found[_ELEMENT])

    def click(self, selector: str) -> None:
        """Click on an element."""
        self._send("POST", f"/element/{self.find(selector)}/click", {})

    def type(self, selector: str, text: str) -> None:
        """Type into an element, key by key."""
        self._send("POST", f"/element/{self.find(selector)}/value", {"text": text})

    def press(self, keys: str) -> None:
        """Press keys one after the other, whatever has the focus."""
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        source = {"type": "key", "id": "keyboard", "actions": actions}
        self._send("POST", "/actions", {"actions": [source]})

    def label(self, reference: str) -> str:
        """Return an element's accessible name."""
        return str(self._send("GET", f"/element/{reference}/computedlabel"))

    def screenshot(self) -> bytes:
        """Return a picture of the window as PNG."""
        return base64.b64decode(self._send("GET", "/screenshot"))

    def resize(self, width: int, height: int) -> None:
        """Make the window so large, in pixels."""
        self._send("POST", "/window/rect", {"width": width, "height": height})

    def set_dark(self, is_dark: bool) -> None:
        """Let pages see that the user prefers dark or light."""
        feature = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        command = {"cmd": "Emulation.setEmulatedMedia", "params": {"features": [feature]}}
        self._send("POST", "/goog/cdp/execute", command)

    def log(self) -> list[str]:
        """Return what the console got since this was last asked."""
        return [str(entry["message"]) for entry in self._send("POST", "/se/log", {"type": "browser"})]

    def _send(self, method: str, path: str, body: object = None) -> Any:
        return send(method, self._session + path, body)


def send(method: str, address: str, body: object = None) -> Any:
    """Return the value that a WebDriver command answers with."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        address, data=data, method=method, headers={"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=180) as response:
            return json.load(response)["value"]
    except urllib.error.HTTPError as error:
        raise AssertionError(f"{method} {address}: {error.read().decode()[:600]}") from error


@contextmanager
def open_browser(folder: Path) -> Iterator[Browser]:
    """Start Chromium with a profile of its own in a folder, and end it with the block."""
    assert DRIVER is not None
    assert CHROMIUM is not None
    process = subprocess.Popen(
        [DRIVER, "--port=0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=_environment(folder),
    )
    try:
        driver = f"http://127.0.0.1:{_read_port(process)}"
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        flags += ["--window-size=1400,1000", f"--user-data-dir={folder / 'profile'}"]
        options = {"binary": CHROMIUM, "args": flags}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        made = send("POST", f"{driver}/session", {"capabilities": {"alwaysMatch": wanted}})
        session = f"{driver}/session/{made['sessionId']}"
        try:
            yield Browser(session)
        finally:
            send("DELETE", session)
    finally:
        process.terminate()
        process.wait(timeout=30)
        assert process.stdout is not None
        process.stdout.close()


def _environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "XDG_CACHE_HOME": str(folder)}


def _read_port(process: "subprocess.Popen[str]") -> int:
    assert process.stdout is not None
    for line in process.stdout:
        if "started successfully on port" in line:
            return int(line.rstrip(" .\n").rsplit(" ", 1)[1])
    raise AssertionError("chromedriver ended without saying on which port it listens")
