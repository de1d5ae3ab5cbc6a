"""The lease of a job: one process runs it, and others stand by to go on when that one dies or hangs.

The rules this module lives by:

- The holder renews the file ``lease-<incarnation>`` in the job's folder, in a thread of its own: a slow
  function of a user does not lose the job, a stopped process does. No other process writes that file, so a
  holder that wakes up late overwrites nothing.
- Each process that stands by watches the holder, and needs none of the others: any of them may be stopped.
- It goes on at once when the lock of the folder is free that the holder had: the holder is dead. It goes on
  without that lock when the lease has not changed for the time-out, by its own clock, which never jumps. It
  takes the lock as soon as the earlier holder is dead: by it commands see that the job runs.
- The one with the lock of the file ``standby`` is the first in line. The others give it a moment after the
  time-out, each another one, so that as a rule one goes on. If two do, one claims the job, and the other
  stands by again.
- What keeps the two apart then is the claim of recovery.py and the history of checkpoint_history.py, as in an
  object store: the writes of a process that has lost the job are refused or do not count.
- A holder that has lost the job ends with one line. It looks at each renewal, and before it publishes.
- A job that has ended by itself or by its user ends the processes that stand by. One whose process was
  interrupted goes on in the next.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Final, Protocol, TypeVar

import msgspec

from onceproof.engine.file_locks import hold_lock, release_lock
from onceproof.engine.graph import InvalidJob, JobGraph
from onceproof.engine.locations import scheme_of
from onceproof.engine.runtime.deletion import Superseded
from onceproof.engine.runtime.job_result import JobCancelled, JobExecutionFailed, JobExecutionResult
from onceproof.engine.runtime.mounted_storage import MountedStorage
from onceproof.engine.runtime.recovery import INCARNATION
from onceproof.engine.runtime.request_folder import kept_from_running
from onceproof.engine.runtime.storage import StorageError

_logger = logging.getLogger(__name__)
_Claimed = TypeVar("_Claimed")

LEASE: Final = "lease-"
STANDBY: Final = "standby"
OPTION: Final = "high-availability.lease-timeout"
RENEWALS: Final = 5
"""How often the lease is renewed within its time-out."""
LONGEST_LOOK_SECONDS: Final = 0.2
_FILE: Final = re.compile(rf"({re.escape(LEASE)}|{re.escape(INCARNATION)})(\d+)")


class JobLost(JobExecutionFailed):
    """Another process has taken the job over. The message is one line."""


class LeaseNote(msgspec.Struct, frozen=True):
    """What a holder says of itself."""

    renewals: int
    holds_lock: bool
    """Whether it has the lock of the job's folder, which ends with it."""
    ended: str = ""
    """How the job has ended; "": it runs."""


# Made here, because two threads that decode a class for the first time crash in msgspec.
_DECODER: Final = msgspec.json.Decoder(LeaseNote)


class Held(Protocol):
    """A run of a job that can lose it."""

    @property
    def is_superseded(self) -> bool:
        """Whether another process has claimed the job."""

    def end_with(self, error: BaseException) -> None:
        """Raise an error in the thread that runs the job."""


class Runnable(Protocol):
    """A run of a job."""

    def run(self) -> JobExecutionResult:
        """Run the job to its end."""


class Lease:
    """The lease of this process; without a time-out there is none, and nothing happens."""

    def __init__(
        self, job_name: str, storage: MountedStorage, timeout_ms: int | None, *, holds_lock: bool
    ) -> None:
        self._job_name = job_name
        self._storage = storage
        self._timeout_ms = timeout_ms
        self._holds_lock = holds_lock
        self._path = ""
        self._over = Event()
        self._locked = ExitStack()
        """Holds the lock of the folder, if the lease has begun without it and it has become free."""
        self.taken: Callable[[], None] = lambda: None
        """Called once the lease can be seen."""

    def run(self, job: Runnable, held: Held, incarnation: int) -> JobExecutionResult:
        """Run a job, and renew its lease meanwhile. Raises JobLost too."""
        if self._timeout_ms is None:
            return job.run()
        with self._locked:
            return self._run(job, held, incarnation)

    def _run(self, job: Runnable, held: Held, incarnation: int) -> JobExecutionResult:
        self._path = f"{LEASE}{incarnation}"
        self._write(0)
        for earlier in self._storage.list(LEASE):
            if earlier != self._path:
                self._storage.delete(earlier)
        self.taken()
        thread = Thread(target=self._renew, args=(held,), name="lease", daemon=True)
        thread.start()
        try:
            result = job.run()
        except JobLost:
            raise
        except JobExecutionFailed as error:
            self._end("was cancelled" if isinstance(error, JobCancelled) else "has failed", held)
            raise
        finally:
            self._over.set()
            thread.join()
        stopped = result.stopped_with
        self._end(f"has stopped with savepoint {stopped}" if stopped else "has finished", held)
        return result

    def _renew(self, held: Held) -> None:
        assert self._timeout_ms is not None
        renewals = 0
        while not self._over.wait(self._timeout_ms / 1000 / RENEWALS):
            renewals += 1
            try:
                if held.is_superseded:
                    held.end_with(JobLost(self._lost()))
                    return
                self._holds_lock = self._holds_lock or self._take_lock()
                self._write(renewals)
            except OSError as error:
                # The storage may be away for a moment. If it stays away, another process takes over.
                _logger.warning("lease %s cannot be renewed: %s", self._path, error)

    def _take_lock(self) -> bool:
        """Take the lock of the folder, unless the earlier holder or a process that stands by has it."""
        with ExitStack() as found:
            if not found.enter_context(kept_from_running(Path(self._storage.root))):
                return False
            self._locked.push(found.pop_all())
            return True

    def _lost(self) -> str:
        return (
            f"job {self._job_name!r}: this process has not renewed its lease for {self._timeout_ms} ms, and"
            " another one has taken the job over"
        )

    def _end(self, how: str, held: Held) -> None:
        self._over.set()
        with suppress(OSError):
            if not held.is_superseded:
                self._write(0, how)

    def _write(self, renewals: int, ended: str = "") -> None:
        note = LeaseNote(renewals, self._holds_lock, ended)
        self._storage.publish(self._path, msgspec.json.encode(note))


