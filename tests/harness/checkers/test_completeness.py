"""The property completeness on histories written by hand: sound ones pass, changed ones fail."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from onceproof.harness.checkers import CHECKERS, NEEDS, properties_asked_of
from onceproof.harness.checkers.completeness import Completeness
from onceproof.harness.checkers.oracle import PythonOracle
from onceproof.harness.checkers.verdict import judge
from onceproof.harness.explanation.sentences import sentence_of
from onceproof.harness.model.capabilities import Capability
from onceproof.harness.model.scenario import Scenario
from onceproof.harness.model.system import capabilities_of
from tests.harness.conftest import Run, WordCount

ALL = {"words": 6}


@pytest.fixture
def run(make_scenario: Callable[..., Scenario]) -> Run:
    """A job that has read all six words, and committed what two checkpoints list."""
    return Run(make_scenario()).start("1").checkpoint(1, 4).commit().checkpoint(2, 6)


def test_a_job_that_has_read_and_committed_everything_is_complete(run: Run) -> None:
    run.commit().finish().history.input_read(run.step, ALL, ALL)
    assert run.check(Completeness()) == []


def test_a_split_that_was_not_read_to_its_end_is_reported_with_its_counts(run: Run) -> None:
    run.commit().finish().history.input_read(run.step, {"words": 5}, ALL)
    assert run.check(Completeness()) == [("unread input", "split words")]
    (violation,) = Completeness().check(run.scenario, run.history, run.oracle)
    assert "5 of 6 records of words" in sentence_of(violation)


def test_a_split_that_no_reader_has_opened_is_unread(run: Run) -> None:
    run.commit().finish().history.input_read(run.step, {}, {"words": 6, "empty": 0})
    (violation,) = Completeness().check(run.scenario, run.history, run.oracle)
    assert violation.witness["splits"] == {"words": {"read": 0, "of": 6}}


def test_the_last_checkpoint_whose_commits_are_forgotten_is_incomplete(run: Run) -> None:
    run.finish().history.input_read(run.step, ALL, ALL)
    assert run.check(Completeness()) == [("uncommitted output", "transaction t0-1-1")]
    (violation,) = Completeness().check(run.scenario, run.history, run.oracle)
    assert violation.witness["count"] == 2
    assert "of checkpoint 2 never became visible; 2 in all" in sentence_of(violation)


def test_one_transaction_of_an_earlier_attempt_that_is_missing_is_incomplete(run: Run) -> None:
    run.fault().start("2", 2).commit("t1-1-1").finish()
    assert run.check(Completeness()) == [("uncommitted output", "transaction t0-1-1")]


def test_a_job_that_reports_no_success_claims_nothing(run: Run) -> None:
    run.history.job_failed(run.tick(), "the input has changed")
    run.history.input_read(run.step, {"words": 1}, ALL)
    assert run.check(Completeness()) == []


def test_a_job_that_stops_with_a_savepoint_claims_nothing(run: Run) -> None:
    run.history.job_stopped(run.tick())
    assert run.check(Completeness()) == []


def test_an_input_that_is_not_seen_leaves_the_commits_to_be_asked(run: Run) -> None:
    run.finish()
    assert [anomaly for anomaly, _ in run.check(Completeness())] == ["uncommitted output"]


def test_it_needs_no_oracle(run: Run) -> None:
    """Wrong rows are none of its business, and the oracle is never asked."""
    run.commit().finish().history.input_read(run.step, {"words": 3}, ALL)

    class NoOracle(PythonOracle):
        def __getattribute__(self, name: str) -> object:
            raise AssertionError(f"the oracle was asked for {name}")

    oracle = object.__new__(NoOracle)
    found = Completeness().check(run.scenario, run.history, oracle)
    assert [violation.anomaly for violation in found] == ["unread input"]


def test_wrong_rows_name_a_failure_before_the_claim_that_they_are_all(run: Run) -> None:
    run.finish().history.input_read(run.step, ALL, ALL)
    verdict = judge(run.scenario, run.history, PythonOracle(WordCount(), run.scenario))
    assert verdict.signature == ("exactly_once", "lost")
    assert "completeness" in verdict.failed_properties()


@pytest.mark.parametrize(
    ("system", "is_asked"),
    [("simulated", True), ("local", True), ("local-workers", True), ("spark", True), ("command", False)],
)
def test_it_is_asked_where_input_or_checkpoints_are_seen(system: str, is_asked: bool) -> None:
    assert ("completeness" in properties_asked_of(capabilities_of(system))) == is_asked


def test_all_that_can_be_asked_is_asked_of_a_system_that_sees_everything() -> None:
    everything = properties_asked_of(frozenset(Capability))
    assert everything == [checker.property for checker in CHECKERS]
    assert set(properties_asked_of(frozenset())) == set(everything) - set(NEEDS)
