"""The JSON of the REST API, from a view: the shapes are those of Flink's (docs/static/generated/rest_v1_dispatcher).

What Flink has and this engine does not is left out. Fields of ours are named in docs/rest.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from onceproof.engine.runtime.monitor.job_view import (
    CheckpointView,
    JobView,
    SubtaskCheckpoint,
    SubtaskReading,
    VertexView,
)
from onceproof.engine.runtime.monitor.rates import Rates

NO_TIME: Final = -1
MILLIS: Final = 1000
LOW_BACKPRESSURE: Final = 0.1
HIGH_BACKPRESSURE: Final = 0.5
"""From which part of the time on a subtask is backpressured a little, and much (Flink: web interface)."""

ENDED_STATES: Final = ("FINISHED", "FAILED", "CANCELED")
TASK_STATES: Final = (
    "CREATED",
    "SCHEDULED",
    "DEPLOYING",
    "INITIALIZING",
    "RUNNING",
    "FINISHED",
    "CANCELING",
    "CANCELED",
    "FAILED",
    "RECONCILING",
)
_STATE_IN_FLINK: Final = {"CREATED": "INITIALIZING", "ENDED_DATA": "RUNNING", "STOPPED": "RUNNING"}
_KINDS: Final = {"checkpoint": "CHECKPOINT", "savepoint": "SAVEPOINT", "sync_savepoint": "SYNC_SAVEPOINT"}


def task_state(reading: SubtaskReading) -> str:
    """Return the state of a subtask as Flink names it."""
    return _STATE_IN_FLINK.get(reading.state, reading.state)


def overview(view: JobView) -> dict[str, Any]:
    """Return ``/overview``."""
    running = view.state not in ENDED_STATES
    return {
        "taskmanagers": view.workers,
        "slots-total": view.workers,
        "slots-available": 0 if running else view.workers,
        "jobs-running": int(running),
        "jobs-finished": int(view.state == "FINISHED"),
        "jobs-cancelled": int(view.state == "CANCELED"),
        "jobs-failed": int(view.state == "FAILED"),
        "onceproof-version": view.version,
    }


def jobs(view: JobView) -> dict[str, Any]:
    """Return ``/jobs``."""
    return {"jobs": [{"id": view.job_id, "status": view.state}]}


def jobs_overview(view: JobView) -> dict[str, Any]:
    """Return ``/jobs/overview``."""
    return {
        "jobs": [
            {
                "jid": view.job_id,
                "name": view.name,
                "start-time": view.started_ms,
                "end-time": _end_of(view),
                "duration": view.now_ms - view.started_ms,
                "state": view.state,
                "last-modification": view.state_since_ms,
                "tasks": _counted_states(view.subtasks, total=True),
            }
        ]
    }


def _end_of(view: JobView) -> int:
    return view.state_since_ms if view.state in ENDED_STATES else NO_TIME


def _counted_states(readings: Iterable[SubtaskReading], *, total: bool = False) -> dict[str, int]:
    counts = dict.fromkeys(TASK_STATES, 0)
    for each in readings:
        state = task_state(each)
        counts[state] = counts.get(state, 0) + 1
    named = {state.lower() if total else state: count for state, count in counts.items()}
    return {"total": sum(counts.values()), **named} if total else named


def job_details(view: JobView, rates: Rates) -> dict[str, Any]:
    """Return ``/jobs/:jobid``."""
    return {
        "jid": view.job_id,
        "name": view.name,
        "isStoppable": True,
        "state": view.state,
        "job-type": "STREAMING",
        "start-time": view.started_ms,
        "end-time": _end_of(view),
        "duration": view.now_ms - view.started_ms,
        "maxParallelism": max([each.max_parallelism for each in view.vertices], default=-1),
        "now": view.now_ms,
        "timestamps": {view.state: view.state_since_ms},
        "vertices": [vertex_summary(view, rates, each) for each in view.vertices],
        "status-counts": _counted_states(view.subtasks),
        "plan": plan(view),
        "restarts": view.restarts,
        "attempt": view.attempt,
        "process": view.process,
        "process-number": view.process_number,
        "onceproof-version": view.version,
    }


def plan(view: JobView) -> dict[str, Any]:
    """Return the plan of ``/jobs/:jobid/plan``."""
    ids = [each.vertex_id for each in view.vertices]
    return {
        "jid": view.job_id,
        "name": view.name,
        "type": "STREAMING",
        "nodes": [
            {
                "id": vertex.vertex_id,
                "parallelism": vertex.parallelism,
                "operator": "",
                "operator_strategy": "",
                "description": " -> ".join([each.name for each in vertex.operators]),
                "inputs": [
                    {
                        "num": number,
                        "id": ids[edge.source],
                        "ship_strategy": edge.ship_strategy,
                        "exchange": "pipelined_bounded",
                    }
                    for number, edge in enumerate(vertex.inputs)
                ],
                "optimizer_properties": {},
            }
            for vertex in view.vertices
        ],
    }


def readings_of(view: JobView, vertex: VertexView) -> list[SubtaskReading]:
    """Return what the subtasks of a vertex show."""
    return [each for each in view.subtasks if each.vertex == vertex.index]


def vertex_summary(view: JobView, rates: Rates, vertex: VertexView) -> dict[str, Any]:
    """Return a vertex as ``/jobs/:jobid`` lists it."""
    readings = readings_of(view, vertex)
    counts = _counted_states(readings)
    started = view.attempts[0].started_ms if view.attempts else NO_TIME
    return {
        "id": vertex.vertex_id,
        "name": vertex.name,
        "maxParallelism": vertex.max_parallelism,
        "parallelism": vertex.parallelism,
        "status": _status_of(vertex, counts),
        "start-time": started,
        "end-time": NO_TIME,
        "duration": max(0, view.now_ms - started) if started >= 0 else NO_TIME,
        "tasks": counts,
        "metrics": {**io_metrics(readings), **_rates_of(rates, readings)},
    }


def _status_of(vertex: VertexView, counts: Mapping[str, int]) -> str:
    for state in ("FAILED", "CANCELED", "INITIALIZING"):
        if counts[state]:
            return state
    return "FINISHED" if counts["FINISHED"] == vertex.parallelism else "RUNNING"


def io_metrics(readings: Iterable[SubtaskReading]) -> dict[str, Any]:
    """Return the counts of subtasks together (Flink: IOMetricsInfo)."""
    found = list(readings)
    return {
        "read-bytes": sum([each.bytes_in for each in found]),
        "read-bytes-complete": True,
        "write-bytes": sum([each.bytes_out for each in found]),
        "write-bytes-complete": True,
        "read-records": sum([each.records_in for each in found]),
        "read-records-complete": True,
        "write-records": sum([each.records_out for each in found]),
        "write-records-complete": True,
        "accumulated-backpressured-time": sum([each.backpressured_ms for each in found]),
        "accumulated-idle-time": sum([each.idle_ms for each in found]),
        "accumulated-busy-time": sum([each.busy_ms for each in found]),
    }


def _rates_of(rates: Rates, readings: list[SubtaskReading]) -> dict[str, Any]:
    """Return the fields of ours: rates, and what the worst subtask shows."""
    found = [rates.of(each) for each in readings]
    watermarks = [each.output_watermark for each in readings if each.output_watermark is not None]
    pending = [each.pending_records for each in readings if each.pending_records is not None]
    return {
        "read-records-per-second": round(sum([each.records_in for each in found]), 1),
        "write-records-per-second": round(sum([each.records_out for each in found]), 1),
        "busy-ratio": round(max([each.busy_ms for each in found], default=0) / MILLIS, 3),
        "backpressured-ratio": round(max([each.backpressured_ms for each in found], default=0) / MILLIS, 3),
        "idle-ratio": round(min([each.idle_ms for each in found], default=0) / MILLIS, 3),
        "watermark": min(watermarks, default=None),
        "pending-records": sum(pending) if pending else None,
    }


def vertex_details(view: JobView, vertex: VertexView) -> dict[str, Any]:
    """Return ``/jobs/:jobid/vertices/:vertexid``."""
    attempt = view.attempt.rpartition(".")[2]
    started = view.attempts[0].started_ms if view.attempts else NO_TIME
    return {
        "id": vertex.vertex_id,
        "name": vertex.name,
        "parallelism": vertex.parallelism,
        "maxParallelism": vertex.max_parallelism,
        "now": view.now_ms,
        "subtasks": [
            {
                "subtask": each.subtask,
                "status": task_state(each),
                "attempt": int(attempt) - 1 if attempt.isdecimal() else 0,
                "endpoint": f"process {each.process}",
                "start-time": started,
                "end-time": NO_TIME,
                "duration": max(0, view.now_ms - started) if started >= 0 else NO_TIME,
                "metrics": io_metrics([each]),
            }
            for each in readings_of(view, vertex)
        ],
    }


def backpressure(view: JobView, rates: Rates, vertex: VertexView) -> dict[str, Any]:
    """Return ``/jobs/:jobid/vertices/:vertexid/backpressure``."""
    found = [(each, rates.of(each)) for each in readings_of(view, vertex)]
    worst = max([rate.backpressured_ms for _, rate in found], default=0) / MILLIS
    return {
        "status": "ok",
        "backpressure-level": _level(worst),
        "end-timestamp": view.now_ms,
        "subtasks": [
            {
                "subtask": each.subtask,
                "backpressure-level": _level(rate.backpressured_ms / MILLIS),
                "ratio": round(rate.backpressured_ms / MILLIS, 3),
                "idleRatio": round(rate.idle_ms / MILLIS, 3),
                "busyRatio": round(rate.busy_ms / MILLIS, 3),
            }
            for each, rate in found
        ],
    }


def _level(ratio: float) -> str:
    if ratio <= LOW_BACKPRESSURE:
        return "ok"
    return "low" if ratio <= HIGH_BACKPRESSURE else "high"


def watermarks(view: JobView, vertex: VertexView) -> list[dict[str, Any]]:
    """Return ``/jobs/:jobid/vertices/:vertexid/watermarks``: values are texts, as of all metrics."""
    found = [(each.subtask, each.input_watermark) for each in readings_of(view, vertex)]
    return [{"id": f"{subtask}.currentInputWatermark", "value": str(mark)} for subtask, mark in found if mark]


def exceptions(view: JobView, most: int) -> dict[str, Any]:
    """Return ``/jobs/:jobid/exceptions``: the causes of the latest attempts that failed."""
    failed = [each for each in view.attempts if each.cause]
    return {
        "exceptionHistory": {
            "entries": [
                {
                    "exceptionName": _exception_name(each.cause),
                    "stacktrace": each.cause,
                    "timestamp": NO_TIME if each.ended_ms is None else each.ended_ms,
                    "taskName": each.task or None,
                    "endpoint": None,
                    "failureLabels": {},
                    "concurrentExceptions": [],
                    "attempt": each.attempt,
                }
                for each in failed[:most]
            ],
            "truncated": len(failed) > most,
        }
    }


def _exception_name(cause: str) -> str:
    """Return the class in a cause such as ``Map-0: ValueError: no number``; else the cause."""
    for part in cause.split(": "):
        if part.isidentifier() and part[0].isupper():
            return part
    return cause


def attempts(view: JobView) -> dict[str, Any]:
    """Return ``/jobs/:jobid/attempts``, which is ours."""
    return {
        "restarts": view.restarts,
        "attempts": [
            {
                "attempt": each.attempt,
                "start-time": each.started_ms,
                "end-time": NO_TIME if each.ended_ms is None else each.ended_ms,
                "restored-checkpoint": each.restored_checkpoint,
                "cause": each.cause or None,
                "task": each.task or None,
            }
            for each in view.attempts
        ],
    }


def transactions(view: JobView) -> dict[str, Any]:
    """Return ``/jobs/:jobid/transactions``, which is ours: those of each subtask that commits."""
    names = {each.index: each for each in view.vertices}
    return {
        "sinks": [
            {
                "id": names[each.vertex].vertex_id,
                "name": names[each.vertex].name,
                "subtask": each.subtask,
                "open": each.open_transactions,
                "pending": each.pending_transactions,
                "committed": each.commits,
                "aborted": each.aborted_transactions,
                "commit-time": each.commit_ms,
                "last-commit-time": each.last_commit_ms,
                "longest-commit-time": each.longest_commit_ms,
            }
            for each in view.subtasks
            if each.open_transactions is not None
        ]
    }


def checkpoint_config(view: JobView) -> dict[str, Any]:
    """Return ``/jobs/:jobid/checkpoints/config``."""
    settings = view.checkpointing
    return {
        "mode": settings.mode.lower(),
        "interval": NO_TIME if settings.interval_ms is None else settings.interval_ms,
        "interval_records": settings.interval_records,
        "timeout": settings.timeout_ms,
        "min_pause": settings.min_pause_ms,
        "max_concurrent": settings.max_concurrent,
        "externalization": {
            "enabled": settings.retention not in ("", "NO_EXTERNALIZED_CHECKPOINTS"),
            "delete_on_cancellation": settings.retention != "RETAIN_ON_CANCELLATION",
        },
        "state_backend": settings.state_backend,
        "checkpoint_storage": settings.directory or "jobmanager",
        "unaligned_checkpoints": settings.is_unaligned,
        "tolerable_failed_checkpoints": settings.tolerable_failures,
        "aligned_checkpoint_timeout": settings.aligned_timeout_ms,
        "checkpoints_after_tasks_finish": settings.after_tasks_finish,
    }


def vertex_checkpoint(checkpoint: CheckpointView, vertex: VertexView) -> dict[str, Any]:
    """Return what the subtasks of a vertex have contributed to a checkpoint, together."""
    return _contribution(checkpoint, vertex.parallelism, _parts_of(checkpoint, vertex))


def _parts_of(checkpoint: CheckpointView, vertex: VertexView) -> list[SubtaskCheckpoint]:
    return [each for each in checkpoint.subtasks if each.vertex == vertex.index]


def _contribution(checkpoint: CheckpointView, tasks: int, parts: list[SubtaskCheckpoint]) -> dict[str, Any]:
    last = max([each.acknowledged_ms for each in parts], default=NO_TIME)
    return {
        "id": checkpoint.checkpoint_id,
        "status": checkpoint.status,
        "latest_ack_timestamp": last,
        "checkpointed_size": sum([each.stored_bytes for each in parts]),
        "state_size": sum([each.state_bytes for each in parts]),
        "end_to_end_duration": max(0, last - checkpoint.triggered_ms) if parts else 0,
        "alignment_buffered": 0,
        "processed_data": 0,
        "persisted_data": sum([each.in_flight_bytes for each in parts]),
        "num_subtasks": tasks,
        "num_acknowledged_subtasks": len(parts),
    }


def subtask_checkpoints(checkpoint: CheckpointView, vertex: VertexView) -> dict[str, Any]:
    """Return ``/jobs/:jobid/checkpoints/details/:checkpointid/subtasks/:vertexid``."""
    parts = _parts_of(checkpoint, vertex)
    answered = {each.subtask for each in parts}
    pending = [
        {"index": index, "status": "pending_or_failed"}
        for index in range(vertex.parallelism)
        if index not in answered
    ]
    done = [_subtask_part(checkpoint, each) for each in parts]
    return {
        **vertex_checkpoint(checkpoint, vertex),
        "summary": {
            "checkpointed_size": spread([each.stored_bytes for each in parts]),
            "state_size": spread([each.state_bytes for each in parts]),
            "end_to_end_duration": spread([each.acknowledged_ms - checkpoint.triggered_ms for each in parts]),
            "checkpoint_duration": {
                "sync": spread([each.sync_ms for each in parts if each.sync_ms is not None]),
                "async": spread([each.async_ms for each in parts if each.async_ms is not None]),
            },
            "alignment": {
                "persisted": spread([each.in_flight_bytes for each in parts]),
                "duration": spread([each.alignment_ms for each in parts if each.alignment_ms is not None]),
            },
            "start_delay": spread([each.start_delay_ms for each in parts if each.start_delay_ms is not None]),
        },
        "subtasks": sorted([*done, *pending], key=lambda each: each["index"]),
    }


def _subtask_part(checkpoint: CheckpointView, part: SubtaskCheckpoint) -> dict[str, Any]:
    return {
        "index": part.subtask,
        "status": "completed",
        "ack_timestamp": part.acknowledged_ms,
        "end_to_end_duration": max(0, part.acknowledged_ms - checkpoint.triggered_ms),
        "checkpointed_size": part.stored_bytes,
        "state_size": part.state_bytes,
        "checkpoint": {"sync": part.sync_ms, "async": part.async_ms},
        "alignment": {
            "buffered": 0,
            "processed": 0,
            "persisted": part.in_flight_bytes,
            "duration": part.alignment_ms,
        },
        "start_delay": part.start_delay_ms,
        "unaligned_checkpoint": part.is_unaligned,
        "aborted": False,
    }


def checkpoint_details(view: JobView, checkpoint: CheckpointView) -> dict[str, Any]:
    """Return a checkpoint as the history lists it; its vertices are under ``tasks``."""
    parts = list(checkpoint.subtasks)
    is_savepoint = checkpoint.kind != "checkpoint"
    found = {
        "className": checkpoint.status.lower(),
        **_contribution(checkpoint, checkpoint.tasks, parts),
        "is_savepoint": is_savepoint,
        "savepointFormat": "CANONICAL" if is_savepoint else None,
        "checkpoint_type": _KINDS.get(checkpoint.kind, "CHECKPOINT"),
        "trigger_timestamp": checkpoint.triggered_ms,
        "end_to_end_duration": checkpoint.duration_ms,
        "attempt": checkpoint.attempt,
        "max_alignment": max([each.alignment_ms or 0 for each in parts], default=0),
        "max_start_delay": max([each.start_delay_ms or 0 for each in parts], default=0),
        "max_sync": max([each.sync_ms or 0 for each in parts], default=0),
        "max_async": max([each.async_ms or 0 for each in parts], default=0),
        "unaligned_checkpoint": any(each.is_unaligned for each in parts),
        "tasks": {each.vertex_id: vertex_checkpoint(checkpoint, each) for each in view.vertices},
    }
    if checkpoint.status == "COMPLETED":
        found |= {"external_path": checkpoint.path or None, "discarded": checkpoint.discarded}
    elif checkpoint.status == "FAILED":
        found |= {"failure_timestamp": checkpoint.ended_ms, "failure_message": checkpoint.failure}
    return found


def checkpoints(view: JobView) -> dict[str, Any]:
    """Return ``/jobs/:jobid/checkpoints``."""
    found = view.checkpoints
    completed = [each for each in found.history if each.status == "COMPLETED"]
    restored = found.latest_restored
    parts = [part for each in completed for part in each.subtasks]
    return {
        "counts": {
            "restored": found.restored,
            "total": found.completed + found.failed + found.in_progress,
            "in_progress": found.in_progress,
            "completed": found.completed,
            "failed": found.failed,
        },
        "summary": {
            "checkpointed_size": spread([each.stored_bytes for each in completed]),
            "state_size": spread([each.state_bytes for each in completed]),
            "end_to_end_duration": spread([each.duration_ms for each in completed]),
            "alignment_buffered": spread([]),
            "processed_data": spread([]),
            "persisted_data": spread([part.in_flight_bytes for part in parts]),
        },
        "latest": {
            "completed": _optional(view, found.latest_completed),
            "savepoint": _optional(view, found.latest_savepoint),
            "failed": _optional(view, found.latest_failed),
            "restored": None
            if restored is None
            else {
                "id": restored.checkpoint_id,
                "restore_timestamp": restored.restored_ms,
                "is_savepoint": restored.is_savepoint,
                "external_path": restored.path or None,
            },
        },
        "history": [checkpoint_details(view, each) for each in found.history],
    }


def _optional(view: JobView, checkpoint: CheckpointView | None) -> dict[str, Any] | None:
    return None if checkpoint is None else checkpoint_details(view, checkpoint)


def spread(values: list[int]) -> dict[str, float]:
    """Return least, greatest, mean and percentiles (Flink: StatsSummaryDto)."""
    ordered = sorted(values)
    if not ordered:
        return dict.fromkeys(("min", "max", "avg", "p50", "p90", "p95", "p99", "p999"), 0)
    return {
        "min": ordered[0],
        "max": ordered[-1],
        "avg": sum(ordered) // len(ordered),
        **{
            name: ordered[min(len(ordered) - 1, int(share * len(ordered)))]
            for name, share in (("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999))
        },
    }
