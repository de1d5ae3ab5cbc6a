"""The job whose savepoints of released versions are kept: it has state of every kind that they all know.

In a checkout of a release, ``python -m tests.engine.runtime.released_job FOLDER`` ends the job in its middle;
`released` has the savepoint, and the rows that were committed before. The package of 0.1.0 is `engine`.
"""

import sys
import threading
from pathlib import Path

from onceproof import engine

RECORDS = 60
MIDDLE = 40
PATIENCE_SECONDS = 60


class Gate:
    """Holds the job up at a record, until it is asked to stop."""

    def __init__(self):
        self.reached = threading.Event()
        self.opened = threading.Event()

    def __deepcopy__(self, memo):
        return self


class Everything(engine.KeyedProcessFunction):
    """Keeps a value, a list, a map, and a timer for each record."""

    def __init__(self, gate):
        self.gate = gate

    def open(self, runtime_context):
        self.count = runtime_context.get_state(engine.ValueStateDescriptor("count", engine.Types.LONG()))
        self.seen = runtime_context.get_list_state(engine.ListStateDescriptor("seen", engine.Types.LONG()))
        pair = engine.Types.TUPLE([engine.Types.LONG(), engine.Types.DOUBLE()])
        kept = engine.MapStateDescriptor("kept", engine.Types.STRING(), pair)
        self.kept = runtime_context.get_map_state(kept)

    def process_element(self, number, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        self.seen.add(number)
        self.kept.put(f"k{number % 4}", (number, number / 2))
        ctx.timer_service().register_event_time_timer(number + 1000)
        if number == MIDDLE and not self.gate.reached.is_set():
            self.gate.reached.set()
            assert self.gate.opened.wait(PATIENCE_SECONDS)
        yield f"{number} {count}"

    def on_timer(self, timestamp, ctx):
        seen, kept = sorted(self.seen.get()), sorted(self.kept.items())
        yield f"{timestamp} {self.count.value()} {seen} {kept}"


class Numbered(engine.TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value


def start(folder, gate, **options):
    """Start the job; return its client."""
    settings = {
        "execution.checkpointing.interval-records": 10,
        "execution.checkpointing.dir": str(folder / "checkpoints"),
        "execution.checkpointing.savepoint-dir": str(folder / "savepoints"),
        "pipeline.buffer-records": 1,
        "pipeline.max-parallelism": 16,
        "parallelism.default": 2,
        **options,
    }
    env = engine.StreamExecutionEnvironment.get_execution_environment(
        engine.Configuration.from_mapping(settings)
    )
    times = engine.WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Numbered())
    (
        env.from_collection(list(range(RECORDS)), engine.Types.LONG())
        .uid("numbers")
        .assign_timestamps_and_watermarks(times)
        .uid("times")
        .key_by(lambda number: number % 3, engine.Types.LONG())
        .process(Everything(gate))
        .uid("everything")
        .sink_to(
            engine.FileSink.for_row_format(
                str(folder / "out"), engine.Encoder.simple_string_encoder()
            ).build()
        )
        .uid("sink")
    )
    return env.execute_async("released")


def rows_in(folder):
    """Return the committed rows in order."""
    files = [path for path in (folder / "out").rglob("*") if path.is_file() and not path.name.startswith(".")]
    return sorted(line for path in files for line in path.read_text().splitlines())


def main(folder):
    """Stop the job in its middle; what is left is its savepoint and what it has committed."""
    gate = Gate()
    client = start(folder, gate)
    assert gate.reached.wait(PATIENCE_SECONDS)
    future = client.stop_with_savepoint(False)
    gate.opened.set()
    print(future.result(PATIENCE_SECONDS))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
