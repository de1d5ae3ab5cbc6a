"""Jobs are waited for: longer where they show something new, and never for ever."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from onceproof.harness.systems.kit import patience
from onceproof.harness.systems.kit.patience import TIMES_WITH_PROGRESS, Patience, bytes_logged
from tests.patience import PATIENCE_SECONDS


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(patience.time, "monotonic", lambda: now[0])
    return now


def test_job_that_shows_nothing_new_has_its_time_and_no_more(clock: list[float]) -> None:
    waited = Patience(60.0)
    clock[0] = 60.0
    assert not waited.is_over()
    clock[0] = 60.1
    assert waited.is_over()


def test_slow_job_has_its_time_again_with_each_new_thing(clock: list[float]) -> None:
    shown = [0]
    waited = Patience(60.0, lambda: shown[0])
    for clock[0] in (50.0, 100.0, 150.0, 200.0):
        shown[0] += 1
        assert not waited.is_over()
    clock[0] = 261.0
    assert waited.is_over()


def test_job_that_starts_again_and_again_comes_to_an_end(clock: list[float]) -> None:
    waited = Patience(60.0, lambda: clock[0])
    clock[0] = 60.0 * TIMES_WITH_PROGRESS
    assert not waited.is_over()
    clock[0] += 0.1
    assert waited.is_over()


def test_process_is_killed_when_its_time_is_over() -> None:
    killed = threading.Event()
    with Patience(0.01).ended_by(killed.set) as is_in_time:
        assert killed.wait(PATIENCE_SECONDS)
    assert not is_in_time()


def test_process_that_has_ended_is_not_killed() -> None:
    killed = threading.Event()
    with Patience(60.0).ended_by(killed.set) as is_in_time:
        pass
    assert is_in_time()
    assert not killed.is_set()


def test_what_processes_log_beside_another_is_new_too(tmp_path: Path) -> None:
    log = tmp_path / "events-1.jsonl"
    assert bytes_logged(log) == 0
    log.write_bytes(b"12345")
    (tmp_path / "events-1.jsonl.77").write_bytes(b"678")
    (tmp_path / "events-2.jsonl").write_bytes(b"9")
    assert bytes_logged(log) == 8
