"""The benchmark of the local runtime, at a tiny size: it measures a job that really counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from onceproof.harness.benchmarks import local as benchmarks_local
from onceproof.harness.benchmarks.local import PoolReader, PoolSource, WrongCount, measure
from onceproof.harness.benchmarks.measurement import load_benchmark


def test_the_job_and_the_loop_are_measured_for_each_number_of_keys() -> None:
    found = measure(records=20_000, keys=(10, 500), rounds=2)
    assert set(found.floors) == {
        f"records_per_second_{keys}_keys{which}" for keys in (10, 500) for which in ("", "_median")
    }
    assert all(found.figures[name] > 0 < floor for name, floor in found.floors.items())
    assert set(found.ratios) == set(found.floors)
    assert found.figures["checkpoints_10_keys"] >= 1
    assert found.figures["wall_records_per_second_10_keys_2_workers"] > 0


def test_rows_that_are_missing_spoil_the_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmarks_local.Count, "process_element", lambda self, value, ctx: ())
    with pytest.raises(WrongCount, match="0 records of 0 keys counted, of 2,000"):
        measure(records=2_000, keys=(10,), rounds=1)


def test_rows_that_are_there_twice_spoil_the_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    count = benchmarks_local.Count.process_element
    monkeypatch.setattr(
        benchmarks_local.Count, "process_element", lambda self, value, ctx: 2 * count(self, value, ctx)
    )
    with pytest.raises(WrongCount, match=r"key \d counts 1 after 1"):
        measure(records=2_000, keys=(10,), rounds=1)


def test_bundled_counts_must_rise_to_the_number_of_records(tmp_path: Path) -> None:
    source = PoolSource(4, 1)
    earlier, later = tmp_path / "part-9f-0-1-1.1", tmp_path / "part-9f-0-2-1.1"
    earlier.write_text("0,3\n")
    later.write_text("0,4\n")
    benchmarks_local.check_counts(tmp_path, source, every=False)
    for rows, said in (("0,3\n", "key 0 counts 3 after 3"), ("0,5\n", "5 records of 1 keys counted, of 4")):
        later.write_text(rows)
        with pytest.raises(WrongCount, match=said):
            benchmarks_local.check_counts(tmp_path, source, every=False)


def test_the_pool_is_read_repeatedly() -> None:
    reader = PoolReader([(1, None), (2, None), (3, None)], 0, 7)
    given = []
    while batch := reader.read(2):
        given += [key for key, _ in batch]
    assert given == [1, 2, 3, 1, 2, 3, 1]
    assert reader.exhausted


def test_the_command_knows_it() -> None:
    assert load_benchmark("local") is measure
