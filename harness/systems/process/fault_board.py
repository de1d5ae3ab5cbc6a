"""The fault board: all processes of a run, driver and workers, count and carry out its faults together.

Rules:

- The board counts as `fault_clock.py` does, over all processes of a run. Its state is a file, read and
  replaced as a whole under a lock, so two passes are never counted as one and no death leaves a half-written
  board. The kernel releases the lock when its holder dies.
- A fault strikes once. The board records the strike before a process dies of it. The process that triggers a
  kill logs it before the kill, because the victims cannot.
- Each system decides which processes a kill hits, and by which means (`Kills`). All else is common.
- A kill with a delay is recorded with the time at which it strikes. A thread of the driver carries it out.
- A killed task may run on for a moment. Errors that it reports then do not count against the engine.
- It counts in the same way for the requests of the scenario's user: the driver makes those that are due.
- Spark pickles the board and ships it to the workers. In each process it writes to that process's event log.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from pathlib import Path
from typing import Final, Protocol, TypeVar

import msgspec

from onceproof.engine.protocol_points import COMMITTING
from onceproof.harness.model.fault_kinds import Means
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.scenario import Fault, Operation
from onceproof.harness.systems.fault_clock import NOTHING_HIT, ClockState, ProcessFaultClock, Waiting
from onceproof.harness.systems.process.fault_actions import die, java_of_this_worker, send
from onceproof.harness.systems.recording import event_log
from onceproof.harness.systems.recording.event_log import EventLog
from onceproof.harness.systems.recording.event_logging_driver import log_task_failure
from onceproof.harness.systems.victims import is_victim

Answer = TypeVar("Answer")

REFUSALS: Final[tuple[Means, ...]] = ("full", "read_only")
"""The means by which a disk may refuse several calls in a row."""

_java: Final = cache(java_of_this_worker)


class LivingTask(msgspec.Struct, frozen=True):
    """A task that runs in a worker process."""

    process: int
    name: str
    attempt: str
    java: int = 0
    """The process id of the Java that started the worker; 0 if unknown."""


class StoppedTask(msgspec.Struct, frozen=True):
    """A task whose worker is stopped until a checkpoint completes without it."""

    process: int
    attempt: str
    checkpoint: int


class LateStrike(msgspec.Struct, frozen=True):
    """A fault whose point was passed and that strikes at a later time (monotonic clock, nanoseconds)."""

    number: int
    task: str
    at: int


class Refusal(msgspec.Struct, frozen=True):
    """A disk that refuses ``left`` further calls, because of the fault with index ``number``."""

    number: int
    left: int


class DueRequest(msgspec.Struct, frozen=True):
    """A request of the scenario's user whose point was passed, and when it is made (as in LateStrike)."""

    number: int
    at: int


class BoardState(msgspec.Struct):
    """The shared state of one run's faults and tasks."""

    waiting: ClockState = NOTHING_HIT
    """The state of the fault clock: how many passes each fault still waits for."""
    points: dict[str, int] = {}
    """How often each protocol point was passed, by all processes of the run."""
    struck: int = 0
    """How many faults have struck."""
    living: tuple[LivingTask, ...] = ()
    stopped: tuple[StoppedTask, ...] = ()
    late: tuple[LateStrike, ...] = ()
    refusal: Refusal | None = None
    parallelism: int = 0
    """The parallelism that the last rescale asked for, by a kill or by the user; 0 if none has."""
    partitions: int = 0
    """The number of shuffle partitions of a Structured Streaming query in its current or last run."""
    deaths: int = 0
    """How many tasks were killed."""
    java_is_dead: bool = False
    """Whether the driver's Java was killed."""
    killed: tuple[int, ...] = ()
    """The processes of workers that a fault has killed."""
    asked: tuple[int, ...] = ()
    """How many passes of its point each request of the user still waits for; empty before the first pass."""
    requests: tuple[DueRequest, ...] = ()
    """The requests that are due and have not been made."""
    attempt: str = ""
    """The attempt that runs, if its tasks are in workers that live as long as it."""
    read: dict[str, int] = {}
    """How many records its sources have read of each split, as far as they wait for more."""
    is_over: bool = False
    """Whether an error occurred that no fault injected: then no process tries anything again."""

    def victims(self, fault: Fault, task: str) -> list[LivingTask]:
        """Return the living tasks that a fault kills when ``task`` passes its point."""
        return [each for each in self.living if is_victim(FAULTS[fault.kind], task, each.name)]


