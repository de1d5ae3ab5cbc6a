"""Restart strategies; what Flink's own classes answered is in the conformance vectors."""

from __future__ import annotations

import pytest

from engine.configuration import CheckpointSettings
from engine.job.restart import FixedDelayRestart, NoRestart, restart_strategy


@pytest.mark.parametrize("attempts", [0, 1, 3])
def test_fixed_delay_allows_so_many_restarts_in_the_life_of_the_job(attempts):
    strategy = FixedDelayRestart(attempts, 500)
    allowed = 0
    for failure in range(attempts + 2):
        assert strategy.notify_failure(failure * 1_000_000)
        allowed += strategy.can_restart()
    assert allowed == attempts
    assert strategy.backoff_ms() == 500


def test_before_the_first_failure_fixed_delay_allows_a_restart():
    assert FixedDelayRestart(0, 500).can_restart()


def test_none_never_restarts():
    strategy = NoRestart()
    assert strategy.notify_failure(5)
    assert not strategy.can_restart()
    assert strategy.backoff_ms() == 0


def test_the_settings_choose_the_strategy():
    assert isinstance(restart_strategy(CheckpointSettings()), NoRestart)
    strategy = restart_strategy(CheckpointSettings(restart_attempts=1, restart_delay_ms=70))
    assert isinstance(strategy, FixedDelayRestart)
    assert strategy.backoff_ms() == 70
    strategy.notify_failure(0)
    assert strategy.can_restart()
    strategy.notify_failure(0)
    assert not strategy.can_restart()
