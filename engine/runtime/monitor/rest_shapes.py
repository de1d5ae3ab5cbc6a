"""The JSON of the REST API, from a view, in the shapes of Flink's: the job, its vertices and attempts.

What Flink has and this engine does not is left out. Fields of ours are named in docs/rest.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from onceproof.engine.runtime.monitor.job_history import JobHistory, watermark_of
from onceproof.engine.runtime.monitor.job_view import (
    JobView,
    SubtaskReading,
    VertexView,
)
from onceproof.engine.runtime.monitor.task_readings import Rates

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
        "metrics": {
            **io_metrics(readings),
            **_rates_of(rates, readings),
            "watermark": watermark_of(view, vertex),
        },
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
    pending = [each.pending_records for each in readings if each.pending_records is not None]
    return {
        "read-records-per-second": round(sum([each.records_in for each in found]), 1),
        "write-records-per-second": round(sum([each.records_out for each in found]), 1),
        "busy-ratio": round(max([each.busy_ms for each in found], default=0) / MILLIS, 3),
        "backpressured-ratio": round(max([each.backpressured_ms for each in found], default=0) / MILLIS, 3),
        "idle-ratio": round(min([each.idle_ms for each in found], default=0) / MILLIS, 3),
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


def history(view: JobView, kept: JobHistory) -> dict[str, Any]:
    """Return ``/jobs/:jobid/history``, which is ours: curves over the life of the process."""
    samples = kept.samples
    return {
        "timestamps": [each.seen_ms for each in samples],
        "read-records-per-second": [each.records_per_second for each in samples],
        "watermarks": [
            {
                "id": vertex.vertex_id,
                "name": vertex.name,
                "values": [each.watermarks[place] for each in samples],
            }
            for place, vertex in enumerate(view.vertices)
        ],
        "checkpoints": [
            {
                "id": each.checkpoint_id,
                "trigger_timestamp": each.triggered_ms,
                "end_to_end_duration": each.duration_ms,
                "state_size": each.state_bytes,
            }
            for each in kept.checkpoints
        ],
    }
