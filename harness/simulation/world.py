"""The simulated world: what outlives a process, the clock, and the loop that performs action after action.

The rules it lives by:

- One thread, one action a step, one millisecond a step; where nothing can happen the clock jumps to the next
  thing that will. The scenario decides everything: same scenario, same trace, on any machine.
- The network outlives the processes: a message of a dead attempt may arrive at a living one. That nobody
  must be fooled by it is what attempt ids are for.
- When a process dies with a write under way, the write has reached the storage or it has not: a checksum of
  its label decides, so that the answer does not change with the schedule around it.
- The machines check themselves (``validate``) after every step. The first error of the engine's own ends the
  run, since nothing after it can be trusted.
"""

from __future__ import annotations

import heapq
import time
import traceback
import zlib
from collections.abc import Callable
from dataclasses import replace
from hashlib import blake2b
from typing import Any

import msgspec

from engine.checkpoint.metadata import CheckpointMetadata
from engine.connectors.two_phase import TwoPhaseCommitSinkFunction
from engine.environment import StreamExecutionEnvironment
from engine.graph import JobGraph
from engine.job.events import Deploy, StartJob
from engine.operators.sink import SinkOperator
from engine.operators.source import SourceOperator
from engine.protocol_points import POINTS
from engine.runtime.recovery import METADATA, recover
from engine.task.events import StoreSnapshot
from engine.task.task import Task, TaskState
from harness.family import Family
from harness.history import History
from harness.scenario import Fault, FaultKind, Scenario
from harness.simulation.actions import CLASS_INDEX, Action, Slot, slots_of
from harness.simulation.external import (
    InjectedError,
    SimulatedIO,
    SimulatedLog,
    Transaction,
    TransactionalSystem,
)
from harness.simulation.faults import Faults, Killed, ProcessKilled
from harness.simulation.process import SimulatedProcess
from harness.simulation.schedule import NOTHING, Chooser, FairChooser, chooser_of
from harness.simulation.settings import simulated_settings
from harness.simulation.storage import SimulatedStorage
from harness.simulation.tracing import NO_TRACER, Tracer

_TIMER = CLASS_INDEX["timer"]
_STORE = CLASS_INDEX["store"]
_METADATA = CLASS_INDEX["metadata"]
_ENCODER = msgspec.msgpack.Encoder()