@contextmanager
def held(
    graph: JobGraph, storage: MountedStorage, claim: Callable[[], _Claimed]
) -> Iterator[tuple[Lease, _Claimed]]:
    """Hold the job's folder, and claim the job; if it has a lease, wait until this process may go on with it.

    ``claim`` is called once this process may; what it returns is passed on. Raises StorageError where another
    process has the folder and there is no lease, JobExecutionFailed where the job has failed in another
    process meanwhile, JobCancelled where its user has ended it, InvalidJob, and what ``claim`` raises.
    """
    timeout_ms = graph.settings.lease_timeout_ms
    if timeout_ms is None:
        with storage.exclusive():
            yield Lease(graph.name, storage, None, holds_lock=True), claim()
        return
    _refuse_without_shared_folder(graph, storage)
    while True:
        with ExitStack() as stack:
            queue = os.open(f"{storage.root}/{STANDBY}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            waiting = ExitStack()
            waiting.callback(release_lock, queue)
            with waiting:
                has_lock = _await_turn(graph, storage, timeout_ms, stack, _Line(queue))
                stack.enter_context(storage.kept_in_view())
                try:
                    claimed = claim()
                except Superseded:
                    continue  # Another process that stood by was faster.
                lease = Lease(graph.name, storage, timeout_ms, holds_lock=has_lock)
                lease.taken = waiting.close
                yield lease, claimed
                return


class _Line:
    """The place of this process among those that stand by."""

    def __init__(self, queue: int) -> None:
        self._queue = queue
        self._is_first = False
        self._share = 1 + Random().random()

    def is_first(self) -> bool:
        """Return whether this process is the first in line, and stays it."""
        if not self._is_first:
            with suppress(BlockingIOError):
                hold_lock(self._queue)
                self._is_first = True
        return self._is_first

    def patience_ms(self, timeout_ms: int) -> float:
        """Return how long this process waits for a lease that is not renewed."""
        return timeout_ms if self.is_first() else timeout_ms * (1 + self._share / RENEWALS)


def _refuse_without_shared_folder(graph: JobGraph, storage: MountedStorage) -> None:
    """Raise InvalidJob where other processes would not find the job, or its lock."""
    asked = f"{OPTION} is set, but"
    if not storage.root or scheme_of(storage.root):
        raise InvalidJob(f"{asked} processes stand by over a folder: set execution.checkpointing.dir to one")
    if not graph.identity:
        raise InvalidJob(f"{asked} the job has no name by which other processes find it: give it one")


def _await_turn(
    graph: JobGraph, storage: MountedStorage, timeout_ms: int, stack: ExitStack, line: _Line
) -> bool:
    """Wait until no other process runs the job. Return whether this one has the lock of its folder."""
    has_lock = False
    seen, since = _state(storage), time.monotonic()
    is_first = True
    while True:
        if not has_lock:
            with suppress(StorageError):
                stack.enter_context(storage.exclusive())
                has_lock = True
        found = _state(storage)
        _, note = found
        if found != seen:
            seen, since = found, time.monotonic()
        if has_lock and (note is None or note.holds_lock or (is_first and note.ended)):
            _end_if_over(graph, None if is_first else note)
            if not is_first:
                _logger.warning("job %r: the process that had it has ended: this one takes over", graph.name)
            return True
        if note is not None and note.ended:
            _end_if_over(graph, note)
        silent_ms = (time.monotonic() - since) * 1000
        # This process may have been stopped itself since it looked.
        if note is not None and silent_ms >= line.patience_ms(timeout_ms) and _state(storage) == seen:
            _logger.warning(
                "job %r: the process that had it has not renewed its lease for %d ms: this one takes over",
                graph.name,
                timeout_ms,
            )
            return has_lock
        if is_first:
            behind = "" if line.is_first() else ", behind another one that does"
            _logger.warning("job %r runs in another process: this one stands by%s", graph.name, behind)
        is_first = False
        time.sleep(min(LONGEST_LOOK_SECONDS, timeout_ms / 1000 / RENEWALS))


def _end_if_over(graph: JobGraph, note: LeaseNote | None) -> None:
    """Raise JobCancelled or JobExecutionFailed if the job has ended while this process stood by."""
    if note is None or not note.ended or note.ended == "has finished":
        # That it has finished, the job's own files say.
        return
    error = JobExecutionFailed if note.ended == "has failed" else JobCancelled
    raise error(f"job {graph.name!r} {note.ended}, in another process: this one stands by no longer")


def _state(storage: MountedStorage) -> tuple[int, LeaseNote | None]:
    """Return the highest incarnation, and the latest lease that there is."""
    incarnations = [_number(path) for path in storage.list(INCARNATION)]
    for lease in sorted(storage.list(LEASE), key=_number, reverse=True):
        with suppress(OSError, msgspec.DecodeError):
            return max([0, *incarnations]), _DECODER.decode(storage.read(lease))
    return max([0, *incarnations]), None


def _number(path: str) -> int:
    match = _FILE.fullmatch(path)
    return int(match[2]) if match is not None else 0
