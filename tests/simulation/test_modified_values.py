"""Functions that modify what they have handed over: the rows are right, and the run has a note."""

from __future__ import annotations

from onceproof.engine.owned import ValueWatch, own
from onceproof.engine.state.descriptors import LIST, MAP, VALUE
from onceproof.engine.state.hashmap import HeapLists, HeapMaps
from onceproof.engine.state.isolated import isolated
from onceproof.harness.generation.generator import generate
from onceproof.harness.model.family_places import load_family
from onceproof.harness.trials.trial import try_scenario
from tests.planted.catalogue import find_mutant

REUSED = load_family("reused_lists")
WORD_COUNT = load_family("word_count")
SCENARIO = generate(REUSED, 0)


def test_a_list_cleared_behind_its_emission_is_noted() -> None:
    trial = try_scenario(REUSED, SCENARIO, continued=False)
    assert trial.verdict.violations == ()
    assert trial.history.statistics.notes == ("operator 'pairs' modified a list after emitting it",)


def test_without_copies_the_next_operator_gets_the_cleared_list() -> None:
    with find_mutant("emitted-values-are-not-copied").applied():
        trial = try_scenario(REUSED, SCENARIO, continued=False)
    assert not trial.verdict.passed


def test_a_family_whose_values_cannot_change_has_no_notes() -> None:
    trial = try_scenario(WORD_COUNT, generate(WORD_COUNT, 0), continued=False)
    assert trial.history.statistics.notes == ()


def test_only_a_value_that_was_modified_is_noted() -> None:
    watch = ValueWatch()
    emit = watch.own_for("pairs")
    kept = [1]
    emit(kept)
    emit([2])
    assert watch.findings() == []
    emit = watch.own_for("pairs")
    emit(kept)
    kept.append(2)
    assert watch.findings() == ["operator 'pairs' modified a list after emitting it"]


def test_an_attempt_that_ended_within_a_function_leaves_no_note() -> None:
    watch = ValueWatch()
    kept = [1]
    watch.own_for("pairs")(kept)
    kept.append(2)
    watch.forget()
    assert watch.findings() == []


def test_a_state_modified_without_update_is_noted() -> None:
    where = "operator 'counts' modified a value of state 'total'"
    expected = [f"{where} in place and did not update the state"]
    watch = ValueWatch()
    values = isolated(VALUE, {"a": [1]}, watch, where)
    values.get("a").append(2)
    assert watch.findings() == expected
    watch = ValueWatch()
    isolated(LIST, HeapLists({"a": [[1]]}), watch, where).get("a")[0].append(2)
    assert watch.findings() == expected
    watch = ValueWatch()
    isolated(MAP, HeapMaps({"a": {1: [1]}}), watch, where).get("a", 1).append(2)
    assert watch.findings() == expected


def test_a_state_modified_and_updated_is_not_noted() -> None:
    watch = ValueWatch()
    values = isolated(VALUE, {"a": [1]}, watch, "")
    held = values.get("a")
    held.append(2)
    values["a"] = held
    lists = isolated(LIST, HeapLists({"a": [1]}), watch, "")
    # The list of elements is the function's own.
    lists.get("a").append(2)
    maps = isolated(MAP, HeapMaps({"a": {1: [1]}}), watch, "")
    put = maps.get("a", 1)
    put.append(2)
    maps.put("a", 1, put)
    assert watch.findings() == []
    assert own(values.get("a")) == [1, 2]
