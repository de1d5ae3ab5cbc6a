"""The benchmark of the engine on Spark, at a tiny size: all three that it measures really count."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.benchmarks import spark as benchmarks_spark
from tests.benchmarks import spark_peers
from tests.benchmarks.local import PoolSource, WrongCount
from tests.benchmarks.measurement import load_benchmark
from tests.benchmarks.spark import measure
from tests.benchmarks.spark_epochs import EveryKeyFirst

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    """The shared session, with the options that the benchmark sets as they were."""
    before = {option: spark.conf.get(option, None) for option in spark_peers.STREAMING}
    yield spark
    for option, value in before.items():
        if value is None:
            spark.conf.unset(option)
        else:
            spark.conf.set(option, value)


def test_engine_floor_and_peer_are_measured_side_by_side(
    session: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One peer that writes all counts, and the one that writes the last of each batch.
    two = {name: spark_peers.PEERS[name] for name in ("transform_with_state", "group_by_count")}
    monkeypatch.setattr(benchmarks_spark, "PEERS", two)
    monkeypatch.setattr(benchmarks_spark, "MANY_SUBTASKS", 8)
    # A peer goes to Java for each key of each batch, and a cold one compiles as it goes: few keys do.
    found = measure(
        records=4_000,
        keys=(8,),
        rounds=1,
        small_epochs=2,
        states=(10, 100),
        state_epochs=4,
        session=session,
        warms_up=False,
    )
    peers = {f"{name}_8_keys" for name in two}
    assert set(found.floors) == {
        "records_per_second_8_keys",
        "records_per_second_8_keys_median",
        "epoch_ms",
        *peers,
    }
    assert set(found.ratios) == {
        "records_per_second_8_keys",
        "epoch_ms",
        "epoch_ms_few_keys_against_many",
        "records_per_second_8_keys_8_subtasks_against_2",
        "bundled_group_by_count_8_keys",
        *peers,
    }
    assert {"epoch_ms_beside_10_keys", "epoch_ms_beside_100_keys"} < set(found.figures)
    assert all(value > 0 for value in (*found.figures.values(), *found.floors.values()))
    # Of rates that are whole numbers, a slow machine has small ones.
    assert found.ratios["transform_with_state_8_keys"] == pytest.approx(
        found.figures["records_per_second_8_keys"] / found.floors["transform_with_state_8_keys"], rel=0.2
    )
    assert found.ratios["bundled_group_by_count_8_keys"] == pytest.approx(
        found.figures["bundled_records_per_second_8_keys"] / found.floors["group_by_count_8_keys"], rel=0.2
    )


def test_a_bare_shuffle_that_loses_records_spoils_the_measurement(
    session: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forgetful(partition: int, buffers: Any) -> Iterator[int]:
        yield sum(len(buffer) for _, buffer in list(buffers)[1:])

    monkeypatch.setattr(benchmarks_spark, "_count", forgetful)
    source = PoolSource(4_000, 10)
    pool = session.sparkContext.broadcast(source.pool)
    with pytest.raises(WrongCount, match=r"the bare shuffle made [\d,]+ rows of 4,000 records"):
        benchmarks_spark._floor_seconds(session, source, pool)


def test_rows_of_the_peer_that_are_missing_or_there_twice_spoil_the_measurement(
    session: SparkSession, tmp_path: Path
) -> None:
    part = tmp_path / "part-0.csv"
    part.write_text("0,1\n0,2\n0,3\n1,1\n")
    source = PoolSource(4, 2)
    spark_peers.check_all(session, str(tmp_path), source, "transformWithState")
    for rows in ("0,1\n0,2\n0,2\n1,1\n", "0,1\n0,2\n0,4\n1,1\n", "0,1\n0,2\n1,1\n", ""):
        part.write_text(rows)
        with pytest.raises(WrongCount, match=r"transformWithState wrote \d rows of 4 records"):
            spark_peers.check_all(session, str(tmp_path), source, "transformWithState")


def test_last_counts_that_do_not_come_to_the_records_spoil_the_measurement(
    session: SparkSession, tmp_path: Path
) -> None:
    part = tmp_path / "part-0.csv"
    part.write_text("0,2\n0,3\n1,1\n")
    spark_peers.check_last(session, str(tmp_path), PoolSource(4, 2), "count")
    with pytest.raises(WrongCount, match="count counted 4 of 5 records"):
        spark_peers.check_last(session, str(tmp_path), PoolSource(5, 2), "count")


def test_state_is_loaded_first_and_then_touched_all_over() -> None:
    source = EveryKeyFirst(10, 20)
    reader = source.open_split("share-1", None)
    keys = []
    while batch := reader.read(4):
        keys += [key for key, _ in batch]
    assert keys[:5] == [1, 3, 5, 7, 9]
    assert sorted(keys[5:]) == sorted([1, 3, 5, 7, 9] * 2)
    assert reader.exhausted


def test_the_peer_reads_every_record_in_as_many_batches_as_there_are_epochs(tmp_path: Path) -> None:
    from pyarrow import parquet

    source = PoolSource(10_001, 7)
    spark_peers.write_keys(source, tmp_path / "input")
    files = sorted((tmp_path / "input").iterdir())
    assert len(files) == 4
    keys = [key for path in files for key in parquet.read_table(path).column("key").to_pylist()]
    assert keys == [key for key, _ in source.pool[:10_001]]


def test_the_command_knows_it() -> None:
    assert load_benchmark("spark") is measure
