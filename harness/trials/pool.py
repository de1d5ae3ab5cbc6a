"""The pool of worker processes that run batches of a run's scenarios.

The rules this module lives by:

- A worker is started as a new Python process, never forked: a fork would copy the locks of the parent's
  threads (a JVM's, a progress bar's, a test runner's).
- Parent and worker exchange length-prefixed messages over the worker's stdin and stdout; what a family prints
  goes to stderr. Nothing is pickled. Each worker loads families by name or path.
- A worker runs its batches one by one. If a scenario ends it or exceeds its budget, another worker runs the
  batch again without that scenario, which has failed. Where another process may have killed the worker, its
  scenario is tried once more before it is blamed.
- A worker that dies between two scenarios runs its batch once more; if the next one dies there too, the run
  ends with an error that names the batch.
- A worker holds its next batch before it finishes the current one, so it never waits for the parent. A batch
  takes tens of milliseconds, its message a tenth of one. Where a scenario takes seconds, it holds none: what
  has been given is run, also when the time is up.
- A worker exits when its parent does.
"""

from __future__ import annotations

import subprocess
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from selectors import EVENT_READ, DefaultSelector
from typing import IO, Final, Self

import msgspec

from onceproof.harness.model.exit_codes import full_line, is_full
from onceproof.harness.model.family import FamilyError
from onceproof.harness.model.program_measures import Measured, SetUpProblem
from onceproof.harness.model.seeds import WHOLE, Share
from onceproof.harness.model.step_limits import Budget
from onceproof.harness.trials.supervision import Death, Lost, Watch

BATCH: Final = 32
"""The number of scenarios of a full batch."""

BATCHES_AHEAD: Final = 2
"""How many batches a worker holds if nothing else is said, including the one that it runs."""

MOST_ATTEMPTS: Final = 2
"""How often a batch is given to a worker if workers die of it between its scenarios."""

MOST_SUSPECTS: Final = 5
"""How many scenarios of a batch are tried again because something else may have ended their worker."""

LOOK_SECONDS: Final = 1.0

_LENGTH: Final = 4
_WORKER: Final = "onceproof.harness.trials.worker"


class Start(msgspec.Struct, frozen=True, tag="start"):
    """The first message to a worker."""

    seed: int
    families: tuple[str, ...]
    """The families' names or paths."""
    system: str
    share: Share = WHOLE
    """The part of the run."""
    turns: tuple[int, ...] = ()
    """How many of a round each family has; empty: one each."""
    checks: tuple[int, ...] | None = None
    """The parallelisms at which batches check the family for mistakes, instead of trying its scenarios."""
    watches: bool = False
    """Whether answers hold the abstract states that scenarios were in, from which a run sees what is new."""
    budget: Budget | None = None
    """What each scenario may use; None: as much as it wants."""
    out: str = ""
    """The folder of the results, which gets the evidence of failures; "": none does."""
    measured: dict[str, Measured] = {}
    """By the path of its file, what the control run of a program has measured."""


class FamilyToLoad(msgspec.Struct, frozen=True, tag="family"):
    """A family that a campaign tells a worker of, with what the worker needs to build its tables."""

    address: str
    """Where it is on this machine."""
    asked: str
    """As the user named it."""
    folder: str
    """The folder of the user whose modules came along; "" for none."""
    version: str
    """Another one for other modules."""
    families: int
    """How many families take turns."""
    place: int
    """Its place among them."""
    record_schema: bytes
    """The schemas of Arrow, as messages of Arrow."""
    row_schema: bytes


class Batch(msgspec.Struct, frozen=True, tag="batch"):
    """``count`` scenarios of a run from number ``first`` on, counted from 0."""

    first: int
    count: int
    attempt: int = 1
    place: int | None = None
    """The place of a family in the run, whose scenarios are counted; None: those of all, which take turns."""
    unaimed: bool = False
    """Whether the scenarios of that family are drawn without patterns; they are numbered apart."""
    lost: tuple[Lost, ...] = ()
    """Its scenarios that have ended workers; they are not run again."""
    suspects: tuple[int, ...] = ()
    """The places of its scenarios that ran when workers died of what may have come from outside."""
    until: float | None = None
    """Seconds since the epoch, after which none of its scenarios is started."""

    def __str__(self) -> str:
        of_family = "" if self.place is None else f" of family number {self.place}"
        return f"scenarios {self.first} to {self.first + self.count - 1}{of_family}"


class Done(msgspec.Struct, frozen=True, tag="done"):
    """The outcomes of a batch, and the error that ended it early, if any."""

    first: int
    lines: tuple[bytes, ...]
    seconds: float
    """The run time of the scenarios, without the messages."""
    family_error: str = ""
    """An error that the user can correct, in one line, or the paragraph of a set-up problem."""
    internal_error: str = ""
    """The traceback of an internal error."""
    place: int | None = None
    """That of the batch."""
    states: tuple[tuple[int, ...], ...] = ()
    """For each line the abstract states of the protocol, if they are watched."""
    unaimed: bool = False
    """That of the batch."""

    @property
    def has_failed(self) -> bool:
        """Return whether an error ended the batch."""
        return bool(self.family_error or self.internal_error)


