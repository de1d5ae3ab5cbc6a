"""The diagram and the recoveries of a run without a trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from onceproof.harness.explanation.visible_run import recovery_text, visible_trace
from onceproof.harness.model.history import Recovery
from onceproof.harness.reporting.teaching_scenario import trace_of
from onceproof.reports.diagram import draw

if TYPE_CHECKING:
    from tests.harness.conftest import Run


def test_attempts_checkpoints_rows_and_kills_are_drawn_on_their_lanes(run: Run) -> None:
    run.start("1.1").checkpoint(1, 2).commit()
    run.history.fault_fired(run.tick(), "kill_task", "committed", "sink-1")
    run.history.task_failed(run.tick(), "sink-1", "1.1", "killed", injected=True)
    run.start("2.1", restored=1).checkpoint(2, 6).commit().finish()
    run.history.trace = visible_trace(run.history)
    trace = trace_of(run.history)
    assert trace.lanes == ("job", "sink-1", "output")
    assert [(kill.step, kill.lanes) for kill in trace.kills] == [(5, ("sink-1",))]
    first, second = trace.attempts
    # The first one was over when its task was dead.
    assert (first.begin, first.end, second.begin, second.restored) == (1, 6, 7, 1)
    completed = [(mark.step, mark.label) for mark in trace.marks if mark.kind == "complete"]
    assert completed == [(2, "1"), (8, "2")]
    assert {mark.lane for mark in trace.marks if mark.kind == "visible"} == {"output"}
    assert trace.arrows == ()
    drawn = draw(trace, "failure")
    assert drawn.has_kills
    assert not drawn.arrows


def test_a_kill_of_all_tasks_crosses_every_lane_and_empty_output_is_not_drawn(run: Run) -> None:
    run.start("1.1").checkpoint(1, 0, []).commit().fault("kill_all")
    for task in ("source-0", "sink-0"):
        run.history.task_failed(run.tick(), task, "1.1", "killed", injected=True)
    trace = visible_trace(run.start("2.1", restored=1).history)
    assert trace["lanes"] == ["job", "source-0", "sink-0", "output"]
    [kill] = trace["kills"]
    assert kill["lanes"] == ["source-0", "sink-0"]
    assert [mark["kind"] for mark in trace["marks"]] == ["complete"]


def test_rows_written_by_key_and_aborted_checkpoints_are_drawn(run: Run) -> None:
    run.start("1.1").history.checkpoint_aborted(run.tick(), 1, "EXPIRED")
    run.history.rows_written(run.tick(), "sink", "1.1", 1, [("bee", 2)])
    trace = visible_trace(run.history)
    assert [(mark["kind"], mark["lane"], mark["label"]) for mark in trace["marks"]] == [
        ("checkpoint_aborted", "job", "1"),
        ("write", "output", "(bee, 2)"),
    ]


def test_kills_of_a_program_its_part_and_its_server_have_lanes(run: Run) -> None:
    run.history.attempt_started(run.tick(), "1", 1, None, outside=True)
    faults = (("kill_process", "*", ""), ("kill_task", "writer", ""), ("kill_server", "*", "kafka"))
    for kind, task, server in (*faults, ("cut_connection", "*", "kafka")):
        run.history.fault_fired(run.tick(), kind, "element", task, outside=True, server=server)
    trace = visible_trace(run.history)
    assert trace["lanes"] == ["job", "program", "writer", "kafka", "output"]
    assert [kill["lanes"] for kill in trace["kills"]] == [["program"], ["writer"], ["kafka"]]


@pytest.mark.parametrize(
    ("recovery", "text"),
    [
        (
            Recovery("kill_task", "committed", "sink", 1, 7, 2, 3, 1, 1.25),
            "sink was killed at the point committed of sink; the job had read 7 records; it started again"
            " from checkpoint 2 and read 3 records again; new rows became visible after 1.2 s",
        ),
        (
            Recovery("kill_process", "outside", "driver", 2, None, None, 1, 2, means="java"),
            "the process was killed at the point outside of driver (by java); it started again from the"
            " beginning and read 1 record again",
        ),
        (
            Recovery("kill_all", "element", "sink-0", 2),
            "all tasks were killed at the point element of sink-0",
        ),
    ],
)
def test_a_recovery_in_words(recovery: Recovery, text: str) -> None:
    assert recovery_text(recovery) == text
