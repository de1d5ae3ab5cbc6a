"""When a trial believes that nothing more comes, on a clock that is played."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from onceproof.harness.systems.program import pace as pace_module
from onceproof.harness.systems.program.pace import Pace
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
