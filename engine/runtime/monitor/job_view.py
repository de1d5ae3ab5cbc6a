"""What is seen of a running job at one moment, as plain data that goes to other threads and processes.

The rules this module lives by:

- A view is made in the thread that runs the job, and never changes afterwards. So readers take no
  lock and cost the tasks nothing.
- Times are milliseconds since the epoch by the wall clock, durations milliseconds, sizes bytes.
- Counts are those of the current attempt, as in Flink; what is of the whole process says so.
"""

from __future__ import annotations

from msgspec import Struct

from onceproof.engine.metrics import MetricReading


class SubtaskReading(Struct, frozen=True):
    """What one subtask shows (Flink: TaskIOMetricGroup); by default that it has done nothing yet."""

    vertex: int
    subtask: int
    state: str
    process: int
    """The id of the process that runs it."""
    seen_ms: int
    """When this was read."""
    records_in: int = 0
    records_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    idle_ms: int = 0
    backpressured_ms: int = 0
    busy_ms: int = 0
    turn_ms: int = 0
    """How long the thread of the process has worked in it."""
    buffers_queued: int = 0
    input_watermark: int | None = None
    output_watermark: int | None = None
    emitted_timestamp: int | None = None
    read_at_ms: int = 0
    pending_records: int | None = None
    open_transactions: int | None = None
    """None: it commits nothing."""
    pending_transactions: int | None = None
    commits: int = 0
    aborted_transactions: int = 0
    commit_ms: int = 0
    last_commit_ms: int = 0
    longest_commit_ms: int = 0


class EdgeView(Struct, frozen=True):
    """An edge into a vertex: from which one, and how records are distributed."""

    source: int
    ship_strategy: str


class OperatorView(Struct, frozen=True):
    """An operator of a chain."""

    operator_id: str
    name: str


class VertexView(Struct, frozen=True):
    """A vertex of the job graph."""

    index: int
    vertex_id: str
    name: str
    parallelism: int
    max_parallelism: int
    operators: tuple[OperatorView, ...]
    inputs: tuple[EdgeView, ...]


class SubtaskCheckpoint(Struct, frozen=True):
    """What one subtask has contributed to a checkpoint (Flink: SubtaskStateStats)."""

    vertex: int
    subtask: int
    acknowledged_ms: int
    state_bytes: int
    """What a restore of it reads."""
    stored_bytes: int
    """What was written for it: less, where the checkpoint is incremental."""
    in_flight_bytes: int
    start_delay_ms: int | None
    """None: the driver measures nothing."""
    alignment_ms: int | None
    sync_ms: int | None
    async_ms: int | None
    is_unaligned: bool


class CheckpointView(Struct, frozen=True):
    """One checkpoint or savepoint (Flink: AbstractCheckpointStats)."""

    checkpoint_id: int
    kind: str
    status: str
    """``IN_PROGRESS``, ``COMPLETED`` or ``FAILED``."""
    attempt: str
    triggered_ms: int
    ended_ms: int | None
    tasks: int
    """How many subtasks must acknowledge."""
    subtasks: tuple[SubtaskCheckpoint, ...]
    failure: str
    path: str
    """Where it is stored; "": in memory, or unknown."""
    discarded: bool

    @property
    def duration_ms(self) -> int:
        """Return how long it took, or has taken up to the last acknowledgement."""
        last = max([each.acknowledged_ms for each in self.subtasks], default=self.triggered_ms)
        return max(0, (last if self.ended_ms is None else self.ended_ms) - self.triggered_ms)

    @property
    def state_bytes(self) -> int:
        """Return the size of all state in it."""
        return sum([each.state_bytes for each in self.subtasks])

    @property
    def stored_bytes(self) -> int:
        """Return how much was written for it."""
        return sum([each.stored_bytes for each in self.subtasks])


class RestoredView(Struct, frozen=True):
    """The checkpoint that an attempt has restored."""

    checkpoint_id: int
    restored_ms: int
    is_savepoint: bool
    path: str


class GrowingState(Struct, frozen=True):
    """A state that only grows: its size at the first and the last of some checkpoints, over all subtasks."""

    operator: str
    state: str
    unit: str
    """"entries" or "bytes"."""
    first: int
    last: int
    checkpoints: int


class CheckpointsView(Struct, frozen=True):
    """The checkpoints of this process (Flink: CheckpointStatsSnapshot)."""

    restored: int
    completed: int
    failed: int
    in_progress: int
    history: tuple[CheckpointView, ...]
    """The newest first."""
    latest_completed: CheckpointView | None
    latest_savepoint: CheckpointView | None
    latest_failed: CheckpointView | None
    latest_restored: RestoredView | None
    growing: tuple[GrowingState, ...] = ()
    """The states that only grow, see checkpoint_statistics.py."""


class AttemptView(Struct, frozen=True):
    """One attempt: when it ran, what it restored, and why it ended."""

    attempt: str
    started_ms: int
    ended_ms: int | None
    restored_checkpoint: int | None
    cause: str
    """Why it has failed; "": it has not."""
    task: str
    """The subtask that failed first; "": none, or unknown."""


class CheckpointingView(Struct, frozen=True):
    """The settings of checkpoints."""

    mode: str
    interval_ms: int | None
    interval_records: int | None
    timeout_ms: int
    min_pause_ms: int
    max_concurrent: int
    tolerable_failures: int
    is_unaligned: bool
    aligned_timeout_ms: int
    after_tasks_finish: bool
    state_backend: str
    directory: str
    retention: str


class JobView(Struct, frozen=True, tag="view"):
    """A running job at one moment."""

    job_id: str
    name: str
    state: str
    """As Flink's JobStatus names it."""
    version: str
    process: int
    process_number: int
    """How many processes have run the job: the incarnation."""
    workers: int
    started_ms: int
    now_ms: int
    state_since_ms: int
    restarts: int
    """In this process."""
    restarting_ms: int
    """How long the job has been without an attempt, in this process."""
    vertices: tuple[VertexView, ...]
    subtasks: tuple[SubtaskReading, ...]
    user_metrics: tuple[MetricReading, ...]
    checkpointing: CheckpointingView
    checkpoints: CheckpointsView
    attempts: tuple[AttemptView, ...]
    """The newest first."""

    @property
    def attempt(self) -> str:
        """Return the current attempt, or the last one; "" before the first."""
        return self.attempts[0].attempt if self.attempts else ""


class TaskReport(Struct, frozen=True):
    """From a worker to the coordinator: what its subtasks show now."""

    subtasks: tuple[SubtaskReading, ...]
    user_metrics: tuple[MetricReading, ...]
