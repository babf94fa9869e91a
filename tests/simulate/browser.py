"""Headless Chromium, driven over its DevTools protocol on two pipes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--remote-debugging-pipe"),
)
KEYS = {"Tab": 9, "ArrowDown": 40, "ArrowUp": 38}


class Browser:
    """One page in a browser with a profile of its own."""

    def __init__(self, profile: Path) -> None:
        self.complaints: list[str] = []
        self._profile = profile
        self._sent = 0
        self._session: str | None = None

    def __enter__(self) -> Browser:
        assert CHROMIUM is not None
        read_by_it, commands = os.pipe()
        answers, written_by_it = os.pipe()
        # It reads descriptor 3 and writes descriptor 4.
        shell = f'exec "$0" "$@" 3<&{read_by_it} 4>&{written_by_it}'
        self._process = subprocess.Popen(
            ["/bin/bash", "-c", shell, CHROMIUM, *FLAGS, f"--user-data-dir={self._profile}", "about:blank"],
            pass_fds=(read_by_it, written_by_it),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read_by_it)
        os.close(written_by_it)
        self._commands, self._answers = os.fdopen(commands, "wb", 0), os.fdopen(answers, "rb")
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._call(f"{domain}.enable")
        return self

    def __exit__(self, *failure: object) -> None:
        self._session = None
        self._call("Browser.close")
        self._process.wait(30)
        self._commands.close()
        self._answers.close()

    def open(self, file: Path, width: int) -> None:
        metrics = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
        self._call("Emulation.setDeviceMetricsOverride", **metrics)
        self._call("Page.navigate", url=file.as_uri())
        while self._next().get("method") != "Page.loadEventFired":
            pass

    def value(self, expression: str) -> Any:
        found = self._call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def point_at(self, x: float, y: float) -> None:
        self._call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def type(self, text: str) -> None:
        self._call("Input.insertText", text=text)

    def press(self, key: str) -> None:
        for kind in ("rawKeyDown", "keyUp"):
            self._call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=KEYS[key])

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._sent += 1
        request: dict[str, Any] = {"id": self._sent, "method": method, "params": parameters}
        if self._session:
            request["sessionId"] = self._session
        self._commands.write(json.dumps(request).encode() + b"\0")
        while (answer := self._next()).get("id") != self._sent:
            pass
        assert "result" in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def _next(self) -> dict[str, Any]:
        text = bytearray()
        while (byte := self._answers.read(1)) != b"\0":
            assert byte, "the browser ended"
            text += byte
        message: dict[str, Any] = json.loads(text)
        if message.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded"):
            self.complaints.append(json.dumps(message["params"]))
        return message
