"""BATCH mode in epochs: the whole input is one epoch, whose stages sort it, whatever worker dies."""

from __future__ import annotations

import pytest

from onceproof.engine import (
    Configuration,
    Encoder,
    FileSink,
    KeyedProcessFunction,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
    Types,
)
from onceproof.engine.connectors.collection import CollectionSource
from onceproof.engine.protocol_points import ELEMENT, END_OF_DATA, SNAPSHOTTED
from onceproof.engine.runtime.spark.target import execute_on_spark

LATEST = 300


class Place(KeyedProcessFunction):
    """Numbers the records of a key, with the watermark before each."""

    def open(self, runtime_context):
        self._places = {}

    def process_element(self, value, ctx):
        place = self._places[value[0]] = self._places.get(value[0], 0) + 1
        yield f"{value[0]} {value[1]} {place} {ctx.timer_service().current_watermark()}"


def sorted_graph(folder, interval=7):
    env = StreamExecutionEnvironment.get_execution_environment(
        Configuration.from_mapping(
            {
                "execution.checkpointing.interval-records": interval,
                "execution.checkpointing.dir": str(folder / "checkpoints"),
                "execution.sorted-inputs.memory": "1 kb",
                "pipeline.buffer-records": 20,
            }
        )
    )
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    env.set_parallelism(2).set_max_parallelism(16)
    records = {
        split: [((key, time), time) for time in range(LATEST - offset, 0, -2) for key in "ab"]
        for offset, split in enumerate(("even", "odd"))
    }
    stream = env.from_source(CollectionSource(records), None, "values")
    placed = stream.key_by(lambda value: value[0], Types.STRING()).process(Place(), Types.STRING())
    placed.sink_to(FileSink.for_row_format(str(folder / "out"), Encoder.simple_string_encoder()).build())
    return env.get_job_graph("sorted")


def lines_in(folder):
    parts = (folder / "out").rglob("part-*")
    return sorted(line for part in parts for line in part.read_text().splitlines())


EXPECTED = sorted(f"{key} {time} {time} {-(2**63)}" for key in "ab" for time in range(1, LATEST + 1))


def test_a_batch_is_one_epoch(tmp_path, here):
    _, result = here(sorted_graph(tmp_path))
    assert lines_in(tmp_path) == EXPECTED
    assert (result.attempts, result.checkpoints, result.records_read) == (1, 1, 2 * LATEST)


@pytest.mark.parametrize("point", [ELEMENT, END_OF_DATA, SNAPSHOTTED])
def test_a_stage_whose_worker_dies_begins_again(tmp_path, here, point):
    probe = here.dying(point, task="KeyedProcess", times=2)
    _, result = here(sorted_graph(tmp_path), probe)
    assert probe.struck == 2
    assert lines_in(tmp_path) == EXPECTED
    assert (result.attempts, result.checkpoints) == (1, 1)


@pytest.mark.spark
def test_a_batch_is_sorted_on_a_real_spark(tmp_path, spark):
    execute_on_spark(sorted_graph(tmp_path), spark)
    assert lines_in(tmp_path) == EXPECTED
