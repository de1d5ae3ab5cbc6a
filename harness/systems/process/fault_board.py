"""The faults of a run on a board that all its processes share: the driver, and the workers beside it.

The rules this module lives by:

- The counting is that of `fault_clock.py`, over all processes of a run: the n-th pass of a point, whoever
  passes it. The board is a file; whoever passes a point holds its lock, so two passes are never one.
- A fault strikes once. That it has struck is on the board before anyone dies of it, and the board is replaced
  as a whole, so that no death leaves half of it. The system lets go of the lock when its holder dies.
- Who dies of a fault says so first, also for those whom it kills: they cannot. A kill of a task is SIGKILL to
  the worker process in which it runs, a kill of all tasks to each worker that runs one, a kill of the process
  to the driver, and to the worker that passed the point, which must not go on without it.
- Workers die where tasks run. At a point that the driver passes no worker runs one, so kills of tasks do not
  count passes there.
- By which means a fault comes about is the fault's (`real_means.py`). Who is to strike later than the point
  is put down with the time, and a thread of the driver sees to it.
- What a task tells that is known to be dead is nobody's mistake: its process may go on for a while.
- The board travels to the workers as a value, and finds in each of them the log of that process.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Final, TypeVar

from onceproof.harness.model.faults import KILLS, FaultKind, Means, Point
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.fault_clock import ProcessFaultClock
from onceproof.harness.systems.process.board_state import (
    BoardState,
    LateStrike,
    LivingTask,
    Refusal,
    StoppedTask,
    encode_board,
    read_board,
)
from onceproof.harness.systems.process.fault_actions import (
    SLOW_SECONDS,
    die,
    java_of_this_worker,
    let_go_on,
    lose_shuffle_files,
    send,
    stop_here,
)
from onceproof.harness.systems.recording import event_log
from onceproof.harness.systems.recording.event_log import EventLog
from onceproof.harness.systems.recording.event_logging_driver import log_task_failure

Answer = TypeVar("Answer")

KILLS_OF_TASKS: Final = ("kill_task", "kill_all")
REFUSALS: Final[tuple[Means, ...]] = ("full", "read_only")
STRIKE_HERE: Final[tuple[Means, ...]] = ("zombie", "slow")
"""What nobody can do to another process, and so at no other time."""
RELEASED_AT: Final[Point] = "completed"
"""Where the driver lets those go on whom the checkpoint did not need."""

_java: Final = cache(java_of_this_worker)


class FaultBoard:
    """The board of one run, seen from one of its processes.

    ``driver`` is the process id of the driver, ``java`` that of its Java; below the folder ``scratch`` Spark
    keeps what goes from stage to stage.
    """

    def __init__(
        self,
        path: str,
        faults: tuple[Fault, ...],
        in_turn: bool,
        driver: int,
        log: EventLog,
        java: int = 0,
        scratch: str = "",
    ) -> None:
        self.log = log
        self.reading: Callable[[], Mapping[str, int]] = dict
        """How far the task in this process has read, by split."""
        self._path = path
        self._faults = faults
        self._in_turn = in_turn
        self._driver = driver
        self._java = java
        self._scratch = scratch
        self._afterwards: list[Callable[[], None]] = []
        """What this process does when it has let go of the board."""

    def __reduce__(self) -> tuple[object, ...]:
        given = (self._path, self._faults, self._in_turn, self._driver, self.log, self._java, self._scratch)
        return FaultBoard, given

    # What processes ask.

    def __call__(self, point: str, task: str, checkpoint_id: int) -> None:
        """A machine passes a point; whoever is to die there dies."""
        if point == RELEASED_AT and os.getpid() == self._driver:
            self.release(checkpoint_id)
        self._ask(lambda clock: clock.probe(point, task, checkpoint_id), checkpoint_id)

    def outside_fault(self, point: str, task: str, checkpoint_id: int = 0) -> FaultKind | None:
        """What the outside does wrong with a commit or a write about to be made at a point, if anything."""
        fault = self._ask(lambda clock: clock.other_at(point, task, checkpoint_id))
        return None if fault is None else fault.kind

    def write_fault(self, point: str, task: str, checkpoint_id: int) -> Fault | None:
        """The fault that a write about to be made suffers, if any: a disk may refuse it for a while."""
        refused = self.refusal(task, REFUSALS)
        if refused is not None:
            return refused
        with self._held() as state:
            return self._strike_outside(point, task, checkpoint_id, state)

    def refusal(self, task: str, means: tuple[Means, ...]) -> Fault | None:
        """The fault by one of these means for which the disk refuses what is asked of it now, if it does."""
        if not any(fault.means in means for fault in self._faults):
            return None
        with self._held() as state:
            refusal = state.refusal
            if refusal is None or self._faults[refusal.number].means not in means:
                return None
            self._say_struck(refusal.number, task, state, again=True)
            left = refusal.left - 1
            state.refusal = Refusal(refusal.number, left) if left else None
            return self._faults[refusal.number]

    @contextmanager
    def living(self, name: str, attempt: str) -> Iterator[None]:
        """A task runs in this process, as long as the context lasts."""
        task = LivingTask(os.getpid(), name, attempt, _java())
        with self._held() as state:
            state.living = (*state.living, task)
        try:
            yield
        finally:
            self.reading = dict
            with self._held() as state:
                state.living = tuple(each for each in state.living if each != task)

    def is_living(self, attempt: str) -> bool:
        """Whether a task that runs in this process counts as living."""
        process = os.getpid()
        return any((each.process, each.attempt) == (process, attempt) for each in self.state().living)

    def begin(self) -> None:
        """A new driver: of those before it nobody lives, and what they were asked for is done."""
        with self._held() as state:
            state.living = state.stopped = state.late = ()
            state.parallelism = 0
            state.java_is_dead = False

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

    # What the driver sees to.

    @property
    def has_late_faults(self) -> bool:
        """Whether there are faults that strike at a time of their own."""
        return any(map(_is_late, self._faults))

    def strike_late(self) -> None:
        """Let those strike whose time has come; one that finds nobody alive waits."""
        if not any(each.at <= time.monotonic_ns() for each in self.state().late):
            return
        with self._held() as state:
            for late in state.late:
                fault = self._faults[late.number]
                if late.at > time.monotonic_ns() or not self._is_in_reach(fault, state):
                    continue
                state.late = tuple(each for each in state.late if each != late)
                names = [each.name for each in state.living]
                task = late.task if not names or late.task in names else names[0]
                self._strike(late.number, fault, task, 0, state)

    def release(self, checkpoint_id: int) -> None:
        """Let those go on that are stopped, now that a checkpoint is complete without them, and see them end.

        What they leave behind is there then, before the next checkpoint is begun.
        """
        for each in self.state().stopped:
            if each.checkpoint > checkpoint_id:
                continue
            ended = let_go_on(each.process)
            self.log.write(event_log.ZOMBIE_RELEASED, attempt=each.attempt, ended=ended)
            with self._held() as state:
                state.stopped = tuple(other for other in state.stopped if other != each)

    # Within.

    def _ask(self, question: Callable[[ProcessFaultClock], Answer], checkpoint_id: int = 0) -> Answer:
        with self._held() as state:
            answer, struck = self._asked(question, state)
            for number, fault, task in struck:
                if _is_late(fault):
                    at = time.monotonic_ns() + fault.delay * 1_000_000
                    state.late = (*state.late, LateStrike(number, task, at))
                else:
                    self._strike(number, fault, task, checkpoint_id, state)
        while self._afterwards:
            self._afterwards.pop()()
        return answer

    def _asked(
        self, question: Callable[[ProcessFaultClock], Answer], state: BoardState
    ) -> tuple[Answer, list[tuple[int, Fault, str]]]:
        """The answer to a question, and which faults strike because it was asked."""
        struck: list[tuple[int, Fault, str]] = []
        clock = ProcessFaultClock(
            self._faults,
            self._in_turn,
            state.waiting,
            lambda number, fault, task: struck.append((number, fault, task)),
            lambda fault, task: self._can_strike(fault, task, state),
        )
        clock.points = state.points
        answer = question(clock)
        state.waiting = clock.state()
        return answer, struck

    def _strike_outside(self, point: str, task: str, checkpoint_id: int, state: BoardState) -> Fault | None:
        _, struck = self._asked(lambda clock: clock.other_at(point, task, checkpoint_id), state)
        for number, fault, name in struck:
            self._say_struck(number, name, state)
            if fault.means in REFUSALS and fault.delay:
                state.refusal = Refusal(number, fault.delay)
            return fault
        return None

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
            file.write(encode_board(state))
        os.replace(new, self._path)

    # Who dies.

    def _can_strike(self, fault: Fault, task: str, state: BoardState) -> bool:
        """Of the driver no task dies: it passes its points between two epochs."""
        if fault.kind not in KILLS_OF_TASKS:
            return True
        if os.getpid() == self._driver:
            return False
        victims = self._victims(fault, task, state)
        if fault.means in STRIKE_HERE:
            return any(each.process == os.getpid() for each in victims)
        return bool(victims)

    def _is_in_reach(self, fault: Fault, state: BoardState) -> bool:
        return fault.kind not in KILLS_OF_TASKS or bool(state.living)

    def _victims(self, fault: Fault, task: str, state: BoardState) -> list[LivingTask]:
        """The tasks that a kill of tasks would hit."""
        victims = [each for each in state.living if fault.kind == "kill_all" or each.name == task]
        if fault.means == "executor":
            javas = {each.java for each in victims}
            victims = [each for each in state.living if each.java in javas]
        return victims

    def _strike(self, number: int, fault: Fault, task: str, checkpoint_id: int, state: BoardState) -> None:
        kills_tasks = fault.kind in KILLS_OF_TASKS
        victims = self._victims(fault, task, state) if kills_tasks else []
        if kills_tasks and fault.rescale_to:
            state.parallelism = fault.rescale_to
        # Before anyone dies of it.
        self._write(state)
        self._say_struck(number, task, state)
        if fault.kind == "kill_process":
            self._kill_driver(fault.means, state)
        if not kills_tasks:
            return
        if fault.means == "slow":
            # Nobody is dead: whoever is done first counts.
            self._afterwards.append(lambda: time.sleep(SLOW_SECONDS))
            return
        if fault.means == "zombie":
            victims = [each for each in victims if each.process == os.getpid()]
            zombies = [StoppedTask(each.process, each.attempt, checkpoint_id) for each in victims]
            state.stopped = (*state.stopped, *zombies)
            self._bury(victims, state)
            self._afterwards.append(stop_here)
            return
        # The rest of a process dies with one of its tasks.
        processes = {each.process for each in victims}
        self._bury([each for each in state.living if each.process in processes], state)
        if fault.means == "executor":
            for java in sorted({each.java for each in victims}):
                send(java)
            return
        if fault.means == "shuffle":
            lose_shuffle_files(self._scratch)
        for process in sorted(processes - {os.getpid()}):
            send(process)
        if os.getpid() in processes:
            die()

    def _kill_driver(self, means: Means, state: BoardState) -> None:
        if means == "java":
            state.java_is_dead = True
            state.deaths += 1
            self._write(state)
            send(self._java)
            return
        if os.getpid() != self._driver:
            send(self._driver)
        die()

    def _say_struck(self, number: int, task: str, state: BoardState, again: bool = False) -> None:
        """Tell that a fault strikes; ``again`` where it only goes on."""
        self.log.write(
            event_log.FAULT_STRUCK,
            number=number,
            task=task,
            waiting=state.waiting,
            points={},
            read=dict(self.reading()),
            again=again,
        )

    def _bury(self, victims: list[LivingTask], state: BoardState) -> None:
        """Say what the victims cannot say themselves, once it is on the board that they are dead."""
        state.living = tuple(each for each in state.living if each not in victims)
        state.deaths += len(victims)
        self._write(state)
        for each in victims:
            log_task_failure(self.log, each.name, each.attempt, "killed", True, event_log.SUBTASK_FAILED)


def _is_late(fault: Fault) -> bool:
    """Whether a fault strikes at a time of its own, and not at the point."""
    return fault.kind in KILLS and fault.delay > 0 and fault.means not in STRIKE_HERE
