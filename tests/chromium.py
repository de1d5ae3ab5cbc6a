"""Chromium without a window, driven over its debugging pipe: no package and no port is needed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
MISSING = "no Chromium on this machine: on Debian it is the package chromium"
_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"),
    *("--disable-component-update", "--disable-sync", "--hide-scrollbars", "--remote-debugging-pipe"),
    # Whatever a page asks of another machine fails.
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
)

# The browser reads its descriptor 3 and writes to 4.
_PLACE = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(given), fcntl.F_DUPFD, 10) for given in sys.argv[1:3]]
os.dup2(ends[0], 3)
os.dup2(ends[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


class Chromium:
    """A browser with one tab, within its context. ``events`` are what the tab has reported."""

    def __init__(self, profile: Path) -> None:
        assert CHROMIUM is not None, MISSING
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        self._numbers = 0
        self._rest = b""
        self._session = ""
        self.events: list[dict[str, Any]] = []
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-c", _PLACE, str(theirs_in), str(theirs_out), CHROMIUM, *_FLAGS),
                *(f"--user-data-dir={profile}", "about:blank"),
            ],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)

    def __enter__(self) -> Chromium:
        targets = self.call("Target.getTargets")["targetInfos"]
        [tab] = [each["targetId"] for each in targets if each["type"] == "page"]
        self._session = self.call("Target.attachToTarget", targetId=tab, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._in)
        os.close(self._out)

    def call(self, method: str, **parameters: Any) -> Any:
        """Call a method of the debugging protocol, and return its result."""
        self._numbers += 1
        message: dict[str, Any] = {"id": self._numbers, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            found = self._next()
            if found.get("id") == self._numbers:
                assert "error" not in found, found["error"]
                return found["result"]
            self.events.append(found)

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression in the page; a promise is awaited."""
        found = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def show(self, width: int, height: int, scheme: str) -> None:
        """Set the size of the page in pixels and ``light`` or ``dark``."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            part = os.read(self._in, 1 << 16)
            assert part, "Chromium has ended"
            self._rest += part
        message, _, self._rest = self._rest.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found

    def complaints(self) -> list[str]:
        """Return what the page has written on its console as an error, and what it has thrown."""
        found = []
        for event in self.events:
            given = event.get("params", {})
            match event.get("method"):
                case "Runtime.exceptionThrown":
                    found.append(str(given["exceptionDetails"].get("text")))
                case "Runtime.consoleAPICalled" if given["type"] in ("error", "warning"):
                    found.append(str(given["args"]))
                case "Log.entryAdded" if given["entry"]["level"] in ("error", "warning"):
                    found.append(given["entry"]["text"])
        return found

    def addresses(self) -> list[str]:
        """Return what the page has asked for."""
        return [
            each["params"]["request"]["url"]
            for each in self.events
            if each.get("method") == "Network.requestWillBeSent"
        ]
