"""All metrics of a view, each with its name in Flink, its scope and its value.

The rules this module lives by:

- A name that Flink has means here what it means there. What Flink lacks is marked "ours" in docs/metrics.md,
  which has a row for each.
- A metric without a value now (a watermark before the first one) is left out.
- Values are numbers, or texts where a user's gauge shows a text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from msgspec import Struct

from onceproof.engine.metrics import MetricReading
from onceproof.engine.runtime.monitor.job_view import CheckpointView, JobView, SubtaskReading, VertexView
from onceproof.engine.runtime.monitor.task_readings import Rates

JOB: Final = "jobmanager_job"
TASK: Final = "taskmanager_job_task"
OPERATOR: Final = "taskmanager_job_task_operator"

Number: TypeAlias = int | float


class NamedMetric(Struct, frozen=True):
    """One metric of a job, a subtask or a user function."""

    scope: str
    """``JOB``, ``TASK`` or ``OPERATOR``: what its name begins with in Prometheus, as in Flink."""
    name: str
    value: Any
    vertex: int = -1
    subtask: int = -1
    operator: str = ""
    groups: tuple[str, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()
    is_count: bool = False
    """Whether it only rises within an attempt."""

    @property
    def local_name(self) -> str:
        """Return its name within its vertex, as Flink's REST API has it: ``0.Map.numbers.lines``."""
        parts = [] if self.subtask < 0 else [str(self.subtask)]
        return ".".join([*parts, *([self.operator] if self.operator else []), *self.groups, self.name])


def job_metrics(view: JobView) -> Iterator[NamedMetric]:
    """Yield the metrics of the job master."""
    running_ms = max(0, view.now_ms - view.state_since_ms)
    yield NamedMetric(JOB, "numRestarts", view.restarts, is_count=True)
    yield NamedMetric(JOB, "fullRestarts", view.restarts, is_count=True)
    yield NamedMetric(JOB, "uptime", running_ms if view.state == "RUNNING" else -1)
    yield NamedMetric(JOB, "runningTime", running_ms if view.state == "RUNNING" else 0)
    yield NamedMetric(JOB, "restartingTimeTotal", view.restarting_ms, is_count=True)
    yield NamedMetric(JOB, "numberOfProcesses", view.process_number, is_count=True)
    checkpoints = view.checkpoints
    counted = checkpoints.completed + checkpoints.failed + checkpoints.in_progress
    yield NamedMetric(JOB, "totalNumberOfCheckpoints", counted, is_count=True)
    yield NamedMetric(JOB, "numberOfCompletedCheckpoints", checkpoints.completed, is_count=True)
    yield NamedMetric(JOB, "numberOfFailedCheckpoints", checkpoints.failed, is_count=True)
    yield NamedMetric(JOB, "numberOfInProgressCheckpoints", checkpoints.in_progress)
    yield NamedMetric(JOB, "numberOfGrowingStates", len(checkpoints.growing))
    latest = checkpoints.latest_completed
    if latest is not None:
        yield from _checkpoint_metrics(latest)
    if checkpoints.latest_restored is not None:
        yield NamedMetric(JOB, "lastCheckpointRestoreTimestamp", checkpoints.latest_restored.restored_ms)


def _checkpoint_metrics(latest: CheckpointView) -> Iterator[NamedMetric]:
    yield NamedMetric(JOB, "lastCompletedCheckpointId", latest.checkpoint_id)
    yield NamedMetric(JOB, "lastCheckpointDuration", latest.duration_ms)
    yield NamedMetric(JOB, "lastCheckpointSize", latest.stored_bytes)
    yield NamedMetric(JOB, "lastCheckpointFullSize", latest.state_bytes)
    persisted = sum([each.in_flight_bytes for each in latest.subtasks])
    yield NamedMetric(JOB, "lastCheckpointPersistedData", persisted)


