"""A headless Chromium, driven by its DevTools protocol over a pair of pipes."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.waiting import PATIENCE_S

ROOT = Path(__file__).parents[2]
UNPACKED = ROOT / ".venv" / "chromium-headless-shell"

_OPTIONS = [
    "--no-sandbox",  # root may not use it otherwise; what it opens is our own page
    "--remote-debugging-pipe",
    "--hide-scrollbars",
    "--disable-gpu",
    "--force-color-profile=srgb",
    "about:blank",
]


def program() -> tuple[str, dict[str, str]]:
    """Return Chromium's headless program and the environment that it needs.

    `tools/browser.sh` unpacks it, unless it is installed.
    """
    if installed := shutil.which("chromium-headless-shell"):
        return installed, dict(os.environ)
    libraries = [*UNPACKED.glob("usr/lib/*-linux-gnu"), *UNPACKED.glob("usr/lib/*-linux-gnu/pulseaudio")]
    chromium = UNPACKED / "usr" / "lib" / "chromium" / "chromium-headless-shell"
    assert chromium.exists(), "there is no headless Chromium: tools/browser.sh unpacks it"
    return str(chromium), {**os.environ, "LD_LIBRARY_PATH": ":".join(map(str, libraries))}


def _fonts(profile: Path) -> dict[str, str]:
    """Return variables that leave one family of fonts, if it is there: texts are as long everywhere."""
    file = profile / "fonts.conf"
    folders = [folder / "usr/share/fonts/truetype/dejavu" for folder in (UNPACKED, Path("/"))]
    installed = next((folder for folder in folders if folder.is_dir()), None)
    if installed is None:
        return {}
    folders_of_it = f"<dir>{installed}</dir><cachedir>{profile}/fonts</cachedir>"
    file.write_text(f'<?xml version="1.0"?><fontconfig>{folders_of_it}</fontconfig>')
    return {"FONTCONFIG_FILE": str(file)}


class Tab:
    """One page of the browser."""

    def __init__(self, to: int, back: int) -> None:
        self._to, self._back = to, back
        self._number, self._unread = 0, b""
        self._session = ""
        self.said: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def another(self) -> Tab:
        """Open a second tab in the same browser; only one tab at a time may be waited for."""
        return Tab(self._to, self._back)

    def close(self) -> None:
        """Close the tab."""
        self.call("Page.close")

    def call(self, method: str, **parameters: Any) -> Any:
        """Call a method of the protocol; events that come before its answer are kept in `said`."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE_S
        while True:
            answer = self._read(deadline)
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
            self.said.append(answer)

    def open(self, url: str, *, width: int, dark: bool = False, still: bool = True) -> None:
        """Open an address in a window of this width."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False
        )
        features = [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce" if still else "no-preference"},
        ]
        self.call("Emulation.setEmulatedMedia", features=features)
        self.call("Page.navigate", url=url)

    def value(self, expression: str) -> Any:
        """Return what an expression of JavaScript computes."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def until(self, expression: str) -> None:
        """Wait until an expression of JavaScript is true."""
        deadline = time.monotonic() + PATIENCE_S
        while not self.value(expression):
            assert time.monotonic() < deadline, f"{expression} did not come true"
            time.sleep(0.02)

    def press(self, key: str) -> None:
        """Press a key and release it."""
        code, text = {"Tab": (9, "\t"), "Enter": (13, "\r")}[key]
        named = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **named)
        self.call("Input.dispatchKeyEvent", type="keyUp", **named)

    def type(self, text: str) -> None:
        """Press a key for each character."""
        for character in text:
            self.call("Input.dispatchKeyEvent", type="keyDown", key=character, text=character)
            self.call("Input.dispatchKeyEvent", type="keyUp", key=character)

    def picture(self, path: Path) -> None:
        """Write a picture of the whole page, for people."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        data = self.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)["data"]
        path.write_bytes(base64.b64decode(data))

    def complaints(self) -> list[str]:
        """Return what the browser complained of: exceptions, refusals by the policy, failed requests."""
        kinds = ("Runtime.exceptionThrown", "Log.entryAdded", "Network.loadingFailed")
        self.value("0")  # reads what has come
        return [json.dumps(message["params"]) for message in self.said if message.get("method") in kinds]

    def requests(self) -> list[str]:
        """Return the addresses that were asked for."""
        messages = [message for message in self.said if message.get("method") == "Network.requestWillBeSent"]
        return [message["params"]["request"]["url"] for message in messages]

    def _read(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._unread:
            ready, _, _ = select.select([self._back], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, "the browser does not answer"
            data = os.read(self._back, 1 << 16)
            assert data, "the browser has ended"
            self._unread += data
        message, _, self._unread = self._unread.partition(b"\0")
        return dict(json.loads(message))


@contextmanager
def browser(profile: Path) -> Iterator[Tab]:
    """Run a browser with its profile in a folder until the block ends."""
    path, environment = program()
    environment |= _fonts(profile)
    pipes = [fcntl.fcntl(end, fcntl.F_DUPFD, 20) for pipe in (os.pipe(), os.pipe()) for end in _closing(pipe)]
    theirs_in, to, back, theirs_out = pipes
    with (profile / "log").open("wb") as log:
        pid = os.posix_spawn(
            path,
            [path, f"--user-data-dir={profile}", *_OPTIONS],
            environment,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, theirs_in, 3),
                (os.POSIX_SPAWN_DUP2, theirs_out, 4),
                (os.POSIX_SPAWN_DUP2, log.fileno(), 1),
                (os.POSIX_SPAWN_DUP2, log.fileno(), 2),
                *((os.POSIX_SPAWN_CLOSE, descriptor) for descriptor in pipes),
            ],
            setpgroup=0,
        )
    os.close(theirs_in)
    os.close(theirs_out)
    try:
        yield Tab(to, back)
    finally:
        os.killpg(pid, signal.SIGKILL)  # its helpers, too
        os.waitpid(pid, 0)
        os.close(to)
        os.close(back)


def _closing(pipe: tuple[int, int]) -> Iterator[int]:
    """Yield both ends, and close each once it has been duplicated."""
    for end in pipe:
        yield end
        os.close(end)
