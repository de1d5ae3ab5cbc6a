"""The families of the other kinds of sink: the external system's answers, and a correct engine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from onceproof.harness.generation.generator import generate
from onceproof.harness.model.family import Family, options_of
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.fault_kinds import FaultKind
from onceproof.harness.model.history import (
    COMMIT_FAILED,
    ROWS_WRITTEN,
    TASK_FAILED,
    TRANSACTION_VISIBLE,
    History,
)
from onceproof.harness.model.injected_error import InjectedError
from onceproof.harness.model.scenario import Fault
from onceproof.harness.model.seeds import scenario_seed
from onceproof.harness.systems.simulation.agenda import Clock
from onceproof.harness.systems.simulation.external_system import TransactionalSystem, TransactionError
from onceproof.harness.systems.sinks import REACTIONS
from onceproof.harness.trials.trial import check_family, try_scenario
from onceproof.scenarios import word_commits, word_table

NAMES = ("closing_sums", "files_rolling", "final_table", "word_batches", "word_commits", "word_table")


@pytest.fixture
def system() -> TransactionalSystem:
    return TransactionalSystem(History(), Clock())


def visible(system: TransactionalSystem) -> list[tuple[str, list[object]]]:
    return [
        (event[2], event[3]["rows"]) for event in system._history.events if event[1] == TRANSACTION_VISIBLE
    ]


def runs(family: Family, count: int) -> Iterator[History]:
    for index in range(count):
        scenario = generate(family, scenario_seed(7, family.name, index))
        trial = try_scenario(family, scenario, twice=False, continued=index % 25 == 0)
        assert trial.verdict.passed, (scenario.seed, trial.verdict)
        yield trial.history


@pytest.mark.parametrize("name", NAMES)
def test_it_is_a_family(name: str) -> None:
    check_family(load_family(name))


def test_a_batch_is_taken_once_though_two_attempts_send_it(system: TransactionalSystem) -> None:
    system.take_batch("table", 1, 4, "1.1", ["a", "b"])
    system.take_batch("table", 1, 4, "1.2", ["a", "b"])
    assert visible(system) == [("1/4/1.1", ["a", "b"])]
    assert not system.remembers_batch("table", 1, 4)
    system.remember_batch("table", 1, 4)
    assert system.remembers_batch("table", 1, 4)
    assert not system.remembers_batch("table", 0, 4)


def test_a_batch_that_was_never_sent_cannot_be_remembered(system: TransactionalSystem) -> None:
    with pytest.raises(TransactionError, match="0/1 is to be remembered, and was never sent"):
        system.remember_batch("table", 0, 1)


def test_a_batch_that_is_refused_is_not_taken_and_one_that_times_out_is(system: TransactionalSystem) -> None:
    faults = iter([Fault("fail_commit", "committing"), Fault("commit_error_after_success", "committing")])
    system.commit_fault = lambda: next(faults)
    with pytest.raises(InjectedError):
        system.take_batch("table", 0, 1, "1.1", ["a"])
    assert visible(system) == []
    with pytest.raises(InjectedError):
        system.take_batch("table", 0, 1, "1.1", ["a"])
    assert visible(system) == [("0/1/1.1", ["a"])]


def test_a_table_reports_its_rows_and_the_attempt_that_wrote_them(system: TransactionalSystem) -> None:
    system.write_by_key("sink-0", "1.1", 1, [("a", 1)])
    assert system._history.events == [
        (0, ROWS_WRITTEN, "sink-0", {"attempt": "1.1", "keys": 1, "rows": [("a", 1)]})
    ]


@pytest.mark.parametrize("kind", ["fail_commit", "commit_error_after_success"])
def test_batches_that_fail_stay_and_come_with_a_later_completion(kind: FaultKind) -> None:
    """A write-ahead sink survives errors that restart other sinks, unless it was the last batch."""
    family = load_family("word_batches")
    survived = 0
    for index in range(12):
        scenario = generate(family, scenario_seed(7, family.name, index))
        scenario = replace(scenario, faults=(Fault(kind, "committing", occurrence=1 + index % 3),))
        trial = try_scenario(family, scenario, twice=False, continued=False)
        assert trial.verdict.passed, (scenario.seed, trial.verdict)
        kinds = [event[1] for event in trial.history.events]
        survived += COMMIT_FAILED in kinds and TASK_FAILED not in kinds
    assert survived


@pytest.mark.parametrize("kind", ["fail_commit", "commit_error_after_success"])
@pytest.mark.parametrize("reaction", REACTIONS)
def test_a_committer_may_answer_an_error_in_each_way(kind: FaultKind, reaction: str) -> None:
    family = load_family("word_commits")
    met = restarted = 0
    for index in range(8):
        scenario = generate(family, scenario_seed(7, family.name, index))
        faults = (Fault(kind, "committing", occurrence=1 + index % 3),)
        scenario = replace(scenario, faults=faults, parameters={**scenario.parameters, "reaction": reaction})
        trial = try_scenario(family, scenario, twice=False, continued=False)
        assert trial.verdict.passed, (scenario.seed, trial.verdict)
        kinds = [event[1] for event in trial.history.events]
        met += COMMIT_FAILED in kinds
        restarted += TASK_FAILED in kinds
    assert met
    assert bool(restarted) == (reaction in ("raises", "fails"))


def test_workloads_know_all_answers_of_a_committer() -> None:
    assert word_commits.REACTIONS == REACTIONS


def test_a_table_shows_rows_again_after_a_restart_and_that_is_no_duplicate() -> None:
    repeated = 0
    for history in runs(load_family("word_table"), 60):
        rows = [row for event in history.events if event[1] == ROWS_WRITTEN for row in event[3]["rows"]]
        repeated += len(rows) > len(set(rows))
    assert repeated


def test_the_word_table_writes_by_its_first_column() -> None:
    assert options_of(word_table).table_keys == 1
