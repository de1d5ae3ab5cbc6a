"""Time in epochs: it stands still while records are taken, and what is due happens when all are in."""

from __future__ import annotations

from collections import Counter

import pytest

from onceproof.engine import (
    Configuration,
    Encoder,
    FileSink,
    KeyedProcessFunction,
    StreamExecutionEnvironment,
    Types,
    ValueStateDescriptor,
)
from onceproof.engine.connectors.collection import CollectionSource
from onceproof.engine.protocol_points import ELEMENT, SNAPSHOTTED
from onceproof.engine.runtime.local import execute
from onceproof.engine.watermarks.strategy import WatermarkStrategy

RECORDS = {
    f"log-{place}": [((number % 3, number), 10 * number) for number in range(60)] for place in range(2)
}


class CountPerSecond(KeyedProcessFunction):
    """Counts the records of a key, a hundred milliseconds of event time, until that time has passed."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(ctx.timestamp() // 100 * 100 + 99)
        return ()

    def on_timer(self, timestamp, ctx):
        count = self.count.value()
        if count:
            self.count.clear()
            yield *ctx.get_current_key(), count


class FlushLater(KeyedProcessFunction):
    """Gives the number of records of a key a moment of processing time later, and the moments of both."""

    def open(self, runtime_context):
        self.waiting = runtime_context.get_state(ValueStateDescriptor("waiting", Types.LIST(Types.LONG())))

    def process_element(self, value, ctx):
        now = ctx.timer_service().current_processing_time()
        count, _ = self.waiting.value() or [0, now]
        self.waiting.update([count + 1, now])
        ctx.timer_service().register_processing_time_timer(now + 1)
        return ()

    def on_timer(self, timestamp, ctx):
        count, since = self.waiting.value()
        self.waiting.clear()
        yield count, ctx.timer_service().current_processing_time() - since


def graph_of(function, folder, strategy):
    options = {
        "execution.checkpointing.interval-records": 20,
        "execution.checkpointing.dir": str(folder / "checkpoints"),
        "pipeline.buffer-records": 4,
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_mapping(options))
    env.set_parallelism(2).set_max_parallelism(16)
    log = env.from_source(CollectionSource(RECORDS), strategy, "log").uid("log")
    key_type = Types.TUPLE([Types.LONG(), Types.LONG()])
    keyed = log.key_by(lambda value: (value[0], value[1] // 10), key_type)
    counted = keyed.process(function).name("count").uid("count")
    counted.sink_to(FileSink.for_row_format(str(folder / "out"), Encoder.json_lines_encoder()).build())
    return env.get_job_graph("time")


def rows(folder):
    parts = [part for part in (folder / "out").iterdir() if not part.name.startswith(".")]
    return Counter(line for part in parts for line in part.read_text().splitlines())


@pytest.mark.parametrize("point", [None, ELEMENT, SNAPSHOTTED])
def test_timers_in_event_time_fire_as_in_the_local_runtime(tmp_path, here, point):
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    execute(graph_of(CountPerSecond(), tmp_path / "local", strategy))
    settings = {} if point is None else {"probe": here.dying(point, task="count", times=2)}
    _, result = here(graph_of(CountPerSecond(), tmp_path / "spark", strategy), **settings)
    assert result.checkpoints == 6
    assert rows(tmp_path / "spark") == rows(tmp_path / "local")
    assert len(rows(tmp_path / "local")) > 1


def test_watermarks_advance_in_every_epoch(tmp_path, here):
    seen = {}

    class Watched(here.execution):
        def checkpoint_completed(self, effect):
            super().checkpoint_completed(effect)
            out = tmp_path / "out"
            seen[effect.checkpoint_id] = sum(rows(tmp_path).values()) if out.exists() else 0

    strategy = WatermarkStrategy.for_monotonous_timestamps()
    here(graph_of(CountPerSecond(), tmp_path, strategy), execution_class=Watched)
    counts = list(seen.values())
    # Each epoch reads 100 ms of event time; at its end those of the epochs before are over. What it gives is
    # seen when the next one completes.
    assert counts == [0, 0, 3, 6, 9, 12]
    assert sum(rows(tmp_path).values()) == 18


def test_timers_in_processing_time_fire_at_the_end_of_their_epoch(tmp_path, here):
    here(graph_of(FlushLater(), tmp_path, None))
    given = Counter()
    for line, times in rows(tmp_path).items():
        count, waited = map(int, line.strip("[]").split(","))
        assert waited == 1
        given[count] += times
    # Three keys, an epoch of ten records of each log; in the last of six the input ends, and nothing fires.
    assert sum(count * times for count, times in given.items()) == 5 * 20
    assert sum(given.values()) == 5 * 3
