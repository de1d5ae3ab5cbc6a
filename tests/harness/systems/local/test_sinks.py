"""Sinks besides two-phase commit in real processes, killed around each step of a commit."""

from __future__ import annotations

import pytest

from onceproof.harness.checkers.oracle import PythonOracle
from onceproof.harness.checkers.verdict import judge
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.history import ROWS_WRITTEN, TRANSACTION_VISIBLE
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.local.system import LocalSystem
from onceproof.harness.systems.sinks import FAILS, UPDATES
from tests.harness.systems.words import scenario_with
from tests.planted.catalogue import with_bug

pytestmark = pytest.mark.local_kill

COMMIT_FAULTS = sorted(
    kind for kind, row in FAULTS.items() if row.strikes == "commit" and row.delay == "none"
)
FAMILIES = ("word_batches", "word_commits", "word_table")


def tried(scenario, **options):
    family = load_family(scenario.family)
    history = LocalSystem(**options).run(family, scenario)
    return history, judge(scenario, history, PythonOracle(family, scenario))


@pytest.mark.parametrize("family", FAMILIES)
def test_processes_killed_around_a_commit_lose_and_repeat_no_rows(family):
    # The second pass lies between two writes, or between sending a batch and remembering it.
    points = ("committing", "completed", "committed", "pre_committed")
    faults = [Fault("kill_process", point, occurrence=2) for point in points]
    history, verdict = tried(
        scenario_with(*faults, Fault("kill_task", "restored", rescale_to=3), family=family)
    )
    assert verdict.violations == ()
    assert history.statistics.coverage == {
        **{("kill_process", point): 1 for point in points},
        ("kill_task", "restored"): 1,
    }
    kind = ROWS_WRITTEN if family == "word_table" else TRANSACTION_VISIBLE
    assert [event for event in history.events if event[1] == kind]


@pytest.mark.parametrize("family", FAMILIES)
def test_write_that_fails_or_reports_an_error_takes_effect_once(family):
    faults = [Fault(kind, "committing", occurrence=number) for number, kind in enumerate(COMMIT_FAULTS, 1)]
    history, verdict = tried(scenario_with(*faults, family=family))
    assert verdict.violations == ()
    assert history.statistics.coverage == {(kind, "committing"): 1 for kind in COMMIT_FAULTS}


@pytest.mark.parametrize("reaction", [UPDATES, FAILS])
def test_committer_may_update_or_fail_after_a_commit_error(reaction):
    fault = Fault("fail_commit", "committing")
    history, verdict = tried(scenario_with(fault, family="word_commits", parameters={"reaction": reaction}))
    assert verdict.violations == ()
    assert history.statistics.coverage == {("fail_commit", "committing"): 1}


@pytest.mark.parametrize(
    ("mutant", "family", "fault", "parameters"),
    [
        ("batch-remembered-before-sent", "word_batches", Fault("fail_commit", "committing"), {}),
        (
            "put-off-is-taken-for-done",
            "word_commits",
            Fault("fail_commit", "committing"),
            {"reaction": "puts off"},
        ),
        ("buffer-outlives-the-snapshot", "word_table", Fault("kill_process", "completed", checkpoint=2), {}),
    ],
)
def test_a_planted_bug_is_caught(mutant, family, fault, parameters):
    _, verdict = tried(scenario_with(fault, family=family, parameters=parameters), **with_bug(mutant))
    assert {"exactly_once", "consistent_cut"} & set(verdict.failed_properties())
