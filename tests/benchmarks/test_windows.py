"""The benchmark of windows, at a tiny size: it measures a job that really counts."""

from __future__ import annotations

import pytest

from tests.benchmarks import windows as benchmarks_windows
from tests.benchmarks.local import WrongCount
from tests.benchmarks.measurement import load_benchmark
from tests.benchmarks.windows import measure


def test_the_job_and_the_loop_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmarks_windows, "WINDOW_MS", 1_000)
    found = measure(records=10_000, keys=20, rounds=2)
    assert set(found.floors) == set(found.ratios) == {"records_per_second", "records_per_second_median"}
    assert all(found.figures[name] > 0 < floor for name, floor in found.floors.items())
    # Each of the two shares reaches 5.5 seconds: six windows for a key.
    assert found.figures["rows"] == 6 * 20


def test_counts_that_are_wrong_spoil_the_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmarks_windows.Count, "add", lambda self, value, accumulator: 1)
    with pytest.raises(WrongCount, match="10 windows with 10 records for 2,000 records"):
        measure(records=2_000, keys=10, rounds=1)


def test_windows_that_are_written_twice_spoil_the_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    tell = benchmarks_windows.Tell.apply
    monkeypatch.setattr(
        benchmarks_windows.Tell,
        "apply",
        lambda self, key, window, inputs: 2 * tell(self, key, window, inputs),
    )
    with pytest.raises(WrongCount, match=r"the window of key \d from 0 on was written twice"):
        measure(records=2_000, keys=10, rounds=1)


def test_the_command_knows_it() -> None:
    assert load_benchmark("windows") is measure
