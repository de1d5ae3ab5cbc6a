"""When a worker that says nothing is dead."""

from __future__ import annotations

from onceproof.engine.job.heartbeats import HeartbeatMonitor


def looks(monitor: HeartbeatMonitor, *times: int) -> list[bool]:
    return [monitor.is_overdue(now) for now in times]


def test_worker_that_is_silent_for_the_timeout_is_overdue() -> None:
    monitor = HeartbeatMonitor(10, 50, 0)
    assert looks(monitor, 10, 20, 30, 40, 49, 50) == [False, False, False, False, False, True]


def test_heartbeat_ends_the_silence() -> None:
    monitor = HeartbeatMonitor(10, 50, 0)
    assert not any(looks(monitor, 10, 20, 30, 40))
    monitor.heard(45)
    assert looks(monitor, 50, 60, 70, 80, 90, 95) == [False, False, False, False, False, True]


def test_coordinator_that_was_stopped_itself_listens_again_before_it_judges() -> None:
    monitor = HeartbeatMonitor(10, 50, 0)
    assert looks(monitor, 10, 100_000) == [False, False]
    monitor.heard(100_001)
    assert not monitor.is_overdue(100_011)


def test_clock_that_goes_back_counts_no_silence() -> None:
    monitor = HeartbeatMonitor(10, 50, 1_000)
    assert not any(looks(monitor, 900, 890, 880, 870, 860, 850))
