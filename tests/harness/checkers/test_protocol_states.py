"""Abstract states of the protocol: what distinguishes two of them, and their bound."""

from __future__ import annotations

from onceproof.harness.checkers.protocol_states import STATES, protocol_states_of
from onceproof.harness.model.history import History
from tests.harness.conftest import Run


def test_undisturbed_checkpoint_has_a_state_for_each_event(run: Run) -> None:
    history = run.start("1.1").checkpoint(1, 2).commit().finish().history
    # The start, the completion, two commits of which the second leaves nothing prepared, and the end.
    assert len(protocol_states_of(history)) == 5


def test_states_are_the_same_numbers_in_every_process(run: Run) -> None:
    history = run.start("1.1").checkpoint(1, 2).commit().finish().history
    assert sorted(protocol_states_of(history)) == [0, 35082, 70038, 70056, 140022]


def test_second_restore_of_a_checkpoint_is_another_state(run: Run) -> None:
    run.start("1.1").checkpoint(1, 2).fault().start("1.2", restored=1)
    once = protocol_states_of(run.history)
    run.fault().start("1.3", restored=1)
    assert protocol_states_of(run.history) > once


def test_fault_of_another_kind_is_another_state(run: Run) -> None:
    killed = protocol_states_of(run.start("1.1").fault("kill_all").history)
    lost = History()
    lost.attempt_started(1, "1.1", 2, None)
    lost.fault_fired(2, "lose_message", "notified", "*")
    assert protocol_states_of(lost) != killed


def test_all_states_lie_below_the_bound(sound_run: Run) -> None:
    assert all(0 <= state < STATES for state in protocol_states_of(sound_run.history))


def test_what_is_no_protocol_event_adds_nothing(run: Run) -> None:
    before = protocol_states_of(run.start("1.1").history)
    run.history.logged(9, "a warning")
    assert protocol_states_of(run.history) == before
