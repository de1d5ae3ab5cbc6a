"""Outcomes: the fields of a line, its round trip through JSON, and the hash over many."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import msgspec
import pytest

from onceproof.harness.checkers.outcome import (
    Outcome,
    OutcomeError,
    from_line,
    outcome_of,
    to_line,
)
from onceproof.harness.checkers.verdict import judge
from onceproof.harness.model.history import Recovery
from onceproof.harness.model.scenario import Fault

if TYPE_CHECKING:
    from tests.harness.conftest import Run


def outcome_of_run(run: Run, **changes: object) -> Outcome:
    scenario = msgspec.structs.replace(run.scenario, **changes)
    return outcome_of(scenario, run.history, judge(scenario, run.history, run.oracle))


def test_a_sound_run_gives_a_line_without_violations(sound_run: Run) -> None:
    statistics = sound_run.history.statistics
    statistics.steps, statistics.attempts, statistics.records_replayed = 40, 3, 5
    statistics.coverage[("kill_all", "completed")] = 1
    statistics.coverage[("lose_message", "notified")] = 2
    statistics.points["completed"] = 4
    outcome = outcome_of_run(sound_run, seed=12)
    assert (outcome.passed, outcome.signature, outcome.violations) == (True, None, ())
    assert (outcome.family, outcome.seed, outcome.records) == ("word_count", 12, 6)
    assert (outcome.steps, outcome.attempts, outcome.records_replayed) == (40, 3, 5)
    assert (outcome.checkpoints, outcome.kills) == (4, 1)
    assert outcome.coverage == {"kill_all/completed": 1, "lose_message/notified": 2}


def test_recoveries_that_new_rows_ended_have_their_seconds(sound_run: Run) -> None:
    sound_run.history.statistics.recoveries = [
        Recovery("kill_all", "completed", "*", 2, seconds=0.25),
        Recovery("kill_task", "element", "count-0", 2),
        Recovery("kill_task", "element", "count-1", 2, seconds=1.23456),
    ]
    outcome = outcome_of_run(sound_run)
    assert outcome.recovery_seconds == (0.25, 1.235)
    assert from_line(to_line(outcome)) == outcome


def test_planned_faults_are_counted_whether_they_fired_or_not(sound_run: Run) -> None:
    faults = (
        Fault("kill_all", "element"),
        Fault("kill_all", "element", after=3),
        Fault("kill_task", "aligned"),
    )
    outcome = outcome_of_run(sound_run, faults=faults)
    assert outcome.planned == {"kill_all/element": 2, "kill_task/aligned": 1}
    assert outcome.not_applicable == {}


def test_faults_that_the_system_cannot_inject_are_counted_apart(sound_run: Run) -> None:
    faults = (
        Fault("kill_all", "element"),
        Fault("kill_all", "completed"),
        Fault("kill_all", "completed"),
    )
    sound_run.history.statistics.not_applicable = {("kill_all", "completed"): 2}
    outcome = outcome_of_run(sound_run, faults=faults)
    assert outcome.planned == {"kill_all/element": 1}
    assert outcome.not_applicable == {"kill_all/completed": 2}


def test_a_change_of_parallelism_is_counted(run: Run) -> None:
    for attempt, parallelism in (("1.1", 2), ("1.2", 2), ("1.3", 3), ("2.1", 1)):
        run.history.attempt_started(run.tick(), attempt, parallelism, None)
    assert outcome_of_run(run).rescales == 2


def test_violations_carry_their_witness_as_json(run: Run) -> None:
    run.start("1.1").finish()
    run.history.error(run.tick(), "sink-0", "AssertionError", "validate", "two open transactions")
    outcome = outcome_of_run(run)
    assert outcome.signature == ("AssertionError", "validate")
    broken, anomaly, where, witness = outcome.violations[0]
    assert (broken, anomaly, where) == ("no_error", "exception", "sink-0, step 3")
    assert json.loads(witness)["text"] == "two open transactions"


def test_an_outcome_is_one_line_and_survives_a_round_trip(sound_run: Run) -> None:
    outcome = outcome_of_run(sound_run, seed=2**63 - 1)
    line = to_line(outcome)
    assert line.count(b"\n") == 1
    assert from_line(line) == outcome


@pytest.mark.parametrize("line", [b"", b"{", b'{"family": "word_count"}', b"\xff"])
def test_a_damaged_line_is_an_error_with_file_and_line(line: bytes) -> None:
    with pytest.raises(OutcomeError, match=r"outcomes\.jsonl:3: not an outcome"):
        from_line(line, "outcomes.jsonl", 3)