class BoardFile:
    """The file of a board's state; without a file nothing has happened yet.

    The decoder is made with the object, in one thread: two threads that decode a class of msgspec for the
    first time crash the interpreter, because one sees what the other has half made.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = str(path)
        self._decoder = msgspec.json.Decoder(BoardState)

    def read(self) -> BoardState:
        """Return the state as it is now, without the lock."""
        try:
            return self._decoder.decode(Path(self._path).read_bytes())
        except FileNotFoundError:
            return BoardState()

    def replace(self, state: BoardState) -> None:
        """Replace the file. The caller must hold the lock, or be the only process."""
        new = Path(f"{self._path}.new")
        new.write_bytes(msgspec.json.encode(state))
        os.replace(new, self._path)

    @contextmanager
    def held(self) -> Iterator[BoardState]:
        """Lock the file and yield its state; write it as the caller changed it, unless the caller raised."""
        descriptor = os.open(f"{self._path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            state = self.read()
            yield state
            self.replace(state)
        finally:
            os.close(descriptor)


class Kills(Protocol):
    """Which processes a kill hits, and how: the only part of a fault board that differs between systems.

    It is pickled and shipped to the workers with the board. Only ``strike`` has no default.
    """

    def passing(self, board: FaultBoard, point: str, checkpoint_id: int) -> None:
        """React to a pass of a point; called before the pass is counted, without the lock."""
        return None

    def is_late(self, fault: Fault) -> bool:
        """Return whether a fault strikes ``delay`` ms after its point is passed, not at once."""
        return False

    def can_strike(self, fault: Fault, task: str, state: BoardState) -> bool:
        """Return whether a fault could strike a task at a point that this process passes."""
        return True

    def parallelism_after(self, fault: Fault) -> int:
        """Return the parallelism of the surviving processes after a fault; 0 if it does not change.

        After a kill of the process, the next one is given it.
        """
        return fault.rescale_to if FAULTS[fault.kind].kills_tasks else 0

    def strike(
        self, board: FaultBoard, fault: Fault, task: str, checkpoint_id: int, state: BoardState
    ) -> Callable[[], None] | None:
        """Carry a fault out, under the lock. Return what this process must do after it releases the lock."""


class FaultBoard:
    """One process's view of a run's fault board. It is the probe of the job under trial."""

    def __init__(
        self,
        path: str,
        faults: tuple[Fault, ...],
        in_turn: bool,
        log: EventLog,
        kills: Kills,
        operations: tuple[Operation, ...] = (),
    ) -> None:
        self.log = log
        self.kills = kills
        self.reading: Callable[[], Mapping[str, int]] = dict
        """Returns how many records the task in this process has read, by split."""
        self._path = path
        self._file = BoardFile(path)
        self._faults = faults
        self._in_turn = in_turn
        self._operations = operations
        self._afterwards: list[Callable[[], None]] = []
        """What this process must do after it releases the lock."""

    def __reduce__(self) -> tuple[object, ...]:
        return FaultBoard, (
            self._path,
            self._faults,
            self._in_turn,
            self.log,
            self.kills,
            self._operations,
        )

    def state(self) -> BoardState:
        """Return the current state of the board, without the lock."""
        return self._file.read()

    def held(self) -> AbstractContextManager[BoardState]:
        """Lock the board and yield its state. The state as the caller changed it is written at the end."""
        return self._file.held()

    # Questions of the processes.

    def __call__(self, point: str, task: str, checkpoint_id: int) -> None:
        """Count a pass of a protocol point. This process may be killed here."""
        self.kills.passing(self, point, checkpoint_id)
        if any(operation.point == point for operation in self._operations):
            self._count_for_requests(point, task, checkpoint_id)
        self._ask(lambda clock: clock.probe(point, task, checkpoint_id), checkpoint_id)

    def commit_fault(self, task: str, checkpoint_id: int = 0) -> Fault | None:
        """Count a commit that a task is about to make. Return the fault that strikes it, if any."""
        return self.other_at(COMMITTING, task, checkpoint_id)

    def other_at(self, point: str, task: str, checkpoint_id: int) -> Fault | None:
        """Count a message, a commit or a call of the storage. Return the fault that it suffers, if any."""
        return self._ask(lambda clock: clock.other_at(point, task, checkpoint_id), checkpoint_id)

    def write_fault(self, point: str, task: str, checkpoint_id: int) -> Fault | None:
        """Count a write about to be made. Return the fault that strikes it, if any.

        A full or read-only disk may refuse the writes that follow as well.
        """
        refused = self.refusal(task, REFUSALS)
        if refused is not None:
            return refused
        with self.held() as state:
            fault, struck = self._asked(lambda clock: clock.other_at(point, task, checkpoint_id), state)
            for number, each, name in struck:
                self._carry_out(number, each, name, checkpoint_id, state)
                if each.means in REFUSALS and each.delay:
                    state.refusal = Refusal(number, each.delay)
        return fault

    def refusal(self, task: str, means: tuple[Means, ...]) -> Fault | None:
        """Return the fault with one of these means that makes the disk refuse the current call, if any."""
        if not any(fault.means in means for fault in self._faults):
            return None
        with self.held() as state:
            refusal = state.refusal
            if refusal is None or self._faults[refusal.number].means not in means:
                return None
            self._log_strike(refusal.number, task, state, again=True)
            left = refusal.left - 1
            state.refusal = Refusal(refusal.number, left) if left else None
            return self._faults[refusal.number]

    @contextmanager
    def living(self, name: str, attempt: str) -> Iterator[None]:
        """List a task of this process as living while the context lasts."""
        task = LivingTask(os.getpid(), name, attempt, _java())
        with self.held() as state:
            state.living = (*state.living, task)
        try:
            yield
        finally:
            self.reading = dict
            with self.held() as state:
                state.living = tuple(each for each in state.living if each != task)

    def is_living(self, attempt: str) -> bool:
        """Return whether an attempt runs in this process and was not killed."""
        process = os.getpid()
        return any((each.process, each.attempt) == (process, attempt) for each in self.state().living)

    def begin(self) -> None:
        """Reset the lists of tasks for a new driver: all processes of the previous driver are dead."""
        with self.held() as state:
            state.living = state.stopped = state.late = ()
            state.requests = ()
            state.parallelism = 0
            state.java_is_dead = False

    def die_of_fault(self) -> None:
        """Kill this process, with the tasks that it runs, because of a fault that was logged before."""
        with self.held() as state:
            process = os.getpid()
            self.record_deaths([each for each in state.living if each.process == process], state)
            die()

    def end(self) -> None:
        """Record an error that no fault injected: no process retries what failed."""
        with self.held() as state:
            state.is_over = True

    # Tasks in workers that live as long as their attempt.

    def attempt_begins(self, attempt: str) -> None:
        """Note that no task of an earlier attempt lives."""
        with self.held() as state:
            state.attempt, state.living, state.read = attempt, (), {}

    def tasks_live(self, names: Iterable[str], attempt: str) -> None:
        """List tasks of this process as living, until they die or the next attempt begins."""
        process = os.getpid()
        with self.held() as state:
            state.living = (*state.living, *[LivingTask(process, name, attempt) for name in names])

    def has_read(self, attempt: str, read: Mapping[str, int]) -> None:
        """Note how many records the sources of this process have read, by split, if the attempt runs."""
        with self.held() as state:
            if state.attempt == attempt:
                state.read.update(read)

    # Requests of the scenario's user.

    def _count_for_requests(self, point: str, task: str, checkpoint_id: int) -> None:
        with self.held() as state:
            left = list(state.asked or [each.occurrence for each in self._operations])
            for number, operation in enumerate(self._operations):
                if operation.point != point or not left[number]:
                    continue
                waiting = Waiting(operation)
                waiting.left = left[number]
                if waiting.is_hit(task, checkpoint_id):
                    at = time.monotonic_ns() + operation.after * 1_000_000
                    state.requests = (*state.requests, DueRequest(number, at))
                left[number] = waiting.left
            state.asked = tuple(left)

    def due_requests(self) -> list[Operation]:
        """Return the requests that are due; each is returned once."""
        now = time.monotonic_ns()
        if not any(each.at <= now for each in self.state().requests):
            return []
        with self.held() as state:
            due = [each for each in state.requests if each.at <= now]
            state.requests = tuple([each for each in state.requests if each.at > now])
        return [self._operations[each.number] for each in due]

    # Faults with a delay.

    @property
    def has_late_faults(self) -> bool:
        """Whether any fault of the run strikes after a delay."""
        return any(map(self.kills.is_late, self._faults))

    def strike_late(self) -> None:
        """Carry out the delayed faults that are due. A kill of tasks waits until a task is alive."""
        if not any(each.at <= time.monotonic_ns() for each in self.state().late):
            return
        with self.held() as state:
            for late in state.late:
                fault = self._faults[late.number]
                is_in_reach = not FAULTS[fault.kind].kills_tasks or state.living
                if late.at > time.monotonic_ns() or not is_in_reach:
                    continue
                state.late = tuple(each for each in state.late if each != late)
                names = [each.name for each in state.living]
                task = late.task if not names or late.task in names else names[0]
                self._carry_out(late.number, fault, task, 0, state)

    # For ``Kills.strike``, under the lock.

    def write(self, state: BoardState) -> None:
        """Write the board now: what follows may kill this process."""
        self._file.replace(state)

    def record_deaths(
        self, victims: list[LivingTask], state: BoardState, kind: str = event_log.SUBTASK_FAILED
    ) -> None:
        """Record the deaths of tasks, and log them on behalf of the tasks, which can no longer log.

        ``kind`` says whose attempt they name, as in ``log_task_failure``.
        """
        state.living = tuple(each for each in state.living if each not in victims)
        state.deaths += len(victims)
        self.write(state)
        for each in victims:
            log_task_failure(self.log, each.name, each.attempt, "killed", True, kind)

    def kill(
        self, processes: Collection[int], state: BoardState, kind: str = event_log.SUBTASK_FAILED
    ) -> None:
        """Record the deaths of all tasks of some processes, then kill these; this one comes last."""
        self.record_deaths([each for each in state.living if each.process in processes], state, kind)
        here = os.getpid()
        for process in sorted({*processes} - {here}):
            send(process)
        if here in processes:
            die()

    def _ask(self, question: Callable[[ProcessFaultClock], Answer], checkpoint_id: int) -> Answer:
        with self.held() as state:
            answer, struck = self._asked(question, state)
            for number, fault, task in struck:
                if self.kills.is_late(fault):
                    at = time.monotonic_ns() + fault.delay * 1_000_000
                    state.late = (*state.late, LateStrike(number, task, at))
                else:
                    self._carry_out(number, fault, task, checkpoint_id, state)
        while self._afterwards:
            self._afterwards.pop(0)()
        return answer

    def _asked(
        self, question: Callable[[ProcessFaultClock], Answer], state: BoardState
    ) -> tuple[Answer, list[tuple[int, Fault, str]]]:
        """Ask the fault clock. Return its answer, and the faults that strike: number, fault, task."""
        struck: list[tuple[int, Fault, str]] = []
        clock = ProcessFaultClock(
            self._faults,
            self._in_turn,
            state.waiting,
            lambda number, fault, task: struck.append((number, fault, task)),
            lambda fault, task: self.kills.can_strike(fault, task, state),
        )
        clock.points = state.points
        answer = question(clock)
        state.waiting = clock.state()
        return answer, struck

    def _carry_out(self, number: int, fault: Fault, task: str, checkpoint_id: int, state: BoardState) -> None:
        state.struck += 1
        state.parallelism = self.kills.parallelism_after(fault) or state.parallelism
        # The board is written before a process dies of the fault.
        self.write(state)
        self._log_strike(number, task, state)
        afterwards = self.kills.strike(self, fault, task, checkpoint_id, state)
        if afterwards is not None:
            self._afterwards.append(afterwards)

    def _log_strike(self, number: int, task: str, state: BoardState, again: bool = False) -> None:
        """Log that a fault strikes; ``again`` if it struck before and refuses another call."""
        self.log.write(
            event_log.FAULT_STRUCK,
            number=number,
            task=task,
            waiting=state.waiting,
            points={},
            read=dict(self.reading()),
            again=again,
        )