class World:
    """One run of one scenario."""

    def __init__(
        self, family: Family, scenario: Scenario, chooser: Chooser | None = None, tracer: Tracer = NO_TRACER
    ) -> None:
        self.family = family
        self.scenario = scenario
        self.history = History()
        self.clock = 0
        """Milliseconds; a step takes one."""
        self._skipped = 0
        self._attention = 0
        self._is_fair = False
        self.storage = SimulatedStorage()
        self.external = TransactionalSystem(self.history, self._current_step)
        self.external.commit_fault = self._commit_fault
        self.log = SimulatedLog(scenario.records)
        self.process: SimulatedProcess | None = None
        self.slots: list[Slot] = []
        self.slots_are_stale = False
        self.tracer = tracer
        self._tracing = tracer is not NO_TRACER
        if self._tracing:
            self.external.seen = self._transaction_seen
        self._settings = simulated_settings(scenario)
        self.keyed_parallelism = scenario.parallelism
        self._faults = Faults(scenario.faults)
        self._kills = self._faults.kills
        self.other_faults = self._faults.others
        self._pending: list[Action] = []
        self._later: list[tuple[int, int, Action]] = []
        self._sequence = 0
        self._choose = (chooser or chooser_of(scenario.schedule)).choose
        self._labels: list[str] = []
        self._points = dict.fromkeys(POINTS, 0)
        self._cuts: dict[str, dict[str, int]] = {}
        self._listed: dict[str, list[str]] = {}
        self._writers: dict[str, str] = {}
        self._known_complete: set[int] = set()
        self._down_since: int | None = None
        self._over = False

    # The loop.

    def run(self) -> History:
        """Perform actions until the job is over, stuck or out of steps.

        What need not be looked at in every step hides behind one number, ``_attention``: the step budget, the
        schedule's horizon, what is due later, slots that are out of date.
        """
        started = time.perf_counter()
        self._start_process(None)
        pending = self._pending
        labels = self._labels
        tracing = self._tracing
        while not self._over:
            self.clock += 1
            if self.clock >= self._attention and not self._attend():
                break
            slots = self.slots
            choice = self._choose(slots, pending, self.clock - self._skipped)
            if choice == NOTHING:
                if self._skip():
                    continue
                break
            try:
                if choice < len(slots):
                    slot = slots[choice]
                    labels.append(slot.label)
                    if tracing:
                        self.tracer.slot(self.step, slot)
                    self.process.task_event(slot.task, slot.event)  # type: ignore[union-attr]
                else:
                    action = pending.pop(choice - len(slots))
                    labels.append(action.label)
                    if tracing:
                        self.tracer.action(self.step, action)
                    action.perform(action.argument)
                if tracing:
                    self.tracer.after(self.step)
            except ProcessKilled:
                self._process_died()
            except Exception as error:
                self._machine_error(labels[-1], error)
        self._at_rest()
        self.history.statistics.milliseconds = (time.perf_counter() - started) * 1000
        return self.history

    @property
    def step(self) -> int:
        """How many actions have been performed, the one in hand included."""
        return self.clock - self._skipped

    def _attend(self) -> bool:
        """Do what is due; whether the run goes on."""
        step = self.step
        if step > self.scenario.step_budget:
            self.clock -= 1
            self.history.budget_exhausted(self.step)
            return False
        if self._later and self._later[0][0] <= self.clock:
            self._due()
        if self.slots_are_stale:
            self._renew_slots()
        horizon = self.scenario.schedule.horizon
        if step >= horizon and not self._is_fair:
            self._is_fair = True
            self._choose = FairChooser().choose
        next_steps = (
            [self.scenario.step_budget + 1] if self._is_fair else [self.scenario.step_budget + 1, horizon]
        )
        self._attention = min(next_steps) + self._skipped
        if self._later:
            self._attention = min(self._attention, self._later[0][0])
        return True

    def _skip(self) -> bool:
        """Nothing can happen now: let the clock jump to what happens next. False if nothing ever will."""
        self.clock -= 1
        if not self._later:
            self.history.budget_exhausted(self.step)
            return False
        jump = self._later[0][0] - 1 - self.clock
        self.clock += jump
        self._skipped += jump
        self._attention = 0
        return True

    def renew_slots(self) -> None:
        """Tasks have come or gone: before the next choice the slots are made anew."""
        self.slots_are_stale = True
        self._attention = 0

    def _due(self) -> None:
        while self._later and self._later[0][0] <= self.clock:
            action = heapq.heappop(self._later)[2]
            if action.label:
                self._pending.append(action)
            else:
                self._strike(action.argument)

    def _renew_slots(self) -> None:
        self.slots_are_stale = False
        process = self.process
        tasks = [] if process is None else list(process.tasks.values())
        self.slots = slots_of(tasks, self.scenario.channel_capacity)
        if tasks and self._tracing:
            self.tracer.tasks(tasks)

    def add(self, class_index: int, label: str, perform: Callable[[Any], None], argument: Any) -> None:
        """Something may happen from now on."""
        self._pending.append(Action(class_index, label, perform, argument, self.step))

    def add_later(
        self, due: int, class_index: int, label: str, perform: Callable[[Any], None], argument: Any
    ) -> None:
        """Something may happen once the clock shows ``due``."""
        self._sequence += 1
        action = Action(class_index, label, perform, argument, self.step)
        heapq.heappush(self._later, (due, self._sequence, action))
        if due < self._attention:
            self._attention = due

    # Faults.

    def probe(self, point: str, task: str, checkpoint_id: int) -> None:
        """A machine passes a protocol point; it may be killed there."""
        self._points[point] += 1
        if point in self._kills:
            fault = self._faults.kill_at(point, task, checkpoint_id)
            if fault is not None:
                if fault.after:
                    self.add_later(self.clock + fault.after, _TIMER, "", self._strike, (fault, task))
                else:
                    self._strike((fault, task))
        if self._tracing:
            self.tracer.point(self.step, point, task, checkpoint_id)

    def fault_at(self, point: str, task: str, checkpoint_id: int) -> Fault | None:
        """What is wrong with the message, write or commit about to be made, if anything."""
        fault = self._faults.other_at(point, task, checkpoint_id)
        if fault is not None:
            self._fired(fault, task)
        return fault

    def _commit_fault(self) -> FaultKind | None:
        process = self.process
        task = None if process is None else process.current_task
        fault = None if task is None else self.fault_at("committing", task.name, 0)
        return None if fault is None else fault.kind

    def _transaction_seen(self, transaction: Transaction) -> None:
        process = self.process
        task = None if process is None else process.current_task
        if task is not None:
            self.tracer.visible(self.step, task.name, transaction)

    def _strike(self, argument: tuple[Fault, str]) -> None:
        """A kill strikes: inside the machine that runs, if it is that one, else from outside."""
        fault, name = argument
        process = self.process
        if process is None:
            return
        if fault.rescale_to:
            self.keyed_parallelism = fault.rescale_to
        if fault.kind == "kill_process":
            self._fired(fault, name)
            if not fault.after:
                raise ProcessKilled
            self._process_died()
            return
        victims = [task for task in process.tasks.values() if fault.kind == "kill_all" or task.name == name]
        running = process.current_task
        # A task that is closing is none of the attempt's any more, and can die nevertheless.
        is_closing = running is not None and not process.is_current(running)
        if not victims and not is_closing:
            return
        self._fired(fault, name)
        for task in victims:
            if task is not running:
                process.kill(task)
        if is_closing or running in victims:
            raise Killed

    def _fired(self, fault: Fault, task: str) -> None:
        self.history.fault_fired(self.step, fault.kind, fault.point, task)
        coverage = self.history.statistics.coverage
        key = (fault.kind, fault.point)
        coverage[key] = coverage.get(key, 0) + 1
        if self._tracing:
            self.tracer.fault(self.step, fault, task)

    # Processes.

    def _start_process(self, _: Any) -> None:
        try:
            recovered = recover(self.storage, self.scenario.retained)
            for metadata in recovered.checkpoints:
                if metadata.checkpoint_id not in self._known_complete:
                    self.checkpoint_completed(metadata)
            self.process = SimulatedProcess(self, self.build_graph(), recovered)
            self.process.master_event(StartJob())
        except ProcessKilled:
            self._process_died()
        except Exception as error:
            self._machine_error("recovery", error)

    def _process_died(self) -> None:
        """Everything in memory is gone. Messages stay on the network; writes under way land or do not."""
        process = self.process
        assert process is not None
        for task in process.tasks.values():
            self.task_failed(task, "its process was killed", injected=True)
        self.process = None
        self.renew_slots()
        dead = (process, self)
        for action in self.writes_under_way():
            if zlib.crc32(action.label.encode()) & 1:
                process.land(action)
        self._pending[:] = [
            action
            for action in self._pending
            if action.perform == self.deliver or getattr(action.perform, "__self__", None) not in dead
        ]
        self._later = [
            entry
            for entry in self._later
            if not entry[2].label or getattr(entry[2].perform, "__self__", None) is not process
        ]
        heapq.heapify(self._later)
        due = self.clock + self.scenario.restart_delay_ms + 1
        self.add_later(due, _TIMER, "timer process", self._start_process, None)

    def writes_under_way(self) -> list[Action]:
        """Writes that have begun and not reached the storage."""
        return [action for action in self._pending if action.class_index in (_STORE, _METADATA)]

    def build_graph(self) -> JobGraph:
        """The family's job at the parallelism of the next attempt."""
        environment = StreamExecutionEnvironment.get_execution_environment()
        environment.set_parallelism(self.keyed_parallelism)
        environment.set_max_parallelism(self.scenario.max_parallelism)
        self.family.job(
            environment, SimulatedIO(self.scenario, self.keyed_parallelism, self.log, self.external)
        )
        return replace(environment.get_job_graph(self.family.name), settings=self._settings)

    def deliver(self, message: Any) -> None:
        """A message arrives, if anybody is there."""
        if self.process is not None:
            self.process.receive(message)

    def lost(self, class_index: int, label: str, message: Any) -> None:
        """A message will never arrive."""
        if self._tracing:
            self.tracer.lost(self.step, Action(class_index, label, self.deliver, message, self.step))

    # What goes into the history.

    def _current_step(self) -> int:
        return self.step

    def note_snapshot(self, task: Task, effect: StoreSnapshot) -> None:
        """Remember whose the snapshot is and what it truly covers, whatever the engine writes into it."""
        self._writers[effect.path] = task.attempt
        head = task.operators[0]
        if isinstance(head, SourceOperator):
            self._cuts[effect.path] = head.positions()
        tail = task.operators[-1]
        if isinstance(tail, SinkOperator) and isinstance(tail.function, TwoPhaseCommitSinkFunction):
            self._listed[effect.path] = tail.function.pending_transactions()

    def checkpoint_completed(self, metadata: CheckpointMetadata) -> None:
        """A checkpoint is complete; its cut and its transactions follow from the snapshots it consists of."""
        self._known_complete.add(metadata.checkpoint_id)
        cut, transactions = self._covered(metadata)
        writers = [
            self._writers.get(subtask.handle.path, "unknown")
            for operator in metadata.operators
            for subtask in operator.subtasks
            if subtask.handle is not None
        ]
        self.history.checkpoint_completed(
            self.step,
            metadata.checkpoint_id,
            metadata.attempt,
            cut,
            transactions,
            tuple(dict.fromkeys(writers)),
        )
        if self._tracing:
            self.tracer.completed(self.step, metadata.checkpoint_id)

    def _covered(self, metadata: CheckpointMetadata) -> tuple[dict[str, int], list[str]]:
        """What is not among the snapshots of any source belongs to sources that had finished."""
        cut = {split: len(records) for split, records in self.log.records.items()}
        transactions: list[str] = []
        for operator in metadata.operators:
            for subtask in operator.subtasks:
                if subtask.handle is not None:
                    cut.update(self._cuts.get(subtask.handle.path, ()))
                    transactions.extend(self._listed.get(subtask.handle.path, ()))
        return cut, transactions

    def attempt_started(self, effect: Deploy) -> None:
        """A new attempt begins; the records it will read again are counted."""
        restored = effect.restored
        cut = dict.fromkeys(self.log.records, 0) if restored is None else self._covered(restored)[0]
        read_up_to = self.log.read_up_to
        statistics = self.history.statistics
        for split, position in cut.items():
            statistics.records_replayed += max(0, read_up_to[split] - position)
            read_up_to[split] = position
        statistics.attempts += 1
        restored_id = None if restored is None else restored.checkpoint_id
        self.history.attempt_started(self.step, effect.attempt, self.keyed_parallelism, restored_id)
        if self._down_since is not None:
            statistics.recovery_steps += self.step - self._down_since
            self._down_since = None
        if self._tracing:
            self.tracer.attempt(self.step, effect.attempt, self.keyed_parallelism, restored_id)

    def task_failed(self, task: Task, cause: str, injected: bool) -> None:
        """A task died."""
        if self._down_since is None:
            self._down_since = self.step
        self.history.task_failed(self.step, task.name, task.attempt, cause, injected)
        if self._tracing:
            self.tracer.killed(self.step, task.name)

    def task_raised(self, task: Task, error: BaseException) -> None:
        """A task raised: an injected error is the outside's, any other the engine's or the job's."""
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, InjectedError):
            cause = cause.__cause__
        self.task_failed(task, f"{type(error).__name__}: {error}", injected=cause is not None)
        if cause is None:
            self._machine_error(task.name, error)

    def _machine_error(self, where: str, error: BaseException) -> None:
        frames = traceback.extract_tb(error.__traceback__)
        function = frames[-1].name if frames else "?"
        text = " ".join(str(error).split())
        self.history.error(self.step, where, type(error).__name__, function, text)
        self._over = True

    def job_finished(self) -> None:
        """The job ended well."""
        self.history.job_finished(self.step)
        self._over = True

    def job_failed(self, cause: str) -> None:
        """The job ended for good."""
        self.history.job_failed(self.step, cause)
        self._over = True

    def _at_rest(self) -> None:
        """Let writes under way land, look for what was left behind, and sum the run up."""
        history = self.history
        finished = history.events and history.events[-1][1] == "job_finished"
        if finished:
            self._look_for_leaks()
        statistics = history.statistics
        statistics.steps = self.step
        statistics.points = {point: count for point, count in self._points.items() if count}
        digest = blake2b(_ENCODER.encode(self._labels), digest_size=16)
        digest.update(_ENCODER.encode(history.events))
        history.trace_hash = digest.hexdigest()
        history.trace = self.tracer.finish(self.step)

    def _look_for_leaks(self) -> None:
        history = self.history
        process = self.process
        for transaction in self.external.unsettled():
            history.leak(self.step, f"{transaction.state} transaction", transaction.name)
        for path in self.storage.list("chk-"):
            history.leak(self.step, "metadata" if path.endswith(METADATA) else "orphan file", path)
        assert process is not None
        for task in process.tasks.values():
            if task.state is not TaskState.FINISHED:
                history.leak(self.step, "unfinished task", task.name)
