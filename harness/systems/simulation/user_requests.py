"""What the scenario's user asks of the job while it runs: savepoints, and its end with one.

The rules this module lives by:

- A request waits for its point as a fault does, and is then an action like any other: it reaches the job
  master between two steps, or nobody, if no process is there.
- A job that has stopped is started again from its savepoint, as the request says: at another parallelism, on
  the other backend. What the two runs committed together is what the checkers judge.
- A savepoint is its user's: at rest all its files are there, unless the job was to claim it; then none is.
  Elsewhere each has a folder with a name of its own. Here its id is the name, so that a run replays: no later
  process uses the id again, though one that found no checkpoint would.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from onceproof.engine.checkpoint.events import RequestResolved, TriggerRequested
from onceproof.engine.checkpoint.metadata import CheckpointMetadata, decode_metadata
from onceproof.engine.job.events import StopRequested
from onceproof.engine.messages import SAVEPOINT
from onceproof.engine.runtime.job_startup import resume_from_starting_point
from onceproof.engine.runtime.recovery import METADATA, Recovered, files_of, metadata_path, recover
from onceproof.engine.runtime.restore_point import NoRestorePoint, moved
from onceproof.engine.runtime.starting_point import StartingPoint
from onceproof.harness.model.scenario import Operation, Scenario
from onceproof.harness.systems.fault_clock import Waiting
from onceproof.harness.systems.simulation.actions import CLASS_INDEX
from onceproof.harness.systems.simulation.engine_settings import simulated_settings

if TYPE_CHECKING:
    from onceproof.harness.systems.simulation.world import World

_CONTROL: Final = CLASS_INDEX["message_control"]
UNION_STATE: Final = "keeps union list state"
"""In the reason why there is no savepoint although nothing went wrong."""


class Operations:
    """The requests of a scenario, and what became of them."""

    def __init__(self, world: World, scenario: Scenario) -> None:
        self._world = world
        self.waiting: dict[str, list[Waiting[Operation]]] = {}
        for operation in scenario.asked:
            self.waiting.setdefault(operation.point, []).append(Waiting(operation))
        self._asked: dict[int, Operation] = {}
        self.begins_from: StartingPoint | None = None
        """What the next process is told to begin from, whatever is there."""
        self._is_claimed = False
        self._claimed: set[int] = set()
        self.complete: dict[int, CheckpointMetadata] = {}
        """By id, the savepoints that are complete."""

    def look(self, point: str, task: str, checkpoint_id: int) -> None:
        """A machine passes a point at which something may be asked for."""
        for each in self.waiting.get(point, ()):
            if each.left > 0 and each.is_hit(task, checkpoint_id):
                operation = each.wanted
                number = len(self._asked) + 1
                self._asked[number] = operation
                world = self._world
                label = f"ask for {operation.kind} {number}"
                world.add_later(world.clock.now + operation.after, _CONTROL, label, self._ask, number)

    def _ask(self, number: int) -> None:
        process = self._world.process
        if process is None:
            return
        if self._asked[number].kind == "savepoint":
            process.master_event(TriggerRequested(SAVEPOINT, number))
        else:
            process.master_event(StopRequested(number))

    def goes_on_from(self, checkpoint_id: int, number: int) -> StartingPoint | None:
        """What the job goes on from once the savepoint of a request is complete, if that changes."""
        operation = self._asked.get(number)
        if operation is None or operation.kind != "stop":
            return None
        folder = metadata_path(checkpoint_id, SAVEPOINT).removesuffix(f"/{METADATA}")
        return StartingPoint(folder, checkpoint_id)

    def resolved(self, effect: RequestResolved, published: CheckpointMetadata | None) -> None:
        """A savepoint has come to its outcome."""
        operation = self._asked.get(effect.number)
        if operation is None:
            return
        world = self._world
        if published is None:
            if operation.kind == "stop" and UNION_STATE in (effect.reason or ""):
                world.history.stop_failed(world.clock.step, effect.reason or "")
        elif operation.kind == "savepoint":
            self.complete[published.checkpoint_id] = published
            world.account.savepoint_completed(published)
        else:
            self._stops_with(operation, published)

    def _stops_with(self, operation: Operation, savepoint: CheckpointMetadata) -> None:
        """It is the point from which every later run goes on: a checkpoint in all but its place."""
        world = self._world
        self.complete[savepoint.checkpoint_id] = savepoint
        self._is_claimed = operation.claims
        if operation.claims:
            self._claimed.add(savepoint.checkpoint_id)
        world.account.checkpoint_completed(savepoint)
        if operation.parallelism:
            world.keyed_parallelism = operation.parallelism
        if operation.state_backend:
            other = replace(world.scenario, state_backend=operation.state_backend)
            world.settings = simulated_settings(other)

    def recovered(self) -> Recovered:
        """What a new process finds, with what the job has begun from."""
        world = self._world
        retained = world.scenario.retained
        begins_from, self.begins_from = self.begins_from, None
        recovered = recover(world.storage, retained, begins_from)
        begun = resume_from_starting_point(
            world.storage, recovered, self._find, retained, is_claimed=self._is_claimed
        )
        point = begun.starting_point
        last_id = max(self.complete, default=0)
        if last_id <= point.last_id:
            return begun
        return replace(begun, starting_point=replace(point, last_id=last_id))

    def _find(self, point: StartingPoint) -> tuple[CheckpointMetadata, tuple[str, ...]]:
        path = f"{point.path}/{METADATA}"
        data = self._world.storage.files.get(path)
        if data is None:
            raise NoRestorePoint(f"{point.path}: there is no savepoint here")
        metadata = moved(decode_metadata(data, path), lambda name: f"{point.path}/{name}")
        return metadata, (path, *sorted(files_of(metadata)))

    def look_for_losses(self) -> None:
        """At rest."""
        world = self._world
        for checkpoint_id, metadata in self.complete.items():
            is_claimed = checkpoint_id in self._claimed
            for path in (metadata_path(checkpoint_id, metadata.kind), *sorted(files_of(metadata))):
                if (path in world.storage.files) is is_claimed:
                    what = "file of a claimed savepoint" if is_claimed else "deleted file of a savepoint"
                    world.history.leak(world.clock.step, what, path)
