"""Workers: processes of their own that run batches of a run's scenarios.

The rules this module lives by:

- A worker is started as a new Python, never forked. The parent may hold a JVM's pipes and threads, a progress
  bar's thread, a test runner's: a fork would take copies of their locks, a new process takes nothing.
- Parent and worker speak in messages with a length before them, over the worker's stdin and stdout; what a
  family prints goes to stderr. Nothing is pickled. A family is loaded by name or path in each worker.
- A worker works on one batch at a time, and it is known on which. So when it dies, its scenarios are run once
  more by another worker, and if that one dies too, the run ends and says which scenarios they were.
- A batch takes some tens of milliseconds and its message a tenth of one, and the next batch lies ready in the
  worker before it is done with this one: the pool costs next to nothing, on a busy machine as well.
- A worker ends when its parent does, however that ended.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from selectors import EVENT_READ, DefaultSelector
from typing import IO, Final

import msgspec

from onceproof.harness.model.family import FamilyError

BATCH: Final = 32
"""Scenarios of a full batch."""

BATCHES_AHEAD: Final = 2
"""Batches that a worker holds, the one it works on among them."""

MOST_ATTEMPTS: Final = 2

_LENGTH: Final = 4
_WORKER: Final = "onceproof.harness.trials.worker"


class Start(msgspec.Struct, frozen=True, tag="start"):
    """What a worker has to know before the first batch."""

    seed: int
    families: tuple[str, ...]
    """Names or paths."""
    system: str
    enumerates: bool = False
    """Whether batches are of units of an enumeration, and not of scenarios of a run."""


class Batch(msgspec.Struct, frozen=True, tag="batch"):
    """Scenarios of a run, by the number of the first."""

    first: int
    count: int
    attempt: int = 1

    def __str__(self) -> str:
        return f"scenarios {self.first} to {self.first + self.count - 1}"


class Done(msgspec.Struct, frozen=True, tag="done"):
    """A batch's outcomes, and how it ended if it ended early."""

    first: int
    lines: tuple[bytes, ...]
    seconds: float
    """What the scenarios took, without the messages."""
    family_error: str = ""
    """A mistake in a family's file, one line."""
    internal_error: str = ""
    """A mistake of ours, a traceback."""


class WorkerDied(Exception):
    """A worker died and its batch could not be run again; the message is one line."""


class WorkerFailed(Exception):
    """A worker met a mistake of ours; the message is its traceback."""


_down: Final = msgspec.msgpack.Decoder(Start | Batch)
_up: Final = msgspec.msgpack.Decoder(Done)
_encoder: Final = msgspec.msgpack.Encoder()


def write_message(stream: IO[bytes], message: Start | Batch | Done) -> None:
    """Write a message with its length before it."""
    body = _encoder.encode(message)
    stream.write(len(body).to_bytes(_LENGTH, "big") + body)
    stream.flush()


def read_message(stream: IO[bytes]) -> Start | Batch | None:
    """Return the parent's next message, None where it has closed the stream."""
    body = _read_body(stream)
    return None if body is None else _down.decode(body)


def _read_body(stream: IO[bytes]) -> bytes | None:
    head = _read_exactly(stream, _LENGTH)
    return None if head is None else _read_exactly(stream, int.from_bytes(head, "big"))


def _read_exactly(stream: IO[bytes], length: int) -> bytes | None:
    """Read so many bytes, None where the stream ends before; one without a buffer gives what it has."""
    parts = []
    while length:
        part = stream.read(length)
        if not part:
            return None
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


