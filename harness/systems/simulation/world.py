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
from collections.abc import Callable, Container, Sequence
from hashlib import blake2b
from math import floor
from typing import Any

import msgspec

from onceproof.engine.api.datastream import StreamExecutionEnvironment
from onceproof.engine.graph import JobGraph
from onceproof.engine.messages import TO_TASK
from onceproof.engine.protocol_points import ELEMENT, POINTS
from onceproof.engine.task.outputs import Queue
from onceproof.engine.task.task import Task
from onceproof.harness.model.family import Family
from onceproof.harness.model.faults import COORDINATOR_POINTS, FaultKind
from onceproof.harness.model.history import History
from onceproof.harness.model.injected_error import is_injected
from onceproof.harness.model.scenario import Fault, Scenario
from onceproof.harness.systems.fault_clock import FaultClock, MasterKilled, ProcessKilled
from onceproof.harness.systems.simulation.actions import CLASS_INDEX, Action, Slot
from onceproof.harness.systems.simulation.clock import Clock
from onceproof.harness.systems.simulation.engine_settings import simulated_settings
from onceproof.harness.systems.simulation.external_system import (
    SimulatedIO,
    SimulatedLog,
    Transaction,
    TransactionalSystem,
)
from onceproof.harness.systems.simulation.fault_injection import strike
from onceproof.harness.systems.simulation.job_process import SimulatedProcess
from onceproof.harness.systems.simulation.leak_search import look_for_leaks
from onceproof.harness.systems.simulation.orphaned_tasks import Outliving
from onceproof.harness.systems.simulation.run_recorder import Account
from onceproof.harness.systems.simulation.schedule import NO_DRAWS, Chooser, FairChooser, chooser_of
from onceproof.harness.systems.simulation.simulated_storage import SimulatedStorage
from onceproof.harness.systems.simulation.tracing import NO_TRACER, Tracer
from onceproof.harness.systems.simulation.user_requests import Operations

_TIMER = CLASS_INDEX["timer"]
_STORE = CLASS_INDEX["store"]
_METADATA = CLASS_INDEX["metadata"]
_ENCODER = msgspec.msgpack.Encoder()


