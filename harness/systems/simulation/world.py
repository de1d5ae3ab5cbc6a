"""The simulated world: what outlives a process, the clock, and the loop that performs action after action.

The rules this module lives by:

- One thread, one action a step, one millisecond a step; where nothing can happen the clock jumps to the next
  thing that will. The scenario decides everything: same scenario, same trace, on any machine.
- The network outlives the processes: a message of a dead attempt may arrive at a living one. Attempt ids keep
  it from being taken for a message of the living attempt.
- When a process dies with a write under way, the write has reached the storage or it has not: a checksum of
  its label decides, so that the answer does not change with the schedule around it.
- The machines check themselves (``validate``) after every step. The first error of the engine's own ends the
  run, since nothing after it can be trusted.
"""

from __future__ import annotations

import time
import zlib
from contextlib import suppress
from hashlib import blake2b
from math import floor
from typing import Any

import msgspec

from onceproof.engine.configuration.backend_options import HASHMAP
from onceproof.engine.runtime.interrupts import at_once
from onceproof.engine.runtime.recovery import FINISHED, recover
from onceproof.engine.runtime.storage import StorageError
from onceproof.engine.state.file_envelope import StateError
from onceproof.engine.task.outputs import Queue
from onceproof.harness.model.exit_codes import is_full
from onceproof.harness.model.family import Family, FamilyError, source_file
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.history import FAULT_FIRED, UPGRADE, History
from onceproof.harness.model.injected_error import is_injected
from onceproof.harness.model.scenario import Scenario
from onceproof.harness.systems.clock_jumps import first_ahead_ms
from onceproof.harness.systems.fault_clock import MasterKilled, PowerLost, ProcessKilled
from onceproof.harness.systems.simulation.actions import CLASS_INDEX, Action, Slot
from onceproof.harness.systems.simulation.aftermath import (
    circle_of_waits,
    report_leaks,
    report_unfired_timers,
)
from onceproof.harness.systems.simulation.agenda import Agenda, Clock
from onceproof.harness.systems.simulation.checkpoint_storages import LATE_PUTS, storage_for
from onceproof.harness.systems.simulation.conformance_watch import ConformanceWatch
from onceproof.harness.systems.simulation.external_system import Transaction, TransactionalSystem
from onceproof.harness.systems.simulation.fault_injection import FaultInjector
from onceproof.harness.systems.simulation.job_process import SimulatedProcess
from onceproof.harness.systems.simulation.job_processes import JobProcesses
from onceproof.harness.systems.simulation.neighbour import move_in
from onceproof.harness.systems.simulation.orphaned_tasks import OrphanedTasks
from onceproof.harness.systems.simulation.process_ports import ProcessPorts
from onceproof.harness.systems.simulation.retention_watch import RetentionWatch
from onceproof.harness.systems.simulation.run_recorder import RunRecorder
from onceproof.harness.systems.simulation.schedule import NO_DRAWS, Chooser, FairChooser, chooser_of
from onceproof.harness.systems.simulation.simulated_input import ChangingLog, EndlessInput
from onceproof.harness.systems.simulation.simulated_io import SimulatedLog
from onceproof.harness.systems.simulation.simulated_job import SimulatedJob
from onceproof.harness.systems.simulation.simulated_storage import (
    STORAGE_FAILED,
    StorageUnavailable,
    no_fault,
    process_recovers,
)
from onceproof.harness.systems.simulation.tracing import NO_TRACER, Tracer
from onceproof.harness.systems.simulation.user_requests import UserRequests

_TIMER = CLASS_INDEX["timer"]
_ENCODER = msgspec.msgpack.Encoder()


def log_of(scenario: Scenario) -> SimulatedLog:
    """Return the input of a scenario: in files if a fault changes it and it has an end, else in memory."""
    if not scenario.is_endless and any(FAULTS[fault.kind].strikes == "input" for fault in scenario.faults):
        return ChangingLog(scenario.records)
    return SimulatedLog(scenario.records, is_bounded=not scenario.is_endless)


def has_consumer(scenario: Scenario) -> bool:
    """Return whether a consumer takes the visible files and objects of a scenario's job away."""
    return any(FAULTS[fault.kind].strikes == "output" for fault in scenario.faults)


