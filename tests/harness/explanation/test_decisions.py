"""Which decisions of a failing scenario matter: each is left out, and the rest is run again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from msgspec import UNSET
from msgspec.structs import replace

from onceproof.harness.checkers import Signature
from onceproof.harness.checkers.verdict import is_same_failure
from onceproof.harness.explanation.decisions import decision_lines, decisions_of, measure_decisions
from onceproof.harness.explanation.descriptions import operation_text
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.job_settings import CheckpointMode
from onceproof.harness.model.scenario import Fault, Operation, Scenario, Schedule, check
from onceproof.harness.shrinking.reductions import size_of
from onceproof.harness.trials.examination import shrink_scenario, shrink_to_needed, what_it_takes
from onceproof.harness.trials.trial import scenario_of, try_scenario
from tests.planted.catalogue import find_mutant

Make = Callable[..., Scenario]
LOST: Signature = ("exactly_once", "lost")
KILL = Fault("kill_all", "completed", checkpoint=2)
LOSE = Fault("lose_message", "notified")


def needs(*needed: Fault) -> Callable[[Scenario], Signature | None]:
    return lambda scenario: LOST if set(needed) <= set(scenario.faults) else None


def effects(scenario: Scenario, fails: Callable[[Scenario], Signature | None]) -> list[str]:
    return [decision.effect for decision in measure_decisions(scenario, LOST, fails).decisions]


def test_a_fault_matters_if_every_property_holds_without_it(make_scenario: Make) -> None:
    scenario = make_scenario(faults=(KILL, LOSE))
    assert effects(scenario, needs(KILL, LOSE)) == ["matters", "matters"]
    takes = measure_decisions(scenario, LOST, needs(KILL, LOSE))
    assert takes.sentence == (
        "The failure needs all 2 decisions: without any one of them every property holds."
    )


def test_a_scenario_with_an_idle_decision_is_not_minimal(make_scenario: Make) -> None:
    takes = measure_decisions(make_scenario(faults=(KILL, LOSE)), LOST, needs(LOSE))
    assert [decision.effect for decision in takes.decisions] == ["idle", "matters"]
    assert list(decision_lines(takes)) == [
        "1 of 2 decisions matters: without it every property holds."
        " 1 does not matter, so the scenario is not minimal.",
        "does not matter  kill all tasks at completed, checkpoint 2",
        "matters          lose the message at notified",
    ]


def test_of_two_faults_that_each_suffice_neither_matters_by_itself(make_scenario: Make) -> None:
    scenario = make_scenario(faults=(KILL, LOSE))
    takes = measure_decisions(scenario, LOST, lambda candidate: LOST if candidate.faults else None)
    assert takes.sentence.startswith("None of 2 decisions matters by itself.")


def test_a_decision_can_change_the_signature(make_scenario: Make) -> None:
    other: Signature = ("no_leaks", "open transaction")
    scenario = make_scenario(faults=(KILL, LOSE))
    takes = measure_decisions(scenario, LOST, lambda candidate: LOST if KILL in candidate.faults else other)
    assert [decision.effect for decision in takes.decisions] == ["changes", "idle"]
    assert takes.decisions[0].otherwise == other
    assert "Leaving out 1 changes how the run fails." in takes.sentence
    line = (
        "changes it       kill all tasks at completed, checkpoint 2; without it: no_leaks, open transaction"
    )
    assert line in decision_lines(takes)


def test_the_parallelism_after_a_kill_is_a_decision_of_its_own(make_scenario: Make) -> None:
    rescaled = replace(KILL, rescale_to=3)
    scenario = make_scenario(faults=(rescaled,))
    kill, rescale = decisions_of(scenario)
    assert kill.without.faults == ()
    assert rescale.without.faults == (KILL,)
    assert rescale.text == "the restart with parallelism 3 after it"
    assert effects(scenario, lambda candidate: LOST if candidate.faults else None) == ["matters", "idle"]


def test_a_fair_run_without_faults_has_no_decisions(make_scenario: Make) -> None:
    takes = measure_decisions(make_scenario(), LOST, lambda candidate: LOST)
    assert takes.sentence.startswith("The failure needs no fault and no special schedule")


def test_each_choice_of_a_schedule_is_left_out_by_itself(make_scenario: Make) -> None:
    choices = ((3, "poll source-0"), (9, "deliver count-0/1"), (12, "store count-0 1"))
    scenario = make_scenario(schedule=Schedule("preemptions", preemptions=choices))
    needed = choices[1]
    takes = measure_decisions(scenario, LOST, lambda c: LOST if needed in c.schedule.preemptions else None)
    assert [(decision.text, decision.effect) for decision in takes.decisions] == [
        ("at step 3, out of turn: source-0 reads its next record", "idle"),
        ("at step 9, out of turn: count-0 takes the next element of its channel 1", "matters"),
        ("at step 12, out of turn: the snapshot of count-0 for checkpoint 1 reaches the storage", "idle"),
    ]


def test_few_priorities_their_changes_and_the_seed_are_left_out_one_by_one(make_scenario: Make) -> None:
    schedule = Schedule("priority", 7, {"store": -1, "poll": 1}, ((40, "timer", 0),), 300)
    found = list(decisions_of(make_scenario(schedule=schedule)))
    assert [decision.text for decision in found] == [
        "writes of snapshots wait for all other steps",
        "reads of the sources come before all other steps",
        "from step 40 on, timers come in turn",
        "the random choice between equal priorities, with seed 7",
    ]
    assert [decision.without.schedule for decision in found] == [
        replace(schedule, priorities={"poll": 1}),
        replace(schedule, priorities={"store": -1}),
        replace(schedule, changes=()),
        replace(schedule, seed=0),
    ]


def test_a_watermark_interval_other_than_the_default_is_a_decision(make_scenario: Make) -> None:
    (only,) = decisions_of(make_scenario(watermark_interval_ms=3))
    assert only.text == "watermarks every 3 ms"
    assert only.without == make_scenario()
    assert list(decisions_of(make_scenario(watermark_interval_ms=200))) == []


def test_each_setting_that_is_not_the_default_is_a_decision(make_scenario: Make) -> None:
    scenario = make_scenario(
        mode=CheckpointMode("unaligned", aligned_timeout_ms=30, min_pause_ms=5),
        state_backend="rocksdb",
        incremental=True,
        buffer_records=3,
        endless=True,
    )
    found = {decision.text: decision.without for decision in decisions_of(scenario)}
    assert list(found) == [
        "unaligned checkpoints",
        "30 ms of alignment before a checkpoint becomes unaligned",
        "5 ms between two checkpoints",
        "keyed state in a database",
        "incremental checkpoints",
        "up to 3 records at a time",
        "sources without an end",
    ]
    for without in found.values():
        check(without)
    assert found["unaligned checkpoints"].checkpoint_mode == CheckpointMode(min_pause_ms=5)
    assert found["5 ms between two checkpoints"].checkpoint_mode == CheckpointMode("unaligned", 30)
    assert found["keyed state in a database"].state_backend is UNSET
    assert found["keyed state in a database"].incremental is UNSET


def test_the_mode_is_unset_where_nothing_of_it_is_left(make_scenario: Make) -> None:
    for mode in (CheckpointMode("at_least_once"), CheckpointMode(max_concurrent=2)):
        (only,) = decisions_of(make_scenario(mode=mode))
        assert only.without == make_scenario()


def test_a_request_and_what_it_says_about_the_restart_are_decisions(make_scenario: Make) -> None:
    stop = Operation("stop", "completed", parallelism=3, state_backend="rocksdb", claims=True)
    savepoint = Operation("savepoint", "element")
    scenario = make_scenario(operations=(savepoint, stop), max_parallelism=4)
    found = list(decisions_of(scenario))
    assert [(decision.text, decision.kind) for decision in found] == [
        ("take a savepoint at element", "savepoint"),
        (operation_text(stop), "restart"),
        ("the restart with parallelism 3 after it", "parallelism"),
        ("the restart on the backend rocksdb after it", "setting"),
        ("that the job may delete its savepoint", "setting"),
    ]
    assert [decision.without.asked for decision in found] == [
        (stop,),
        (savepoint,),
        (savepoint, replace(stop, parallelism=0)),
        (savepoint, replace(stop, state_backend=None)),
        (savepoint, replace(stop, claims=False)),
    ]
    for decision in found:
        check(decision.without)


def test_what_the_system_decides_is_no_decision_of_the_scenario(make_scenario: Make) -> None:
    scenario = make_scenario(state_backend="rocksdb", buffer_records=2)

    def as_run(candidate: Scenario) -> Scenario:
        return replace(candidate, state_backend="rocksdb")

    takes = measure_decisions(scenario, LOST, lambda candidate: None, as_run)
    assert [decision.text for decision in takes.decisions] == ["up to 2 records at a time"]


def test_a_drawn_or_long_schedule_is_one_decision(make_scenario: Make) -> None:
    many = tuple((step, "poll source-0") for step in range(40))
    schedules = [
        Schedule("uniform", 3, {}, (), 100),
        Schedule("preemptions", preemptions=many),
        Schedule("priority", 3, {"poll": 1, "store": 2, "timer": 3}, (), 100),
    ]
    for schedule in schedules:
        (only,) = decisions_of(make_scenario(schedule=schedule))
        assert only.without.schedule == Schedule()


def test_a_scenario_without_one_of_its_decisions_is_valid(make_scenario: Make) -> None:
    family = load_family("word_count")
    for seed in range(60):
        for decision in decisions_of(scenario_of(family, seed)):
            check(decision.without)


def test_every_decision_of_a_shrunk_failure_matters_when_run_again() -> None:
    """With a bug planted in the engine: splits are assigned again after a restore."""
    family, mutant = load_family("page_views"), find_mutant("FLINK-7143")
    with mutant.applied():
        found = next(
            scenario
            for seed in range(500)
            if try_scenario(family, scenario := scenario_of(family, seed), twice=False).verdict.signature
        )
        signature = try_scenario(family, found, twice=False).verdict.signature
        assert signature is not None
        small = shrink_scenario(family, found, signature).scenario
        takes = what_it_takes(family, small, signature)
        assert takes.decisions
        for measured, decision in zip(takes.decisions, decisions_of(small), strict=True):
            verdict = try_scenario(family, decision.without, twice=False, continued=False).verdict
            assert measured.effect != "idle"
            assert verdict.passed == (measured.effect == "matters")
        assert any(measured.effect == "matters" for measured in takes.decisions)


def test_a_shrunk_failure_keeps_no_decision_that_it_does_not_need(forgetful: Path) -> None:
    """With few runs the shrinker leaves decisions; they are left out one at a time afterwards."""
    family = load_family(str(forgetful))
    tried = 0
    for seed in range(200):
        scenario = scenario_of(family, seed)
        settings = [each for each in decisions_of(scenario) if each.kind == "setting"]
        if len(settings) < 2 or not scenario.asked:
            continue
        signature = try_scenario(family, scenario, twice=False, continued=False).verdict.signature
        if signature is None:
            continue
        small, takes = shrink_to_needed(family, scenario, signature, most_runs=20)
        assert takes is not None
        assert {each.effect for each in takes.decisions} <= {"matters", "changes"}
        assert len(takes.decisions) < len(list(decisions_of(scenario)))
        for each in takes.decisions:
            found = try_scenario(family, each.decision.without, twice=False, continued=False).verdict
            assert not is_same_failure(found.signature, signature)
        assert small.after == size_of(small.scenario)
        tried += 1
        if tried == 4:
            return
    raise AssertionError("too few failures with settings and requests")
