"""Sinks besides two-phase commit in real processes, killed around each step of a commit."""

from __future__ import annotations

import pytest

from harness.family import load_family
from harness.generation import generate
from harness.history import ROWS_WRITTEN, TRANSACTION_VISIBLE
from harness.oracle import PythonOracle
from harness.outside import FAILS, UPDATES
from harness.scenario import COMMIT_FAULTS, Fault, Schedule
from harness.systems.local import LocalSystem
from harness.verdict import judge

pytestmark = pytest.mark.local_kill

FAMILIES = ("word_batches", "word_commits", "word_table")
WORDS = ("ant", "bee", "cat", "ant", "dog", "ant", "bee", "elk", "ant", "cat")


def scenario_with(family, *faults, **parameters):
    drawn = generate(load_family(family), 0)
    records = {name: tuple((time, word) for time, word in enumerate(WORDS * 2)) for name in ("x", "y")}
    return type(drawn)(
        family=family,
        generator_version=1,
        seed=None,
        parameters=parameters,
        records=records,
        parallelism=2,
        max_parallelism=8,
        source_parallelism=2,
        sink_parallelism=2,
        channel_capacity=2,
        checkpoint_interval_ms=24,
        checkpoint_timeout_ms=1000,
        tolerable_failures=0,
        retained=1,
        restart_delay_ms=1,
        faults=faults,
        schedule=Schedule(),
        step_budget=10_000,
    )


def tried(scenario, **options):
    family = load_family(scenario.family)
    history = LocalSystem(**options).run(family, scenario)
    return history, judge(scenario, history, PythonOracle(family, scenario))


@pytest.mark.parametrize("family", FAMILIES)
def test_processes_that_die_around_a_commit_lose_and_repeat_nothing(family):
    # The second pass stands between two writes, or between a batch and its being remembered.
    points = ("committing", "completed", "committed", "pre_committed")
    faults = [Fault("kill_process", point, occurrence=2) for point in points]
    history, verdict = tried(scenario_with(family, *faults, Fault("kill_task", "restored", rescale_to=3)))
    assert verdict.violations == ()
    assert history.statistics.coverage == {
        **{("kill_process", point): 1 for point in points},
        ("kill_task", "restored"): 1,
    }
    kind = ROWS_WRITTEN if family == "word_table" else TRANSACTION_VISIBLE
    assert [event for event in history.events if event[1] == kind]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_write_that_fails_or_is_answered_with_an_error_is_done_once(family):
    faults = [
        Fault(kind, "committing", occurrence=number) for number, kind in enumerate(sorted(COMMIT_FAULTS), 1)
    ]
    history, verdict = tried(scenario_with(family, *faults))
    assert verdict.violations == ()
    assert history.statistics.coverage == {(kind, "committing"): 1 for kind in COMMIT_FAULTS}


@pytest.mark.parametrize("reaction", [UPDATES, FAILS])
def test_a_committer_may_take_an_error_as_it_likes(reaction):
    fault = Fault("fail_commit", "committing")
    history, verdict = tried(scenario_with("word_commits", fault, reaction=reaction))
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
    _, verdict = tried(scenario_with(family, fault, **parameters), mutant=mutant)
    assert {"exactly_once", "consistent_cut"} & set(verdict.failed_properties())
