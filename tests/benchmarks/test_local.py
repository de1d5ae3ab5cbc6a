"""The benchmark of the local runtime, at a tiny size: it measures a job that really counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks import local as benchmarks_local
from tests.benchmarks.local import PoolReader, PoolSource, WrongCount, measure
from tests.benchmarks.measurement import load_benchmark
from tests.benchmarks.monitoring import median_interval, monitoring_figures


def test_the_job_and_the_loop_are_measured_for_each_number_of_keys() -> None:
    found = measure(records=20_000, keys=(10, 500), rounds=2, pairs=2)
    assert set(found.floors) == {
        f"records_per_second_{keys}_keys{which}" for keys in (10, 500) for which in ("", "_median")
    }
    assert all(found.figures[name] > 0 < floor for name, floor in found.floors.items())
    cost = {f"monitored{which}" for which in ("", "_low", "_high", "_best")}
    assert set(found.ratios) == set(found.floors) | cost
    assert 0 < found.ratios["monitored_low"] <= found.ratios["monitored"] <= found.ratios["monitored_high"]
    assert found.figures["monitored_pairs"] == 2
    # The process that serves HTTP has run, in one run of each pair.
    assert found.figures["monitor_process_cpu_seconds"] > 0
    assert found.figures["checkpoints_10_keys"] >= 1
    assert found.figures["wall_records_per_second_10_keys_2_workers"] > 0


def test_rows_that_are_missing_spoil_the_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmarks_local.Count, "process_element", lambda self, value, ctx: ())
    with pytest.raises(WrongCount, match="0 records of 0 keys counted, of 2,000"):
        measure(records=2_000, keys=(10,), rounds=1, pairs=1)


def test_rows_that_are_there_twice_spoil_the_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    count = benchmarks_local.Count.process_element
    monkeypatch.setattr(
        benchmarks_local.Count, "process_element", lambda self, value, ctx: 2 * count(self, value, ctx)
    )
    with pytest.raises(WrongCount, match=r"key \d counts 1 after 1"):
        measure(records=2_000, keys=(10,), rounds=1, pairs=1)


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


@pytest.mark.parametrize(
    ("number", "outside"),
    [(2, 0), (5, 0), (6, 0), (8, 0), (9, 1), (10, 1), (20, 5)],
)
def test_the_interval_of_a_median_leaves_out_what_the_binomial_allows(number: int, outside: int) -> None:
    values = [float(place) for place in reversed(range(number))]
    assert median_interval(values) == (outside, number - 1 - outside)


def test_the_runs_of_a_pair_take_turns_and_give_the_median_of_their_ratios() -> None:
    asked: list[bool] = []

    def seconds(options: dict[str, int]) -> float:
        asked.append(bool(options))
        return 2.0 if options else 1.0

    figures, ratios = monitoring_figures(seconds, 3)
    assert asked == [False, True, True, False, False, True]
    assert (figures["monitored_cpu_seconds"], figures["not_monitored_cpu_seconds"]) == (2.0, 1.0)
    assert ratios["monitored"] == ratios["monitored_low"] == ratios["monitored_best"] == 0.5


def test_the_pool_is_read_repeatedly() -> None:
    reader = PoolReader([(1, None), (2, None), (3, None)], 0, 7)
    given = []
    while batch := reader.read(2):
        given += [key for key, _ in batch]
    assert given == [1, 2, 3, 1, 2, 3, 1]
    assert reader.exhausted


def test_the_command_knows_it() -> None:
    assert load_benchmark("local") is measure
