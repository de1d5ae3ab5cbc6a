"""When a trial believes that nothing more comes, on a clock that is played."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from onceproof.harness.systems.program import pace as pace_module
from onceproof.harness.systems.program.pace import LateRows, Pace
from tests.harness.systems.program.programs import MEASURED


def test_a_first_row_has_longer_to_come_than_a_repeated_one(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(pace_module, "time", SimpleNamespace(monotonic=lambda: now))
    file: Any = SimpleNamespace(ready=())
    measured = replace(MEASURED, first_row_seconds=2.0, answer_work_seconds=1.0)
    pace = Pace(file, measured, lambda: 1.0, lambda: now, begun=now)
    pace.start()
    # Three and a half seconds are enough for a start that repeats what it has shown.
    now += 5
    assert not pace.is_settled()
    pace.look(1)
    now += 5
    assert pace.is_settled()


def test_missing_rows_are_waited_for_to_the_end_only_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(pace_module, "time", SimpleNamespace(monotonic=lambda: now))
    file: Any = SimpleNamespace(
        ready=(), servers=("kafka",), done=SimpleNamespace(when="quiet", quiet_seconds=None)
    )
    late = LateRows()

    def waited(comes_after: float | None = None) -> float:
        """Return how long a trial waits for rows that are missing after the answer to the last record."""
        nonlocal now
        pace = Pace(file, MEASURED, lambda: 1.0, lambda: now, late, begun=now)
        pace.start()
        now += 1
        pace.give()
        now += 0.1
        pace.look(1)
        since = now
        while not (pace.is_late() or pace.is_quiet(are_missing=True)):
            now += 0.5
            if comes_after is not None and now - since >= comes_after:
                since, comes_after = now, None
                pace.look(1)
        return round(now - since, 3)

    # Fifteen seconds for clients that come back, and a session of 45 the first time.
    assert waited() == 60.5
    assert waited() == 15.5
    # A row that comes after a lease is waited for from then on.
    late.waited = False
    assert waited(comes_after=40.0) == 60.5
    assert waited() == 60.5


def test_a_program_that_has_not_answered_has_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(pace_module, "time", SimpleNamespace(monotonic=lambda: now))
    file: Any = SimpleNamespace(ready=(), servers=(), done=SimpleNamespace(when="quiet", quiet_seconds=None))
    pace = Pace(file, MEASURED, lambda: 1.0, lambda: now, LateRows(waited=True), begun=now)
    pace.start()
    pace.look(1)
    now += 1
    pace.strike()
    # Four seconds for its pauses, and one for its start.
    now += 4.5
    assert not pace.is_late()
    # Its pauses are long by now.
    pace.look(1)
    now += 5
    assert not pace.is_late()
    now += 120
    assert pace.is_late()