def subtask_metrics(view: JobView, rates: Rates, reading: SubtaskReading) -> Iterator[NamedMetric]:
    """Yield the metrics of one subtask."""

    def metric(name: str, value: Number, *, is_count: bool = False) -> NamedMetric:
        return NamedMetric(TASK, name, value, reading.vertex, reading.subtask, is_count=is_count)

    rate = rates.of(reading)
    yield metric("numRecordsIn", reading.records_in, is_count=True)
    yield metric("numRecordsInPerSecond", rate.records_in)
    yield metric("numRecordsOut", reading.records_out, is_count=True)
    yield metric("numRecordsOutPerSecond", rate.records_out)
    yield metric("numBytesIn", reading.bytes_in, is_count=True)
    yield metric("numBytesInPerSecond", rate.bytes_in)
    yield metric("numBytesOut", reading.bytes_out, is_count=True)
    yield metric("numBytesOutPerSecond", rate.bytes_out)
    yield metric("busyTimeMsPerSecond", rate.busy_ms)
    yield metric("backPressuredTimeMsPerSecond", rate.backpressured_ms)
    yield metric("idleTimeMsPerSecond", rate.idle_ms)
    yield metric("turnTimeMsPerSecond", rate.turn_ms)
    yield metric("isBackPressured", int(rate.backpressured_ms > 0))
    yield metric("accumulateBusyTimeMs", reading.busy_ms, is_count=True)
    yield metric("accumulateBackPressuredTimeMs", reading.backpressured_ms, is_count=True)
    yield metric("accumulateIdleTimeMs", reading.idle_ms, is_count=True)
    yield metric("inputQueueLength", reading.buffers_queued)
    yield from _time_metrics(view, reading)
    yield from _commit_metrics(reading)
    latest = view.checkpoints.latest_completed
    for part in () if latest is None else latest.subtasks:
        if (part.vertex, part.subtask) == (reading.vertex, reading.subtask):
            yield metric("lastCheckpointSize", part.stored_bytes)
            yield metric("lastCheckpointFullSize", part.state_bytes)
            for name, value in (
                ("checkpointStartDelayNanos", part.start_delay_ms),
                ("checkpointAlignmentTime", part.alignment_ms),
            ):
                if value is not None:
                    yield metric(name, value * 1_000_000)


def _time_metrics(view: JobView, reading: SubtaskReading) -> Iterator[NamedMetric]:
    found: list[tuple[str, Number | None]] = [
        ("currentInputWatermark", reading.input_watermark),
        ("currentOutputWatermark", reading.output_watermark),
        ("pendingRecords", reading.pending_records),
    ]
    watermark = reading.output_watermark if reading.input_watermark is None else reading.input_watermark
    if watermark is not None:
        found.append(("watermarkLag", view.now_ms - watermark))
    if reading.emitted_timestamp is not None:
        found.append(("currentEmitEventTimeLag", reading.read_at_ms - reading.emitted_timestamp))
    if reading.read_at_ms:
        found.append(("sourceIdleTime", max(0, view.now_ms - reading.read_at_ms)))
    for name, value in found:
        if value is not None:
            yield NamedMetric(TASK, name, value, reading.vertex, reading.subtask)


def _commit_metrics(reading: SubtaskReading) -> Iterator[NamedMetric]:
    if reading.open_transactions is None:
        return
    for name, value, is_count in (
        ("openTransactions", reading.open_transactions, False),
        ("pendingCommittables", reading.pending_transactions, False),
        ("successfulCommittables", reading.commits, True),
        ("abortedTransactions", reading.aborted_transactions, True),
        ("commitTimeMs", reading.commit_ms, True),
        ("lastCommitTimeMs", reading.last_commit_ms, False),
        ("longestCommitTimeMs", reading.longest_commit_ms, False),
    ):
        yield NamedMetric(TASK, name, value, reading.vertex, reading.subtask, is_count=is_count)


def user_metrics(view: JobView) -> Iterator[NamedMetric]:
    """Yield the metrics of user functions, those with several values as several."""
    vertex_of = {each.operator_id: vertex.index for vertex in view.vertices for each in vertex.operators}
    for reading in view.user_metrics:
        scope = reading.scope
        for name, value in _values(reading):
            yield NamedMetric(
                OPERATOR,
                name,
                value,
                vertex_of.get(scope.operator_id, -1),
                scope.subtask,
                scope.operator,
                scope.groups,
                scope.variables,
                is_count=reading.kind == "counter" or name.endswith("_count"),
            )


def _values(reading: MetricReading) -> Iterator[tuple[str, Any]]:
    name = reading.scope.name
    if not isinstance(reading.value, dict):
        yield name, reading.value
        return
    for part, value in reading.value.items():
        # The rate is what Flink shows of a meter under the meter's own name.
        yield (name if part == "rate" else f"{name}_{part}"), value


def all_metrics(view: JobView, rates: Rates) -> Iterator[NamedMetric]:
    """Yield every metric of a view."""
    yield from job_metrics(view)
    for reading in view.subtasks:
        yield from subtask_metrics(view, rates, reading)
    yield from user_metrics(view)


def vertex_metrics(view: JobView, rates: Rates, vertex: VertexView) -> list[NamedMetric]:
    """Return the metrics of the subtasks of a vertex and of its operators' functions."""
    return [each for each in all_metrics(view, rates) if each.vertex == vertex.index]
