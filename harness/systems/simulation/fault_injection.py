"""Carries out the faults of a scenario: kills, jumps of the clock, faults of messages, writes and commits.

The rules this module lives by:

- A kill of the task that runs, or of the job master or process that runs it, is an exception raised inside of
  what it does. It is no Exception, so neither the engine nor a user's function can catch it on the way.
- A kill of any other task takes that task away from outside.
- The wall clock is set between two steps, as an administrator or a time server does at any moment. A jump is
  shorter where timers that come again every few milliseconds would fire millions of times.
- The job master dies inside of what it does only at points that it passes itself. At all others a task passes
  the point, and goes on with what it does while the master dies.
"""

from __future__ import annotations

import sys
from collections.abc import Container, Sequence
from typing import Any, Final, Protocol

from msgspec.structs import replace

from onceproof.engine.protocol_points import COORDINATOR, ELEMENT, POINTS
from onceproof.engine.runtime.execution import Killed
from onceproof.engine.task.task import Task
from onceproof.harness.model.fault_kinds import COORDINATOR_POINTS, Target
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.clock_jumps import jump_ms
from onceproof.harness.systems.fault_clock import FaultClock, MasterKilled, PowerLost, ProcessKilled
from onceproof.harness.systems.leaving_functions import RAISED, leave
from onceproof.harness.systems.simulation.actions import CLASS_INDEX
from onceproof.harness.systems.simulation.agenda import Agenda, Clock
from onceproof.harness.systems.simulation.modelled_databases import ModelledDatabases
from onceproof.harness.systems.simulation.run_recorder import RunRecorder
from onceproof.harness.systems.simulation.simulated_job import SimulatedJob
from onceproof.harness.systems.simulation.user_requests import UserRequests
from onceproof.harness.systems.victims import is_victim

_POINT_OF_READS = FAULTS["fail_read"].points[0]
_POINT_OF_DELETIONS = FAULTS["fail_delete"].points[0]
_IO_POINTS = frozenset(point for row in FAULTS.values() if not row.counts_passes for point in row.points)
_TIMER = CLASS_INDEX["timer"]
ANY_JUMP_MS: Final = 120_000
"""The clock may always jump so far."""
MOST_FIRINGS: Final = 200_000
"""A longer jump ends where timers that come again have fired so often: a scenario has limited time."""


class TaskOwner(Protocol):
    """The process in which a task lives."""

    def kill(self, task: Task) -> None:
        """Kill the task from outside."""


class LivingTasks(Protocol):
    """The tasks that a fault can strike."""

    @property
    def has_master(self) -> bool:
        """Whether a job master lives."""

    def tasks(self) -> Sequence[tuple[TaskOwner, Task]]:
        """Return the tasks of the job master that lives, or the orphaned ones while there is none."""

    def running_task(self) -> Task | None:
        """Return the task that handles an event now."""

    def set_wall_clock(self, ahead_ms: int) -> None:
        """Let all processes see a wall clock that was set."""


class PointObserver:
    """Watches a run at its protocol points; each method is called before the injector acts."""

    def point_passed(self, point: str, task: str, checkpoint_id: int) -> None:
        """Called when a task or the coordinator passes a point at which it can be killed."""

    def io_begins(self, point: str, task: str, checkpoint_id: int) -> None:
        """Called when a message, write or commit is about to be made."""

    def fault_fired(self, fault: Fault, task: str) -> None:
        """Called when a fault strikes."""

    def process_died(self) -> None:
        """Called when the whole process of the job has died."""


