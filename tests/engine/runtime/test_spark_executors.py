"""When jobs have waited long enough for executors: each situation in simulated seconds."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from onceproof.engine.configuration import ConfigurationError
from onceproof.engine.runtime.spark_executors import TIMEOUT, Patience, Sight, timeout_of

NONE: frozenset[int] = frozenset()
JOB = frozenset({7})


def seconds_until_cancelled(sight_at: Callable[[int], Sight], limit: int = 600) -> int | None:
    """Return the second in which jobs are cancelled at a timeout of 60 s; None: they never are."""
    patience = Patience(60, now=0)
    for second in range(limit):
        sight = sight_at(second)
        doomed = patience.handle(sight, second)
        if doomed:
            assert doomed == sight.jobs
            return second
    return None


def test_a_job_without_executors_is_cancelled_after_the_timeout() -> None:
    assert seconds_until_cancelled(lambda second: Sight(JOB, 0, None)) == 60


def test_the_time_begins_with_the_job() -> None:
    assert seconds_until_cancelled(lambda second: Sight(JOB if second >= 100 else NONE, 0, None)) == 160


def test_a_session_without_a_job_waits_forever() -> None:
    assert seconds_until_cancelled(lambda second: Sight(NONE, 0, None)) is None


def test_executors_that_register_and_die_again_and_again_are_none() -> None:
    assert seconds_until_cancelled(lambda second: Sight(JOB, 0, second % 10 or None)) == 60


def test_a_long_task_on_an_executor_that_lasts_is_left_alone() -> None:
    assert seconds_until_cancelled(lambda second: Sight(JOB, 0, None if second < 50 else second - 50)) is None


def test_short_lived_executors_that_finish_tasks_are_left_alone() -> None:
    assert seconds_until_cancelled(lambda second: Sight(JOB, second // 20, second % 10)) is None


def test_executors_that_die_while_others_start_are_none() -> None:
    # There is always one, and none that lasts for a quarter of the time.
    assert seconds_until_cancelled(lambda second: Sight(JOB, 0, second % 10 + 1)) == 75


def test_a_cluster_that_loses_all_executors_has_the_timeout_to_replace_them() -> None:
    def lost(second: int) -> Sight:
        return Sight(JOB, 0, second if second < 200 else None)

    assert seconds_until_cancelled(lost) == 259
    assert seconds_until_cancelled(lambda at: lost(at) if at < 250 else Sight(JOB, 0, at - 250)) is None


def test_a_later_job_has_the_timeout_again() -> None:
    patience = Patience(60, now=0)
    assert patience.handle(Sight(JOB, 0, None), 1) == NONE
    assert patience.handle(Sight(JOB, 0, None), 61) == JOB
    assert patience.handle(Sight(frozenset({8}), 0, None), 62) == NONE
    assert patience.handle(Sight(frozenset({8}), 0, None), 121) == NONE
    assert patience.handle(Sight(frozenset({8}), 0, None), 122) == frozenset({8})


def test_the_timeout_is_an_option() -> None:
    assert timeout_of({}) == 60
    assert timeout_of({TIMEOUT: "90s"}) == 90
    assert timeout_of({TIMEOUT: "2 min"}) == 120
    with pytest.raises(
        ConfigurationError, match=rf"^option '{TIMEOUT}' cannot be 'soon': a duration is needed"
    ):
        timeout_of({TIMEOUT: "soon"})
