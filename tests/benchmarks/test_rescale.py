"""The benchmark of rescales, at a tiny size: the engine's own, and what is asked of the peer's state."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.benchmarks import spark_rescale
from tests.benchmarks.local import WrongCount
from tests.benchmarks.measurement import load_benchmark
from tests.benchmarks.spark_rescale import engine_steps, measure, source_of
from tests.benchmarks.spark_rescale_peer import STEPS, Given, NewFiles, StepTaken, check_state

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEYS = 200
RECORDS = 20


@pytest.mark.spark
def test_a_state_in_databases_is_rescaled_beside_the_peer(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert load_benchmark("rescale") is measure
    monkeypatch.setattr(spark_rescale, "BACKENDS", {"rocksdb": spark_rescale.BACKENDS["rocksdb"]})
    asked = []

    def peer(session: object, source: Any) -> dict[str, StepTaken]:
        asked.append((source.keys, source.records))
        return {step: StepTaken(100.0, 5, 0.0 if step == "same" else 60.0) for step in STEPS}

    found = measure(KEYS, RECORDS, 1, spark, warms_up=False, peer=peer)
    assert asked == [(KEYS, 2 * KEYS + 3 * RECORDS)]
    steps = {f"{backend}_{step}" for backend in spark_rescale.BACKENDS for step in STEPS}
    assert set(found.ratios) == steps
    for step in steps:
        assert found.figures[f"{step}_seconds"] > 0
        assert found.ratios[step] == pytest.approx(100 / found.figures[f"{step}_seconds"], rel=0.01)
        # Every epoch leaves a checkpoint with something in it.
        assert found.figures[f"{step}_bytes"] > 100
    assert found.floors["structured_streaming_2_to_4_offline_seconds"] == 60.0
    assert "structured_streaming_same_offline_seconds" not in found.floors


@pytest.mark.spark
def test_a_job_restored_without_its_state_spoils_the_measurement(spark: SparkSession) -> None:
    forgetful = {"execution.checkpointing.externalized-checkpoint-retention": "DELETE_ON_CANCELLATION"}
    with pytest.raises(WrongCount, match=r"key \d+ counts 1 after 1"):
        engine_steps(spark, source_of(KEYS, RECORDS), forgetful)


def test_every_key_is_read_first_and_last_and_some_in_between() -> None:
    counts = source_of(KEYS, RECORDS).counts()
    assert set(counts) == set(range(KEYS))
    assert sum(counts.values()) == 2 * KEYS + 3 * RECORDS
    assert min(counts.values()) == 2


class StateOf:
    """A session whose state reader finds a row."""

    def __init__(self, *row: int) -> None:
        self.read = self
        self._row = row

    def format(self, name: str) -> StateOf:
        return self

    def load(self, path: str) -> StateOf:
        return self

    def selectExpr(self, *asked: str) -> StateOf:  # noqa: N802
        return self

    def collect(self) -> Iterator[tuple[int, ...]]:
        yield self._row


def test_state_of_the_peer_that_lacks_something_spoils_the_measurement(tmp_path: Path) -> None:
    given = Given()
    given.add([0, 1, 2, 2])

    def check(*row: int) -> None:
        session: Any = StateOf(*row)
        check_state(session, tmp_path, 3, 4, given)

    check(3, 4, 4, 5)
    # A key that is gone, a partition, a record, and one that was counted for another key.
    for row in ((2, 4, 4, 5), (3, 2, 4, 5), (3, 4, 3, 5), (3, 4, 4, 6)):
        with pytest.raises(
            WrongCount, match=r"at parallelism 4 Structured Streaming has .*, not \(3, 4, 4, 5\)"
        ):
            check(*row)


def test_only_files_that_are_new_are_counted(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("12345")
    new = NewFiles(tmp_path)
    assert new.bytes() == 0
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "new").write_text("123")
    assert new.bytes() == 3
