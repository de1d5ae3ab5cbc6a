"""Failures of one bug are one finding, whatever their symptoms; those of two are two."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from onceproof.harness.checkers.known_failures import KnownSignature
from onceproof.harness.explanation.cause import ConfirmedCause
from onceproof.harness.explanation.decisions import Decision, DecisionEffect, DecisionEffects, Effect, Kind
from onceproof.harness.model.history import ATTEMPT_STARTED, History
from onceproof.harness.reporting.report_builder import build_report, failure_of
from onceproof.harness.reporting.run_summary import summary_lines
from onceproof.harness.shrinking.reductions import size_of
from onceproof.harness.trials.failures import FailureCase, examine_failures, findings_of, identity_of
from onceproof.harness.trials.family_mistakes import FamilyMistake
from onceproof.harness.trials.run_plan import RunPlan
from onceproof.harness.trials.runner import RunResult, run
from onceproof.reports.headline import conclude

SCENARIOS = 100
SHRINK_RUNS = 60
"""For each symptom: the finding is small after so many. The usual limit takes twice the time."""
IN_A_DICT = '''
"""Word count whose function keeps its counts in a dict, which no checkpoint holds."""

from onceproof.engine import KeyedProcessFunction, Types
from onceproof.scenarios.word_count import (  # noqa: F401
    expected, generate, generator_version, options, oracle_sql, record_schema, row_schema, tasks
)

name = "in_a_dict"


class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.counts = {}

    def process_element(self, value, ctx):
        self.counts[value] = self.counts.get(value, 0) + 1
        yield value, self.counts[value]


def job(env, io):
    words = env.from_source(io.source("words"), None, "source").uid("source")
    words.set_parallelism(io.source_parallelism)
    row = Types.TUPLE([Types.STRING(), Types.LONG()])
    counts = words.key_by(lambda word: word, Types.STRING()).process(Count(), row).name("count").uid("count")
    counts.set_parallelism(io.parallelism)
    sink = counts.key_by(lambda row: row[0], Types.STRING()).add_sink(io.sink("counts"))
    sink.name("sink").uid("sink").set_parallelism(io.sink_parallelism)
'''


@pytest.fixture(scope="module")
def in_a_dict(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    """A run of a job with one dict in the place of state."""
    path = tmp_path_factory.mktemp("jobs") / "in_a_dict.py"
    path.write_text(IN_A_DICT)
    return run(RunPlan((str(path),), scenarios=SCENARIOS, seed=1, workers=1))


@pytest.fixture(scope="module")
def findings(in_a_dict: RunResult, tmp_path_factory: pytest.TempPathFactory) -> list[FailureCase]:
    return examine_failures(
        in_a_dict, RunPlan((), out=tmp_path_factory.mktemp("out"), shrink_runs=SHRINK_RUNS)
    )


def test_a_dict_in_the_place_of_state_is_one_finding(
    in_a_dict: RunResult, findings: list[FailureCase]
) -> None:
    tally = in_a_dict.tally
    assert len(tally.groups) >= 3, "one symptom is one finding in any case"
    [finding] = findings
    assert finding.scenarios == tally.failed > SCENARIOS / 4
    assert {each.signature for each in (finding, *finding.others)} == {key[1] for key in tally.groups}
    small = size_of(finding.scenario)
    assert small.records <= 4
    assert small.faults <= 2
    # Each symptom keeps its own scenario, with the command that replays it.
    assert all(each.replay and each.path.exists() for each in (finding, *finding.others))


def test_each_decision_of_a_finding_is_needed(findings: list[FailureCase]) -> None:
    for case in (findings[0], *findings[0].others):
        assert case.takes is not None
        assert case.takes.decisions
        assert {each.effect for each in case.takes.decisions} == {"matters"}


def test_the_headline_counts_findings_first_and_then_scenarios(
    in_a_dict: RunResult, findings: list[FailureCase], tmp_path: Path
) -> None:
    report = build_report(in_a_dict, findings)
    failed = in_a_dict.tally.failed
    sentence = f"1 finding, in {failed} of {SCENARIOS} scenarios."
    assert conclude(report).sentence == sentence
    lines = list(summary_lines(in_a_dict, findings, report, None))
    assert f"Failed. {sentence}" in lines
    assert sum(line.startswith("FAILED ") for line in lines) == 1
    assert sum(line.startswith("  also ") for line in lines) == len(findings[0].others)
    [failure] = report.failures
    assert failure.scenarios == failed
    assert len(failure.symptoms) == len(findings[0].others)


def takes(*kinds: Kind, effect: Effect = "matters") -> DecisionEffects:
    """The decisions of a failure, of some kinds."""
    return DecisionEffects(
        tuple(DecisionEffect(Decision(kind, None, kind), effect) for kind in kinds)  # type: ignore[arg-type]
    )


def restored(times: int) -> History:
    """A history with so many restores, and nothing else."""
    started = [(0, ATTEMPT_STARTED, f"{attempt}.1", {}) for attempt in range(1 + times)]
    return History(events=started)


@pytest.fixture
def case(findings: list[FailureCase]) -> FailureCase:
    """Rows are lost after a restart."""
    return dataclasses.replace(
        findings[0],
        others=(),
        signature=("exactly_once", "lost"),
        takes=takes("restart"),
        history=restored(1),
        mistake=None,
        cause=None,
    )


def test_lost_repeated_and_wrong_rows_are_one_thing(case: FailureCase) -> None:
    for signature in (
        ("exactly_once", "duplicated"),
        ("exactly_once", "wrong value"),
        ("mode", "lost"),
        ("restore_anywhere", "phantom"),
    ):
        assert identity_of(dataclasses.replace(case, signature=signature)) == identity_of(case)
    for signature in (("no_leaks", "open transaction"), ("KeyError", "on_timer"), ("liveness", "stuck")):
        assert identity_of(dataclasses.replace(case, signature=signature)) != identity_of(case)


def test_whatever_restarts_the_job_a_restore_is_one_thing(case: FailureCase) -> None:
    for same in (takes("restart", "order"), takes("fault"), takes("fault", "order")):
        assert identity_of(dataclasses.replace(case, takes=same)) == identity_of(case)
    idle = dataclasses.replace(
        case,
        takes=DecisionEffects((*takes("restart").decisions, *takes("setting", effect="changes").decisions)),
    )
    assert identity_of(idle) == identity_of(case)


def test_failures_that_take_other_decisions_are_other_findings(case: FailureCase) -> None:
    others = [
        dataclasses.replace(case, takes=takes("restart", "parallelism")),
        dataclasses.replace(case, takes=takes("restart", "setting")),
        dataclasses.replace(case, takes=takes(), history=restored(0)),
        dataclasses.replace(case, takes=takes("fault"), history=restored(0)),
    ]
    assert len({identity_of(each) for each in (case, *others)}) == 5


def test_what_was_not_shrunk_is_known_by_its_signature(case: FailureCase) -> None:
    lost = dataclasses.replace(case, takes=None)
    repeated = dataclasses.replace(lost, signature=("exactly_once", "duplicated"))
    assert len(findings_of([lost, repeated, lost])) == 2


def test_a_confirmed_mistake_is_the_identity(case: FailureCase) -> None:
    mistake = FamilyMistake("a sentence", "", title="rows are not determined by the input")
    wrong = dataclasses.replace(case, mistake=mistake)
    stuck = dataclasses.replace(wrong, signature=("liveness", "stuck"), takes=None)
    assert identity_of(wrong) == identity_of(stuck) != identity_of(case)


def cause(line: int) -> ConfirmedCause:
    return ConfirmedCause("count", "Count keeps `self.counts` outside Flink state", "job.py", line, "with it")


def test_failures_with_one_confirmed_cause_are_one_finding(case: FailureCase) -> None:
    one = dataclasses.replace(case, cause=cause(12))
    stuck = dataclasses.replace(one, signature=("liveness", "stuck"), takes=takes("setting"))
    assert identity_of(one) == identity_of(stuck)
    assert identity_of(dataclasses.replace(one, cause=cause(30))) != identity_of(one)


def test_an_unconfirmed_failure_joins_the_only_cause_that_shrinks_to_the_same(case: FailureCase) -> None:
    unconfirmed = dataclasses.replace(case, cause=None)
    one, another = (dataclasses.replace(case, cause=cause(line)) for line in (12, 30))
    assert len(findings_of([unconfirmed, one, one])) == 1
    # Which of two causes it has is not known.
    assert len(findings_of([unconfirmed, one, another])) == 3
    elsewhere = dataclasses.replace(unconfirmed, takes=takes("restart", "parallelism"))
    assert len(findings_of([elsewhere, one])) == 2


def test_a_listed_failure_does_not_hide_one_that_is_not_listed(case: FailureCase) -> None:
    known = dataclasses.replace(case, known=KnownSignature("in_a_dict", "exactly_once", "lost"))
    assert len(findings_of([known, case])) == 2


def test_a_finding_is_shown_by_its_smallest_scenario(case: FailureCase) -> None:
    unshrunk = dataclasses.replace(case.shrunk, scenario=case.original, after=case.shrunk.before)
    large = dataclasses.replace(case, shrunk=unshrunk)
    for cases in ([large, case], [case, large]):
        [finding] = findings_of(cases)
        assert finding.scenario == case.scenario
        assert finding.others == (large,)
        assert failure_of(finding).scenarios == 2 * case.count
