"""Headless Chromium, controlled through the pipe of its DevTools protocol, without a driver."""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import LONGEST_WAIT

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

_OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--remote-debugging-pipe"),
)


# Text whose contrast to its background is below 4.5 : 1 (WCAG 2, level AA), or 3 : 1 if large.
FAINT_TEXT = """
(() => {
  const channel = value => value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  const parts = text => text.match(/[\\d.]+/g).map(Number);
  const light = text => {
    const [red, green, blue] = parts(text).map(value => channel(value / 255));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const behind = element => {
    for (let e = element; e; e = e.parentElement) {
      const colour = getComputedStyle(e).backgroundColor;
      if (parts(colour)[3] !== 0) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const written = element => [...element.childNodes].some(
    node => node.nodeType === Node.TEXT_NODE && node.textContent.trim());
  return [...document.body.querySelectorAll("*")].filter(written).map(element => {
    const look = getComputedStyle(element), size = parseFloat(look.fontSize);
    const [low, high] = [light(look.color), light(behind(element))].sort((a, b) => a - b);
    const enough = size >= 24 || (size >= 18.66 && look.fontWeight >= 700) ? 3 : 4.5;
    return (high + 0.05) / (low + 0.05) < enough ? element.outerHTML.slice(0, 80) : "";
  }).filter(Boolean);
})()
"""

# Elements wider than the window without a scrolling box around them.
OVERFLOWING = """
[...document.body.querySelectorAll("*")].filter(element => {
  if (element.getBoundingClientRect().right <= window.innerWidth + 1) return false;
  for (let e = element.parentElement; e !== document.body; e = e.parentElement)
    if (getComputedStyle(e).overflowX !== "visible") return false;
  return true;
}).map(element => element.outerHTML.slice(0, 80))
"""


class Page:
    """One open page.

    complaints: console messages, and every request outside the page.
    """

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers = commands, os.fdopen(answers, "rb")
        self._buffer, self._number, self._session = b"", 0, ""
        self._events: list[dict[str, Any]] = []
        self.complaints: list[str] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        attached = self.ask("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def open(self, path: Path, width: int, height: int = 900, fragment: str = "") -> None:
        """Load a file in a window of this width, and wait for its pictures."""
        phone = width < 600
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2 if phone else 1,
            mobile=phone,
        )
        self._events.clear()
        self.ask("Page.navigate", url=path.resolve().as_uri() + fragment)
        while not any(event["method"] == "Page.loadEventFired" for event in self._events):
            self._read()
        # Decode every picture, including those outside the window.
        self.evaluate("Promise.all([...document.images].map(image => image.decode()))")

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression."""
        answer = self.ask(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            message = self._read()
            if message.get("id") == self._number:
                assert "error" not in message, message
                result: dict[str, Any] = message["result"]
                return result

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            part = self._answers.read1(1 << 20)
            assert part, "the browser has exited"
            self._buffer += part
        text, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        if "method" in message:
            self._events.append(message)
            self._listen(message["method"], message["params"])
        return message

    def _listen(self, method: str, event: dict[str, Any]) -> None:
        if method == "Log.entryAdded":
            self.complaints.append(event["entry"]["text"])
        elif method in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown"):
            self.complaints.append(json.dumps(event))
        elif method == "Network.requestWillBeSent":
            url = event["request"]["url"]
            if not url.startswith(("file:", "data:", "about:")):
                self.complaints.append(f"requested {url}")


@contextmanager
def open_page() -> Iterator[Page]:
    """A browser with an empty page; all of its processes end afterwards.

    Without Chromium the test is skipped, and fails in CI.
    """
    if not CHROMIUM:
        message = "chromium is not installed: the page was not opened"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    commands_out, commands_in = os.pipe()
    answers_out, answers_in = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        # The browser reads from file descriptor 3 and writes to 4.
        script = f'exec "$@" 3<&{commands_out} 4>&{answers_in}'
        browser = subprocess.Popen(
            ["bash", "-c", script, "bash", CHROMIUM, *_OPTIONS, f"--user-data-dir={folder}"],
            pass_fds=(commands_out, answers_in),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands_out)
        os.close(answers_in)
        try:
            page = Page(commands_in, answers_out)
            yield page
            page._session = ""
            page.ask("Browser.close")
        finally:
            browser.terminate()
            browser.wait(timeout=LONGEST_WAIT)
            os.close(commands_in)
