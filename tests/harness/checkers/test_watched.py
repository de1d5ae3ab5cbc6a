"""What might have happened in a run, read from hand-written histories."""

from __future__ import annotations

import pytest

from onceproof.harness.checkers.watched import watched_in
from onceproof.harness.model.history import History


def visible(history: History, step: int, *rows: tuple[str], sink: str = "") -> None:
    history.transaction_visible(step, f"0/{step}/1.1", 0, "1.1", step, rows, sink=sink)


def killed(history: History, step: int) -> None:
    history.fault_fired(step, "kill_task", "element", "count-0")


def test_run_without_rows_has_a_sink_without_a_row() -> None:
    history = History()
    visible(history, 3)
    killed(history, 4)
    assert watched_in(history) == {"rows": False}


@pytest.mark.parametrize(("at", "is_between"), [(1, False), (4, True), (9, False)])
def test_only_a_kill_between_the_first_row_and_the_last_counts(at: int, is_between: bool) -> None:
    history = History()
    for step in range(10):
        if step == at:
            killed(history, step)
        if step in (3, 6):
            visible(history, step, ("ann",))
    assert watched_in(history) == {"rows": True, "kill": is_between}


def test_each_sink_is_watched_by_its_name() -> None:
    history = History()
    visible(history, 1, ("ann",))
    visible(history, 1, sink="late")
    assert watched_in(history) == {"rows": True, "rows/late": False}
    visible(history, 2, ("bob",), sink="late")
    assert watched_in(history)["rows/late"]


def test_fault_that_kills_nothing_is_no_kill() -> None:
    history = History()
    visible(history, 1, ("ann",))
    history.fault_fired(2, "clock_ahead", "element", "count-0")
    visible(history, 3, ("bob",))
    assert watched_in(history) == {"rows": True}


def test_what_the_simulation_watched_is_kept() -> None:
    history = History()
    history.statistics.watched = {"expiry/seen/60000": True}
    assert watched_in(history) == {"expiry/seen/60000": True, "rows": False}
