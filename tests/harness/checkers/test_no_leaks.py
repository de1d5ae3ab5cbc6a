"""no_leaks on hand-written histories."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onceproof.harness.checkers.no_leaks import NoLeaks

if TYPE_CHECKING:
    from tests.harness.conftest import Run

LEAKS = NoLeaks()


def test_a_finished_run_that_left_nothing_behind_passes(sound_run: Run) -> None:
    assert sound_run.check(LEAKS) == []


def test_each_kind_of_thing_left_behind_is_one_anomaly(sound_run: Run) -> None:
    sound_run.history.leak(90, "open transaction", "t0-4-2.2")
    sound_run.history.leak(90, "open transaction", "t1-4-2.2")
    sound_run.history.leak(90, "orphan file", "chk-3/state-7")
    assert sound_run.check(LEAKS) == [
        ("open transaction", "open transaction t0-4-2.2"),
        ("orphan file", "orphan file chk-3/state-7"),
    ]


def test_resources_of_an_unfinished_run_are_no_leak(run: Run) -> None:
    run.start("1.1")
    run.history.leak(90, "open transaction", "t0-0-1.1")
    assert run.check(LEAKS) == []
