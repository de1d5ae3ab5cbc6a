"""The counters of a task, which its driver reads while the job runs (Flink: TaskIOMetricGroup).

The rules this module lives by:

- Each is a plain number. It rises by one addition for a buffer, a commit or a watermark, never for a record.
- They decide nothing: a task that is never read does exactly the same.
- An attempt begins with new counters, as in Flink.
- How long the parts of a checkpoint took is measured only where the driver asks for it. Then it goes to the
  job master with the acknowledgement (Flink: CheckpointMetrics).
"""

from __future__ import annotations

from typing import Final

from onceproof.engine.elements import MIN_WATERMARK, CheckpointBarrier
from onceproof.engine.messages import CheckpointMeasures

IDLE: Final = 0
"""The task has nothing left to do."""
BACKPRESSURED: Final = 1
"""It has no room for what it would emit."""
BUSY: Final = 2
"""It has work and room. The other tasks of its process have their turns meanwhile."""

NANOS_OF_MS: Final = 1_000_000
MEASURED_AT_A_TIME: Final = 16
"""Of how many checkpoints under way a task keeps measures; older ones were aborted."""


class TaskCounters:
    """What one task has counted in this attempt; times are in milliseconds, by the driver's clock."""

    __slots__ = (
        "aborted_transactions",
        "bytes_in",
        "bytes_out",
        "commit_began_ms",
        "commit_ms",
        "commits",
        "emitted_timestamp",
        "last_commit_ms",
        "last_turn_ns",
        "longest_commit_ms",
        "read_at_ms",
        "records_in",
        "records_out",
        "seen_ms",
        "standing",
        "times_ms",
        "turn_ns",
        "watermark",
    )

    def __init__(self) -> None:
        self.records_in = 0
        """Records taken from channels; those of a source are in ``SourceOperator.records_read``."""
        self.records_out = 0
        """Records that the end of the chain has emitted, each once, however many outputs it goes to."""
        self.bytes_in = 0
        """What came from other processes; what passes between tasks of one process is never encoded."""
        self.bytes_out = 0
        self.turn_ns = 0
        """How long the thread of the tasks has worked in this one."""
        self.last_turn_ns = 0
        """The part of that in turns after which nothing was left to do."""
        self.standing = IDLE
        """What the driver last found the task to be, behind its turn."""
        self.times_ms = [0, 0, 0]
        """How long, turns included, it was left as idle, backpressured and busy."""
        self.seen_ms = -1
        """When the driver last looked at it; -1: not yet."""
        self.watermark = MIN_WATERMARK
        """The last watermark that the task has sent to its outputs."""
        self.emitted_timestamp: int | None = None
        """The timestamp of the last record that the source has read; None: it had none."""
        self.read_at_ms = 0
        """When the source read it, by the wall clock."""
        self.commits = 0
        """Transactions, committables of a checkpoint or batches that sinks have committed."""
        self.aborted_transactions = 0
        self.commit_ms = 0
        """How long all commits have taken."""
        self.last_commit_ms = 0
        self.longest_commit_ms = 0
        self.commit_began_ms = 0

    def time_passes(self, now_ms: int) -> None:
        """Note that the task has been as the driver last found it, until now."""
        if self.seen_ms >= 0:
            self.times_ms[self.standing] += now_ms - self.seen_ms
        self.seen_ms = now_ms

    def shares_ms(self) -> tuple[int, int, int]:
        """Return how long the task was idle, backpressured and busy, which together is all its time."""
        idle, backpressured, busy = self.times_ms
        worked_ms = min(idle, self.last_turn_ns // NANOS_OF_MS)
        return idle - worked_ms, backpressured, busy + worked_ms

    def committed(self, now_ms: int) -> None:
        """Count a commit that ends now."""
        took_ms = max(0, now_ms - self.commit_began_ms)
        self.commits += 1
        self.commit_ms += took_ms
        self.last_commit_ms = took_ms
        self.longest_commit_ms = max(self.longest_commit_ms, took_ms)


class CheckpointTimer:
    """Measures the parts of the checkpoints of one task; times are those of the driver's clock."""

    __slots__ = ("_first_barriers", "_taken")

    def __init__(self) -> None:
        self._first_barriers: dict[int, int] = {}
        """By checkpoint, when its first barrier came."""
        self._taken: dict[int, _Taken] = {}

    def barrier_came(self, checkpoint_id: int, now_ms: int) -> None:
        """Note the barrier of a checkpoint, or its trigger; the first one counts."""
        self._first_barriers.setdefault(checkpoint_id, now_ms)
        if len(self._first_barriers) > MEASURED_AT_A_TIME:
            del self._first_barriers[min(self._first_barriers)]

    def snapshot_begins(self, barrier: CheckpointBarrier, now_ms: int) -> None:
        """Note that the task begins with the synchronous part of its snapshot."""
        came_ms = self._first_barriers.pop(barrier.checkpoint_id, now_ms)
        self._taken[barrier.checkpoint_id] = _Taken(came_ms - barrier.triggered_ms, came_ms, now_ms)
        if len(self._taken) > MEASURED_AT_A_TIME:
            del self._taken[min(self._taken)]

    def snapshot_ends(self, checkpoint_id: int, now_ms: int) -> None:
        """Note the end of the synchronous part."""
        if checkpoint_id in self._taken:
            self._taken[checkpoint_id].synchronous_end_ms = now_ms

    def in_flight_complete(self, checkpoint_id: int, now_ms: int) -> None:
        """Note that an unaligned checkpoint has all of its barriers."""
        if checkpoint_id in self._taken:
            self._taken[checkpoint_id].complete_ms = now_ms

    def measures(self, checkpoint_id: int, now_ms: int) -> CheckpointMeasures | None:
        """Return what was measured, when the task acknowledges."""
        found = self.so_far(checkpoint_id, now_ms)
        self._taken.pop(checkpoint_id, None)
        return found

    def so_far(self, checkpoint_id: int, now_ms: int) -> CheckpointMeasures | None:
        """Return what was measured of a snapshot that is taken."""
        taken = self._taken.get(checkpoint_id)
        if taken is None:
            return None
        is_unaligned = taken.complete_ms is not None
        aligned_ms = taken.began_ms if taken.complete_ms is None else taken.complete_ms
        stores_from_ms = max(taken.synchronous_end_ms, aligned_ms if is_unaligned else 0)
        return CheckpointMeasures(
            max(0, taken.start_delay_ms),
            max(0, aligned_ms - taken.came_ms),
            max(0, taken.synchronous_end_ms - taken.began_ms),
            max(0, now_ms - stores_from_ms),
            is_unaligned,
        )


class _Taken:
    __slots__ = ("began_ms", "came_ms", "complete_ms", "start_delay_ms", "synchronous_end_ms")

    def __init__(self, start_delay_ms: int, came_ms: int, began_ms: int) -> None:
        self.start_delay_ms = start_delay_ms
        self.came_ms = came_ms
        self.began_ms = began_ms
        self.synchronous_end_ms = began_ms
        self.complete_ms: int | None = None
