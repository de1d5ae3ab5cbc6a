"""Mutant trials: a mutant is killed, survives, or is never reached."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from onceproof.engine.connectors.two_phase import TwoPhaseCommitSinkFunction
from onceproof.engine.operators.source import SourceOperator
from onceproof.engine.task.task import Task
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.mutants import Mutant, Reached, load_mutants, mutant, replaced
from onceproof.harness.systems.simulation import conformance_watch
from onceproof.harness.trials import mutant_trials as mutation
from onceproof.harness.trials.mutant_trials import Result, measure, measure_all
from onceproof.harness.trials.trial import try_scenario
from tests.planted.catalogue import find_mutant
from tests.planted.kills import SEED

FAMILY = load_family("word_count")


@mutant(id="never-reached", breaks="nothing", summary="a call that no built-in job makes")
def never_reached(reached: Reached) -> Iterator[None]:
    def timeout(self: Any, transaction_timeout_ms: int) -> Any:
        reached()
        return self

    with replaced(TwoPhaseCommitSinkFunction, "set_transaction_timeout", timeout):
        yield


@mutant(id="does-no-harm", breaks="nothing", summary="runs, and does what the sound code does")
def does_no_harm(reached: Reached) -> Iterator[None]:
    snapshot_state = SourceOperator.snapshot_state

    def same(self: SourceOperator, context: Any) -> None:
        reached()
        snapshot_state(self, context)

    with replaced(SourceOperator, "snapshot_state", same):
        yield


@mutant(id="computes-for-ever", breaks="liveness", summary="a loop that ends in no step")
def computes_for_ever(reached: Reached) -> Iterator[None]:
    def endless(self: Task) -> Any:
        reached()
        while True:
            pass

    with replaced(Task, "_poll", endless):
        yield


@mutant(id="waits-for-ever", breaks="liveness", summary="a wait that ends in no step")
def waits_for_ever(reached: Reached) -> Iterator[None]:
    def endless(self: Task) -> Any:
        reached()
        while True:
            try:
                threading.Event().wait(0.01)
            except Exception:
                # As some code does that retries for ever.
                continue

    with replaced(Task, "_poll", endless):
        yield


def test_a_mutant_that_is_never_reached_is_reported_so() -> None:
    result = measure(never_reached, [FAMILY], 1, limit=8)
    assert (result.reached, result.killed, result.scenarios) == (False, False, 8)
    assert (result.property, result.shrunk, result.killing) == (None, None, None)


def test_a_harmless_mutant_that_is_reached_survives() -> None:
    result = measure(does_no_harm, [FAMILY], 1, limit=8)
    assert (result.reached, result.killed, result.scenarios) == (True, False, 8)


def test_a_killed_mutant_counts_as_reached() -> None:
    @mutant(id="silent", breaks="exactly_once", summary="never reports that it was reached")
    def silent(reached: Reached) -> Iterator[None]:
        with replaced(SourceOperator, "snapshot_state", lambda self, context: self._state.update([])):
            yield

    result = measure(silent, [FAMILY], 1, limit=50, shrink_runs=0)
    assert (result.reached, result.killed) == (True, True)


def test_a_killed_mutant_has_a_scenario_that_shows_it() -> None:
    result = measure(find_mutant("offsets-missing"), [FAMILY], 1, shrink_runs=40)
    killing = result.killing
    assert killing is not None
    assert killing.shrunk is not None
    assert killing.scenario.family == killing.shrunk.family == "word_count"
    with find_mutant("offsets-missing").applied():
        assert try_scenario(FAMILY, killing.shrunk).verdict.signature == killing.signature
    assert try_scenario(FAMILY, killing.shrunk).verdict.passed
    assert result.line() == {
        "id": "offsets-missing",
        "origin": "planted",
        "breaks": "exactly_once",
        "seed": 1,
        "reached": True,
        "killed": True,
        "property": result.property,
        "scenarios": result.scenarios,
        "family": "word_count",
        "precise": result.property == "exactly_once",
        "reached_in": result.reached_in,
        "cpu_seconds": round(result.cpu_seconds, 2),
        "shrunk": {
            "records": killing.shrunk.record_count(),
            "faults": len(killing.shrunk.faults),
            "schedule": result.shrunk.schedule if result.shrunk else None,
        },
        "seconds": result.line()["seconds"],
    }


def test_a_failure_without_the_mutant_is_no_kill(tmp_path: Path) -> None:
    text = Path(str(FAMILY.__file__)).read_text()  # type: ignore[attr-defined]
    wrong = text.replace("rows.append((word, count))", "rows.append((word, count + 1))")
    assert wrong != text
    path = tmp_path / "wrong.py"
    path.write_text(wrong)
    result = measure(find_mutant("offsets-missing"), [load_family(str(path))], 1, limit=6)
    assert (result.reached, result.killed, result.scenarios) == (True, False, 6)


def test_scenario_that_fails_only_once_is_no_kill() -> None:
    @mutant(
        id="fails-once", breaks="no_error", summary="fails in the first run only, as a loaded machine may"
    )
    def fails_once(reached: Reached) -> Iterator[None]:
        runs.append(0)
        if len(runs) > 1:
            yield
            return
        with replaced(SourceOperator, "positions", lambda self: reached() or {}["gone"]):
            yield

    runs: list[int] = []
    result = measure(fails_once, [FAMILY], 1, limit=10)
    assert (result.reached, result.killed, result.scenarios) == (True, False, 10)


def test_time_in_which_other_processes_run_is_no_kill(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # A run that sleeps stands for one that gets no processor: neither uses processor time.
    monkeypatch.setattr(mutation, "LONGEST_RUN_SECONDS", 0.5)
    text = Path(str(FAMILY.__file__)).read_text()  # type: ignore[attr-defined]
    path = tmp_path / "starved.py"
    build = "    words = env.from_source("
    assert build in text
    path.write_text(text.replace(build, f"    __import__('time').sleep(0.7)\n{build}"))
    result = measure(does_no_harm, [load_family(str(path))], 1, limit=3)
    assert (result.reached, result.killed, result.scenarios) == (True, False, 3)


@pytest.mark.parametrize(
    ("endless", "limit", "seconds"),
    # Processor time of a run; and time on the clock, in which a busy machine may run nothing for a while.
    [(computes_for_ever, "LONGEST_RUN_SECONDS", 0.2), (waits_for_ever, "LONGEST_WAIT_SECONDS", 3)],
)
def test_an_endless_step_is_stopped_and_counts_as_a_kill(
    monkeypatch: pytest.MonkeyPatch, endless: Mutant, limit: str, seconds: float
) -> None:
    monkeypatch.setattr(mutation, limit, seconds)
    result = measure(endless, [FAMILY], 1, limit=3, shrink_runs=0)
    assert result.killed
    assert result.killing is not None
    assert result.killing.signature == ("liveness", "endless step")


def test_a_stuck_run_that_was_stopped_in_time_is_shrunk_as_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stopped run does not tell an endless step from being stuck in many short ones."""
    # Where the run is watched, the specification of barriers is the first to see the bug.
    monkeypatch.setattr(conformance_watch, "is_replayed", lambda seed: False)
    stuck = find_mutant("late-barrier-blocks")
    killing = measure(stuck, [load_family("full_join")], SEED, 1, 0, first=14).killing
    assert killing is not None
    assert killing.signature == ("liveness", "stuck")
    family = load_family(killing.family)
    shrunk = mutation._shrunk(
        family, killing.scenario, stuck, "liveness", ("liveness", "endless step"), shrink_runs=2
    )
    assert shrunk.signature == killing.signature