class WorkerDied(Exception):
    """A worker died and its batch cannot be run again; the message is one line."""


class WorkerFailed(Exception):
    """A worker met an internal error; the message is its traceback."""


_down: Final = msgspec.msgpack.Decoder(Start | Batch | FamilyToLoad)
_up: Final = msgspec.msgpack.Decoder(Done)
_encoder: Final = msgspec.msgpack.Encoder()


def write_message(stream: IO[bytes], message: Start | Batch | FamilyToLoad | Done) -> None:
    """Write a message with its length in front."""
    body = _encoder.encode(message)
    stream.write(len(body).to_bytes(_LENGTH, "big") + body)
    stream.flush()


def read_message(stream: IO[bytes]) -> Start | Batch | FamilyToLoad | None:
    """Return the parent's next message; None if the parent has closed the stream."""
    body = _read_body(stream)
    return None if body is None else _down.decode(body)


def _read_body(stream: IO[bytes]) -> bytes | None:
    head = _read_exactly(stream, _LENGTH)
    return None if head is None else _read_exactly(stream, int.from_bytes(head, "big"))


def _read_exactly(stream: IO[bytes], length: int) -> bytes | None:
    """Read ``length`` bytes; None if the stream ends before. An unbuffered stream may return fewer."""
    parts = []
    while length:
        part = stream.read(length)
        if not part:
            return None
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


