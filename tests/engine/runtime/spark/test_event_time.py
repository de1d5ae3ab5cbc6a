"""Event time from epoch to epoch: what is late in the local runtime is late on Spark, and only that."""

from __future__ import annotations

import threading
from collections import Counter

import pytest
from msgspec.structs import replace

from onceproof.engine import (
    Configuration,
    Encoder,
    FileSink,
    OutputTag,
    ProcessFunction,
    StreamExecutionEnvironment,
    Time,
    TumblingEventTimeWindows,
    Types,
)
from onceproof.engine.checkpoint.events import MetadataFailed
from onceproof.engine.connectors.collection import CollectionSource
from onceproof.engine.durations import Duration
from onceproof.engine.elements import Watermark
from onceproof.engine.protocol_points import ELEMENT, PRE_COMMITTED
from onceproof.engine.runtime.local import execute
from onceproof.engine.runtime.spark.epoch_time import (
    AttemptTime,
    EpochSpan,
    TimeNotCarried,
    pack_time,
    unpack_time,
)
from onceproof.engine.task.event_context import EventContext
from onceproof.engine.task.input_time import TaskTime
from onceproof.engine.wall_clock import WallClock
from onceproof.engine.watermarks.generators import WatermarkGenerator
from onceproof.engine.watermarks.stamping import TimestampsAndWatermarks
from onceproof.engine.watermarks.strategy import WatermarkStrategy
from onceproof.engine.windows.window_functions import ProcessWindowFunction

LATE = OutputTag("late")
WINDOW_MS = 100
IDLE = -1
"""A record with this number marks its split as idle from then on."""


class Furthest(WatermarkGenerator):
    """The highest timestamp so far, right behind each record; a record IDLE ends that."""

    def __init__(self, context):
        self.clock = context.get_input_activity_clock()
        self.highest = 0
        self.is_idle = False

    def on_event(self, event, event_timestamp, output):
        if event[1] == IDLE:
            self.is_idle = True
            output.mark_idle()
        if not self.is_idle:
            self.highest = max(self.highest, event_timestamp)
            output.emit_watermark(Watermark(self.highest - 1))

    def on_periodic_emit(self, output):
        pass


class CountAndTell(ProcessWindowFunction):
    """Gives a window's key, start and number of records."""

    def process(self, key, context, elements):
        yield f"window {key} {context.window().start} {len(list(elements))}"


class Late(ProcessFunction):
    def process_element(self, value, ctx):
        yield f"late {value[0]} {value[1]} at {ctx.timestamp()}"


def split(key, begin_ms=1000, idle_at=None):
    """Sixty records, 10 ms apart; each seventh is far behind."""
    records = []
    for number in range(60):
        timestamp = begin_ms + 10 * number - (300 if number % 7 == 6 else 0)
        records.append(((key, IDLE if number == idle_at else number), timestamp))
    return records


def graph_of(folder, records, *, lateness_ms=0, interval=20, strategy=None, in_the_middle=False):
    options = {
        "execution.checkpointing.interval-records": interval,
        "execution.checkpointing.dir": str(folder / "checkpoints"),
        "pipeline.buffer-records": 4,
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_mapping(options))
    env.set_parallelism(2).set_max_parallelism(16)
    if strategy is None:
        strategy = WatermarkStrategy.for_generator(Furthest)
    source = CollectionSource(records)
    if in_the_middle:
        stream = env.from_source(source, None, "log").assign_timestamps_and_watermarks(strategy)
    else:
        stream = env.from_source(source, strategy, "log")
    windows = (
        stream.key_by(lambda value: value[0], Types.STRING())
        .window(TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MS)))
        .allowed_lateness(lateness_ms)
        .side_output_late_data(LATE)
        .process(CountAndTell())
    )
    rows = windows.union(windows.get_side_output(LATE).process(Late()))
    rows.sink_to(FileSink.for_row_format(str(folder / "out"), Encoder.json_lines_encoder()).build())
    return env.get_job_graph("time")