def test_an_endless_step_is_shrunk_with_little_time_for_each_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutation, "LONGEST_RUN_SECONDS", 0.2)
    monkeypatch.setattr(mutation, "SECONDS_TO_TELL", 0.3)
    monkeypatch.setattr(mutation, "LONGEST_SMALL_RUN_SECONDS", 0.02)
    result = measure(computes_for_ever, [FAMILY], 1, limit=1, shrink_runs=60)
    assert result.killing is not None
    assert result.killing.signature == ("liveness", "endless step")
    assert result.shrunk is not None
    # It reads at all, so it never ends.
    assert (result.shrunk.records, result.shrunk.faults, result.shrunk.schedule) == (0, 0, 0)


def test_an_exception_in_the_simulated_world_counts_as_a_kill() -> None:
    @mutant(id="breaks-the-world", breaks="no_error", summary="takes from the world what it needs")
    def breaks_the_world(reached: Reached) -> Iterator[None]:
        with replaced(SourceOperator, "positions", lambda self: reached() or {}["gone"]):
            yield

    result = measure(breaks_the_world, [FAMILY], 1, limit=5, shrink_runs=0)
    assert (result.killed, result.property) == (True, "no_error")


def test_a_mutant_with_families_is_measured_on_these_only() -> None:
    @mutant(id="of-few", breaks="no_error", summary="breaks every job", families=("page_views", "tickets"))
    def of_few(reached: Reached) -> Iterator[None]:
        with replaced(SourceOperator, "positions", lambda self: reached() or {}["gone"]):
            yield

    known = [FAMILY, load_family("page_views")]
    result = measure(of_few, known, 1, limit=5, shrink_runs=0)
    assert result.killing is not None
    assert result.killing.family == "page_views"
    assert measure(of_few, [FAMILY], 1, limit=5, shrink_runs=0).killed


def comparable(results: Iterator[Result]) -> list[dict[str, object]]:
    return [{**result.line(), "seconds": 0, "cpu_seconds": 0} for result in results]


def test_each_seed_is_measured_and_named() -> None:
    results = list(measure_all([find_mutant("offsets-missing")], ["word_count"], 3, 50, 1, 0, seeds=2))
    assert sorted(result.seed for result in results) == [3, 4]
    assert all(result.killed and result.reached_in >= 1 for result in results)


def test_two_workers_find_the_same_as_one(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        "from onceproof.engine.operators.source import SourceOperator\n"
        "from onceproof import mutant, replaced\n\n"
        "@mutant(id='offsets-missing', breaks='lost', summary='no splits at all')\n"
        "def no_splits(reached):\n"
        "    def nothing(self, context):\n"
        "        reached()\n"
        "        self._state.update([])\n"
        "    with replaced(SourceOperator, 'snapshot_state', nothing):\n"
        "        yield\n"
    )
    mutants = [find_mutant("offsets-missing"), *load_mutants(path), find_mutant("sweep-leaves-orphans")]
    families = ["word_count", "tickets"]
    alone = comparable(measure_all(mutants, families, 3, 50, 1, 0))
    assert [result["killed"] for result in alone] == [True, True, True]
    assert comparable(measure_all(mutants, families, 3, 50, 2, 0)) == alone


def test_the_seed_decides_the_killing_scenario() -> None:
    found = [measure(find_mutant("odd-elements-are-dropped"), [FAMILY], seed, 500, 0) for seed in (1, 1, 2)]
    assert found[0].scenarios == found[1].scenarios
    seeds = [each.killing.scenario.seed for each in found if each.killing]
    assert seeds[0] == seeds[1] != seeds[2]
