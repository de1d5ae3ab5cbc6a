"""Families that take turns until they meet nothing new."""

from __future__ import annotations

from typing import Any

from onceproof.harness.checkers.outcome import to_line
from onceproof.harness.trials.family_turns import FamilyTurn, Met, TurnsUntilExhausted
from onceproof.harness.trials.pool import Batch, Done
from tests.harness.trials.test_tally import outcome


def answer(batch: Batch, news: dict[int, Any] | None = None) -> Done:
    """Return the answer to a batch whose scenarios meet one state, and others by number in ``news``."""
    numbers = range(batch.first, batch.first + batch.count)
    lines = tuple([to_line(outcome(seed=number)) for number in numbers])
    states = tuple([((news or {}).get(number, 7),) for number in numbers])
    return Done(batch.first, lines, 0.1, place=batch.place, states=states)


def test_what_is_new_is_a_situation_a_fault_at_a_point_or_a_state() -> None:
    met = Met()
    assert met.add(outcome(), (1,))
    assert not met.add(outcome(), (1,))
    assert met.add(outcome(situations=("restored",)), (1,))
    assert met.add(outcome(coverage={"kill_all/completed": 1}), (1,))
    assert not met.add(outcome(coverage={"kill_all/completed": 2}, situations=("restored",)), (1,))
    assert (met.scenarios, met.since_new) == (5, 1)
    assert str(met) == "1 situations, 1 faults at their points and 1 states of the protocol"


def test_batches_that_come_out_of_order_are_taken_in_order() -> None:
    turn = FamilyTurn(0)
    first, second, third = (turn.batch(4) for _ in range(3))
    assert first
    assert second
    assert third
    assert turn.take(answer(second)) == []
    assert [each.first for each in turn.take(answer(first))] == [0, 4]
    assert [each.first for each in turn.take(answer(third))] == [8]


def test_family_ends_where_its_scenarios_met_nothing_new_for_long_enough() -> None:
    turns = TurnsUntilExhausted((1, 1), None, size=4, patience=5)
    taken = {0: 0, 1: 0}
    for batch in turns.batches():
        assert batch.place is not None
        # Each scenario of the second family is new until its tenth.
        news = {number: number for number in range(10)} if batch.place else None
        taken[batch.place] += sum(len(each.lines) for each in turns.take(answer(batch, news)))
    # One that is new, then five that are not; of the second family ten are new, and 7 was never met before.
    assert taken == {0: 6, 1: 15}
    assert {place: met.scenarios for place, met in turns.exhausted().items()} == {0: 6, 1: 15}


def test_what_workers_ran_ahead_of_the_end_is_dropped() -> None:
    turns = TurnsUntilExhausted((1,), None, size=4, patience=2)
    batches = turns.batches()
    first, ahead = next(batches), next(batches)
    assert sum(len(each.lines) for each in turns.take(answer(first))) == 3
    assert sum(len(each.lines) for each in turns.take(answer(ahead, {4: 99}))) == 0
    assert next(batches, None) is None


def test_families_stop_at_their_limits_without_being_exhausted() -> None:
    turns = TurnsUntilExhausted((1, 1), 9, size=4, patience=100)
    batches = list(turns.batches())
    assert [(each.place, each.first, each.count) for each in batches] == [(0, 0, 4), (1, 0, 4), (0, 4, 1)]
    assert turns.exhausted() == {}


def test_batches_behind_a_missing_one_are_left_after_an_early_end() -> None:
    turns = TurnsUntilExhausted((1,), None, size=4, patience=2)
    batches = turns.batches()
    next(batches)
    turns.take(answer(second := next(batches)))
    assert [each.first for each in turns.left()] == [second.first]


def test_family_with_more_turns_has_more_batches_and_a_higher_limit() -> None:
    turns = TurnsUntilExhausted((2, 1), 24, size=4, patience=100)
    counts = {0: 0, 1: 0}
    for batch in turns.batches():
        assert batch.place is not None
        counts[batch.place] += batch.count
    assert counts == {0: 16, 1: 8}