class Worker:
    """The parent's side of a worker process."""

    def __init__(self, start: Start, module: str) -> None:
        """Start a process that runs ``main`` of a module."""
        self.batches: deque[Batch] = deque()
        """The batches that it holds; it runs the first."""
        self.answers = 0
        self._watch = Watch(start.budget)
        # The worker gets the parent's current sys.path, which may differ from the one at its start.
        program = f"import sys; sys.path[:] = {sys.path!r}; from {module} import main; main()"
        self._process = subprocess.Popen(
            [sys.executable, "-c", program, *self._watch.arguments],
            pass_fds=self._watch.files,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Unbuffered: select would not see a second answer that is already in a buffer.
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

    def give(self, batch: Batch) -> None:
        self.batches.append(batch)
        self.tell(batch)

    def tell(self, message: Batch | FamilyToLoad) -> None:
        """Send a message. If the worker is dead, answer() notices it."""
        with suppress(BrokenPipeError):
            write_message(self._stdin, message)

    def answer(self) -> Done | None:
        """Wait for the answer to the first batch; None if the worker died, with ``batches`` unchanged."""
        body = _read_body(self.stdout)
        if body is None:
            return None
        self.batches.popleft()
        self.answers += 1
        return _up.decode(body)

    def look(self) -> None:
        """End the process if its scenario does nothing, which answer() notices."""
        if self.batches:
            self._watch.look(self._process.pid, time.monotonic())

    @property
    def is_dead(self) -> bool:
        """Whether the process has ended. A child that it has forked may keep its stdout open."""
        return self._process.poll() is not None

    def stop(self, wait: bool = True) -> Death:
        """Stop the process and return how it ended.

        Args:
            wait: whether the worker may finish its batch.
        """
        if not wait:
            self._kill()
        with suppress(BrokenPipeError):
            self._stdin.close()
        self.stdout.close()
        while True:
            with suppress(subprocess.TimeoutExpired):
                code = self._process.wait(LOOK_SECONDS)
                break
            self._watch.look(self._process.pid, time.monotonic())
        death = self._watch.death(code)
        self._watch.close()
        return death

    def _kill(self) -> None:
        """Kill the worker, and what a program that it runs has started and does not die with it."""
        # Workers import this module as well, and need no psutil.
        import psutil

        with suppress(psutil.Error):
            below = psutil.Process(self._process.pid).children(recursive=True)
            self._process.kill()
            for each in below:
                with suppress(psutil.Error):
                    each.kill()
        self._process.kill()


class WorkerPool:
    """A fixed number of worker processes that run batches.

    Args:
        workers: how many processes.
        start: the first message to each.
        warn: called with one line when a worker died and its batch is run again.
        ahead: how many batches a worker holds, including the one that it runs.
        module: the one whose ``main`` is the program of the workers.
    """

    def __init__(
        self,
        workers: int,
        start: Start,
        warn: Callable[[str], None],
        ahead: int = BATCHES_AHEAD,
        module: str = _WORKER,
    ) -> None:
        self.start = start
        self._warn = warn
        self._ahead = ahead
        self._module = module
        self._families: list[FamilyToLoad] = []
        self._workers: list[Worker] = []
        self._selector = DefaultSelector()
        for _ in range(workers):
            self._start_worker()

    def run(self, batches: Iterator[Batch]) -> Iterator[Done]:
        """Yield the answer to each batch as it arrives. After an error no further batch is started.

        Raises:
            WorkerDied: workers died twice on the same batch.
        """
        again: deque[Batch] = deque()
        failed = False
        while True:
            if not failed:
                self._assign(again, batches)
            if not any(worker.batches for worker in self._workers):
                return
            ready = self._selector.select(LOOK_SECONDS)
            for worker in tuple(self._workers):
                worker.look()
                if not ready and worker.batches and worker.is_dead:
                    again.extend(self._replace(worker))
            for key, _ in ready:
                done = key.data.answer()
                if done is None:
                    again.extend(self._replace(key.data))
                    continue
                failed = failed or done.has_failed
                yield done

    def place_of(self, family: FamilyToLoad) -> int:
        """Return the place of a family, which all workers know from now on."""
        if family not in self._families:
            self._families.append(family)
            for worker in self._workers:
                worker.tell(family)
        return self._families.index(family)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Stop all workers: at once after an error or an interrupt, else after their batch."""
        self.close(at_once=kind is not None)

    def close(self, at_once: bool = False) -> None:
        """Stop all workers, at once or after their batch."""
        for worker in self._workers:
            worker.stop(wait=not at_once)
        self._workers.clear()
        self._selector.close()

    def _assign(self, again: deque[Batch], batches: Iterator[Batch]) -> None:
        """Give each worker as many batches as it holds, those with fewer first."""
        for ahead in range(1, self._ahead + 1):
            for worker in self._workers:
                if len(worker.batches) < ahead:
                    batch = again.popleft() if again else next(batches, None)
                    if batch is None:
                        return
                    worker.give(batch)

    def _start_worker(self) -> None:
        worker = Worker(self.start, self._module)
        for family in self._families:
            worker.tell(family)
        self._workers.append(worker)
        self._selector.register(worker.stdout, EVENT_READ, worker)

    def _replace(self, worker: Worker) -> list[Batch]:
        """Replace a dead worker by a new one; return the dead one's batches, to be run again."""
        self._selector.unregister(worker.stdout)
        self._workers.remove(worker)
        death = worker.stop()
        self._start_worker()
        if not worker.batches:
            if worker.answers:
                return []
            raise WorkerDied(f"a worker {death.how} before its first batch")
        current, *others = worker.batches
        return [without_culprit(current, death, self._warn), *others]


def without_culprit(batch: Batch, death: Death, warn: Callable[[str], None]) -> Batch:
    """Return the batch of a dead worker, as the next one is to run it.

    Raises:
        WorkerDied: workers died twice on the batch, and no scenario is to blame.
    """
    lost = death.lost
    if lost is None:
        if batch.attempt == MOST_ATTEMPTS:
            raise WorkerDied(f"a second worker {death.how} on {batch} of the run, counted from 0")
        warn(f"a worker {death.how}; {batch} are run once more")
        return msgspec.structs.replace(batch, attempt=batch.attempt + 1)
    is_suspect = lost.place in batch.suspects or len(batch.suspects) >= MOST_SUSPECTS
    if death.may_be_from_outside and not is_suspect:
        warn(f"a worker {death.how}; {batch} are run once more")
        return msgspec.structs.replace(batch, suspects=(*batch.suspects, lost.place))
    warn(f"number {lost.place + 1} of {batch} has failed: {lost.anomaly}")
    return msgspec.structs.replace(batch, lost=(*batch.lost, lost))


def error_of(error: Exception, batch: Batch) -> tuple[str, str]:
    """Return an error that ended a batch: one that the user can fix in a line, or any other's traceback."""
    # It imports psutil, which a run without errors can do without.
    from onceproof.harness.services.service import ServiceError

    if isinstance(error, FamilyError | ServiceError):
        return str(error), ""
    if isinstance(error, OSError) and is_full(error):
        # This is how a worker reports what is no internal error.
        return full_line(error), ""
    if batch.unaimed:
        # The command of the note would draw another scenario from the seed.
        error.__notes__ = [f"drawn without patterns, in {batch}, counted from 0"]
    return "", "".join(traceback.format_exception(error))


def raise_error_of(done: Sequence[Done]) -> None:
    """Raise the first error of some answers, by scenario number, as FamilyError or WorkerFailed."""
    for each in sorted(done, key=lambda answer: answer.first):
        if each.family_error:
            # Only a set-up problem takes more than a line.
            raise (SetUpProblem if "\n" in each.family_error else FamilyError)(each.family_error)
        if each.internal_error:
            raise WorkerFailed(each.internal_error)
