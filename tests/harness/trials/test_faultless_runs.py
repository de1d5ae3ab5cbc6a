"""What a run does without a fault: sound families pass it, and wrong jobs are named by `check` already."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from onceproof.harness.model.family import Family
from onceproof.harness.model.family_places import family_names, load_family
from onceproof.harness.model.scenario import Scenario, check
from onceproof.harness.model.seeds import scenario_seed
from onceproof.harness.trials.family_mistakes import PARALLELISMS, FamilyMistake, mistakes_of
from onceproof.harness.trials.faultless_runs import conditions_of, undisturbed
from onceproof.harness.trials.trial import scenario_of, try_scenario

HARNESS = Path(__file__).parents[1]


def family_from(path: Path, *changes: tuple[str, str]) -> Family:
    text = (HARNESS / path.name).read_text(encoding="utf-8")
    for part, other in changes:
        assert part in text
        text = text.replace(part, other)
    path.write_text(text, encoding="utf-8")
    return load_family(str(path))


def mistakes_in_check(family: Family) -> list[FamilyMistake]:
    return list(mistakes_of(family, scenarios=12, parallelisms=PARALLELISMS))


@pytest.mark.parametrize("name", family_names())
def test_family_that_passes_check_is_never_accused_without_a_fault(name: str) -> None:
    family = load_family(name)
    drawn = scenario_of(family, scenario_seed(36, name, 0))
    trial = try_scenario(family, replace(drawn, faults=()), twice=False, continued=False)
    assert trial.verdict.passed, f"onceproof replay {drawn.seed} --family {name}: {trial.verdict}"


def test_each_decision_that_needs_no_fault_is_a_condition() -> None:
    family = load_family("word_count")
    scenario = scenario_of(family, 0)
    conditions = {each.name: each.scenario for each in conditions_of(family, scenario)}
    operations = [each.kind for one in conditions.values() for each in one.asked]
    assert {"stop", "rescale"} <= set(operations)
    assert any(one.checkpoint_mode.barriers == "unaligned" for one in conditions.values())
    assert any(one.most_buffer_records > 1 for one in conditions.values())
    assert any(one.state_backend == "rocksdb" for one in conditions.values())
    for one in conditions.values():
        check(one)
        assert not any(fault.kind != "clock_ahead" for fault in one.faults)


def test_the_conditions_of_a_job_of_two_key_groups_fit_its_size() -> None:
    scenario = replace(
        scenario_of(load_family("word_count"), 1), max_parallelism=1, parallelism=1, source_parallelism=1
    )
    for condition in conditions_of(load_family("word_count"), replace(scenario, sink_parallelism=1)):
        if not condition.name.startswith("under"):
            check(condition.scenario)


def test_undisturbed_scenario_keeps_its_date() -> None:
    scenario: Scenario = replace(scenario_of(load_family("word_count"), 0), started_ms=1_700_000_000_000)
    assert undisturbed(scenario).starts_at_ms == 1_700_000_000_000


def test_state_outside_of_flink_state_is_named_by_check(tmp_path: Path) -> None:
    family = family_from(
        tmp_path / "lately.py",
        ("self.seen.value()", "caller in self.seen"),
        ("self.seen.update(True)", "self.seen.add(caller)"),
        ("self.seen = runtime_context.get_state(descriptor)", "self.seen = set()"),
        ("max(1, rows[row])", "1"),
    )
    [mistake] = mistakes_in_check(family)
    assert mistake.member == "job"
    assert "fails without a fault, stopped with a savepoint and started again:" in mistake.sentence
    assert "Keep what the job needs after a restore in Flink state" in mistake.sentence
    assert "\n" not in mistake.sentence


def test_rows_that_depend_on_a_time_to_live_are_named_by_check(tmp_path: Path) -> None:
    family = family_from(tmp_path / "lately.py", ("max(1, rows[row])", "1"))
    for parallelisms in (PARALLELISMS, ()):
        [mistake] = mistakes_of(family, scenarios=3, parallelisms=parallelisms)
        assert mistake.member == "declares"
        assert "where an hour passes in the middle of the input:" in mistake.sentence


def test_time_to_live_that_is_declared_passes(tmp_path: Path) -> None:
    assert mistakes_in_check(family_from(tmp_path / "lately.py")) == []


def watched_under(family: Family, name: str) -> dict[str, bool]:
    [condition] = [each for each in conditions_of(family, scenario_of(family, 1)) if each.name == name]
    return try_scenario(family, condition.scenario).history.statistics.watched


def test_expiries_are_watched_where_time_passes(tmp_path: Path) -> None:
    family = family_from(tmp_path / "lately.py")
    expired = watched_under(family, "where an hour passes in the middle of the input")
    assert expired == {"expiry/seen/60000": True}
    calm = undisturbed(scenario_of(family, 1))
    assert try_scenario(family, calm).history.statistics.watched == {"expiry/seen/60000": False}


@pytest.mark.parametrize(("code", "is_read"), [("self.seen.value()", True), ("True", False)])
def test_reads_of_restored_state_are_watched_where_a_job_is_restored(
    tmp_path: Path, code: str, is_read: bool
) -> None:
    family = family_from(tmp_path / "lately.py", ("self.seen.value()", code))
    watched = watched_under(family, "stopped with a savepoint and started again")
    assert watched["read/seen"] == is_read


def test_timers_in_processing_time_are_watched() -> None:
    family = load_family("clock_windows")
    calm = [undisturbed(scenario_of(family, seed)) for seed in range(4)]
    assert any(try_scenario(family, each).history.statistics.watched.get("timer/windows") for each in calm)
