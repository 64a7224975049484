"""A real browser for tests: Chromium without a window, driven over the pipe of its DevTools protocol."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import PROGRAM_SECONDS

DEADLINE_SECONDS = 60.0
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")

TO_3_AND_4 = """
import fcntl, os, sys
read, write = (fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3])
os.dup2(read, 3)
os.dup2(write, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""  # the browser reads from descriptor 3 and writes to 4


class Browser:
    """One page. `messages` are what it wrote to its console, `requests` the addresses that it asked for."""

    def __init__(self, process: subprocess.Popen[bytes], write: int, read: int) -> None:
        self._process, self._write, self._read = process, write, read
        self._number, self._buffer = 0, b""
        self._session: str | None = None
        self.messages: list[str] = []
        self.requests: list[str] = []

    def attach(self) -> None:
        """Open the page that all calls go to."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The answer to one call of the protocol."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                result: dict[str, Any] = answer["result"]
                return result

    def open(self, page: Path, *, width: int = 1200, height: int = 900, scheme: str = "light", media: str = "") -> None:
        """Load a page and wait until it is there."""
        self.messages.clear()
        self.requests.clear()
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        self.call(
            "Emulation.setEmulatedMedia", media=media, features=[{"name": "prefers-color-scheme", "value": scheme}]
        )
        self.call("Page.navigate", url=page.as_uri())
        deadline = time.monotonic() + DEADLINE_SECONDS
        while self.evaluate("document.readyState") != "complete" or self.evaluate("location.href") != page.as_uri():
            assert time.monotonic() < deadline, f"{page} was not loaded"
            time.sleep(0.02)

    def evaluate(self, script: str) -> Any:
        """The value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def _next(self) -> dict[str, Any]:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, "the browser does not answer"
            more = os.read(self._read, 1 << 20)
            assert more, "the browser has ended"
            self._buffer += more
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        match message.get("method"):
            case "Log.entryAdded":
                entry = message["params"]["entry"]
                self.messages.append(f"{entry['level']}: {entry['text']}")
            case "Runtime.consoleAPICalled" | "Runtime.exceptionThrown":
                self.messages.append(json.dumps(message["params"])[:500])
            case "Network.requestWillBeSent":
                self.requests.append(message["params"]["request"]["url"])
        return message


@contextlib.contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """A browser with an empty profile in `folder`; the test is skipped where none is installed."""
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip("no Chromium is installed")
    to_read, write = os.pipe()
    read, to_write = os.pipe()
    command = [
        program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
        f"--user-data-dir={folder}", "--remote-debugging-pipe",
    ]  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", TO_3_AND_4, str(to_read), str(to_write), *command],
        pass_fds=(to_read, to_write),
        env={**os.environ, "TMPDIR": str(folder)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    os.close(to_read)
    os.close(to_write)
    page = Browser(process, write, read)
    try:
        page.attach()
        yield page
        page._session = None
        with contextlib.suppress(AssertionError, OSError):
            page.call("Browser.close")
    finally:
        os.close(write)
        os.close(read)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, 15)
        try:
            process.wait(timeout=PROGRAM_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait(timeout=PROGRAM_SECONDS)
