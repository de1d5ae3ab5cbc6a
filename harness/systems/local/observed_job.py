"""The local runtime under trial, with an event log and the scenario's faults.

Rules:

- It derives from the local runtime and only adds to it (`event_logging_driver.py`). It logs each event before
  anything else can become visible.
- It looks for what dead attempts leave (`attempt_leaks.py`): timers and waiting snapshots as soon as an
  attempt or a checkpoint is over, the rest once the next attempt has completed a checkpoint, and at the end.
- The tasks check their invariants after every event, as in the simulation. The first error that no fault
  injected ends the run.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from onceproof.engine.checkpoint.events import (
    CheckpointAborted,
    CheckpointCompleted,
    CheckpointTriggered,
    RequestResolved,
)
from onceproof.engine.checkpoint.metadata import CheckpointMetadata
from onceproof.engine.connectors.file_content import UnreadableFile
from onceproof.engine.graph import JobGraph
from onceproof.engine.job.events import CancelTasks, Deploy, JobFailed, JobFinished
from onceproof.engine.messages import SAVEPOINT, AttemptId, checkpoint_folder
from onceproof.engine.operators.source import SourceOperator
from onceproof.engine.runtime.checkpoint_writer import CheckpointWriter, Report, Writer
from onceproof.engine.runtime.execution import Killed
from onceproof.engine.runtime.job_requests import JobAnswer, JobRequest
from onceproof.engine.runtime.local import LocalExecution, Upload
from onceproof.engine.runtime.mounted_storage import MountedStorage
from onceproof.engine.runtime.recovery import Recovered
from onceproof.engine.task.events import StoreSnapshot, TaskEvent
from onceproof.engine.task.task import Task
from onceproof.harness.model.fault_kinds import TOPIC_CHANGES, Target
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.injected_error import is_injected
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.clock_jumps import ShiftedClocks, ahead_after_ms
from onceproof.harness.systems.fault_clock import ProcessFaultClock
from onceproof.harness.systems.filed_input import change
from onceproof.harness.systems.leaving_functions import leave
from onceproof.harness.systems.local.attempt_leaks import SNAPSHOT, TIMER, VOID_SNAPSHOT, AttemptLeaks, Left
from onceproof.harness.systems.process.database_io import database_of
from onceproof.harness.systems.process.fault_actions import die, lose_folder, move_visible
from onceproof.harness.systems.process.job_specification import Spec, read_records
from onceproof.harness.systems.process.strike_requests import (
    is_server_away,
    may_be_away,
    strike_server,
    tell_of_attempt,
)
from onceproof.harness.systems.recording import event_log
from onceproof.harness.systems.recording.event_log import EventLog
from onceproof.harness.systems.recording.event_logging_driver import (
    EventLoggingDriver,
    RunOver,
    checkpoint_entry,
    log_error,
    log_snapshot,
    log_task_failure,
    positions_of,
)
from onceproof.harness.systems.victims import is_victim


class ObservedDriver(EventLoggingDriver):
    """Logs the savepoints of users as well, and what dead attempts have left behind.

    A savepoint that ends the job is one of its checkpoints: it is logged as such before what it lists is
    committed. One that does not is logged by a name of its own, since no restart of the job begins from it.
    Both are in a folder of their user, where all their files must stay.
    """

    _savepoint: CheckpointMetadata | None = None
    _has_completed = False
    """Whether the current attempt has completed a checkpoint."""

    @abstractmethod
    def search(self) -> None:
        """Search for what earlier attempts have left, and log it."""

    def metadata_published(self, checkpoint_id: int) -> None:
        """Keep the metadata of a savepoint, to log that it is complete."""
        pending = self.master.coordinator.pending[checkpoint_id]
        if pending.number:
            self._savepoint = pending.published
        super().metadata_published(checkpoint_id)

    def request_resolved(self, effect: RequestResolved) -> None:
        """Log the savepoint of a request, and its folder."""
        super().request_resolved(effect)
        savepoint = self._savepoint
        if effect.checkpoint_id is None or savepoint is None:
            return
        ends_job = savepoint.kind != SAVEPOINT
        kind = event_log.CHECKPOINT_COMPLETED if ends_job else event_log.SAVEPOINT_COMPLETED
        storage = self.storage
        assert isinstance(storage, MountedStorage)
        place = storage.mounts[checkpoint_folder(savepoint.checkpoint_id, savepoint.kind)]
        self.log.write(kind, checkpoint=checkpoint_entry(savepoint), folder=[place])

    def attempt_started(self, effect: Deploy) -> None:
        """Log the attempt, which has not completed a checkpoint yet."""
        super().attempt_started(effect)
        self._has_completed = False

    def checkpoint_completed(self, effect: CheckpointCompleted) -> None:
        """Log the checkpoint; from now on what earlier attempts have left can be searched for."""
        super().checkpoint_completed(effect)
        self._has_completed = True

    def checkpoint_triggered(self, effect: CheckpointTriggered) -> None:
        """Log the checkpoint, and search now: the commit that ends a recovery does not wait for it."""
        super().checkpoint_triggered(effect)
        if self._has_completed:
            self.search()

    def log_left(self, found: Iterable[Left]) -> None:
        """Log what was left behind."""
        for left in found:
            self.log.write(event_log.LEFT_BEHIND, what=left.what, name=left.name)


class ObservedLocalExecution(ObservedDriver, LocalExecution):
    """One run of a job in this process."""

    def __init__(
        self,
        spec: Spec,
        graph_of: Callable[[int], JobGraph],
        storage: MountedStorage,
        recovered: Recovered,
        log: EventLog,
    ) -> None:
        self.fault_clock = ProcessFaultClock(spec.faults, spec.in_turn, spec.waiting, self.strike)
        self.log = log
        self._spec = spec
        self._faults = spec.faults
        self._cuts: dict[str, Mapping[str, int]] = {}
        """By snapshot file, what it covers of the input."""
        self._strikes = spec.strikes
        self.parallelism = spec.parallelism
        self._graph_of = graph_of
        self._graph_parallelism = spec.parallelism
        self._logged_snapshots: set[str] = set()
        """Paths of the snapshots that are in the log already."""
        self._leaks = AttemptLeaks(str(database_of(Path(spec.output))))
        self._attempt = AttemptId("")
        self._savepoints = spec.savepoints
        self._records_of_input = _record_count(spec) if spec.is_endless else None
        """How many records an endless input has; None: it ends by itself, or is being ended."""
        self._checkpoint_writer: CheckpointWriter | None = None
        self._shifted = ShiftedClocks(ahead_after_ms(spec.faults, spec.waiting))
        LocalExecution.__init__(
            self, graph_of(spec.parallelism), storage, recovered, self.fault_clock.probe, self._shifted
        )

    def points_passed(self) -> dict[str, int]:
        """Return how often each protocol point was passed."""
        return self.fault_clock.points

    # Kills and failures.

    def strike(self, number: int, fault: Fault, name: str) -> None:
        """Log a fault, then carry it out.

        Raises Killed where the running task is a victim, and what a function raises that leaves.
        """
        if fault.rescale_to:
            self.parallelism = fault.rescale_to
        running = self.current_task
        # A task that is being cancelled has left ``tasks``, and can still be killed as it closes.
        living = {task.id: task for task in (*self.tasks.values(), *([] if running is None else [running]))}
        row = FAULTS[fault.kind]
        victims = [task for task in living.values() if is_victim(row, name, task.name)]
        if row.victims == "passing" and not victims:
            return
        struck = self._struck_outside(fault, name)
        if not struck:
            return
        self.log.write(
            event_log.FAULT_STRUCK,
            number=number,
            task=struck,
            waiting=self.fault_clock.state(),
            points=self.fault_clock.points,
            read=positions_of(self.tasks.values()),
        )
        if row.strikes == "process":
            die()
        if row.strikes == "clock":
            self._shifted.jump(fault)
            return
        if row.strikes == "server":
            strike_server(self._strikes, fault)
            return
        if row.strikes == "function":
            leave(fault)
            return
        for task in victims:
            if task is not running:
                self.kill(task)
        if running in victims:
            raise Killed

    def _struck_outside(self, fault: Fault, name: str) -> str:
        """Change the input, or move the output or the checkpoints away.

        Return what the strike names: the file or topic that has changed, "" if the input is in none, or
        nothing of it is read again; else the task that has passed the point.
        """
        spec = self._spec
        match FAULTS[fault.kind].strikes:
            case "input" if fault.means in TOPIC_CHANGES:
                if spec.kafka is None or not self._reads_a_topic():
                    return ""
                strike_server(self._strikes, fault)
                return spec.kafka.input_topic
            case "input":
                covered = self._covered()
                split = max(covered, key=lambda each: covered[each], default="")
                if not spec.files or not split or not covered[split]:
                    return ""
                path = spec.files[list(read_records(spec.records)).index(split)]
                change(path, covered[split], fault)
                return Path(path).name
            case "output":
                move_visible(spec.output)
            case "folder":
                lose_folder(spec.checkpoints)
        return name

    def _covered(self) -> Mapping[str, int]:
        """Return how much of each split the latest checkpoint covers, if this process has completed it."""
        latest = self.master.coordinator.store.latest
        paths = () if latest is None else checkpoint_entry(latest)["paths"]
        return {split: read for path in paths for split, read in self._cuts.get(path, {}).items()}

    def _reads_a_topic(self) -> bool:
        """Return whether a living source reads the topic of the scenario."""
        # It imports what only some families need.
        from onceproof.harness.systems.process.kafka_io import TopicOfRecords

        heads = [task.operators[0] for task in self.tasks.values()]
        return any(isinstance(head, SourceOperator) and type(head.source) is TopicOfRecords for head in heads)

    def task_killed(self, task: Task, cause: str) -> None:
        """Log that a fault has killed the task."""
        self._log_failure(task, cause, injected=True)

    def task_event(self, task: Task, event: TaskEvent) -> None:
        """Hand an event to a task, unless another task's fault has killed it during this round."""
        if self.is_current(task):
            super().task_event(task, event)
            if self._records_of_input is not None and task.is_source and task.retry_ms is not None:
                self._end_if_all_is_read()

    def task_died(self, task: Task, error: BaseException) -> None:
        """Log a task that raised; an error that no fault injected ends the run."""
        injected = is_injected(error) or (is_server_away(error) and self._may_be_away())
        injected |= self._has_struck("input") and self._is_of_input(error)
        self._log_failure(task, f"{type(error).__name__}: {error}", injected)
        if not injected:
            log_error(self.log, task.name, error)
            raise RunOver
        super().task_died(task, error)

    def _is_of_input(self, error: BaseException) -> bool:
        """Return whether an error says that the input is not what it was, or a topic is not there now."""
        if self._spec.kafka is None:
            return isinstance(error, UnreadableFile)
        # They import what only some families need.
        from onceproof.engine.connectors.kafka.kafka_errors import MissingTopic
        from onceproof.engine.connectors.kafka.partition_reader import OffsetGone
        from onceproof.engine.connectors.kafka.topic_ids import TopicReplaced

        return isinstance(error, MissingTopic | OffsetGone | TopicReplaced) or is_server_away(error)

    def _has_struck(self, what: Target) -> bool:
        """Return whether a fault has struck a thing, in this process or one before."""
        state = self.fault_clock.state()
        return any(
            FAULTS[fault.kind].strikes == what and not state.waits_for(number)
            for number, fault in enumerate(self._faults)
        )

    def _may_be_away(self) -> bool:
        return may_be_away(self._faults, self.fault_clock.state())

    # The end of an endless input.

    def _end_if_all_is_read(self) -> None:
        """Stop the job, drained, once the living sources have read all records."""
        total = self._records_of_input
        assert total is not None
        if sum(positions_of(self.tasks.values()).values()) < total:
            return
        self._records_of_input = None

        def answered(answer: JobAnswer) -> None:
            if answer.error:
                self._records_of_input = total

        self.submit(JobRequest("stop", self._savepoints, drains=True), answered)

    # Events of the job.

    def job_graph(self) -> JobGraph:
        """Return the graph at the parallelism that the last rescale asked for."""
        if self._graph_parallelism != self.parallelism:
            self._graph_parallelism = self.parallelism
            return self._graph_of(self.parallelism)
        return self.graph

    def make_writer(self, report: Callable[[Report], None]) -> Writer:
        """Keep the writer, to look at what waits for it."""
        writer = super().make_writer(report)
        assert isinstance(writer, CheckpointWriter)
        self._checkpoint_writer = writer
        return writer

    def attempt_started(self, effect: Deploy) -> None:
        """Log the attempt, and note what is open before it opens anything."""
        super().attempt_started(effect)
        self._attempt = effect.attempt
        if self._spec.kafka is not None and self._has_struck("input"):
            tell_of_attempt(self._strikes)
        self._leaks.attempt_begins()

    def cancel_tasks(self, effect: CancelTasks) -> None:
        """End the attempt, and log what waits for its tasks nevertheless."""
        super().cancel_tasks(effect)
        timers = [f"{due_ms} of {task.name}" for due_ms, _, task, _ in self._timers if task is not None]
        self.log_left([Left(TIMER, name) for name in timers])
        self.log_left([Left(SNAPSHOT, name_of(upload)) for upload in self._waiting_uploads()])

    def checkpoint_aborted(self, effect: CheckpointAborted) -> None:
        """Log the checkpoint, and what waits to be stored for it nevertheless."""
        super().checkpoint_aborted(effect)
        void = [each for each in self._waiting_uploads() if each.checkpoint_id == effect.checkpoint_id]
        self.log_left([Left(VOID_SNAPSHOT, name_of(upload)) for upload in void])

    def search(self) -> None:
        """Search this process for what earlier attempts have left, and log it."""
        self.log_left(self._leaks.search(self._attempt))

    def _waiting_uploads(self) -> list[Upload]:
        writer = self._checkpoint_writer
        waiting = () if writer is None else tuple(writer.waiting)
        return [work.about for work in waiting if work.about is not None]

    def snapshot_taken(self, task: Task, effect: StoreSnapshot) -> None:
        """Log the snapshot's cut, once for each snapshot file."""
        if effect.path not in self._logged_snapshots:
            self._logged_snapshots.add(effect.path)
            self._cuts[effect.path] = log_snapshot(self.log, task, effect)

    def job_finished(self, effect: JobFinished) -> None:
        """Log the end of the job, after it is durable."""
        super().job_finished(effect)
        self._leaks.job_ended()
        self.search()
        self.log_finished()

    def job_failed(self, effect: JobFailed) -> None:
        """Log why the job failed."""
        super().job_failed(effect)
        self.log_failed(effect.cause)

    def _log_failure(self, task: Task, cause: str, injected: bool) -> None:
        log_task_failure(self.log, task.name, task.attempt, cause, injected)


def _record_count(spec: Spec) -> int:
    return sum(map(len, read_records(spec.records).values()))


def name_of(upload: Upload) -> str:
    """Return whose snapshot waits, and for which checkpoint."""
    return f"{upload.task.name} for checkpoint {upload.checkpoint_id}"
