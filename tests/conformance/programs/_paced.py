"""A stream in event time whose watermark follows each record: the records are a pause apart."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from onceproof.engine import (
    DataStream,
    Duration,
    MapFunction,
    StreamExecutionEnvironment,
    TimestampAssigner,
    TypeInformation,
    WatermarkStrategy,
)

PAUSE_SECONDS = 0.02
"""Longer than the interval of watermarks, which is 1 ms where the programs run; the recorder takes more."""


class Pause(MapFunction):
    """Holds each record back for a while; the first one for ten times as long, until all tasks run."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._is_first = True

    def map(self, value: Any) -> Any:
        time.sleep(self._seconds * (10 if self._is_first else 1))
        self._is_first = False
        return value


class Field(TimestampAssigner):
    """Takes a field of each record for its time in milliseconds."""

    def __init__(self, index: int) -> None:
        self._index = index

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[self._index])


def paced(
    env: StreamExecutionEnvironment,
    values: Sequence[Any],
    value_type: TypeInformation,
    field: int,
    late_by_ms: int = 0,
) -> DataStream:
    """Return a stream of the values.

    Args:
        env: the environment.
        values: tuples.
        value_type: their type.
        field: which of their fields is the time.
        late_by_ms: how much later than another one a record may come and not be late.
    """
    times = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(late_by_ms))
    stream = env.from_collection(list(values), value_type).map(Pause(PAUSE_SECONDS), value_type)
    # While Flink's source has records, no watermark passes in its task.
    stream = stream.set_parallelism(1).start_new_chain()
    return stream.assign_timestamps_and_watermarks(
        times.with_timestamp_assigner(Field(field))
    ).set_parallelism(1)
