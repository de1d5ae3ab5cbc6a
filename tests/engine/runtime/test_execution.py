"""The behaviour that all drivers share, tested with a minimal driver."""

from __future__ import annotations

from collections import deque

import pytest

from onceproof.engine import MapFunction, SinkFunction, StreamExecutionEnvironment
from onceproof.engine.checkpoint.completed_store import JobOutcome
from onceproof.engine.checkpoint.events import (
    DiscardCheckpoint,
    DiscardHandle,
    MetadataStored,
    TriggerRequested,
)
from onceproof.engine.checkpoint.metadata import CheckpointMetadata, StateHandle, encode_metadata, handle_of
from onceproof.engine.configuration import CheckpointSettings, FixedDelayRestarts
from onceproof.engine.errors import UnrecoverableError
from onceproof.engine.job.events import StartJob
from onceproof.engine.messages import (
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    TaskId,
    TriggerCheckpoint,
)
from onceproof.engine.protocol_points import COMPLETED, COORDINATOR, TRIGGERED
from onceproof.engine.runtime.deletion import Superseded
from onceproof.engine.runtime.execution import Execution
from onceproof.engine.runtime.recovery import FINISHED, INCARNATION, Recovered, metadata_path
from onceproof.engine.runtime.storage import MemoryCheckpointStorage
from onceproof.engine.state.snapshot import encode_task_snapshot
from onceproof.engine.task.events import POLL, Deliver, SnapshotStored
from onceproof.engine.task.task import TaskState

TO_TASK = (TriggerCheckpoint, NotifyCheckpointComplete, NotifyCheckpointAborted)
SETTINGS = CheckpointSettings(interval_ms=10, restarts=FixedDelayRestarts(1, 5))


class Driver(Execution):
    """Executes effects at once and messages in order; the test fires the timers."""

    def __init__(self, graph, checkpoints=()):
        self.points = []
        storage = MemoryCheckpointStorage()
        storage.create_exclusive(f"{INCARNATION}1")
        super().__init__(
            graph,
            storage,
            Recovered(1, tuple(checkpoints), False),
            lambda point, task, checkpoint_id: self.points.append((point, task, checkpoint_id)),
            buffer_records=1,
        )
        self.mail = deque()
        self.timers = []
        self.dead = []
        self.outcome = None
        self.clock = 0

    def now(self):
        return self.clock

    def send(self, effect):
        self.mail.append(effect.message)

    def store_snapshot(self, effect):
        encoded = encode_task_snapshot(effect.snapshot)
        self.storage.write(effect.path, encoded.data)
        handle = handle_of(effect.path, encoded)
        self.task_event(self.current_task, SnapshotStored(effect.checkpoint_id, handle))

    def store_metadata(self, effect):
        checkpoint_id = effect.metadata.checkpoint_id
        self.storage.write(metadata_path(checkpoint_id), encode_metadata(effect.metadata))
        self.master_event(MetadataStored(checkpoint_id))

    def start_timer(self, effect):
        self.timers.append(effect)

    def start_task_timer(self, effect):
        self.timers.append((self.current_task, effect))

    def start_restoring(self, task, event):
        self.task_event(task, event)

    def task_died(self, task, error):
        self.dead.append((task.name, error))
        self.mail.append(self.failure_message(task, error))

    def job_finished(self, effect):
        self.outcome = "finished"

    def job_failed(self, effect):
        self.outcome = effect.cause

    # What the tests say.

    def deliver_mail(self):
        while self.mail:
            message = self.mail.popleft()
            if not isinstance(message, TO_TASK):
                self.master_event(message)
            elif message.task in self.tasks:
                self.task_event(self.tasks[message.task], message)

    def turn(self):
        """Let every task read all its input."""
        self.deliver_mail()
        for task in list(self.tasks.values()):
            if task.is_source and task.state is TaskState.RUNNING:
                self.task_event(task, POLL)
            for channel, queue in enumerate(task.queues):
                while queue and not task.barriers.blocked[channel] and self.is_current(task):
                    self.task_event(task, Deliver(channel))
        self.deliver_mail()

    def ring(self):
        """Fire the timer that was started last."""
        effect = self.timers.pop()
        self.clock = effect.due_ms
        self.master_event(effect.event)


class Touchy(MapFunction):
    """Raises the given error once it has seen a number of values."""

    errors: list[Exception] = []  # noqa: RUF012 (shared by all attempts on purpose)

    def map(self, value):
        if value == "b" and Touchy.errors:
            raise Touchy.errors.pop()
        return value


class Listing(SinkFunction):
    values: list[str] = []  # noqa: RUF012

    def invoke(self, value, context):
        Listing.values.append(value)


class Unclosable(Listing):
    def close(self):
        raise RuntimeError("cannot close")


@pytest.fixture
def driver_of():
    Touchy.errors, Listing.values = [], []

    def make(sink=Listing, checkpoints=(), settings=SETTINGS):
        env = StreamExecutionEnvironment.get_execution_environment()
        env.from_collection("abc").rebalance().map(Touchy()).name("touchy").add_sink(sink())
        return Driver(env.get_job_graph("letters", settings), checkpoints)

    return make


