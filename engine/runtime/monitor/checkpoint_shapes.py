"""The JSON of the REST API about checkpoints, from a view, in the shapes of Flink's.

Sizes are in bytes: ``state_size`` is what a restore reads, ``checkpointed_size`` what was written. Fields of
ours are named in docs/rest.md.
"""

from __future__ import annotations

from typing import Any, Final

from onceproof.engine.runtime.monitor.job_view import (
    CheckpointView,
    JobView,
    SubtaskCheckpoint,
    VertexView,
)

NO_TIME: Final = -1
_KINDS: Final = {"checkpoint": "CHECKPOINT", "savepoint": "SAVEPOINT", "sync_savepoint": "SYNC_SAVEPOINT"}


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
        "growing_states": [
            {
                "operator": each.operator,
                "state": each.state,
                "unit": each.unit,
                "first": each.first,
                "last": each.last,
                "checkpoints": each.checkpoints,
            }
            for each in found.growing
        ],
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
