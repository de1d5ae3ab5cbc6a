"""determinism on hand-written histories."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING

from onceproof.harness.checkers.determinism import check_determinism
from onceproof.harness.model.history import History

if TYPE_CHECKING:
    from tests.harness.conftest import Run


def test_two_runs_with_the_same_trace_are_deterministic(sound_run: Run) -> None:
    assert check_determinism(sound_run.history, deepcopy(sound_run.history)) == ()


def test_the_first_event_that_differs_is_the_witness(sound_run: Run) -> None:
    other = deepcopy(sound_run.history)
    other.trace_hash = "other"
    other.events[3] = (99, *other.events[3][1:])
    (violation,) = check_determinism(sound_run.history, other)
    assert violation.anomaly == "trace differs"
    assert violation.where.startswith("event 3, step ")


def test_a_run_that_ends_earlier_than_the_other_differs(sound_run: Run) -> None:
    other = deepcopy(sound_run.history)
    del other.events[-1]
    assert len(check_determinism(sound_run.history, other)) == 1


def test_different_steps_behind_the_same_events_differ() -> None:
    (violation,) = check_determinism(History(trace_hash="a"), History(trace_hash="b"))
    assert violation.where == "between two visible events"
