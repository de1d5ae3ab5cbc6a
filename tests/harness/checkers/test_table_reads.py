"""What may be read of a table that is written by key: rows again, but none that a checkpoint has passed."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from onceproof.harness.checkers.consistent_cut import ConsistentCut
from onceproof.harness.checkers.exactly_once import LOST, WRONG_VALUE, ExactlyOnce
from onceproof.harness.checkers.fencing import ZOMBIE_WRITE, Fencing
from onceproof.harness.checkers.oracle import PythonOracle
from onceproof.harness.checkers.table_reads import BEHIND_THE_CUT, UNKNOWN_VERSION
from onceproof.harness.generation.generator import generate
from onceproof.harness.model.history import History, Row
from onceproof.harness.model.scenario import Scenario
from onceproof.scenarios import word_table

WORDS = ("ant", "bee", "ant", "ant")


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    records = {"only": tuple(enumerate(WORDS))}
    return replace(generate(word_table, 0), records=records)


class Story:
    """A run told by hand."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._step = 0
        self.history = History()
        self.history.attempt_started(0, "1.1", 1, None)

    def writes(self, *rows: Row, attempt: str = "1.1") -> None:
        self._step += 1
        self.history.rows_written(self._step, "sink-0", attempt, 1, rows)

    def completes(self, checkpoint: int, read: int, in_flight: int = 0) -> None:
        self._step += 1
        self.history.checkpoint_completed(
            self._step, checkpoint, "1.1", {"only": read}, (), ("1.1",), in_flight
        )

    def restarts(self, restored: int) -> None:
        self._step += 1
        self.history.attempt_started(self._step, "1.2", 1, restored)

    def anomalies(self) -> list[str]:
        oracle = PythonOracle(word_table, self._scenario)
        checkers = (ExactlyOnce(), ConsistentCut(), Fencing())
        return [
            found.anomaly
            for checker in checkers
            for found in checker.check(self._scenario, self.history, oracle)
        ]


@pytest.fixture
def story(scenario: Scenario) -> Story:
    return Story(scenario)


def test_what_is_written_again_after_a_restart_is_no_duplicate(story: Story) -> None:
    story.writes(("ant", 1), ("bee", 1))
    story.completes(1, 2)
    story.writes(("ant", 2))
    story.restarts(1)
    story.writes(("ant", 2), attempt="1.2")
    story.writes(("ant", 3), attempt="1.2")
    story.history.job_finished(9)
    assert story.anomalies() == []


def test_rows_may_be_read_before_any_checkpoint_completes(story: Story) -> None:
    story.writes(("ant", 1))
    story.writes(("ant", 2))
    story.writes(("ant", 1))
    assert story.anomalies() == []


def test_the_last_row_of_a_key_is_compared_at_the_end(story: Story) -> None:
    story.writes(("ant", 3), ("bee", 1))
    story.writes(("ant", 2))
    story.history.job_finished(9)
    assert story.anomalies() == [WRONG_VALUE]


def test_a_key_that_nobody_wrote_is_lost(story: Story) -> None:
    story.writes(("ant", 3))
    story.history.job_finished(9)
    assert story.anomalies() == [LOST]


def test_a_row_that_the_input_never_gives_is_found_at_once(story: Story) -> None:
    story.writes(("ant", 4))
    assert UNKNOWN_VERSION in story.anomalies()


def test_a_key_must_show_what_a_complete_checkpoint_covers(story: Story) -> None:
    story.writes(("ant", 1))
    story.completes(1, 3)
    assert BEHIND_THE_CUT in story.anomalies()


def test_records_in_flight_have_not_come_to_the_sink_yet(story: Story) -> None:
    story.writes(("ant", 1), ("bee", 1))
    story.completes(1, 3, in_flight=1)
    assert BEHIND_THE_CUT not in story.anomalies()


def test_what_a_complete_checkpoint_covers_is_not_written_again(story: Story) -> None:
    story.writes(("ant", 2), ("bee", 1))
    story.completes(1, 3)
    story.restarts(1)
    story.writes(("ant", 1), attempt="1.2")
    assert BEHIND_THE_CUT in story.anomalies()


def test_a_dead_attempt_must_not_write(story: Story) -> None:
    story.restarts(None)  # type: ignore[arg-type]
    story.writes(("ant", 1), attempt="1.1")
    assert ZOMBIE_WRITE in story.anomalies()
