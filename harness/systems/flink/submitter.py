"""The client process that submits jobs to Flink, as the harness sees it (`client/main.py`).

The rules this module lives by:

- One client serves all scenarios: its Java takes seconds to start, and a job is submitted in tenths of one.
- It runs in Flink's environment and has nothing of ours but the file of the family. It dies with the harness.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from onceproof import scenarios
from onceproof.harness.model.family import FamilyError
from onceproof.harness.services.service import ServiceError, die_with_parent, last_lines
from onceproof.harness.systems.flink.home import CLIENT, OPENED, FlinkHome

_ANSWER_S: Final = 120.0


class Submitter:
    """A client of Flink that stays; it is starting until the first answer."""

    def __init__(self, home: FlinkHome, folder: Path, configuration: Path) -> None:
        self._log = folder / "client.log"
        environment = home.environment(configuration)
        environment["JVM_ARGS"] = " ".join(
            ["-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *OPENED]
        )
        # A client that is killed leaves a plan there. The quotation marks are for spaces in a path.
        environment["JDK_JAVA_OPTIONS"] = f'"-Djava.io.tmpdir={folder}"'
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [home.python, str(CLIENT / "main.py"), next(iter(scenarios.__path__))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )
        self.is_ready = False
        """Whether it has started."""

    @property
    def is_alive(self) -> bool:
        """Whether it can be asked."""
        return self._process.poll() is None

    def submit(self, order: dict[str, Any]) -> dict[str, Any]:
        """Have a job submitted. Return its id under "job", and how many readers it has under "readers".

        Raises:
            FamilyError: the family's job cannot run on PyFlink.
            ServiceError: the client has died or does not answer.
        """
        answer = self._asked(order)
        if "refused" in answer:
            raise FamilyError(f"family {order['name']} cannot run on Flink: {answer['refused']}")
        if "error" in answer:
            raise ServiceError(
                f"family {order['name']} on Flink: {' '.join(answer['error'].split())[-1500:]}"
            )
        return answer

    def refusal(self, order: dict[str, Any]) -> str:
        """Have a job built and not submitted; return why the family cannot run on PyFlink, "" if it can.

        Raises:
            ServiceError: the client has died or does not answer.
        """
        answer = self._asked({**order, "is_only_built": True})
        return str(answer.get("refused") or answer.get("error") or "")

    def _asked(self, order: dict[str, Any]) -> dict[str, Any]:
        """Send an order, and return the answer."""
        if not self.is_ready:
            self._answer()
            self.is_ready = True
        assert self._process.stdin is not None, "it was opened as a pipe"
        try:
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            raise ServiceError(f"the client of Flink has ended: {last_lines(self._log)}") from None
        return self._answer()

    def end(self) -> None:
        """End it, and its Java."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()

    def _answer(self) -> dict[str, Any]:
        output = self._process.stdout
        assert output is not None, "it was opened as a pipe"
        deadline = time.monotonic() + _ANSWER_S
        ready, _, _ = select.select([output], [], [], max(0.0, deadline - time.monotonic()))
        line = output.readline() if ready else b""
        if not line:
            raise ServiceError(
                f"the client of Flink {'has ended' if ready else 'does not answer'}: {last_lines(self._log)}"
            )
        answer: dict[str, Any] = json.loads(line)
        return answer