class FaultInjector:
    """The faults of one run, and the counts of the protocol points that it passes."""

    __slots__ = (
        "_agenda",
        "_clock",
        "_faults",
        "_job",
        "_living",
        "_recorder",
        "_requests",
        "_watched",
        "observer",
        "passed",
        "points_with_io_faults",
        "watches_elements",
    )

    def __init__(
        self,
        faults: tuple[Fault, ...],
        clock: Clock,
        agenda: Agenda,
        recorder: RunRecorder,
        requests: UserRequests,
        job: SimulatedJob,
        living: LivingTasks,
    ) -> None:
        self._clock = clock
        self._agenda = agenda
        self._recorder = recorder
        self._requests = requests
        self._job = job
        self._living = living
        self._faults = FaultClock(tuple([fault for fault in faults if not fault.server]))
        self.passed = dict.fromkeys(POINTS, 0)
        """By protocol point, how often it was passed."""
        self.observer: PointObserver | None = None
        """Only a run that is measured or enumerated has one."""
        watches_all = recorder.is_tracing or requests.waiting
        self._watched: Container[str] = POINTS if watches_all else self._faults.at_passes
        self.points_with_io_faults: Container[str] = self._faults.others
        """Where a message, write or commit has to ask for a fault."""
        self.watches_elements = ELEMENT in self._watched
        """Whether tasks have to report each plain record."""
        if self._faults.at_databases and isinstance(job.databases, ModelledDatabases):
            job.databases.fault_at = self.database_fault

    def watch_everything(self) -> None:
        """Have plain records and all messages, writes and commits reported; call it before the run begins."""
        self.watches_elements = True
        self.points_with_io_faults = _IO_POINTS

    def probe(self, point: str, task: str, checkpoint_id: int) -> None:
        """Take note of a point that a task or the coordinator passes; a fault may strike there."""
        if self.observer is not None:
            self.observer.point_passed(point, task, checkpoint_id)
        self.passed[point] += 1
        if point in self._watched:
            self._look(point, task, checkpoint_id)

    def _look(self, point: str, task: str, checkpoint_id: int) -> None:
        requests, faults = self._requests, self._faults
        # Asked here, too: most points are watched for one of the two, and the call costs more than the look.
        if point in requests.waiting:
            requests.point_passed(point, task, checkpoint_id)
        fault = faults.pass_at(point, task, checkpoint_id) if point in faults.at_passes else None
        if fault is not None:
            # A task goes on with what it does while the master dies, or the clock is set.
            strikes = FAULTS[fault.kind].strikes
            waits = strikes in ("clock", "input") or (strikes == "master" and point not in COORDINATOR_POINTS)
            # A function leaves while its task calls it, and at no other time.
            if waits or (fault.after and strikes != "function"):
                due = self._clock.now + fault.after
                self._agenda.add_later(due, _TIMER, "", self.strike, (fault, task))
            else:
                self.strike((fault, task))
        if self._recorder.is_tracing:
            self._recorder.point_passed(point, task, checkpoint_id)

    def io_fault_at(self, point: str, task: str, checkpoint_id: int) -> Fault | None:
        """Return what is wrong with the message, write or commit about to be made, if anything."""
        if self.observer is not None:
            self.observer.io_begins(point, task, checkpoint_id)
        if point not in self.points_with_io_faults:
            return None
        fault = self._faults.other_at(point, task, checkpoint_id)
        if fault is not None:
            self._fire(fault, task)
        return fault

    def storage_fault(self, what: Target, path: str) -> Fault | None:
        """Return the fault that strikes a call of the storage; a late read moves the clock on."""
        point = _POINT_OF_READS if what == "read" else _POINT_OF_DELETIONS
        if self.observer is None and point not in self.points_with_io_faults:
            return None
        number = path.partition("/")[0].removeprefix("chk-")
        checkpoint_id = int(number) if number.isdecimal() else 0
        fault = self.io_fault_at(point, COORDINATOR, checkpoint_id)
        if fault is not None and fault.kind == "late_read":
            self._clock.now += fault.delay
        return fault

    def commit_fault(self) -> Fault | None:
        """Return the fault of the commit that the running task is about to make, if any."""
        return self._fault_of_call("committing")

    def abort_fault(self) -> Fault | None:
        """Return the fault of the abort that the running task is about to ask for, if any."""
        return self._fault_of_call("aborted")

    def row_fault(self) -> Fault | None:
        """Return the fault of the row that the running task hands to its producer, if any."""
        return self._fault_of_call(ELEMENT) if ELEMENT in self.points_with_io_faults else None

    def call_fault(self) -> Fault | None:
        """Return the fault of the call that a sink or source of the user's is about to make, if any."""
        return self.row_fault()

    def database_fault(self, point: str) -> Fault | None:
        """Return the fault of the files that a database of the running task is about to use, if any."""
        task = self._living.running_task()
        if task is None:
            return None
        fault = self._faults.database_at(point, task.name)
        if fault is not None:
            self._fire(fault, task.name)
        return fault

    def _fault_of_call(self, point: str) -> Fault | None:
        task = self._living.running_task()
        return None if task is None else self.io_fault_at(point, task.name, 0)

    def _fire(self, fault: Fault, task: str) -> None:
        if self.observer is not None:
            self.observer.fault_fired(fault, task)
        self._recorder.fault_fired(fault, task)

    # Kills.

    def strike(self, argument: tuple[Fault, str]) -> None:
        """Set the clock, or kill the victims that are alive: tasks, the job master, or the process.

        Raises Killed, MasterKilled or ProcessKilled where the victim is what runs now, and what a function
        raises that leaves.
        """
        fault, name = argument
        if fault.rescale_to and self._living.has_master:
            self._job.keyed_parallelism = fault.rescale_to
        match FAULTS[fault.kind].strikes:
            case "master":
                if self._living.has_master:
                    self._fire(fault, name)
                    raise MasterKilled
            case "process":
                if self._living.has_master:
                    self._fire(fault, name)
                    raise PowerLost if fault.kind == "power_cut" else ProcessKilled
            case "clock":
                self._fire(fault, name)
                self._set_wall_clock(fault)
            case "listing":
                self._fire(fault, name)
                self.list_short(fault)
            case "input":
                # Only what is read again can be noticed, and only from a checkpoint that covers some of it.
                if name := self._job.change_input(fault, self._recorder.latest_cut):
                    self._fire(fault, name)
            case "output":
                # Rows in a table or a topic stay: only files and objects have names that can vanish.
                if self._job.take_output():
                    self._fire(fault, name)
            case "function":
                self._fire(fault, name)
                # What only a process of its own can do, such as a fork, it does in the plain way here.
                leave(fault if fault.means in RAISED else replace(fault, means=""))
            case _:
                self._kill_tasks(fault, name)

    def list_short(self, fault: Fault) -> None:
        """Have the sources list one split less for the fault's delay.

        A job that begins anew, without a checkpoint, gets all: it knows no others than those that are listed.
        """
        until_ms = self._clock.now + fault.delay
        self._job.list_short(lambda: self._clock.now < until_ms and self._recorder.has_complete_checkpoint)

    def _set_wall_clock(self, fault: Fault) -> None:
        """Set the wall clock forward or back by the milliseconds of the fault; the steady clock runs on."""
        ahead_ms = jump_ms(fault)
        if ahead_ms > ANY_JUMP_MS:
            ahead_ms = min(ahead_ms, self._longest_jump_ms())
        self._clock.ahead_ms += ahead_ms
        self._living.set_wall_clock(self._clock.ahead_ms)

    def _longest_jump_ms(self) -> int:
        """Return how far the clock may jump if timers come again as soon as those that wait."""
        wall_ms = self._clock.now + self._clock.ahead_ms
        queues = [
            operator.timers.processing
            for _, task in self._living.tasks()
            for operator in task.operators
            if operator.timers is not None and len(operator.timers.processing)
        ]
        due_ms = [due for queue in queues if (due := queue.next_timestamp()) is not None]
        if not due_ms:
            return sys.maxsize
        firings = MOST_FIRINGS // sum(map(len, queues))
        return max(ANY_JUMP_MS, firings * max(1, min(due_ms) - wall_ms))

    def _kill_tasks(self, fault: Fault, name: str) -> None:
        """Kill one task, or all; orphaned tasks as well, while no job master lives."""
        row = FAULTS[fault.kind]
        living = self._living.tasks()
        victims = [each for each in living if is_victim(row, name, each[1].name)]
        running: Any = self._living.running_task()
        # A task that is closing has left its attempt already, and can be killed nevertheless.
        is_closing = running is not None and not any(task is running for _, task in living)
        if not victims and not is_closing:
            return
        self._fire(fault, name)
        for owner, task in victims:
            if task is not running:
                owner.kill(task)
        if is_closing or any(task is running for _, task in victims):
            raise Killed
