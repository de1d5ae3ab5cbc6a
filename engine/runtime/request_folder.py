"""Requests to a running job from a command in another process, by files in the job's folder.

The rules this module lives by:

- A request is a JSON file ``requests/<name>.request``, renamed into place; the answer is a file
  ``requests/<name>.answer``, likewise. There is one answer for each request, and the command deletes it.
  Files work wherever checkpoints do, also on a cluster, and nothing in them is executed.
- The job polls the folder a few times a second. It deletes a request before it acts on it, so a job that dies
  meanwhile does not repeat the request after its restart.
- A starting process deletes the requests to its predecessor. The command notices that its request is gone.
- A living process locks its job's folder, so a command can distinguish a busy job from one that does not run.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import Final

import msgspec

from onceproof.engine.file_locks import hold_lock, release_lock
from onceproof.engine.locations import scheme_of
from onceproof.engine.runtime.job_requests import JobAnswer, JobRequest, Respond
from onceproof.engine.runtime.storage import CheckpointStorage

FOLDER: Final = "requests"
REQUEST: Final = ".request"
ANSWER: Final = ".answer"
NAME_BYTES: Final = 8
LOOK_SECONDS: Final = 0.05
MOST_BYTES: Final = 1 << 16
"""The most that is read of a request or an answer."""

_NAME: Final = re.compile(r"[0-9a-f]{1,64}\.request")
_requests = msgspec.json.Decoder(JobRequest)
_answers = msgspec.json.Decoder(JobAnswer)


class JobNotRunning(Exception):
    """No process runs the job, or its process has ended. The message is one line."""


class NoAnswer(Exception):
    """The job has not answered in time. The message is one line."""


class RequestFolder:
    """The job's side: it takes requests from the folder and answers them."""

    def __init__(self, root: str) -> None:
        self._folder = os.path.join(root, FOLDER)
        self._clear()

    @classmethod
    def of(cls, storage: CheckpointStorage) -> RequestFolder | None:
        """Return the request folder of a job with local checkpoints, else None: it cannot be reached so."""
        return cls(storage.root) if storage.root and not scheme_of(storage.root) else None

    def look(self, take: Callable[[JobRequest, Respond], None]) -> None:
        """Pass each request in the folder to ``take``, with a function that answers it."""
        for name in self._names():
            if _NAME.fullmatch(name):
                self._take(name, take)

    def _take(self, name: str, take: Callable[[JobRequest, Respond], None]) -> None:
        path = os.path.join(self._folder, name)
        answer = path.removesuffix(REQUEST) + ANSWER
        try:
            data = _read_small(path)
        except OSError:
            # The command has withdrawn its request, or it is no file.
            with suppress(OSError):
                os.unlink(path)
            return
        try:
            os.unlink(path)
        except OSError:
            return
        try:
            request = _requests.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            _put(answer, msgspec.json.encode(JobAnswer(error=f"the request cannot be read: {error}")))
            return
        take(request, lambda given: _put(answer, msgspec.json.encode(given)))

    def _clear(self) -> None:
        """Delete the requests to an earlier process."""
        for name in self._names():
            with suppress(OSError):
                os.unlink(os.path.join(self._folder, name))

    def _names(self) -> list[str]:
        try:
            if os.path.islink(self._folder):
                # Files that a link leads to are not the job's.
                return []
            return sorted(os.listdir(self._folder))
        except OSError:
            return []


def ask(root: Path, request: JobRequest, seconds: float) -> JobAnswer:
    """Send a request to the job whose folder is ``root``, and wait up to ``seconds`` for its answer.

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
    try:
        return _answers.decode(_read_small(str(answer)))
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NoAnswer(
            f"{answer}: the job's answer cannot be read ({error}); it may have done what was asked: look with"
            " onceproof job list"
        ) from error
    finally:
        with suppress(OSError):
            answer.unlink()


@contextmanager
def kept_from_running(root: Path) -> Iterator[bool]:
    """Hold a job's folder, so that no process begins to run the job; False if one runs it."""
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            hold_lock(descriptor)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        release_lock(descriptor)


def is_running(root: Path) -> bool:
    """Return whether a process holds the job's folder."""
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


def _read_small(path: str) -> bytes:
    """Return the beginning of a file: what no request exceeds. Raises OSError for a link or a pipe."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(descriptor, "rb") as file:
        return file.read(MOST_BYTES)


def _put(path: str, data: bytes) -> None:
    """Write a file atomically but not durably: a request need not survive a power cut."""
    folder, name = os.path.split(path)
    hidden = os.path.join(folder, f".{name}")
    with suppress(OSError):
        with suppress(FileNotFoundError):
            os.unlink(hidden)
        # Exclusively, so that a link in the folder leads nowhere.
        with open(hidden, "xb") as file:
            file.write(data)
        os.replace(hidden, path)