def test_a_job_runs_to_its_end(driver_of):
    driver = driver_of()
    driver.master_event(StartJob())
    for _ in range(5):
        driver.turn()
    assert Listing.values == ["a", "b", "c"]
    driver.master_event(TriggerRequested())
    for _ in range(3):
        driver.turn()
    assert driver.outcome == "finished"
    assert (TRIGGERED, COORDINATOR, 1) in driver.points
    assert (COMPLETED, COORDINATOR, 1) in driver.points


def test_task_that_raises_is_dropped_and_the_job_restarts(driver_of):
    driver = driver_of()
    driver.master_event(StartJob())
    Touchy.errors.append(RuntimeError("two\n  lines"))
    driver.turn()
    driver.turn()
    ((name, error),) = driver.dead
    assert name.startswith("touchy")
    assert str(error) == "two\n  lines"
    assert driver.tasks == {}, "the failure has reached the master, who cancelled the others"
    driver.ring()
    for _ in range(5):
        driver.turn()
    assert Listing.values == ["a", "a", "b", "c"]


def test_the_cause_of_a_failure_is_one_line_with_the_name_of_the_task(driver_of):
    driver = driver_of(settings=CheckpointSettings(interval_ms=10))
    driver.master_event(StartJob())
    Touchy.errors.append(RuntimeError("two\n  lines"))
    driver.turn()
    driver.turn()
    said, _, line = driver.outcome.partition(" (test_execution.py, line ")
    assert said.endswith("-0: RuntimeError: two lines")
    assert line.removesuffix(")").isdigit()


def test_an_error_that_a_restart_cannot_mend_speaks_for_itself(driver_of):
    driver = driver_of()
    driver.master_event(StartJob())
    Touchy.errors.append(UnrecoverableError("line 3 is malformed"))
    driver.turn()
    driver.turn()
    assert driver.outcome == "line 3 is malformed"


def test_a_task_that_cannot_close_is_over_all_the_same(driver_of):
    driver = driver_of(Unclosable)
    driver.master_event(StartJob())
    source = driver.tasks[TaskId(0, 0)]
    Touchy.errors.append(RuntimeError("planned"))
    driver.turn()
    driver.turn()
    assert driver.tasks == {}
    assert source.state is TaskState.CANCELED
    assert not driver.is_current(source)


def test_current_task_is_known_only_while_its_effects_are_executed(driver_of):
    driver = driver_of()
    driver.master_event(StartJob())
    driver.turn()
    assert driver.current_task is None
    driver.master_event(TriggerRequested())
    driver.turn()
    assert driver.storage.list("chk-1/"), "a snapshot was stored for the task that asked"
    assert driver.current_task is None


def test_a_checkpoint_that_does_not_fit_ends_the_job_with_a_line(driver_of):
    lost = CheckpointMetadata(7, "id", "letters", 0, "checkpoint", "0.1", ())
    driver = driver_of(checkpoints=[lost])
    driver.job_graph = lambda: 1 / 0
    driver.master_event(StartJob())
    assert driver.outcome == "division by zero"
    assert driver.tasks == {}


def test_discarded_checkpoint_is_deleted(driver_of):
    driver = driver_of()
    for path in ("chk-1/_metadata", "chk-1/x", "chk-2/y", "chk-10/z"):
        driver.storage.write(path, b"")
    driver.carry_out([DiscardCheckpoint(1), DiscardHandle(StateHandle("chk-2/y", 0, "", {}))])
    assert driver.storage.list("chk-") == ["chk-10/z"]


def claimed_by_another(driver):
    """Let another process take the job over."""
    driver.storage.create_exclusive(f"{INCARNATION}2")
    driver.storage.delete(f"{INCARNATION}1")


def test_superseded_process_publishes_nothing(driver_of):
    driver = driver_of()
    metadata = CheckpointMetadata(1, "id", "name", 0, "checkpoint", "1.1", ())
    driver.publish(metadata)
    driver.storage.delete(metadata_path(1))
    claimed_by_another(driver)
    with pytest.raises(Superseded, match=r"another process has taken job '.*' over"):
        driver.publish(metadata)
    assert not driver.storage.exists(metadata_path(1))


def test_superseded_process_deletes_no_checkpoint_of_the_same_id(driver_of):
    driver = driver_of()
    driver.storage.write(metadata_path(3), b"the other's")
    claimed_by_another(driver)
    driver.carry_out([DiscardCheckpoint(3)])
    driver.forget_checkpoints(JobOutcome.FINISHED)
    assert driver.storage.read(metadata_path(3)) == b"the other's"
    assert not driver.storage.exists(FINISHED)


def test_superseded_process_deploys_no_attempt(driver_of):
    driver = driver_of()
    claimed_by_another(driver)
    driver.master_event(StartJob())
    assert driver.tasks == {}
    assert "another process has taken job" in driver.outcome
