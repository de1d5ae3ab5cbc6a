"""Applying and undoing mutants: afterwards every patched attribute is the object that it was before."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from types import FunctionType

import pytest

from onceproof.engine.checkpoint.pending import PendingCheckpoint
from onceproof.engine.task.barriers.aligned import AlignedBarrierHandler
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.mutants import Mutant, MutantError, Reached, mutant, replaced
from onceproof.harness.systems.simulation.simulated_sinks import SimulatedSink
from onceproof.harness.systems.simulation.simulated_system import SimulatedSystem
from onceproof.harness.trials.trial import scenario_of
from tests.planted.catalogue import built_in_mutants

MUTANTS = built_in_mutants()
CODE = (FunctionType, property, staticmethod, classmethod)


Identities = dict[str, dict[str, int]]
"""By the name of a module or of a class, the identity of each attribute."""


def everything() -> Identities:
    """Return the identity of every attribute of every module and class that a mutant could touch."""
    found: Identities = {}
    for name, module in list(sys.modules.items()):
        if not name.startswith(
            ("onceproof.engine", "onceproof.harness.systems.simulation", "onceproof.harness.checkers")
        ):
            continue
        attributes = vars(module)
        found[name] = {attribute: id(value) for attribute, value in attributes.items()}
        for attribute, value in attributes.items():
            if isinstance(value, type) and value.__module__ == name:
                add_members(found, f"{name}.{attribute}", value)
    return found


def add_members(found: Identities, name: str, owner: type) -> None:
    members = vars(owner)
    # Caches that Python or a library keeps in a class are not the class.
    found[name] = {inner: id(part) for inner, part in members.items() if isinstance(part, CODE)}
    for inner, part in members.items():
        if isinstance(part, type) and part.__qualname__ == f"{owner.__qualname__}.{inner}":
            add_members(found, f"{name}.{inner}", part)


@pytest.mark.parametrize("each", [each for each in MUTANTS if each.unseen], ids=lambda each: each.id)
def test_a_mutant_that_no_scenario_shows_changes_something(each: Mutant) -> None:
    before = everything()
    with each.applied():
        assert everything() != before


def test_all_mutants_are_undone_exactly_if_the_code_under_them_raises() -> None:
    before = everything()
    for each in MUTANTS:
        with pytest.raises(KeyError), each.applied():
            raise KeyError
    assert everything() == before


def test_after_all_mutants_a_scenario_gives_the_same_trace() -> None:
    family = load_family("word_count")
    scenario = scenario_of(family, 24)
    run = partial(SimulatedSystem().run, family, scenario)
    before = run()
    for each in MUTANTS:
        # What a mutant breaks is of no interest here.
        with each.applied(), suppress(Exception):
            run()
    after = run()
    assert (after.events, after.trace_hash) == (before.events, before.trace_hash)


def test_an_inherited_method_is_inherited_again_after_a_mutant() -> None:
    assert "recover_and_commit" not in vars(SimulatedSink)
    with replaced(SimulatedSink, "recover_and_commit", lambda self, transaction: None):
        assert "recover_and_commit" in vars(SimulatedSink)
    assert "recover_and_commit" not in vars(SimulatedSink)


def test_a_property_of_a_slots_class_is_restored() -> None:
    before = vars(PendingCheckpoint)["is_fully_acknowledged"]
    with replaced(PendingCheckpoint, "is_fully_acknowledged", property(lambda self: True)):
        assert vars(PendingCheckpoint)["is_fully_acknowledged"] is not before
    assert vars(PendingCheckpoint)["is_fully_acknowledged"] is before


def test_a_missing_attribute_cannot_be_replaced() -> None:
    with (
        pytest.raises(AttributeError, match="AlignedBarrierHandler has no 'alignment' to replace"),
        replaced(AlignedBarrierHandler, "alignment", None),
    ):
        pass
    assert not hasattr(AlignedBarrierHandler, "alignment")


def test_a_mutant_of_a_missing_attribute_is_an_error_in_one_line() -> None:
    @mutant(id="of-the-past", breaks="nothing", summary="patches what was renamed")
    def of_the_past(reached: Reached) -> Iterator[None]:
        with replaced(AlignedBarrierHandler, "alignment", None):
            yield

    with (
        pytest.raises(
            MutantError, match=r"^mutant of-the-past cannot be applied: AttributeError: Aligned\S+ has"
        ),
        of_the_past.applied(),
    ):
        pass


def test_a_mutant_that_is_no_generator_is_refused() -> None:
    @mutant(id="plain", breaks="nothing", summary="a plain function")
    def plain(reached: Reached) -> None:
        return None

    with pytest.raises(MutantError, match="plain must be a generator that yields once"), plain.applied():
        pass


def test_a_generator_that_yields_twice_is_refused_and_undone() -> None:
    before = everything()

    @mutant(id="twice", breaks="nothing", summary="yields twice")
    def twice(reached: Reached) -> Iterator[None]:
        with replaced(AlignedBarrierHandler, "handle", None):
            yield
        yield

    with pytest.raises(MutantError, match="twice cannot be undone"), twice.applied():
        pass
    assert everything() == before


def test_reach_is_counted_for_each_application_of_its_own() -> None:
    @mutant(id="counted", breaks="nothing", summary="is reached three times")
    def counted(reached: Reached) -> Iterator[None]:
        for _ in range(3):
            reached()
        yield

    with counted.applied() as first, counted.applied() as second:
        assert (first.times, second.times) == (3, 3)
