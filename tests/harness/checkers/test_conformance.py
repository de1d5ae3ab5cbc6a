"""conformance on hand-written histories."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onceproof.harness.checkers.conformance import OTHER_ANSWER, Conformance
from onceproof.harness.checkers.verdict import judge
from onceproof.harness.explanation.sentences import sentence_of

if TYPE_CHECKING:
    from tests.harness.conftest import Run


def test_run_whose_machines_answer_as_specified_passes(sound_run: Run) -> None:
    assert sound_run.check(Conformance()) == []


def test_first_other_answer_is_named_in_verdict_and_sentence(sound_run: Run) -> None:
    sound_run.history.deviated(7, "job master", "RescaleRequested()", "a new attempt", "[]")
    verdict = judge(sound_run.scenario, sound_run.history, sound_run.oracle)
    [violation] = verdict.violations
    assert violation.signature() == ("conformance", OTHER_ANSWER)
    assert violation.where == "job master, step 7"
    assert sentence_of(violation) == (
        "At step 7 the job master got RescaleRequested(): a new attempt was due, and the answer is []."
    )


def test_another_violation_names_the_failure_first(run: Run) -> None:
    run.start("1.1").finish()
    run.history.deviated(7, "job master", "RescaleRequested()", "a new attempt", "[]")
    verdict = judge(run.scenario, run.history, run.oracle)
    assert verdict.failed_properties()[0] == "exactly_once"
    assert verdict.failed_properties()[-1] == "conformance"
