"""A view of a job by hand: a source, a map that is behind, and a sink, with checkpoints and two attempts."""

from __future__ import annotations

from msgspec.structs import replace

from onceproof.engine.metrics import MetricReading, MetricScope
from onceproof.engine.runtime.monitor.job_view import (
    AttemptView,
    CheckpointingView,
    CheckpointsView,
    CheckpointView,
    EdgeView,
    JobView,
    OperatorView,
    RestoredView,
    SubtaskCheckpoint,
    SubtaskReading,
    VertexView,
)

JOB_ID = "0123456789abcdef0123456789abcdef"
SOURCE_ID, MAP_ID, SINK_ID = "a" * 32, "b" * 32, "c" * 32
NOW_MS = 1_800_000_010_000
MARKUP = "shop-0: ValueError: no <b>shop</b>"


def reading(vertex: int, subtask: int, records: int, **others: object) -> SubtaskReading:
    """Return what a subtask shows after 10 seconds in which it was busy for 2 and backpressured for 5."""
    plain = SubtaskReading(
        vertex=vertex,
        subtask=subtask,
        state="RUNNING",
        process=42,
        seen_ms=NOW_MS,
        records_in=records,
        records_out=records,
        idle_ms=3000,
        backpressured_ms=5000,
        busy_ms=2000,
        turn_ms=1900,
    )
    return replace(plain, **others)


def checkpoint(number: int, status: str = "COMPLETED", **others: object) -> CheckpointView:
    """Return a checkpoint of three subtasks that took 90 ms and wrote 1,100 of 3,000 bytes."""
    began = NOW_MS - 10_000 + 1000 * number
    plain = CheckpointView(
        number,
        "checkpoint",
        status,
        "1.2",
        began,
        None if status == "IN_PROGRESS" else began + 90,
        3,
        (
            SubtaskCheckpoint(0, 0, began + 20, 1000, 100, 0, 1, 0, 2, 17, False),
            SubtaskCheckpoint(1, 0, began + 40, 2000, 1000, 30, 5, 12, 3, 20, True),
            SubtaskCheckpoint(2, 0, began + 50, 0, 0, 0, 7, 0, 0, 0, False),
        ),
        "",
        f"/checkpoints/chk-{number}",
        False,
    )
    return replace(plain, **others)


def job_view(**others: object) -> JobView:
    """Return the view, with some fields replaced."""
    failed = checkpoint(2, "FAILED", failure="DECLINED", path="")
    done = checkpoint(3)
    plain = JobView(
        job_id=JOB_ID,
        name="orders & <i>prices</i>",
        state="RUNNING",
        version="0.0",
        process=41,
        process_number=2,
        workers=1,
        started_ms=NOW_MS - 20_000,
        now_ms=NOW_MS,
        state_since_ms=NOW_MS - 10_000,
        restarts=1,
        restarting_ms=300,
        vertices=(
            VertexView(0, SOURCE_ID, "orders", 1, 128, (OperatorView(SOURCE_ID, "orders"),), ()),
            VertexView(1, MAP_ID, "shop", 1, 128, (OperatorView(MAP_ID, "shop"),), (EdgeView(0, "HASH"),)),
            VertexView(
                2, SINK_ID, "files", 1, 128, (OperatorView(SINK_ID, "files"),), (EdgeView(1, "FORWARD"),)
            ),
        ),
        subtasks=(
            reading(0, 0, 5000, pending_records=700, emitted_timestamp=NOW_MS - 400, read_at_ms=NOW_MS),
            reading(1, 0, 4000, input_watermark=NOW_MS - 2000, output_watermark=NOW_MS - 2000),
            reading(2, 0, 3000, open_transactions=1, pending_transactions=2, commits=9, last_commit_ms=4),
        ),
        user_metrics=(
            MetricReading(
                MetricScope("shop", 0, ("shop",), (("shop", "north"),), "lines", MAP_ID), "counter", 17
            ),
            MetricReading(MetricScope("shop", 0, (), (), "state", MAP_ID), "gauge", "open"),
            MetricReading(
                MetricScope("shop", 0, (), (), "rows", MAP_ID), "meter", {"count": 20, "rate": 2.0}
            ),
        ),
        checkpointing=CheckpointingView(
            "EXACTLY_ONCE", 1000, None, 600_000, 0, 1, 0, False, 0, True, "hashmap", "/checkpoints", ""
        ),
        checkpoints=CheckpointsView(
            1, 2, 1, 0, (done, failed, checkpoint(1)), done, None, failed, RestoredView(1, NOW_MS, False, "")
        ),
        attempts=(
            AttemptView("1.2", NOW_MS - 10_000, None, 1, "", ""),
            AttemptView("1.1", NOW_MS - 20_000, NOW_MS - 10_300, None, MARKUP, "shop-0"),
        ),
    )
    return replace(plain, **others)


def earlier_view() -> JobView:
    """Return the view of 5 seconds before: each subtask had 1,000 records less, and half of its times."""
    now = job_view()
    return replace(
        now,
        now_ms=NOW_MS - 5000,
        subtasks=tuple(
            replace(
                each,
                seen_ms=NOW_MS - 5000,
                records_in=each.records_in - 1000,
                records_out=each.records_out - 1000,
                idle_ms=1500,
                backpressured_ms=2500,
                busy_ms=1000,
            )
            for each in now.subtasks
        ),
    )