class World:
    """One run of one scenario."""

    __slots__ = (
        "_causes",
        "_chooser",
        "_family_file",
        "_is_fair",
        "_is_over",
        "_labels",
        "_orphans",
        "_ports",
        "_queues",
        "_scenario",
        "_slots",
        "_tracer",
        "_watch",
        "agenda",
        "clock",
        "external",
        "faults",
        "history",
        "job",
        "processes",
        "recorder",
        "requests",
        "storage",
    )

    def __init__(
        self, family: Family, scenario: Scenario, chooser: Chooser | None = None, tracer: Tracer = NO_TRACER
    ) -> None:
        self._scenario = scenario
        self._family_file = source_file(family) or family.name
        self._chooser = chooser or chooser_of(scenario.schedule)
        self._tracer = tracer
        self.history = History()
        self.clock = clock = Clock()
        clock.ahead_ms = scenario.starts_at_ms + first_ahead_ms(scenario.faults)
        self.agenda = agenda = Agenda(clock)
        self.storage = storage_for(scenario, clock, agenda)
        self.external = TransactionalSystem(self.history, clock, agenda=agenda)
        self.external.has_consumer = has_consumer(scenario)
        move_in(self.external)
        log = log_of(scenario)
        self.recorder = recorder = RunRecorder(
            self.history, clock, log, tracer, RetentionWatch(self.storage, scenario.retained)
        )
        self.job = SimulatedJob(family, scenario, log, self.external)
        self.processes = processes = JobProcesses()
        self.requests = UserRequests(scenario, clock, agenda, self.storage, recorder, self.job, processes)
        self.faults = FaultInjector(
            scenario.faults, clock, agenda, recorder, self.requests, self.job, processes
        )
        self._causes = 0
        """What had gone wrong when the job was submitted last, in number."""
        self._watch = ConformanceWatch(scenario, clock)
        self._orphans = OrphanedTasks(processes, agenda, clock, scenario.restart_delay_ms)
        self._ports = ProcessPorts(
            scenario,
            clock,
            agenda,
            self.storage,
            recorder,
            self.faults,
            self.requests,
            self.job,
            processes.deliver,
            self,
            self._watch,
        )
        self.external.commit_fault = self.faults.commit_fault
        self.external.abort_fault = self.faults.abort_fault
        self.external.row_fault = self.faults.row_fault
        self.external.call_fault = self.faults.call_fault
        self.storage.fault_of = self.faults.storage_fault
        if recorder.is_tracing:
            self.external.seen = self._transaction_visible
        if scenario.is_endless:
            EndlessInput(clock, agenda, log, processes, self.requests)
        self._is_fair = False
        self._is_over = False
        self._slots: list[Slot] = []
        self._queues: list[Queue | list[None]] = []
        """Those of the slots, which blind draws look at."""
        self._labels: list[str] = []

    # The loop.

    def run(self) -> History:
        """Perform actions until the job is over, stuck or out of steps."""
        started = time.perf_counter()
        with at_once():
            self._start_process(None)
            self._perform_all()
        self._sum_up()
        self.history.statistics.milliseconds = (time.perf_counter() - started) * 1000
        return self.history

    def _perform_all(self) -> None:
        """One action a step.

        The end, the budget, the horizon, what is due, and stale slots hide behind one number, the agenda's
        ``attention``.
        """
        clock = self.clock
        agenda = self.agenda
        pending = agenda.pending
        labels = self._labels
        tracer = self._tracer
        tracing = self.recorder.is_tracing
        processes = self.processes
        step = clock.step
        while True:
            step += 1
            # Not counted here: a late read moves the clock on in the middle of a step.
            now = clock.now + 1
            clock.step = step
            clock.now = now
            if now >= agenda.attention:
                if not self._attend():
                    return
                process = processes if processes.headless else processes.current
                slots = self._slots
                count = len(slots)
                queues = self._queues
                float_count = float(count)  # Multiplied in half the time that a whole number takes.
                chooser = self._chooser
                draw = chooser.draw
                draws = chooser.blind_draws
            # The same as ``choice_of``; a call of it would take a tenth of the run.
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
                    continue
            try:
                if choice < count:
                    slot = slots[choice]
                    labels.append(slot.label)
                    if tracing:
                        tracer.slot(step, slot)
                    process.task_event(slot.task, slot.event)  # type: ignore[union-attr]
                else:
                    action = pending.pop(choice - count)
                    labels.append(action.label)
                    if tracing:
                        tracer.action(step, action)
                    perform = action.perform
                    perform(action.argument)
                if tracing:
                    tracer.after(step)
            except ProcessKilled as death:
                self._process_died(death)
            except MasterKilled:
                self._master_died()
            except Exception as error:
                self.machine_failed(labels[-1], error)
            except BaseException as error:
                if not is_injected(error):
                    raise
                self._process_left(labels[-1], error)

    def _attend(self) -> bool:
        """Do what is due; return whether the run goes on."""
        clock = self.clock
        agenda = self.agenda
        step = clock.step
        next_step = self._scenario.step_budget + 1
        if self._is_over or step >= next_step:
            clock.take_back()
            if not self._is_over:
                self._cut_off()
            return False
        due = agenda.next_due
        if due is not None and due <= clock.now:
            for fault in agenda.take_due():
                self._strike(fault)
        if agenda.slots_are_stale:
            self._renew_slots()
        if not self._is_fair:
            horizon = self._scenario.schedule.horizon
            if step >= horizon:
                self._is_fair = True
                self._chooser = FairChooser()
            elif horizon < next_step:
                next_step = horizon
        attention = next_step + clock.now - step
        due = agenda.next_due
        agenda.attention = attention if due is None or due >= attention else due
        return True

    def _strike(self, fault: Action) -> None:
        """Let a fault strike that was held back for some milliseconds."""
        try:
            fault.perform(fault.argument)
        except ProcessKilled as death:
            self._process_died(death)
        except MasterKilled:
            self._master_died()

    def _skip(self) -> bool:
        """Let the clock jump to what happens next; False where nothing ever will."""
        self.clock.take_back()
        due = self.agenda.next_due
        if due is None:
            self._cut_off()
            return False
        self.clock.now = due - 1
        self.agenda.interrupt()
        return True

    def _cut_off(self) -> None:
        tasks = [task for _, task in self.processes.tasks()]
        circle = circle_of_waits(tasks, self._scenario.channel_capacity)
        self.history.budget_exhausted(self.clock.step, circle)

    def _renew_slots(self) -> None:
        self.agenda.slots_are_stale = False
        process = self.processes.current
        if process is not None and self.recorder.is_tracing and process.slots():
            self._tracer.tasks(list(process.tasks.values()))
        self._slots = self.processes.slots()
        self._queues = [slot.queue for slot in self._slots]

    # Processes.

    def _start_process(self, _: Any) -> None:
        try:
            with process_recovers():
                recovered = self.requests.recover()
            for metadata in recovered.checkpoints:
                self.recorder.checkpoint_found(metadata)
            self.job.sets_max_parallelism = not (
                self._scenario.leaves_max_parallelism is True and recovered.checkpoints
            )
            self.processes.current = SimulatedProcess(self._ports, self.job.build_graph(), recovered)
            self._orphans.hand_over()
        except ProcessKilled as death:
            self._process_died(death)
        except MasterKilled:
            self._master_died()
        except StorageUnavailable:
            # Who has started the process starts it again.
            self._start_again()
        except Exception as error:
            self.machine_failed("recovery", error)

    def _process_died(self, death: ProcessKilled) -> None:
        """Everything in memory is gone. Messages stay on the network; writes under way land or do not.

        If the power was cut, the disk keeps what was synced, and any part of the rest.
        """
        process = self.processes.current
        assert process is not None
        if self.faults.observer is not None:
            self.faults.observer.process_died()
        for each in (*process.tasks.values(), *[task for _, task in self.processes.orphaned_tasks()]):
            self.recorder.task_failed(each, "its process was killed", injected=True)
        power_is_lost = isinstance(death, PowerLost)
        self._end_process(power_is_lost)
        if power_is_lost:
            self.storage.lose_power()

    def _master_died(self) -> None:
        """The tasks of the job master live on, and its metadata may yet reach the storage."""
        process, self.processes.current = self.processes.current, None
        assert process is not None
        self._orphans.take(process)
        self.agenda.renew_slots()
        own = (process.master_event, process.metadata_published)
        self.agenda.forget(lambda action: action.perform in own)
        self._start_again()

    def job_stopped(self, *, is_cancelled: bool = False) -> None:
        """The job ended with a savepoint: a new process starts it again from there."""
        self.history.job_stopped(self.clock.step, cancelled=is_cancelled)
        self._end_process()

    def _end_process(self, power_is_lost: bool = False) -> None:
        process, self.processes.current = self.processes.current, None
        assert process is not None
        self.agenda.renew_slots()
        dead = (process, self, self._orphans, *self.processes.headless)
        self._orphans.clear()
        for action in self.agenda.writes_under_way():
            if zlib.crc32(action.label.encode()) & 1:
                # Refused: an earlier process left a savepoint of that number; real ones have a folder each.
                # Or a value has no stored form: this process is dead, and the next one says it.
                with suppress(StorageError, StateError):
                    process.land(action)

        def dies(action: Action) -> bool:
            # Faults have no label, and stay. So do messages and requests, which no process performs.
            performer = getattr(action.perform, "__self__", None)
            if power_is_lost and isinstance(performer, SimulatedProcess):
                # Nor does a late write of an earlier process reach a disk without power.
                return True
            is_dead = performer in dead or getattr(performer, "dies_with_process", False)
            return bool(action.label and is_dead)

        self.agenda.forget(dies)
        self._start_again()

    def _start_again(self) -> None:
        due = self.clock.now + self._scenario.restart_delay_ms + 1
        self.agenda.add_later(due, _TIMER, "timer process", self._start_process, None)

    def _transaction_visible(self, transaction: Transaction) -> None:
        task = self.processes.running_task()
        if task is not None:
            self._tracer.visible(self.clock.step, task.name, transaction)

    # The end.

    def machine_failed(self, where: str, error: BaseException) -> None:
        """A machine raised an error of the engine's own: record it, and end the run.

        A full disk, that of a database, is not the scenario's: it ends all runs.
        """
        if is_full(error):
            raise error
        self.recorder.error(where, error)
        self.end()

    def _process_left(self, where: str, error: BaseException) -> None:
        """What a function raised has ended the process: exit code 0 is a report of success."""
        if isinstance(error, SystemExit) and not error.code:
            self.job_finished()
        else:
            self.machine_failed(where, error)

    def end(self) -> None:
        """Perform no further action."""
        self._is_over = True
        self.agenda.interrupt()

    def job_finished(self) -> None:
        """The job has finished: end the run."""
        self.history.job_finished(self.clock.step)
        self.end()

    def job_failed(self, cause: str) -> None:
        """The job has failed for good: its user submits it again, if its restart strategy is a drawn one."""
        self.recorder.job_failed(cause)
        struck = [kind for _, kind, _, _ in self.history.events if kind == FAULT_FIRED]
        causes = len(struck) + self.history.statistics.stops_failed
        # Nothing has gone wrong since the last submission, or what has gone wrong stays so.
        fails_again = causes <= self._causes or self.recorder.names_changed_input(cause)
        if self._scenario.restarts is not msgspec.UNSET and not fails_again:
            self._causes = causes
            self._end_process()
        else:
            self.end()

    def _sum_up(self) -> None:
        """Look for what was left behind, and add the statistics and the trace to the history."""
        history = self.history
        process = self.processes.current
        if process is not None and history.events and history.events[-1][1] == "job_finished":
            tasks = process.tasks.values()
            if self.recorder.has_fired((*STORAGE_FAILED, *LATE_PUTS)):
                # What the end of the job could not delete, or what appears behind it, its next start deletes.
                self.storage.fault_of = no_fault
                self.storage.perform_all()
                with process_recovers():
                    recovered = recover(self.storage, self._scenario.retained)
                if not recovered.finished:
                    self.recorder.leak("deleted mark of its end", FINISHED)
            self.external.perform_all()
            report_leaks(self.recorder, self.external, self.storage, self.requests, tasks)
            if process.graph.settings.state_backend.kind == HASHMAP:
                report_unfired_timers(self.recorder, tasks)
            if self.external.outside is not None:
                self.recorder.rows_found(self.external.outside.rows())
        self.recorder.sum_up()
        statistics = history.statistics
        if any(operation.upgrades for operation in self._scenario.asked):
            statistics.watched[UPGRADE] = self.job.is_upgraded
        statistics.steps = self.clock.step
        statistics.points = {point: count for point, count in self.faults.passed.items() if count}
        digest = blake2b(_ENCODER.encode(self._labels), digest_size=16)
        try:
            digest.update(_ENCODER.encode(history.events))
        except OverflowError:
            where = f"{self._family_file}: seed {self._scenario.seed}"
            raise FamilyError(f"{where}: the job writes an integer of more than 64 bits") from None
        history.trace_hash = digest.hexdigest()
        # Behind the hash, which is one of the steps: what is asked at rest changes none of them.
        self.recorder.input_read()
        if self._watch.deviation is not None:
            history.deviated(*self._watch.deviation)
        history.trace = self._tracer.finish(self.clock.step)
        self._let_go()

    def _let_go(self) -> None:
        """Break the cycles between the world and what is in it, which the collector would have to find."""
        self._slots, self._queues = [], []
        self._watch.forget()
        self.processes.clear()
        self.agenda.clear()
        self.external.forget_listeners()
        if self.external.outside is not None:
            self.external.outside.close()
        self.storage.fault_of = no_fault
        del self._ports
