"""What the scenario's user asks of the job while it runs: savepoints, its end with one, another size.

The rules this module lives by:

- A request waits for its point as a fault does, and is then an action like any other: it reaches the job
  master between two steps, or is lost where none lives.
- A job that has stopped is started again from its savepoint, as the request says: at another parallelism, on
  the other backend. What the two runs committed together is what the checkers judge.
- A job that is cancelled with a savepoint has committed nothing of it. It is started again in the same way.
- An upgrade is a stop or a cancel whose job is started again as its new version; or a kill, once a checkpoint
  is complete. What comes to nothing is asked for again. If the job dies meanwhile of a fault, its user starts
  the new version, from the latest checkpoint. A process runs one version.
- A rescale reaches the job master as it does under the other drivers (RescaleRequested). The master refuses
  it while the outcome of a checkpoint is open, so the user asks again soon. While the job is down or ends,
  the size is kept for the next attempt, whatever starts it.
- A savepoint belongs to its user: at rest all its files are there, unless the job was to claim it; then none
  is. In real storage each has a folder with a random name. Here its id is the name, so that a run replays: no
  later process uses the id again, though one that found no checkpoint would.
"""

from __future__ import annotations

from typing import Final, Protocol

from msgspec.structs import replace

from onceproof.engine.checkpoint.events import RequestResolved, TriggerRequested
from onceproof.engine.checkpoint.failure_counter import EXPIRED
from onceproof.engine.checkpoint.metadata import CheckpointMetadata, decode_metadata
from onceproof.engine.job.end_with_savepoint import NO_SAVEPOINT_IN_BATCH
from onceproof.engine.job.events import CancelRequested, MasterEvent, RescaleRequested, StopRequested
from onceproof.engine.job.master import JobMaster
from onceproof.engine.messages import SAVEPOINT
from onceproof.engine.runtime.job_startup import resume_from_starting_point
from onceproof.engine.runtime.recovery import METADATA, Recovered, files_of, metadata_path, recover
from onceproof.engine.runtime.restore_point import NoRestorePoint, moved
from onceproof.engine.runtime.starting_point import StartingPoint
from onceproof.harness.model.scenario import Operation, Scenario
from onceproof.harness.systems.fault_clock import ProcessKilled, Waiting
from onceproof.harness.systems.simulation.actions import CLASS_INDEX
from onceproof.harness.systems.simulation.agenda import Agenda, Clock
from onceproof.harness.systems.simulation.run_recorder import RunRecorder
from onceproof.harness.systems.simulation.simulated_job import SimulatedJob
from onceproof.harness.systems.simulation.simulated_storage import STORAGE_FAILED, SimulatedStorage

_CONTROL: Final = CLASS_INDEX["message_control"]
THE_END: Final = Operation("stop", "end_of_data")
"""The request with which the user of an endless input ends the job."""
ASK_AGAIN_MS: Final = 3
"""How soon a rescale or an upgrade that came to nothing is asked for again."""
EXCUSES: Final = (
    "keeps union list state",
    "is there already, from a process that had lost the job",
    NO_SAVEPOINT_IN_BATCH,
)
"""In the reason why there is no savepoint although nothing went wrong in this attempt. The second one: the
metadata of a dead process's savepoint have landed late; savepoints with one id have one folder here. The
savepoint of a drawn graph may expire as well: see ``may_expire`` in harness/generation/generator.py."""


class JobMasters(Protocol):
    """Where requests go: to the job master that lives, if one does (`job_processes.py`)."""

    @property
    def has_master(self) -> bool:
        """Whether a job master lives."""

    @property
    def master(self) -> JobMaster | None:
        """The job master that lives, if one does."""

    @property
    def deployed_parallelism(self) -> int:
        """The parallelism of the graph that the job master has, if one lives; else 0."""

    def master_event(self, event: MasterEvent) -> None:
        """Hand an event to the job master, if one lives."""


