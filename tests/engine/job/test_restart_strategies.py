"""Restart strategies; what Flink's own classes answered is in the conformance vectors."""

from __future__ import annotations

from random import Random

import pytest

from onceproof.engine.configuration import (
    UNLIMITED_RESTARTS,
    ExponentialDelayRestarts,
    FailureRateRestarts,
    FixedDelayRestarts,
    NoRestarts,
)
from onceproof.engine.job.restart_strategies import (
    ExponentialDelayRestart,
    FailureRateRestart,
    FixedDelayRestart,
    NoRestart,
    restart_strategy,
)


def waits(strategy, failures_at):
    """Tell the strategy of failures; give how long it wants to wait after each."""
    answers = []
    for now in failures_at:
        strategy.notify_failure(now)
        answers.append(strategy.backoff_ms(now))
    return answers


def exponential(chance=0.5, **settings):
    defaults = {"initial_backoff_ms": 10, "max_backoff_ms": 100, "backoff_multiplier": 2.0}
    how = ExponentialDelayRestarts(**{**defaults, "jitter_factor": 0.0, **settings})
    return ExponentialDelayRestart(how, lambda: chance)


@pytest.mark.parametrize("attempts", [0, 1, 3])
def test_fixed_delay_allows_so_many_restarts_in_the_life_of_the_job(attempts):
    strategy = FixedDelayRestart(FixedDelayRestarts(attempts, 500))
    allowed = 0
    for failure in range(attempts + 2):
        now = failure * 1_000_000
        assert strategy.notify_failure(now)
        allowed += strategy.can_restart(now)
    assert allowed == attempts
    assert strategy.backoff_ms(0) == 500


def test_before_the_first_failure_fixed_delay_allows_a_restart():
    assert FixedDelayRestart(FixedDelayRestarts(0, 500)).can_restart(0)


def test_none_never_restarts():
    strategy = NoRestart()
    assert strategy.notify_failure(5)
    assert not strategy.can_restart(5)
    assert strategy.backoff_ms(5) == 0


def test_failure_rate_forgets_failures_that_are_longer_ago_than_the_interval():
    strategy = FailureRateRestart(FailureRateRestarts(2, 100, 7))
    for now in (0, 50, 100):
        assert strategy.notify_failure(now)
    assert not strategy.can_restart(100), "three failures, the first exactly one interval ago"
    assert strategy.can_restart(101)
    assert strategy.backoff_ms(101) == 7
    strategy.notify_failure(140)
    assert not strategy.can_restart(140), "those at 50, 100 and 140 are within one interval"


def test_exponential_delay_grows_up_to_its_longest():
    failures_at = [0, 1000, 2000, 3000, 4000, 5000]
    assert waits(exponential(reset_threshold_ms=10_000), failures_at) == [10, 20, 40, 80, 100, 100]


def test_failure_until_the_planned_restart_belongs_to_the_failure_before():
    strategy = exponential(attempts=1)
    assert strategy.notify_failure(0)
    assert not strategy.notify_failure(4)
    assert strategy.backoff_ms(4) == 6
    assert not strategy.notify_failure(10), "the restart is due, and has not shown yet that it lives"
    assert strategy.backoff_ms(10) == 0
    assert strategy.can_restart(10)
    assert strategy.notify_failure(11)
    assert not strategy.can_restart(11)


def test_quiet_time_after_a_restart_begins_anew():
    strategy = exponential(reset_threshold_ms=50, attempts=2)
    assert waits(strategy, [0, 11, 80]) == [10, 20, 40], "49 ms after the restart at 31"
    assert not strategy.can_restart(80)
    assert waits(strategy, [170]) == [10], "50 ms after the restart planned for 120"
    assert strategy.can_restart(170)


@pytest.mark.parametrize(
    ("chance", "expected"), [(0.0, [10, 15, 30]), (0.5, [10, 20, 40]), (0.999, [12, 25, 50])]
)
def test_jitter_spreads_the_wait_by_its_part_and_never_below_the_first(chance, expected):
    strategy = exponential(chance=chance, jitter_factor=0.25, reset_threshold_ms=10_000)
    assert waits(strategy, [0, 100, 200]) == expected


def test_jitter_never_exceeds_the_longest_wait():
    strategy = exponential(chance=0.999, jitter_factor=1, reset_threshold_ms=10_000)
    assert max(waits(strategy, range(0, 5000, 500))) == 100


def test_waits_that_no_number_holds_any_more_are_the_longest():
    strategy = exponential(backoff_multiplier=1e200, reset_threshold_ms=10_000)
    assert waits(strategy, [0, 1000, 2000, 3000]) == [10, 100, 100, 100]


def test_same_chance_gives_the_same_waits():
    def drawn(seed):
        how = ExponentialDelayRestarts(jitter_factor=0.5)
        return waits(restart_strategy(how, lambda: Random(seed).random), range(0, 10**7, 10**6))

    assert drawn(3) == drawn(3)
    assert drawn(3) != drawn(4)


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        (NoRestarts(), NoRestart),
        (FixedDelayRestarts(1, 70), FixedDelayRestart),
        (FailureRateRestarts(), FailureRateRestart),
    ],
)
def test_settings_choose_the_strategy_and_chance_is_made_only_where_it_is_needed(settings, kind):
    def no_chance():
        raise AssertionError("nothing here is left to chance")

    assert isinstance(restart_strategy(settings, no_chance), kind)


def test_defaults_are_flinks():
    assert ExponentialDelayRestarts() == ExponentialDelayRestarts(
        1000, 60_000, 1.5, 3_600_000, 0.1, UNLIMITED_RESTARTS
    )
    assert FailureRateRestarts() == FailureRateRestarts(1, 60_000, 1000)
    assert FixedDelayRestarts() == FixedDelayRestarts(1, 1000)
