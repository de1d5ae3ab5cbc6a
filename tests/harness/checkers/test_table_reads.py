"""consistent_cut for sinks that write by key: repeated rows pass, rows behind a checkpoint do not."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from onceproof.harness.checkers.consistent_cut import ConsistentCut
from onceproof.harness.checkers.exactly_once import LOST, WRONG_VALUE, ExactlyOnce
from onceproof.harness.checkers.fencing import ZOMBIE_WRITE, Fencing
from onceproof.harness.checkers.oracle import PythonOracle
from onceproof.harness.checkers.table_reads import BEHIND_THE_CUT, UNKNOWN_VERSION
from onceproof.harness.generation.generator import generate
from onceproof.harness.model.family import options_of
from onceproof.harness.model.history import History, Row
from onceproof.harness.model.scenario import Scenario
from onceproof.scenarios import final_table, word_table

WORDS = ("ant", "bee", "ant", "ant")


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    records = {"only": tuple(enumerate(WORDS))}
    return replace(generate(word_table, 0), records=records)


class HandWrittenRun:
    """A run written by hand."""

    def __init__(self, scenario: Scenario, family: Any = word_table) -> None:
        self._family = family
        self._keys = options_of(family).table_keys
        self._scenario = scenario
        self._step = 0
        self.history = History()
        self.history.attempt_started(0, "1.1", 1, None)

    def writes(self, *rows: Row, attempt: str = "1.1") -> None:
        self._step += 1
        self.history.rows_written(self._step, "sink-0", attempt, self._keys, rows)

    def completes(self, checkpoint: int, read: int, in_flight: int = 0) -> None:
        self._step += 1
        self.history.checkpoint_completed(
            self._step, checkpoint, "1.1", {"only": read}, (), ("1.1",), in_flight
        )

    def restarts(self, restored: int) -> None:
        self._step += 1
        self.history.attempt_started(self._step, "1.2", 1, restored)

    def anomalies(self) -> list[str]:
        oracle = PythonOracle(self._family, self._scenario)
        checkers = (ExactlyOnce(), ConsistentCut(), Fencing())
        return [
            found.anomaly
            for checker in checkers
            for found in checker.check(self._scenario, self.history, oracle)
        ]


@pytest.fixture
def run(scenario: Scenario) -> HandWrittenRun:
    return HandWrittenRun(scenario)


def test_a_row_written_again_after_a_restart_is_no_duplicate(run: HandWrittenRun) -> None:
    run.writes(("ant", 1), ("bee", 1))
    run.completes(1, 2)
    run.writes(("ant", 2))
    run.restarts(1)
    run.writes(("ant", 2), attempt="1.2")
    run.writes(("ant", 3), attempt="1.2")
    run.history.job_finished(9)
    assert run.anomalies() == []


def test_rows_may_be_read_before_any_checkpoint_completes(run: HandWrittenRun) -> None:
    run.writes(("ant", 1))
    run.writes(("ant", 2))
    run.writes(("ant", 1))
    assert run.anomalies() == []


def test_the_last_row_of_a_key_is_compared_at_the_end(run: HandWrittenRun) -> None:
    run.writes(("ant", 3), ("bee", 1))
    run.writes(("ant", 2))
    run.history.job_finished(9)
    assert run.anomalies() == [WRONG_VALUE]


def test_a_key_that_was_never_written_is_lost(run: HandWrittenRun) -> None:
    run.writes(("ant", 3))
    run.history.job_finished(9)
    assert run.anomalies() == [LOST]


def test_a_row_that_does_not_follow_from_the_input_is_found(run: HandWrittenRun) -> None:
    run.writes(("ant", 4))
    assert UNKNOWN_VERSION in run.anomalies()


def test_a_key_must_show_the_row_of_a_completed_checkpoint(run: HandWrittenRun) -> None:
    run.writes(("ant", 1))
    run.completes(1, 3)
    assert BEHIND_THE_CUT in run.anomalies()


def test_records_in_flight_may_be_missing_in_the_table(run: HandWrittenRun) -> None:
    run.writes(("ant", 1), ("bee", 1))
    run.completes(1, 3, in_flight=1)
    assert BEHIND_THE_CUT not in run.anomalies()


def test_rows_covered_by_a_checkpoint_are_not_written_again(run: HandWrittenRun) -> None:
    run.writes(("ant", 2), ("bee", 1))
    run.completes(1, 3)
    run.restarts(1)
    run.writes(("ant", 1), attempt="1.2")
    assert BEHIND_THE_CUT in run.anomalies()


@pytest.fixture
def at_end() -> HandWrittenRun:
    records = {"only": tuple(enumerate([("a", 1), ("b", 2), ("a", 4)]))}
    return HandWrittenRun(replace(generate(final_table, 0), records=records), final_table)


def test_a_table_that_is_written_at_the_end_may_be_empty_before(at_end: HandWrittenRun) -> None:
    at_end.completes(1, 3)
    at_end.writes(("only", "a", 5), ("only", "b", 2))
    at_end.history.job_finished(9)
    assert at_end.anomalies() == []


def test_a_table_that_is_written_at_the_end_shows_no_partial_sum(at_end: HandWrittenRun) -> None:
    at_end.writes(("only", "a", 1))
    at_end.writes(("only", "a", 5), ("only", "b", 2))
    at_end.history.job_finished(9)
    assert at_end.anomalies() == [UNKNOWN_VERSION]


def test_a_table_that_is_written_at_the_end_is_whole_then(at_end: HandWrittenRun) -> None:
    at_end.completes(1, 3)
    at_end.writes(("only", "a", 5))
    at_end.history.job_finished(9)
    assert at_end.anomalies() == [LOST]


def test_a_dead_attempt_must_not_write(run: HandWrittenRun) -> None:
    run.restarts(None)  # type: ignore[arg-type]
    run.writes(("ant", 1), attempt="1.1")
    assert ZOMBIE_WRITE in run.anomalies()