class UserRequests:
    """The requests of a scenario, and what became of them."""

    def __init__(
        self,
        scenario: Scenario,
        clock: Clock,
        agenda: Agenda,
        storage: SimulatedStorage,
        recorder: RunRecorder,
        job: SimulatedJob,
        masters: JobMasters,
    ) -> None:
        self._retained = scenario.retained
        self._clock = clock
        self._agenda = agenda
        self._storage = storage
        self._recorder = recorder
        self._job = job
        self._masters = masters
        self.waiting: dict[str, list[Waiting[Operation]]] = {}
        """By protocol point, the requests that have not been made."""
        for operation in scenario.asked:
            self.waiting.setdefault(operation.point, []).append(Waiting(operation))
        self._asked: dict[int, Operation] = {}
        self._end_asked_for = 0
        """The number of the request that ends the input, while it is open."""
        self.has_ended = False
        """Whether the job has been stopped for good, drained."""
        self._upgrade = 0
        """The number of the upgrade that was asked for, until the new version begins."""
        self._is_killed = False
        """Whether the old version was killed for it."""
        self.begins_from: StartingPoint | None = None
        """What the next process begins from, whatever checkpoints there are."""
        self._is_claimed = False
        self._claimed: set[int] = set()
        self._complete: dict[int, CheckpointMetadata] = {}
        """By id, the savepoints that are complete."""

    def point_passed(self, point: str, task: str, checkpoint_id: int) -> None:
        """Make the requests whose turn it is as a machine passes a point."""
        for each in self.waiting.get(point, ()):
            if each.left > 0 and each.is_hit(task, checkpoint_id):
                operation = each.wanted
                number = self._numbered(operation)
                label = f"ask for {operation.kind} {number}"
                due = self._clock.now + operation.after
                self._agenda.add_later(due, _CONTROL, label, self._ask, number)

    def _numbered(self, operation: Operation) -> int:
        """Return the number of a new request: the job master may still have an earlier one."""
        number = len(self._asked) + 1
        self._asked[number] = operation
        return number

    def _ask(self, number: int) -> None:
        operation = self._asked[number]
        if operation.upgrades:
            if self._job.is_upgraded or self._upgrade not in (0, number):
                return
            if not self._masters.has_master:
                self._ask_again(number)
                return
            self._upgrade = number
        match operation.kind:
            case "savepoint":
                self._masters.master_event(TriggerRequested(SAVEPOINT, number))
            case "rescale":
                if self._masters.has_master:
                    self._job.keyed_parallelism = operation.parallelism
                    self._rescale(number)
            case "cancel":
                self._masters.master_event(CancelRequested(number))
            case "upgrade":
                self._kill_for_upgrade(number)
            case _:
                self._masters.master_event(StopRequested(number))

    def _kill_for_upgrade(self, number: int) -> None:
        """Kill the process, unless it would have to begin from nothing."""
        master, operation = self._masters.master, self._asked[number]
        if master is not None and master.coordinator.store.latest is not None:
            if operation.parallelism:
                self._job.keyed_parallelism = operation.parallelism
            self._is_killed = True
            raise ProcessKilled
        self._ask_again(number)

    def _ask_again(self, refused: int) -> None:
        operation = self._asked[refused]
        number = self._numbered(operation)
        if self._upgrade == refused:
            self._upgrade = number
        label = f"ask again for {operation.kind} {number}"
        self._agenda.add_later(self._clock.now + ASK_AGAIN_MS, _CONTROL, label, self._ask, number)

    def _rescale(self, number: int) -> None:
        """Let the next attempt begin now, unless the one that runs has the size that was asked for."""
        master, parallelism = self._masters.master, self._job.keyed_parallelism
        if master is None or self._masters.deployed_parallelism == parallelism:
            return
        if master.is_rescalable:
            self._recorder.job_rescaled(parallelism, self._job.open_transactions())
            self._masters.master_event(RescaleRequested())
        elif master.goes_on:
            due = self._clock.now + ASK_AGAIN_MS
            self._agenda.add_later(due, _CONTROL, f"ask for rescale {number}", self._rescale, number)

    def ask_for_the_end(self) -> None:
        """Stop the job, drained, unless that is under way or no job master lives."""
        if self._end_asked_for or self.has_ended or not self._masters.has_master:
            return
        number = self._end_asked_for = self._numbered(THE_END)
        self._masters.master_event(StopRequested(number, drains=True))

    def starting_point_after(self, checkpoint_id: int, number: int) -> StartingPoint | None:
        """Return what the job goes on from once the savepoint of a request is complete, if that changes."""
        operation = self._asked.get(number)
        if operation is None or operation.kind != "stop":
            return None
        return _starting_point(checkpoint_id)

    def resolved(self, effect: RequestResolved, published: CheckpointMetadata | None) -> None:
        """Take the outcome of a request: the metadata of its savepoint, or None where there is none."""
        operation = self._asked.get(effect.number)
        if operation is None:
            return
        if effect.number == self._end_asked_for:
            self._end_asked_for = 0
            self.has_ended = published is not None
        if published is None:
            if operation.kind == "stop":
                reason = effect.reason or ""
                excuses = (*EXCUSES, EXPIRED) if self._job.is_drawn else EXCUSES
                self._recorder.stop_failed(reason, is_excused=any(each in reason for each in excuses))
            if operation.upgrades:
                self._ask_again(effect.number)
        elif operation.kind == "savepoint":
            self._complete[published.checkpoint_id] = published
            self._recorder.savepoint_completed(published)
        else:
            self._stops_with(operation, published)

    def _stops_with(self, operation: Operation, savepoint: CheckpointMetadata) -> None:
        """Every later process goes on from the savepoint: it is a checkpoint in all but its place."""
        self._complete[savepoint.checkpoint_id] = savepoint
        self._is_claimed = operation.claims
        if operation.claims:
            self._claimed.add(savepoint.checkpoint_id)
        self._recorder.checkpoint_completed(savepoint)
        if operation.kind == "cancel":
            # The storage of the job says nothing of it: its user does.
            self.begins_from = _starting_point(savepoint.checkpoint_id)
        if operation.parallelism:
            self._job.keyed_parallelism = operation.parallelism
        if operation.state_backend:
            self._job.move_to(operation.state_backend)

    def recover(self) -> Recovered:
        """Claim the job for a new process; return what it finds, with what the job has begun from."""
        # A new process knows of no request.
        self._end_asked_for = 0
        recovered = recover(self._storage, self._retained, self.begins_from)
        # Recorded. A process that dies before is started again with the same argument.
        self.begins_from = None
        begun = resume_from_starting_point(
            self._storage, recovered, self._find, self._retained, is_claimed=self._is_claimed
        )
        if self._upgrade and begun.checkpoints:
            self._upgrade = 0
            self._job.is_upgraded = True
            self._recorder.job_upgraded(begun.checkpoints, is_killed=self._is_killed)
        elif self._upgrade:
            # There is no state that the new version could begin from.
            self._ask_again(self._upgrade)
        point = begun.starting_point
        last_id = max(self._complete, default=0)
        if last_id <= point.last_id:
            return begun
        return replace(begun, starting_point=replace(point, last_id=last_id))

    def _find(self, point: StartingPoint) -> tuple[CheckpointMetadata, tuple[str, ...]]:
        path = f"{point.path}/{METADATA}"
        data = self._storage.files.get(path)
        if data is None:
            raise NoRestorePoint(f"{point.path}: there is no savepoint here")
        metadata = moved(decode_metadata(data, path), lambda name: f"{point.path}/{name}")
        return metadata, (path, *sorted(files_of(metadata)))

    def savepoints_of_user(self) -> tuple[int, ...]:
        """Return the ids of the complete savepoints that the job was not to claim."""
        return tuple(each for each in self._complete if each not in self._claimed)

    def report_lost_files(self) -> None:
        """At rest: enter the files of savepoints that are gone, and those of claimed ones that are not.

        What a storage refuses to delete of a claimed one stays, and so does what a power cut brings back or
        what a late put brings: no later start of the job knows of it.
        """
        may_stay = self._recorder.has_fired(STORAGE_FAILED)
        for checkpoint_id, metadata in self._complete.items():
            is_claimed = checkpoint_id in self._claimed
            for path in (metadata_path(checkpoint_id, metadata.kind), *sorted(files_of(metadata))):
                if is_claimed and (may_stay or path in self._storage.undeleted):
                    continue
                if (path in self._storage.files) is is_claimed:
                    what = "file of a claimed savepoint" if is_claimed else "deleted file of a savepoint"
                    self._recorder.leak(what, path)


def _starting_point(checkpoint_id: int) -> StartingPoint:
    return StartingPoint(metadata_path(checkpoint_id, SAVEPOINT).removesuffix(f"/{METADATA}"), checkpoint_id)