class _Worker:
    """One worker process, seen from the parent."""

    def __init__(self, start: Start) -> None:
        self.batches: deque[Batch] = deque()
        """The first is being worked on."""
        self.answers = 0
        # The worker finds modules where the parent does, even if that was changed while it ran.
        program = f"import sys; sys.path[:] = {sys.path!r}; from {_WORKER} import main; main()"
        self._process = subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # No buffer: a second answer that waits in one would not be seen by select.
            bufsize=0,
            # Its own group: an interrupt from the keyboard is the parent's to handle.
            process_group=0,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin = self._process.stdin
        self.stdout = self._process.stdout
        with suppress(BrokenPipeError):
            write_message(self._stdin, start)

    @property
    def process_id(self) -> int:
        return self._process.pid

    def give(self, batch: Batch) -> None:
        self.batches.append(batch)
        # A dead worker is noticed where its answer is waited for.
        with suppress(BrokenPipeError):
            write_message(self._stdin, batch)

    def answer(self) -> Done | None:
        """Wait for the answer to a batch; None if the worker died, which then still holds its batches."""
        body = _read_body(self.stdout)
        if body is None:
            return None
        self.batches.popleft()
        self.answers += 1
        return _up.decode(body)

    def stop(self, wait: bool = True) -> str:
        """End the process; return how it ended, in words."""
        if not wait:
            self._process.kill()
        with suppress(BrokenPipeError):
            self._stdin.close()
        self.stdout.close()
        code = self._process.wait()
        if code < 0:
            return f"was killed by {signal.Signals(-code).name}"
        return f"ended with exit code {code}"


class WorkerPool:
    """Some workers, and the batches that they work on."""

    def __init__(self, workers: int, start: Start, warn: Callable[[str], None]) -> None:
        self.seconds_of_work = 0.0
        """What the scenarios took, summed over the workers."""
        self._start = start
        self._warn = warn
        self._workers: list[_Worker] = []
        self._selector = DefaultSelector()
        for _ in range(workers):
            self._hire()

    def process_ids(self) -> list[int]:
        """Return the ids of the worker processes."""
        return [worker.process_id for worker in self._workers]

    def run(self, batches: Iterator[Batch]) -> Iterator[Done]:
        """Yield what becomes of each batch, as it comes. After a mistake no further batch is begun."""
        again: deque[Batch] = deque()
        failed = False
        while True:
            if not failed:
                self._give_out(again, batches)
            if not any(worker.batches for worker in self._workers):
                return
            for key, _ in self._selector.select():
                done = key.data.answer()
                if done is None:
                    again.extend(self._replace(key.data))
                    continue
                self.seconds_of_work += done.seconds
                failed = failed or bool(done.family_error or done.internal_error)
                yield done

    def close(self, at_once: bool = False) -> None:
        """End all workers, after their batch or at once."""
        for worker in self._workers:
            worker.stop(wait=not at_once)
        self._workers.clear()
        self._selector.close()

    def _give_out(self, again: deque[Batch], batches: Iterator[Batch]) -> None:
        """Fill the workers up, the ones with less to do first."""
        for ahead in range(1, BATCHES_AHEAD + 1):
            for worker in self._workers:
                if len(worker.batches) < ahead:
                    batch = again.popleft() if again else next(batches, None)
                    if batch is None:
                        return
                    worker.give(batch)

    def _hire(self) -> None:
        worker = _Worker(self._start)
        self._workers.append(worker)
        self._selector.register(worker.stdout, EVENT_READ, worker)

    def _replace(self, worker: _Worker) -> list[Batch]:
        """Take leave of a dead worker and hire another; return its batches, to be run by others."""
        self._selector.unregister(worker.stdout)
        self._workers.remove(worker)
        how = worker.stop()
        self._hire()
        if not worker.batches:
            if worker.answers:
                return []
            raise WorkerDied(f"a worker {how} before it had anything to do")
        guilty, *innocent = worker.batches
        if guilty.attempt == MOST_ATTEMPTS:
            raise WorkerDied(f"a second worker {how} on {guilty} of the run, counted from 0")
        self._warn(f"a worker {how}; {guilty} are run once more")
        return [Batch(guilty.first, guilty.count, guilty.attempt + 1), *innocent]


def raise_error_of(done: Sequence[Done]) -> None:
    """Raise the first mistake in answers, by the order of the scenarios."""
    for each in sorted(done, key=lambda answer: answer.first):
        if each.family_error:
            raise FamilyError(each.family_error)
        if each.internal_error:
            raise WorkerFailed(each.internal_error)