def rows(folder):
    parts = [part for part in (folder / "out").iterdir() if not part.name.startswith(".")]
    return Counter(line.strip('"') for part in parts for line in part.read_text().splitlines())


def late(found):
    return Counter({row: count for row, count in found.items() if row.startswith("late")})


@pytest.mark.parametrize("in_the_middle", [False, True], ids=["at the source", "in the middle"])
@pytest.mark.parametrize("lateness_ms", [0, 150])
@pytest.mark.parametrize("interval", [8, 1000])
def test_same_rows_are_late_as_in_local_runtime(tmp_path, here, interval, lateness_ms, in_the_middle):
    records = {"log-a": split("a"), "log-b": split("b")}
    settings = {"lateness_ms": lateness_ms, "in_the_middle": in_the_middle}
    execute(graph_of(tmp_path / "local", records, **settings))
    expected = rows(tmp_path / "local")
    assert len(late(expected)) == 2 * 8
    _, result = here(graph_of(tmp_path / "spark", records, interval=interval, **settings))
    assert result.checkpoints >= 120 // interval
    assert rows(tmp_path / "spark") == expected
    assert max(expected.values()) == 1, "no window answers twice"


@pytest.mark.spark
def test_same_rows_are_late_on_spark_itself(tmp_path, spark):
    from onceproof.engine.runtime.spark.target import execute_on_spark

    records = {"log-a": split("a"), "log-b": split("b")}
    execute(graph_of(tmp_path / "local", records))
    execute_on_spark(graph_of(tmp_path / "spark", records, interval=40), spark)
    assert rows(tmp_path / "spark") == rows(tmp_path / "local")


def test_idle_split_stays_idle_in_the_epochs_that_follow(tmp_path, here):
    records = {"log-a": split("a", begin_ms=100_000, idle_at=3), "log-b": split("b")}
    execute(graph_of(tmp_path / "local", records))
    expected = rows(tmp_path / "local")
    here(graph_of(tmp_path / "spark", records, interval=10))
    assert rows(tmp_path / "spark") == expected
    assert any(row.startswith("late b") for row in expected), "split a holds nothing back"


@pytest.mark.parametrize("point", [ELEMENT, PRE_COMMITTED])
def test_a_task_that_spark_runs_again_finds_the_same_rows_late(tmp_path, here, point):
    records = {"log-a": split("a"), "log-b": split("b")}
    here(graph_of(tmp_path / "calm", records))
    probe = here.dying(point, times=3)
    _, result = here(graph_of(tmp_path / "killed", records), probe=probe)
    assert probe.struck == 3
    assert result.attempts == 1
    assert rows(tmp_path / "killed") == rows(tmp_path / "calm")


def test_event_time_begins_anew_with_a_new_attempt(tmp_path, here):
    """In one split, a record far behind that comes just after the restore finds no watermark yet."""
    records = {
        "log-a": [(("a", number), timestamp) for number, timestamp in enumerate([1000, 2000, 10, 3000])]
    }

    class Stumbling(here.execution):
        def checkpoint_completed(self, effect):
            super().checkpoint_completed(effect)
            if stumbles and effect.checkpoint_id == 2:
                self.rescale(self.graph)

    for stumbles in (False, True):
        folder = tmp_path / str(stumbles)
        graph = graph_of(folder, records, interval=1)
        _, result = here(graph, execution_class=Stumbling)
        assert result.attempts == 1 + stumbles
        assert ("late a 2 at 10" in rows(folder)) is not stumbles


def test_epoch_that_is_discarded_leaves_no_event_time_behind(tmp_path, here):
    """What its tasks saw is read again, and must not be late then."""
    records = {"log-a": split("a"), "log-b": split("b")}
    here(graph_of(tmp_path / "calm", records))

    class Failing(here.execution):
        failed = False

        def store_metadata(self, effect):
            if effect.metadata.checkpoint_id == 3 and not self.failed:
                self.failed = True
                self._mailbox.append(MetadataFailed(3, "no space left"))
            else:
                super().store_metadata(effect)

    graph = graph_of(tmp_path / "failed", records)
    graph = replace(graph, settings=replace(graph.settings, tolerable_failures=1))
    execution, result = here(graph, execution_class=Failing)
    assert execution.failed
    assert result.attempts == 1
    assert rows(tmp_path / "failed") == rows(tmp_path / "calm")


