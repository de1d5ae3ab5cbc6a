"""The lines of `replay --trace`: what is folded, where they end, and those of one task."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from onceproof.harness.checkers.verdict import judge
from onceproof.harness.explanation.narrative import narrative_lines
from onceproof.harness.explanation.shown_lines import UnknownTask, shown_lines
from onceproof.harness.model.family_places import load_family
from onceproof.harness.trials.trial import scenario_of, try_scenario

if TYPE_CHECKING:
    from tests.harness.conftest import Run


def shown(run: Run, tasks: tuple[str, ...] = (), whole: bool = False) -> list[tuple[str, str]]:
    """Return verb and details of the lines."""
    violations = judge(run.scenario, run.history, run.oracle).violations
    return [line[2:] for line in shown_lines(run.history, violations, tasks, whole)]


def test_consecutive_checkpoints_of_nothing_new_share_a_line(run: Run) -> None:
    run.start("1.1").checkpoint(1, 4).commit()
    for checkpoint in (2, 3, 4):
        run.checkpoint(checkpoint, 4).commit()
    run.checkpoint(5, 6).commit().checkpoint(6, 6).commit().finish()
    completed = [details for verb, details in shown(run) if verb == "completes"]
    assert completed == [
        "checkpoint 1; read so far: words 4",
        "checkpoints 2 to 4; nothing new was read",
        "checkpoint 5; read so far: words 6",
        "checkpoint 6; nothing new was read",
    ]
    assert not [details for verb, details in shown(run) if details.endswith("no rows")]
    assert len(shown(run, whole=True)) == len(run.history.events)


def test_a_checkpoint_behind_records_in_flight_is_not_folded(run: Run) -> None:
    run.start("1.1").checkpoint(1, 4, in_flight=2).checkpoint(2, 4).commit().checkpoint(
        3, 6
    ).commit().finish()
    assert "checkpoint 2; read so far: words 4" in [details for _, details in shown(run)]


def test_the_lines_end_where_the_failure_shows_first(run: Run) -> None:
    run.start("1.1").checkpoint(1, 2).commit().fault().start("1.2", restored=1)
    run.checkpoint(2, 4, [("bee", 1)]).commit().checkpoint(3, 6).commit().finish()
    lines = shown(run)
    visible = "transaction t0-1-1.2: bee=1"
    assert ("VISIBLE", visible) in lines
    assert lines[-1][0] == "..."
    assert lines[-1][1].endswith("more lines after the failure: --whole prints them")
    rest = shown(run, whole=True)
    assert lines[:-1] == rest[: len(lines) - 1]
    assert f"{len(rest) - len(lines) + 1} more lines" in lines[-1][1]


def test_a_row_that_is_lost_at_the_end_leaves_all_lines(run: Run) -> None:
    run.start("1.1").checkpoint(1, 6, [("bee", 1)]).finish()
    assert shown(run)[-1] == ("finished", "")


def test_lines_of_a_vertex_are_those_of_its_subtasks_and_of_the_job() -> None:
    family = load_family("word_count")
    trial = try_scenario(family, scenario_of(family, 2), trace=True)
    every = narrative_lines(trial.shown)
    names = {task for _, task, _, _ in every}
    subtasks = {name for name in names if name.startswith("count-")}
    assert len(subtasks) > 1
    of_vertex = shown_lines(trial.shown, (), ["count"], whole=True)
    assert {task for _, task, _, _ in of_vertex} == subtasks | {"job"}
    of_one = shown_lines(trial.shown, (), ["count-0"], whole=True)
    assert {task for _, task, _, _ in of_one} == {"count-0", "job"}
    with pytest.raises(UnknownTask, match="no task 'cuont' in this run: there are coordinator, count-0"):
        shown_lines(trial.shown, (), ["cuont"])
