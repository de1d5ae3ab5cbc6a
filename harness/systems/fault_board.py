"""The faults of a run on a board that all its processes share: the driver, and the workers beside it.

The rules this module lives by:

- The counting is that of `failpoints.py`, over all processes of a run: the n-th pass of a point, whoever
  passes it. The board is a file; whoever passes a point holds its lock, so two passes are never one.
- A fault strikes once. That it has struck is on the board before anyone dies of it, and the board is replaced
  as a whole, so that no death leaves half of it. The system lets go of the lock when its holder dies.
- Who dies of a fault says so first, also for those whom it kills: they cannot. A kill of a task is SIGKILL to
  the worker process in which it runs, a kill of all tasks to each worker that runs one, a kill of the process
  to the driver, and to the worker that passed the point, which must not go on without it.
- Workers die where tasks run. At a point that the driver passes no worker runs one, so kills of tasks do not
  count passes there.
- The board travels to the workers as a value, and finds in each of them the log of that process.
"""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from harness.scenario import Fault, FaultKind
from harness.systems import event_log
from harness.systems.event_log import EventLog
from harness.systems.failpoints import Failpoints, die
from harness.systems.spec import WaitingState
from harness.systems.told import say_failed

Answer = TypeVar("Answer")


class LivingTask(msgspec.Struct, frozen=True):
    """A task that runs in a worker, and where."""

    process: int
    name: str
    attempt: str


class BoardState(msgspec.Struct):
    """What is on the board."""

    waiting: WaitingState = WaitingState()
    points: dict[str, int] = {}
    """How often each protocol point was passed, by all processes of the run."""
    living: tuple[LivingTask, ...] = ()
    parallelism: int = 0
    """What the last kill of tasks asked for; 0 while none has."""
    deaths: int = 0
    """How many tasks were killed so far."""
    is_over: bool = False
    """The engine made a mistake of its own: nothing is tried again."""


_decoder = msgspec.json.Decoder(BoardState)
_encoder = msgspec.json.Encoder()


class FaultBoard:
    """The board of one run, seen from one of its processes. ``driver`` is the process id of the driver."""

    def __init__(
        self, path: str, faults: tuple[Fault, ...], in_turn: bool, driver: int, log: EventLog
    ) -> None:
        self.log = log
        self.reading: Callable[[], Mapping[str, int]] = dict
        """How far the task in this process has read, by split."""
        self._path = path
        self._faults = faults
        self._in_turn = in_turn
        self._driver = driver

    def __reduce__(self) -> tuple[object, ...]:
        return FaultBoard, (self._path, self._faults, self._in_turn, self._driver, self.log)

    # What processes ask.

    def __call__(self, point: str, task: str, checkpoint_id: int) -> None:
        """A machine passes a point; whoever is to die there dies."""
        self._ask(lambda failpoints: failpoints.probe(point, task, checkpoint_id))

    def outside_fault(self, point: str, task: str, checkpoint_id: int = 0) -> FaultKind | None:
        """What the outside does wrong with a commit or a write about to be made at a point, if anything."""
        return self._ask(lambda failpoints: failpoints.outside_fault(point, task, checkpoint_id))

    @contextmanager
    def living(self, name: str, attempt: str) -> Iterator[None]:
        """A task runs in this process, as long as the context lasts."""
        task = LivingTask(os.getpid(), name, attempt)
        with self._held() as state:
            state.living = (*state.living, task)
        try:
            yield
        finally:
            self.reading = dict
            with self._held() as state:
                state.living = tuple(each for each in state.living if each != task)

    def begin(self) -> None:
        """A new driver: of those before it nobody lives, and what they were asked for is done."""
        with self._held() as state:
            state.living = ()
            state.parallelism = 0

    def fall(self) -> None:
        """The process dies of what the outside did to it, with the tasks that it runs."""
        with self._held() as state:
            process = os.getpid()
            self._bury([each for each in state.living if each.process == process], state)
            die()

    def end(self) -> None:
        """The engine made a mistake of its own: no other process need try again what failed."""
        with self._held() as state:
            state.is_over = True

    def state(self) -> BoardState:
        """What is on the board now."""
        return read_board(self._path)

    # Within.

    def _ask(self, question: Callable[[Failpoints], Answer]) -> Answer:
        struck: list[tuple[int, Fault, str]] = []
        with self._held() as state:
            failpoints = Failpoints(
                self._faults,
                self._in_turn,
                state.waiting,
                lambda number, fault, task: struck.append((number, fault, task)),
                lambda fault, task: self._can_strike(fault, task, state),
            )
            failpoints.points = state.points
            answer = question(failpoints)
            state.waiting = failpoints.state()
            for number, fault, task in struck:
                self._strike(number, fault, task, state)
        return answer

    @contextmanager
    def _held(self) -> Iterator[BoardState]:
        """The board for this process alone; what it has become is written at the end."""
        descriptor = os.open(f"{self._path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            state = read_board(self._path)
            yield state
            self._write(state)
        finally:
            os.close(descriptor)

    def _write(self, state: BoardState) -> None:
        new = f"{self._path}.new"
        with open(new, "wb") as file:
            file.write(_encoder.encode(state))
        os.replace(new, self._path)

    def _can_strike(self, fault: Fault, task: str, state: BoardState) -> bool:
        if fault.kind not in ("kill_task", "kill_all"):
            return True
        return bool(self._victims(fault, task, state))

    def _victims(self, fault: Fault, task: str, state: BoardState) -> list[LivingTask]:
        """The tasks that a kill of tasks would hit: none at a point that the driver passes."""
        if os.getpid() == self._driver:
            return []
        return [each for each in state.living if fault.kind == "kill_all" or each.name == task]

    def _strike(self, number: int, fault: Fault, task: str, state: BoardState) -> None:
        kills_tasks = fault.kind in ("kill_task", "kill_all")
        processes = {each.process for each in self._victims(fault, task, state)} if kills_tasks else set()
        if kills_tasks and fault.rescale_to:
            state.parallelism = fault.rescale_to
        self.log.say(
            event_log.FAULT_STRUCK,
            number=number,
            task=task,
            waiting=state.waiting,
            points={},
            read=dict(self.reading()),
        )
        self._bury([each for each in state.living if each.process in processes], state)
        if fault.kind == "kill_process":
            if os.getpid() != self._driver:
                _kill(self._driver)
            die()
        for process in sorted(processes - {os.getpid()}):
            _kill(process)
        if os.getpid() in processes:
            die()

    def _bury(self, victims: list[LivingTask], state: BoardState) -> None:
        """Say what the victims cannot say themselves, once it is on the board that they are dead."""
        state.living = tuple(each for each in state.living if each not in victims)
        state.deaths += len(victims)
        self._write(state)
        for each in victims:
            say_failed(self.log, each.name, each.attempt, "killed", injected=True)


def _kill(process: int) -> None:
    """Kill a process of our own session; a number that is somebody else's by now is left alone."""
    with suppress(ProcessLookupError):
        if os.getsid(process) == os.getsid(0):
            os.kill(process, signal.SIGKILL)


def read_board(path: str | Path) -> BoardState:
    """Return what is on a board; a new one is empty."""
    try:
        return _decoder.decode(Path(path).read_bytes())
    except FileNotFoundError:
        return BoardState()