class Stream:
    """What a strategy has sent."""

    def __init__(self):
        self.sent = []

    def emit(self, records):
        pass

    def watermark(self, timestamp):
        self.sent.append(timestamp)

    def status(self, is_idle):
        self.sent.append("idle" if is_idle else "active")


def next_task(stamping, strategy, parts, now):
    """Return a new task's stamping that goes on in place of ``stamping``, by way of bytes."""
    packed = pack_time(TaskTime(None, {"source": stamping.event_time()}), "source-0")
    context, stream = EventContext("source-0", None, WallClock()), Stream()
    context.now = now
    resumed = TimestampsAndWatermarks(strategy, parts, context.steady_clock, stream)
    known = unpack_time(packed).operators["source"]
    resumed.resume(known, {part: part for part in (0, 1)})
    return resumed, stream, context


def test_idle_time_out_goes_on_from_epoch_to_epoch():
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_idleness(Duration.of_millis(100))
    context, stream = EventContext("source-0", None, WallClock()), Stream()
    stamping = TimestampsAndWatermarks(strategy, (0, 1), context.steady_clock, stream)
    stamping.stamp(0, [("a", 10)])
    stamping.on_periodic_emit()
    assert stream.sent == []
    for now, sent in ((60, []), (100, []), (101, [49]), (162, [])):
        stamping, stream, context = next_task(stamping, strategy, (0, 1), now - 1)
        if now != 162:
            stamping.stamp(0, [("a", 50)])
        context.now = now
        stamping.on_periodic_emit()
        assert stream.sent == sent, now


def test_ended_split_stays_ended_in_the_next_epoch():
    """A reader at the end of its split may find that out only when it reads; it holds nothing back."""
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    stream = Stream()
    stamping = TimestampsAndWatermarks(strategy, (0, 1), None, stream)
    stamping.stamp(0, [("a", 10)])
    stamping.remove(1)
    stamping.on_periodic_emit()
    assert stream.sent == [9]
    stamping, stream, _ = next_task(stamping, strategy, (0, 1), 1)
    stamping.stamp(0, [("a", 20)])
    stamping.on_periodic_emit()
    assert stream.sent == [19]


class Locked(Furthest):
    def __init__(self, context):
        super().__init__(context)
        self.lock = threading.Lock()


def test_generator_that_cannot_be_pickled_is_named():
    stamping = TimestampsAndWatermarks(WatermarkStrategy.for_generator(Locked), (0,), None, Stream())
    with pytest.raises(TimeNotCarried, match=r"generator of source-0 cannot .*: .*lock.*leave what cannot"):
        pack_time(TaskTime(None, {"source": stamping.event_time()}), "source-0")


def test_task_without_event_time_carries_nothing():
    assert pack_time(None, "map-0") == b""


def test_wall_clock_that_is_set_moves_no_interval():
    """An epoch begins where the last one ended, by the steady clock, whatever the wall clock says."""
    time = AttemptTime(None)
    first = time.span(5_000, 4_000)
    assert first == EpochSpan(4_999, 5_000, 4_000)
    time.completed(first)
    later = time.span(1_500, 300)
    assert (later.begin_ms - later.ahead_ms, later.end_ms - later.ahead_ms) == (1_000, 1_200)


def test_first_epoch_of_an_attempt_begins_at_the_restored_checkpoint():
    assert AttemptTime(3_000).span(5_000, 4_000) == EpochSpan(3_000, 5_000, 4_000)
    assert AttemptTime(9_000).span(5_000, 4_000) == EpochSpan(4_999, 5_000, 4_000)
