"""A job with user code in every place where the engine calls it; one of the calls raises, once.

Each number of the input becomes one line of the output, whatever is raised where.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

from onceproof.engine import (
    AsyncDataStream,
    AsyncFunction,
    CheckpointedFunction,
    CheckpointListener,
    Configuration,
    Encoder,
    FileSink,
    FlatMapFunction,
    KeyedProcessFunction,
    MapFunction,
    Partitioner,
    StreamExecutionEnvironment,
    Time,
    TimestampAssigner,
    Types,
    ValueStateDescriptor,
    WatermarkGenerator,
    WatermarkStrategy,
)
from onceproof.engine.connectors.source import Source, SplitReader

COUNT = 60


class Odd(BaseException):
    """An error of a library that is no Exception."""


class Mute(Exception):
    def __str__(self):
        raise SystemExit(0)


ERRORS = {
    "exit": lambda: SystemExit(0),
    "exit 3": lambda: SystemExit(3),
    "interrupt": KeyboardInterrupt,
    "cancelled": asyncio.CancelledError,
    "generator": GeneratorExit,
    "iteration": StopIteration,
    "memory": MemoryError,
    "recursion": RecursionError,
    "odd": lambda: Odd("never any luck"),
    "mute": Mute,
    "surrogate": lambda: ValueError("bad \udcff \ud800 text"),
    "huge": lambda: ValueError("x" * 5_000_000),
}


class Leaves:
    """Raises where ``place`` is passed for the n-th time, once for all processes that share a folder."""

    def __init__(self, folder, place, error, occurrence=1):
        self.mark = str(Path(folder) / "left")
        self.place, self.error, self.left = place, error, occurrence

    def at(self, place):
        if place == self.place:
            self.left -= 1
            if self.left <= 0 and not Path(self.mark).exists():
                Path(self.mark).touch()
                raise ERRORS[self.error]()


class Reader(SplitReader):
    position = 0

    def __init__(self, numbers, leaves):
        self.numbers, self.leaves, self.position = numbers, leaves, 0

    @property
    def exhausted(self):
        return self.position >= len(self.numbers)

    def read(self, limit):
        self.leaves.at("source")
        begin = self.position
        self.position = min(len(self.numbers), begin + limit)
        return [(number, None) for number in self.numbers[begin : self.position]]


class Numbers(Source):
    def __init__(self, leaves):
        self.leaves = leaves

    def splits(self):
        self.leaves.at("splits")
        return ["0", "1"]

    def open_split(self, split, position):
        reader = Reader(range(int(split), COUNT, 2), self.leaves)
        reader.position = position or 0
        return reader


class Timestamps(TimestampAssigner):
    def __init__(self, leaves):
        self.leaves = leaves

    def extract_timestamp(self, value, record_timestamp):
        self.leaves.at("timestamps")
        return value


class Watermarks(WatermarkGenerator):
    def __init__(self, leaves):
        self.leaves = leaves

    def on_event(self, event, event_timestamp, output):
        self.leaves.at("watermarks")

    def on_periodic_emit(self, output):
        pass


class Mapped(MapFunction, CheckpointedFunction, CheckpointListener):
    def __init__(self, leaves):
        self.leaves = leaves

    def initialize_state(self, context):
        self.leaves.at("initialize")

    def open(self, runtime_context):
        self.leaves.at("open")

    def map(self, value):
        self.leaves.at("map")
        return value

    def snapshot_state(self, context):
        self.leaves.at("snapshot")

    def notify_checkpoint_complete(self, checkpoint_id):
        self.leaves.at("notify")

    def close(self):
        self.leaves.at("close")


class Flattened(FlatMapFunction):
    def __init__(self, leaves):
        self.leaves = leaves

    def flat_map(self, value):
        yield value
        self.leaves.at("generator")


class Chosen(Partitioner):
    def __init__(self, leaves):
        self.leaves = leaves

    def partition(self, key, num_partitions):
        self.leaves.at("partitioner")
        return key % num_partitions


class Held:
    """What a state holds; it copies and pickles itself."""

    def __init__(self, leaves):
        self.leaves = leaves

    def __deepcopy__(self, memo):
        self.leaves.at("copy")
        return Held(self.leaves)

    def __reduce__(self):
        self.leaves.at("pickle")
        return Held, (self.leaves,)


class Counted(KeyedProcessFunction):
    def __init__(self, leaves):
        self.leaves = leaves

    def open(self, runtime_context):
        self.held = runtime_context.get_state(ValueStateDescriptor("held", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value, ctx):
        self.leaves.at("process")
        self.held.update(Held(self.leaves))
        ctx.timer_service().register_event_time_timer(COUNT)
        yield value

    def on_timer(self, timestamp, ctx):
        self.leaves.at("timer")
        return ()


class Asked(AsyncFunction):
    def __init__(self, leaves):
        self.leaves = leaves

    async def async_invoke(self, value):
        await asyncio.sleep(0)
        self.leaves.at("async")
        return [value]


class Lines(Encoder):
    def __init__(self, leaves):
        self.leaves = leaves

    def encode_batch(self, values):
        self.leaves.at("encoder")
        return "".join(f"{value}\n" for value in values).encode()


def environment(folder, leaves, **options):
    """Return an environment with the job described; the rows are written below ``folder``."""
    settings = {
        "execution.checkpointing.interval-records": 20,
        "execution.checkpointing.dir": f"{folder}/checkpoints",
        "pipeline.allow-pickled-state": True,
        "pipeline.buffer-records": 5,
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": 3,
        "restart-strategy.fixed-delay.delay": 0,
        **{key.replace("__", ".").replace("_", "-"): value for key, value in options.items()},
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_mapping(settings))
    env.set_parallelism(2).set_max_parallelism(8)

    def passes(place, result):
        def call(value):
            leaves.at(place)
            return result(value)

        return call

    strategy = WatermarkStrategy.for_generator(lambda context: Watermarks(leaves))
    numbers = env.from_source(
        Numbers(leaves), strategy.with_timestamp_assigner(Timestamps(leaves)), "numbers"
    )
    mapped = numbers.map(Mapped(leaves), Types.LONG()).filter(passes("filter", lambda value: True))
    flat = mapped.flat_map(Flattened(leaves), Types.LONG())
    placed = flat.partition_custom(Chosen(leaves), passes("partition key", lambda value: value))
    same = placed.map(lambda value: value, Types.LONG())
    counted = same.key_by(passes("key", lambda value: value % 7), Types.LONG()).process(
        Counted(leaves), Types.LONG()
    )
    asked = AsyncDataStream.unordered_wait(counted, Asked(leaves), Time.seconds(60), 5, Types.LONG())
    asked.sink_to(FileSink.for_row_format(f"{folder}/out", Lines(leaves)).build())
    return env


def rows(folder):
    """Return how often each number is in the visible files."""
    files = [path for path in (Path(folder) / "out").iterdir() if not path.name.startswith(".")]
    return Counter(int(line) for path in files for line in path.read_text().split())


ALL = Counter(range(COUNT))
