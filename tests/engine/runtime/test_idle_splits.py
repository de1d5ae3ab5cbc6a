"""A split without records that holds event time back is named once, with the remedy."""

from __future__ import annotations

import logging
import time

import pytest

from onceproof.engine import (
    Configuration,
    Duration,
    SinkFunction,
    StreamExecutionEnvironment,
    Types,
    WatermarkStrategy,
)
from onceproof.engine.connectors.source import Source, SplitReader
from onceproof.engine.runtime import idle_splits
from onceproof.engine.watermarks.strategy import TimestampAssigner
from tests.patience import PATIENCE_SECONDS

SECONDS = 0.5
INTERVAL_MS = 10


class _Reader(SplitReader):
    retry_ms = 1

    def __init__(self, is_time_over, gives):
        self._is_time_over = is_time_over
        self._gives = gives
        self._read = 0
        self._is_over = False

    @property
    def exhausted(self):
        return self._is_over

    def position(self):
        return self._read

    def read(self, limit):
        self._is_over = self._is_time_over()
        if self._is_over or not self._gives:
            return []
        time.sleep(0.001)
        self._read += 1
        return [((self._read * 1000,), None)]


class TwoSplits(Source):
    """One split has a record every millisecond, the other one none; they end together."""

    is_bounded = True

    def __init__(self, quiet_gives=False, is_over=None):
        self._quiet_gives = quiet_gives
        ends = time.monotonic() + (PATIENCE_SECONDS if is_over else SECONDS)
        self._is_time_over = lambda: time.monotonic() > ends or (is_over is not None and is_over())

    def splits(self):
        return ["quick", "quiet"]

    def open_split(self, split, position):
        return _Reader(self._is_time_over, split == "quick" or self._quiet_gives)


class First(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[0]


class Nothing(SinkFunction):
    def invoke(self, value, context):
        pass


def named(caplog, strategy, parallelism, source=None):
    """Run the job until its source ends; return what the log says of splits."""
    options = {"pipeline.auto-watermark-interval": INTERVAL_MS}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_mapping(options))
    env.set_parallelism(parallelism)
    strategy = strategy.with_timestamp_assigner(First())
    clicks = env.from_source(source or TwoSplits(), strategy, "clicks", Types.TUPLE([Types.LONG()]))
    clicks.add_sink(Nothing())
    with caplog.at_level(logging.WARNING, idle_splits.__name__):
        env.execute("visits")
    return said(caplog)


def said(caplog):
    return [record.getMessage() for record in caplog.records if record.name == idle_splits.__name__]


@pytest.mark.parametrize("parallelism", [1, 2])
def test_quiet_split_is_named_once_with_the_remedy(caplog, parallelism):
    # The splits end once the quiet one is named: how long that takes, the machine decides.
    source = TwoSplits(is_over=lambda: bool(said(caplog)))
    [line] = named(caplog, WatermarkStrategy.for_monotonous_timestamps(), parallelism, source)
    assert line.startswith("job 'visits': split 'quiet' of source 'clicks' holds event time back at its ")
    assert "for 10 watermark intervals" in line
    assert "with_idleness(...)" in line


def test_quiet_split_that_is_declared_idle_is_not_named(caplog):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_idleness(Duration.of_millis(20))
    assert named(caplog, strategy, 1) == []


def test_splits_that_go_on_together_are_not_named(caplog):
    assert named(caplog, WatermarkStrategy.for_monotonous_timestamps(), 1, TwoSplits(quiet_gives=True)) == []
