"""Flows of Bytewax under real SIGKILLs, judged by the same checkers and the same oracles.

Kills strike where an epoch is in the store and the next one has not begun: what Bytewax does to states when
an epoch is interrupted is no matter of a test (harness/docs/found.md).
"""

from __future__ import annotations

from contextlib import closing

import msgspec
import pytest

from onceproof.harness.model.family import FamilyError
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.history import (
    ATTEMPT_STARTED,
    CHECKPOINT_COMPLETED,
    JOB_FINISHED,
    TASK_FAILED,
    TRANSACTION_VISIBLE,
)
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.bytewax.system import BytewaxSystem
from onceproof.harness.trials.trial import scenario_of, try_scenario

pytestmark = pytest.mark.local_kill

KILL = Fault("kill_process", "notified")
THREADS, PROCESSES = 1, 2
"""The parallelisms of sources with which the workers of a flow are threads, and processes."""


@pytest.fixture(scope="module")
def system():
    with closing(BytewaxSystem()) as system:
        yield system


def tried(system, family, *faults, parallelism=1, spread=THREADS):
    """Run a scenario of some records with these faults; return (history, verdict)."""
    drawn = scenario_of(load_family(family), 29)
    assert drawn.record_count() >= 18
    scenario = msgspec.structs.replace(
        drawn, faults=faults, parallelism=parallelism, source_parallelism=spread, operations=()
    )
    trial = try_scenario(load_family(family), scenario, system=system)
    return trial.history, trial.verdict


def of_kind(history, kind):
    return [(subject, payload) for _, each, subject, payload in history.events if each == kind]


@pytest.mark.parametrize("family", ["running_sum", "page_windows"])
def test_flow_shows_whole_epochs_once_each_is_in_the_store(system, family):
    history, verdict = tried(system, family, parallelism=2)
    assert verdict.passed, verdict.violations
    transactions = of_kind(history, TRANSACTION_VISIBLE)
    listed = [
        name for _, payload in of_kind(history, CHECKPOINT_COMPLETED) for name in payload["transactions"]
    ]
    assert len(listed) > 1
    assert sorted(listed) == sorted(name for name, _ in transactions)
    assert of_kind(history, JOB_FINISHED)
    assert 0 <= history.statistics.waited_milliseconds < history.statistics.milliseconds


def test_own_sink_of_files_shows_rows_before_their_snapshot(system):
    history, verdict = tried(system, "word_count")
    assert {(each.property, each.anomaly) for each in verdict.violations} == {
        ("consistent_cut", "early commit")
    }
    assert len(of_kind(history, CHECKPOINT_COMPLETED)) > 1


@pytest.mark.parametrize(("spread", "workers"), [(THREADS, 1), (PROCESSES, 3)])
def test_killed_flow_goes_on_from_its_store_with_other_workers(system, spread, workers):
    kill = msgspec.structs.replace(KILL, rescale_to=2)
    history, verdict = tried(system, "running_sum", kill, parallelism=workers, spread=spread)
    assert verdict.passed, verdict.violations
    [first, second] = of_kind(history, ATTEMPT_STARTED)
    assert first[1] == {"parallelism": workers, "restored": None}
    assert second[1]["parallelism"] == 2
    assert second[1]["restored"] >= 1
    [recovery] = history.statistics.recoveries
    assert recovery.seconds is not None


def test_other_processes_are_ended_after_one_was_killed(system):
    kill = Fault("kill_task", "notified")
    history, verdict = tried(system, "running_sum", kill, parallelism=2, spread=PROCESSES)
    assert verdict.passed, verdict.violations
    assert len(of_kind(history, ATTEMPT_STARTED)) == 2
    assert all(payload["injected"] for _, payload in of_kind(history, TASK_FAILED))


@pytest.mark.parametrize("kind", ["fail_commit", "commit_error_after_success"])
def test_flow_whose_sink_fails_is_started_again(system, kind):
    history, verdict = tried(system, "running_sum", Fault(kind, "committing"))
    assert verdict.passed, verdict.violations
    assert history.statistics.coverage == {(kind, "committing"): 1}
    assert len(of_kind(history, ATTEMPT_STARTED)) == 2


def test_faults_that_bytewax_cannot_take_are_counted(system):
    history, _ = tried(system, "running_sum", Fault("lose_message", "notified"), Fault("kill_all", "aborted"))
    assert history.statistics.not_applicable == {("lose_message", "notified"): 1, ("kill_all", "aborted"): 1}
    assert not history.statistics.coverage


def test_error_of_a_users_function_is_the_flows_own(system, tmp_path):
    broken = tmp_path / "broken.py"
    broken.write_text(
        "from onceproof.scenarios.word_count import expected, generate, generator_version, job\n"
        "from onceproof.scenarios.word_count import oracle_sql, record_schema, row_schema, tasks\n"
        "from onceproof import FamilyOptions\n"
        "name = 'broken'\n"
        "def fail(count, record):\n"
        "    raise ValueError(f'no such word: {record.value}')\n"
        "def bytewax_flow(records, io):\n"
        "    words = io.operators.key_on('word', records, lambda record: record.value)\n"
        "    return io.operators.stateful_map('count', words, fail)\n"
        "options = FamilyOptions(jobs={'bytewax': bytewax_flow})\n"
    )
    _, verdict = tried(system, str(broken))
    assert verdict.violations[0].property == "no_error"
    assert "no such word" in str(verdict.violations[0].witness)


def test_family_without_a_flow_is_refused(system):
    with pytest.raises(FamilyError, match="has no job for bytewax: give it a function"):
        tried(system, "page_views")