class World:
    """One run of one scenario."""

    __slots__ = (
        "_attention",
        "_chooser",
        "_faults",
        "_is_fair",
        "_labels",
        "_later",
        "_log",
        "_over",
        "_passed",
        "_queues",
        "_sequence",
        "_slots",
        "_slots_are_stale",
        "_tracing",
        "_watched",
        "account",
        "clock",
        "external",
        "family",
        "history",
        "keyed_parallelism",
        "operations",
        "other_faults",
        "outliving",
        "pending",
        "process",
        "scenario",
        "settings",
        "storage",
        "tracer",
        "watches_elements",
    )

    def __init__(
        self, family: Family, scenario: Scenario, chooser: Chooser | None = None, tracer: Tracer = NO_TRACER
    ) -> None:
        self.family = family
        self.scenario = scenario
        self.history = History()
        self.clock = Clock()
        self._attention = 0
        self._is_fair = False
        self.storage = SimulatedStorage()
        self.external = TransactionalSystem(self.history, self.clock)
        self.external.commit_fault = self._commit_fault
        self._log = SimulatedLog(scenario.records)
        self.account = Account(self.history, self.clock, self._log, tracer)
        self.process: SimulatedProcess | None = None
        self.outliving = Outliving(self)
        self._slots: list[Slot] = []
        self._queues: list[Queue | list[None]] = []
        """Those of the slots, which blind draws look at."""
        self._slots_are_stale = False
        self.tracer = tracer
        self._tracing = tracer is not NO_TRACER
        if self._tracing:
            self.external.seen = self._transaction_seen
        self.settings = simulated_settings(scenario)
        self.keyed_parallelism = scenario.parallelism
        self._faults = FaultClock(scenario.faults)
        self.other_faults = self._faults.others
        self.pending: list[Action] = []
        self._later: list[tuple[int, int, Action]] = []
        self._sequence = 0
        self._chooser = chooser or chooser_of(scenario.schedule)
        self._labels: list[str] = []
        self._passed = dict.fromkeys(POINTS, 0)
        self.operations = Operations(self, scenario)
        watches_all = self._tracing or self.operations.waiting
        self._watched: Container[str] = POINTS if watches_all else self._faults.kills
        self.watches_elements = ELEMENT in self._watched
        self._over = False

    # The loop.

    def run(self) -> History:
        """Perform actions until the job is over, stuck or out of steps."""
        started = time.perf_counter()
        self._start_process(None)
        self._perform_all()
        self._at_rest()
        self.history.statistics.milliseconds = (time.perf_counter() - started) * 1000
        return self.history

    def _perform_all(self) -> None:
        """One action a step.

        The end, the budget, the horizon, what is due, and stale slots hide behind one number, ``_attention``.
        """
        clock = self.clock
        pending = self.pending
        labels = self._labels
        tracing = self._tracing
        step = clock.step
        now = clock.now
        while True:
            step += 1
            now += 1
            clock.step = step
            clock.now = now
            if now >= self._attention:
                if not self._attend():
                    return
                process = self.outliving if self.outliving.processes else self.process
                slots = self._slots
                count = len(slots)
                queues = self._queues
                float_count = float(count)  # Multiplied in half the time that a whole number takes.
                chooser = self._chooser
                draw = chooser.draw
                draws = chooser.blind_draws
            # As ``choice_of``, which asked for it would take a tenth of the run.
            total = float_count + len(pending)
            for _ in draws if total else NO_DRAWS:
                choice = floor(draw() * total)
                if choice >= count or (queues[choice] and slots[choice].is_ready()):
                    break
            else:
                choice = chooser.choose(slots, pending, step)
                if choice < 0:
                    if not self._skip():
                        return
                    step = clock.step
                    now = clock.now
                    continue
            try:
                if choice < count:
                    slot = slots[choice]
                    labels.append(slot.label)
                    if tracing:
                        self.tracer.slot(step, slot)
                    process.task_event(slot.task, slot.event)  # type: ignore[union-attr]
                else:
                    action = pending.pop(choice - count)
                    labels.append(action.label)
                    if tracing:
                        self.tracer.action(step, action)
                    perform = action.perform
                    perform(action.argument)
                if tracing:
                    self.tracer.after(step)
            except ProcessKilled:
                self.process_died()
            except MasterKilled:
                self.master_died()
            except Exception as error:
                self._machine_error(labels[-1], error)

    def _attend(self) -> bool:
        """Do what is due; whether the run goes on."""
        clock = self.clock
        scenario = self.scenario
        step = clock.step
        next_step = scenario.step_budget + 1
        if self._over or step >= next_step:
            clock.take_back()
            if not self._over:
                self.history.budget_exhausted(clock.step)
            return False
        if self._later and self._later[0][0] <= clock.now:
            self._due()
        if self._slots_are_stale:
            self._renew_slots()
        if not self._is_fair:
            horizon = scenario.schedule.horizon
            if step >= horizon:
                self._is_fair = True
                self._chooser = FairChooser()
            elif horizon < next_step:
                next_step = horizon
        attention = next_step + clock.now - step
        if self._later and self._later[0][0] < attention:
            attention = self._later[0][0]
        self._attention = attention
        return True

    def _skip(self) -> bool:
        """Nothing can happen now: let the clock jump to what happens next. False if nothing ever will."""
        clock = self.clock
        clock.take_back()
        if not self._later:
            self.history.budget_exhausted(clock.step)
            return False
        clock.now = self._later[0][0] - 1
        self._attention = 0
        return True

    def renew_slots(self) -> None:
        """Tasks have come or gone: before the next choice the slots are gathered anew."""
        self._slots_are_stale = True
        self._attention = 0

    def _due(self) -> None:
        while self._later and self._later[0][0] <= self.clock.now:
            action = heapq.heappop(self._later)[2]
            if action.label:
                self.pending.append(action)
            else:
                self._strike(action.argument)

    def _renew_slots(self) -> None:
        self._slots_are_stale = False
        process = self.process
        self._slots = [] if process is None else process.slots()
        if self._slots and self._tracing:
            self.tracer.tasks(list(process.tasks.values()))  # type: ignore[union-attr]
        self._slots += self.outliving.slots()
        self._queues = [slot.queue for slot in self._slots]

    def add(self, class_index: int, label: str, perform: Callable[[Any], None], argument: Any) -> None:
        """Something may happen from now on."""
        self.pending.append(Action(class_index, label, perform, argument, self.clock.step))

    def add_later(
        self, due: int, class_index: int, label: str, perform: Callable[[Any], None], argument: Any
    ) -> None:
        """Something may happen once the clock shows ``due``."""
        self._sequence += 1
        action = Action(class_index, label, perform, argument, self.clock.step)
        heapq.heappush(self._later, (due, self._sequence, action))
        if due < self._attention:
            self._attention = due

    # Faults.

    def probe(self, point: str, task: str, checkpoint_id: int) -> None:
        """A machine passes a protocol point; it may be killed there."""
        self._passed[point] += 1
        if point in self._watched:
            self._look(point, task, checkpoint_id)

    def _look(self, point: str, task: str, checkpoint_id: int) -> None:
        self.operations.look(point, task, checkpoint_id)
        fault = self._faults.kill_at(point, task, checkpoint_id)
        if fault is not None:
            # A task goes on with what it does while the master dies.
            waits = fault.kind == "kill_master" and point not in COORDINATOR_POINTS
            if fault.after or waits:
                self.add_later(self.clock.now + fault.after, _TIMER, "", self._strike, (fault, task))
            else:
                self._strike((fault, task))
        if self._tracing:
            self.tracer.point(self.clock.step, point, task, checkpoint_id)

    def fault_at(self, point: str, task: str, checkpoint_id: int) -> Fault | None:
        """What is wrong with the message, write or commit about to be made, if anything."""
        if point not in self.other_faults:
            return None
        fault = self._faults.other_at(point, task, checkpoint_id)
        if fault is not None:
            self.fired(fault, task)
        return fault

    def _commit_fault(self) -> FaultKind | None:
        task = self.outliving.running_task()
        fault = None if task is None else self.fault_at("committing", task.name, 0)
        return None if fault is None else fault.kind

    def _transaction_seen(self, transaction: Transaction) -> None:
        task = self.outliving.running_task()
        if task is not None:
            self.tracer.visible(self.clock.step, task.name, transaction)

    def _strike(self, argument: tuple[Fault, str]) -> None:
        strike(self, *argument)

    def fired(self, fault: Fault, task: str) -> None:
        self.history.fault_fired(self.clock.step, fault.kind, fault.point, task)
        coverage = self.history.statistics.coverage
        key = (fault.kind, fault.point)
        coverage[key] = coverage.get(key, 0) + 1
        if self._tracing:
            self.tracer.fault(self.clock.step, fault, task)

    # Processes.

    def _start_process(self, _: Any) -> None:
        try:
            recovered = self.operations.recovered()
            for metadata in recovered.checkpoints:
                self.account.checkpoint_found(metadata)
            self.process = SimulatedProcess(self, self.build_graph(), recovered)
            self.outliving.make_way()
        except ProcessKilled:
            self.process_died()
        except MasterKilled:
            self.master_died()
        except Exception as error:
            self._machine_error("recovery", error)

    def process_died(self) -> None:
        """Everything in memory is gone. Messages stay on the network; writes under way land or do not."""
        process = self.process
        assert process is not None
        for each in (*process.tasks.values(), *[task for _, task in self.outliving.tasks()]):
            self.account.task_failed(each, "its process was killed", injected=True)
        self._end_process()

    def master_died(self) -> None:
        """Its tasks live on, and its metadata may yet reach the storage."""
        process, self.process = self.process, None
        assert process is not None
        self.outliving.take(process)
        self.renew_slots()
        self._forget(lambda action: action.perform in (process.master_event, process.metadata_published))
        self._start_again()

    def job_stopped(self) -> None:
        """The job ended with a savepoint: it is started again from there, by a new process."""
        self.history.job_stopped(self.clock.step)
        self._end_process()

    def _end_process(self) -> None:
        process, self.process = self.process, None
        assert process is not None
        self.renew_slots()
        dead = (process, self, self.outliving, *self.outliving.processes)
        self.outliving.clear()
        for action in self.writes_under_way():
            if zlib.crc32(action.label.encode()) & 1:
                process.land(action)

        def dies(action: Action) -> bool:
            # Messages are on their way, and what has no label is a fault.
            stays = not action.label or action.perform == self.deliver
            return not stays and getattr(action.perform, "__self__", None) in dead

        self._forget(dies)
        self._start_again()

    def _forget(self, is_gone: Callable[[Action], bool]) -> None:
        self.pending[:] = [action for action in self.pending if not is_gone(action)]
        self._later = [entry for entry in self._later if not is_gone(entry[2])]
        heapq.heapify(self._later)

    def _start_again(self) -> None:
        due = self.clock.now + self.scenario.restart_delay_ms + 1
        self.add_later(due, _TIMER, "timer process", self._start_process, None)

    def writes_under_way(self) -> list[Action]:
        """Writes that have begun and not reached the storage."""
        return [action for action in self.pending if action.class_index in (_STORE, _METADATA)]

    def is_under_way(self, classes: Sequence[int]) -> bool:
        """Whether an action of one of these classes is possible now, or will be."""
        later = [action.class_index for _, _, action in self._later]
        return not set(classes).isdisjoint([action.class_index for action in self.pending] + later)

    def build_graph(self) -> JobGraph:
        """The family's job at the parallelism of the next attempt."""
        environment = StreamExecutionEnvironment.get_execution_environment()
        environment.set_parallelism(self.keyed_parallelism)
        environment.set_max_parallelism(self.scenario.max_parallelism)
        self.family.job(
            environment, SimulatedIO(self.scenario, self.keyed_parallelism, self._log, self.external)
        )
        return environment.get_job_graph(self.family.name, self.settings)

    def deliver(self, message: Any) -> None:
        """A message arrives, if anybody is there."""
        process = self.process
        if type(message) in TO_TASK:
            if self.outliving.processes and self.outliving.receives(message):
                return
            task = None if process is None else process.tasks.get(message.task)
            if task is not None:
                process.task_event(task, message)  # type: ignore[union-attr]
        elif process is not None:
            process.master_event(message)

    def lost(self, class_index: int, label: str, message: Any) -> None:
        """A message will never arrive."""
        step = self.clock.step
        if self._tracing:
            self.tracer.lost(step, Action(class_index, label, self.deliver, message, step))

    # The end.

    def task_raised(self, task: Task, error: BaseException) -> None:
        """A task raised: an injected error is the outside's, any other the engine's or the job's."""
        injected = is_injected(error)
        self.account.task_failed(task, f"{type(error).__name__}: {error}", injected)
        if not injected:
            self._machine_error(task.name, error)

    def _machine_error(self, where: str, error: BaseException) -> None:
        frames = traceback.extract_tb(error.__traceback__)
        function = frames[-1].name if frames else "?"
        text = " ".join(str(error).split())
        self.history.error(self.clock.step, where, type(error).__name__, function, text)
        self.end()

    def end(self) -> None:
        """No further step."""
        self._over = True
        self._attention = 0

    def job_finished(self) -> None:
        """The job ended well."""
        self.history.job_finished(self.clock.step)
        self.end()

    def job_failed(self, cause: str) -> None:
        """The job ended for good."""
        self.history.job_failed(self.clock.step, cause)
        self.end()

    def _at_rest(self) -> None:
        """Let writes under way land, look for what was left behind, and sum the run up."""
        history = self.history
        finished = history.events and history.events[-1][1] == "job_finished"
        if finished:
            look_for_leaks(self)
        statistics = history.statistics
        statistics.steps = self.clock.step
        statistics.points = {point: count for point, count in self._passed.items() if count}
        digest = blake2b(_ENCODER.encode(self._labels), digest_size=16)
        digest.update(_ENCODER.encode(history.events))
        history.trace_hash = digest.hexdigest()
        history.trace = self.tracer.finish(self.clock.step)
        self._let_go()

    def _let_go(self) -> None:
        """Break the cycles between the world and what is in it, which the collector would have to find."""
        self.process = None
        self._slots, self._queues = [], []
        self.pending.clear()
        self._later.clear()
        self.external.forget_listeners()
        del self.operations, self.outliving
