"""An object store of the S3 kind: the server that tests and trials use.

The rules this module lives by:

- It is versitygw where that program is on the PATH: its objects are files below the folder, and survive a
  SIGKILL. Otherwise it is moto, which keeps them in memory: after a kill the store is empty, so whatever
  has to go on from it is tried with `pause` instead.
- Both answer as S3 does where it matters here: conditional creates, uploads in parts, strong listings.
- A client gets address and key from the environment that every S3 client reads.
"""

from __future__ import annotations

import shutil
import signal
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Final

from onceproof.engine.extras import S3_SERVER, require
from onceproof.harness.services.service import (
    LOOPBACK,
    ServerProcesses,
    ServiceError,
    becomes_free,
    keep_port,
    kept_port,
    last_lines,
)

BUCKET: Final = "onceproof"
"""The bucket that is there when the server has started."""
_KEY: Final = "onceproof"
_SECRET: Final = "onceproof-secret"
_REGION: Final = "us-east-1"
_MOTO: Final = (sys.executable, "-P", "-m", "onceproof.harness.services.moto_server")
_START_S: Final = 60.0
_PROBE_S: Final = 2.0
_PAUSE_S: Final = 0.02


class ObjectStoreServer:
    """An S3 server with its data below a folder (see `service.Service`).

    Args:
        folder: for data, log and the record of the process.
        port: of the loopback interface; 0: the one that the folder keeps, else a free one.
        dies_with_parent: whether the server is killed when this process has died (on Linux only).
    """

    name = "s3"

    def __init__(self, folder: Path, port: int = 0, *, dies_with_parent: bool = False) -> None:
        self.folder = folder
        self.port = kept_port(folder, "server", port)
        self._processes = ServerProcesses(folder / "processes.json")
        self._dies_with_parent = dies_with_parent
        self._versitygw = shutil.which("versitygw")

    @property
    def address(self) -> str:
        """What clients call the endpoint."""
        return f"http://{LOOPBACK}:{self.port}"

    @property
    def log(self) -> Path:
        """What the server prints."""
        return self.folder / "server.log"

    @property
    def survives_kills(self) -> bool:
        """Whether the objects are still there when the server is started after a kill."""
        return self._versitygw is not None

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which a client reaches the server."""
        return {
            "AWS_ENDPOINT_URL": self.address,
            "AWS_ACCESS_KEY_ID": _KEY,
            "AWS_SECRET_ACCESS_KEY": _SECRET,
            "AWS_DEFAULT_REGION": _REGION,
        }

    def start(self) -> None:
        """Start the server and return when it answers. Raises ServiceError, ExtraMissing."""
        if not self.is_running():
            command = self._command()
            keep_port(self.folder, "server", self.port)
            if not becomes_free(self.port):
                raise ServiceError(
                    f"s3: port {self.port} of {LOOPBACK} is taken: end what listens there, or remove"
                    f" {self.folder} for a server with another port"
                )
            self._processes.start(command, self.log, dies_with_parent=self._dies_with_parent)
        self._wait_until_it_answers()
        self._make_bucket()

    def stop(self) -> None:
        """End the server in order."""
        self._processes.end()

    def kill(self) -> None:
        """Kill the server with SIGKILL."""
        self._processes.kill()

    def pause(self) -> None:
        """Stop the server with SIGSTOP: connections stay, nothing is answered."""
        self._processes.pause()

    def resume(self) -> None:
        """Let a paused server run on."""
        self._processes.send(signal.SIGCONT)

    def is_running(self) -> bool:
        """Return whether the process of the server lives."""
        return bool(self._processes.living())

    def has_died(self) -> bool:
        """Return whether the server has ended by itself, or was killed."""
        return self._processes.has_died()

    # ---- internal

    def _command(self) -> list[str]:
        at = f"{LOOPBACK}:{self.port}"
        if self._versitygw is None:
            require("the object store moto", S3_SERVER)
            return [*_MOTO, LOOPBACK, str(self.port)]
        (self.folder / "data" / BUCKET).mkdir(parents=True, exist_ok=True)
        access = ["--access", _KEY, "--secret", _SECRET, "--region", _REGION]
        return [self._versitygw, "--port", at, *access, "--quiet", "posix", str(self.folder / "data")]

    def _wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + _START_S
        while not self._answers():
            if not self.is_running():
                raise ServiceError(f"s3: the server has ended: {last_lines(self.log)[:300]} ({self.log})")
            if time.monotonic() > deadline:
                raise ServiceError(f"s3: the server does not answer after {_START_S:.0f} s: see {self.log}")
            time.sleep(_PAUSE_S)

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(self.address, timeout=_PROBE_S):
                return True
        except urllib.error.HTTPError:
            return True
        except OSError:
            return False

    def _make_bucket(self) -> None:
        """Make the bucket in moto, which asks for no signature; in versitygw it is a folder."""
        if self._versitygw is None:
            request = urllib.request.Request(f"{self.address}/{BUCKET}", method="PUT")
            with urllib.request.urlopen(request, timeout=_START_S):
                return
