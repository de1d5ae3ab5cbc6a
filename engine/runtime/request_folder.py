"""How a command in another process reaches a running job: by files in the job's folder.

The rules this module lives by:

- A request is a file ``requests/<name>.request`` in JSON, put there whole by a rename; the answer is a file
  ``requests/<name>.answer``, put there in the same way. There is one answer for each request, and whoever
  asked deletes it. Files work wherever checkpoints do, also on a cluster, and nothing in them is executed.
- The job looks into the folder a few times a second. It takes a request by deleting it, before it acts on it:
  a job that dies meanwhile does not do the same again when it is started anew.
- Requests to a process that has died are not the next one's: it deletes them when it begins. The asker sees
  that his request is gone, and no answer comes.
- A job's folder is locked for as long as its process lives. So the asker can tell a job that is busy from one
  that does not run.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import Final

import msgspec

from onceproof.engine.runtime.job_requests import JobAnswer, JobRequest, Respond
from onceproof.engine.runtime.locations import scheme_of
from onceproof.engine.runtime.storage import CheckpointStorage

FOLDER: Final = "requests"
REQUEST: Final = ".request"
ANSWER: Final = ".answer"
NAME_BYTES: Final = 8
LOOK_SECONDS: Final = 0.05

_NAME: Final = re.compile(r"[0-9a-f]{1,64}\.request")
_requests = msgspec.json.Decoder(JobRequest)
_answers = msgspec.json.Decoder(JobAnswer)


class JobNotRunning(Exception):
    """No process runs the job, or the one that did has gone. The message is one line."""


class NoAnswer(Exception):
    """The job has not answered in time. The message is one line."""


class RequestFolder:
    """The side of the job."""

    def __init__(self, root: str) -> None:
        self._folder = os.path.join(root, FOLDER)
        self._clear()

    @classmethod
    def of(cls, storage: CheckpointStorage) -> RequestFolder | None:
        """The folder of a job that has one; who keeps his checkpoints elsewhere cannot be reached so."""
        return cls(storage.root) if storage.root and not scheme_of(storage.root) else None

    def look(self, take: Callable[[JobRequest, Respond], None]) -> None:
        """Hand what is there to ``take``, with a function that answers it."""
        for name in self._names():
            if _NAME.fullmatch(name):
                self._take(name, take)

    def _take(self, name: str, take: Callable[[JobRequest, Respond], None]) -> None:
        path = os.path.join(self._folder, name)
        answer = path.removesuffix(REQUEST) + ANSWER
        try:
            with open(path, "rb") as file:
                data = file.read()
            os.unlink(path)
        except OSError:
            # Taken back by whoever asked.
            return
        try:
            request = _requests.decode(data)
        except msgspec.DecodeError as error:
            _put(answer, msgspec.json.encode(JobAnswer(error=f"the request cannot be read: {error}")))
            return
        take(request, lambda given: _put(answer, msgspec.json.encode(given)))

    def _clear(self) -> None:
        """What is there was meant for an earlier process, which is gone."""
        for name in self._names():
            with suppress(OSError):
                os.unlink(os.path.join(self._folder, name))

    def _names(self) -> list[str]:
        try:
            return sorted(os.listdir(self._folder))
        except OSError:
            return []


def ask(root: Path, request: JobRequest, seconds: float) -> JobAnswer:
    """Ask the job whose folder is ``root``, and wait for its answer for so long.

    Raises JobNotRunning, NoAnswer.
    """
    if not is_running(root):
        raise JobNotRunning(f"{root}: no process runs this job: start it first")
    name = token_hex(NAME_BYTES)
    path, answer = root / FOLDER / f"{name}{REQUEST}", root / FOLDER / f"{name}{ANSWER}"
    path.parent.mkdir(exist_ok=True)
    _put(str(path), msgspec.json.encode(request))
    until = time.monotonic() + seconds
    while not answer.exists():
        if not is_running(root) and not answer.exists():
            path.unlink(missing_ok=True)
            raise JobNotRunning(f"{root}: the job's process has ended without an answer: start it again")
        if time.monotonic() > until:
            path.unlink(missing_ok=True)
            raise NoAnswer(f"{root}: no answer within {seconds:g} s; the job may still do what was asked")
        time.sleep(LOOK_SECONDS)
    given = _answers.decode(answer.read_bytes())
    answer.unlink(missing_ok=True)
    return given


def is_running(root: Path) -> bool:
    """Whether a process holds the job's folder."""
    try:
        descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _put(path: str, data: bytes) -> None:
    """Write a file so that it is seen whole; nobody depends on it after a power cut."""
    folder, name = os.path.split(path)
    hidden = os.path.join(folder, f".{name}")
    with suppress(OSError):
        with open(hidden, "wb") as file:
            file.write(data)
        os.replace(hidden, path)
