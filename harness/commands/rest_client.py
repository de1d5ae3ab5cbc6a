"""Asks the REST API of a running job, for the commands of `onceproof job`.

The rules this module lives by:

- An address is `http://HOST:PORT`, as the job prints it; a token may stand behind `#token=`. Without one
  there the token is that of the environment variable ONCEPROOF_REST_TOKEN.
- What comes back is data: it is bounded in size, and its texts are printed without control characters.
- No answer is an error of one line that names the address.
"""

from __future__ import annotations

import http.client
import os
import time
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import msgspec

from onceproof.engine.runtime.job_fingerprint import printable
from onceproof.engine.runtime.job_requests import JobAnswer, JobRequest
from onceproof.engine.runtime.monitor.rest_note import RestNote
from onceproof.engine.runtime.request_folder import JobNotRunning, NoAnswer
from onceproof.harness.model.exit_codes import UsageError

TOKEN_VARIABLE: Final = "ONCEPROOF_REST_TOKEN"
ANSWER_SECONDS: Final = 10.0
LOOK_SECONDS: Final = 0.05
MOST_BYTES: Final = 1 << 24
_ENDED: Final = ("FINISHED", "FAILED", "CANCELED")


class RestRefused(Exception):
    """The job refuses a request; the message is one line."""


def is_address(subject: str) -> bool:
    """Return whether a subject of a command is the address of a REST API."""
    return subject.startswith(("http://", "https://"))


class RestClient:
    """The client of one job's REST API."""

    def __init__(self, host: str, port: int, token: str) -> None:
        self.place = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        self._host = host
        self._port = port
        self._token = token
        self._job_id = ""

    @classmethod
    def of_address(cls, address: str) -> RestClient:
        """Return the client of an address. Raises UsageError."""
        parts = urlsplit(address)
        try:
            host, port = parts.hostname, parts.port
        except ValueError:
            host = port = None
        if parts.scheme != "http" or not host or not port or parts.path not in ("", "/"):
            raise UsageError(f"{address}: is no address of a job: give it as http://HOST:PORT")
        given = parse_qs(parts.fragment).get("token", [])
        return cls(host, port, given[0] if given else os.environ.get(TOKEN_VARIABLE, ""))

    @classmethod
    def of_note(cls, note: RestNote) -> RestClient:
        """Return the client of a job that has left a note in its folder. Raises UsageError."""
        client = cls.of_address(note.url)
        client._token = note.token
        return client

    @property
    def job_id(self) -> str:
        """Return the id of the job. Raises JobNotRunning, NoAnswer, RestRefused."""
        if not self._job_id:
            self._job_id = self.get("/jobs")["jobs"][0]["id"]
        return self._job_id

    def get(self, path: str) -> Any:
        """Return what a path answers. Raises JobNotRunning, NoAnswer, RestRefused."""
        return self._ask("GET", path)

    def of_job(self, path: str = "") -> Any:
        """Return what a path below the job answers."""
        return self.get(f"/jobs/{self.job_id}{path}")

    def change(self, request: JobRequest, seconds: float) -> JobAnswer:
        """Ask for a change, and wait up to ``seconds`` for what comes of it.

        Raises JobNotRunning, NoAnswer, RestRefused.
        """
        below = f"/jobs/{self.job_id}"
        until = time.monotonic() + seconds
        if request.kind == "cancel":
            self._ask("PATCH", f"{below}?mode=cancel")
            self._wait_for_end(until)
            return JobAnswer()
        if request.kind == "stop":
            body = {"targetDirectory": request.directory or None, "drain": request.drains}
            asked = self._ask("POST", f"{below}/stop", body)
        else:
            cancels = request.kind == "cancel_with_savepoint"
            body = {"target-directory": request.directory or None, "cancel-job": cancels}
            asked = self._ask("POST", f"{below}/savepoints", body)
        while True:
            found = self.get(f"{below}/savepoints/{asked['request-id']}")
            if found["status"]["id"] == "COMPLETED":
                operation = found["operation"]
                failure = operation.get("failure-cause")
                return (
                    JobAnswer(error=failure["stack-trace"]) if failure else JobAnswer(operation["location"])
                )
            self._pause(until)

    def _wait_for_end(self, until: float) -> None:
        while True:
            try:
                if self.of_job("/status")["status"] in _ENDED:
                    return
            except JobNotRunning:
                return
            self._pause(until)

    def _pause(self, until: float) -> None:
        if time.monotonic() > until:
            raise NoAnswer(f"{self.place}: no answer in time; the job may still do what was asked")
        time.sleep(LOOK_SECONDS)

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        connection = http.client.HTTPConnection(self._host, self._port, timeout=ANSWER_SECONDS)
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        try:
            connection.request(method, path, None if body is None else msgspec.json.encode(body), headers)
            answer = connection.getresponse()
            data = answer.read(MOST_BYTES)
            status = answer.status
        except (ConnectionError, http.client.RemoteDisconnected) as error:
            raise JobNotRunning(f"{self.place}: no job answers there: has it ended?") from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise NoAnswer(f"{self.place}: no answer: {error}") from error
        finally:
            connection.close()
        try:
            found = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise NoAnswer(f"{self.place}: is no REST API of a job: {error}") from error
        if status >= http.client.BAD_REQUEST:
            errors = found.get("errors") if isinstance(found, dict) else None
            said = "; ".join(map(str, errors)) if isinstance(errors, list) else str(status)
            raise RestRefused(f"{self.place}: {printable(said)}")
        return found
