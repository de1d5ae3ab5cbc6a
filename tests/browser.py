"""A headless Chromium that tests drive over a pair of pipes, by its own protocol of JSON messages."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from functools import cache
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-extensions", "--no-first-run"),
    *("--disable-dev-shm-usage", "--remote-debugging-pipe", "--hide-scrollbars"),
    # Whatever a page asks of another machine fails.
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
)
WORST_IMPACTS = ("serious", "critical")
MISSING = "no Chromium on this machine: on Debian it is the package chromium"


def found_browser() -> str | None:
    """Return the path of a Chromium on this machine."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def pictures_folder() -> Path | None:
    """Return the folder that ONCEPROOF_PICTURES names for pictures of pages, made; None if it names none."""
    named = os.environ.get("ONCEPROOF_PICTURES")
    if not named:
        return None
    folder = Path(named)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@cache
def _axe_core() -> str:
    """Return the source of axe-core, which checks the accessibility of a page."""
    source = Path(str(distribution("axe-core-python").locate_file("axe_core_python/axe.min.js")))
    return source.read_text(encoding="utf-8")


class Browser:
    """One page in a browser: what it shows, what it logs as errors, and what it asks of the network."""

    def __init__(self, profile: Path) -> None:
        """Start the browser with a profile of its own."""
        down_read, self._down = os.pipe()
        self._up, up_write = os.pipe()
        # Chromium reads its messages from descriptor 3 and writes to 4.
        program = f'exec 3<&{down_read} 4>&{up_write}; exec "$@"'
        self._process = subprocess.Popen(
            ["bash", "-c", program, "bash", found_browser() or "", *OPTIONS, f"--user-data-dir={profile}"],
            pass_fds=(down_read, up_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(down_read)
        os.close(up_write)
        self._number = 0
        self._rest = b""
        self._session: str | None = None
        self.errors: list[str] = []
        self.requests: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        """End the browser."""
        self._process.kill()
        self._process.wait()
        os.close(self._down)
        os.close(self._up)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the browser's protocol, and return its result."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._down, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self._number:
            self._note(answer)
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def open(self, address: str, width: int = 1280, dark: bool = False) -> None:
        """Open a page at a width, in light or dark colours, and wait until it has loaded."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=address)
        while self.run("document.readyState") != "complete" or self.run("location.href") == "about:blank":
            pass

    def run(self, script: str) -> Any:
        """Evaluate an expression in the page, and return its value; a promise is awaited."""
        result = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def barriers(self) -> list[str]:
        """Return the serious and critical findings of axe-core in the page, each with the first elements."""
        self.run(f"{_axe_core()};0")
        # Nothing is preloaded: the pages have neither media nor style sheets of other machines.
        options = "{resultTypes: ['violations'], preload: false}"
        found = self.run(f"axe.run(document, {options}).then(({{violations}}) => violations)")
        return [
            f"{each['impact']}, {each['id']}: {each['help']} {[node['target'] for node in each['nodes'][:3]]}"
            for each in found
            if each["impact"] in WORST_IMPACTS
        ]

    def press(self, key: str) -> None:
        """Press a key."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key)

    def picture(self, path: Path) -> None:
        """Write a picture of the whole page."""
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            part = os.read(self._up, 1 << 20)
            assert part, "the browser has ended"
            self._rest += part
        message, _, self._rest = self._rest.partition(b"\0")
        answer: dict[str, Any] = json.loads(message)
        return answer

    def _note(self, event: dict[str, Any]) -> None:
        parameters = event.get("params", {})
        match event.get("method"):
            case "Runtime.exceptionThrown":
                self.errors.append(str(parameters["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if parameters["type"] in ("error", "warning"):
                self.errors.append(str(parameters["args"]))
            case "Log.entryAdded" if parameters["entry"]["level"] in ("error", "warning"):
                self.errors.append(parameters["entry"]["text"])
            case "Network.requestWillBeSent":
                self.requests.append(parameters["request"]["url"])
