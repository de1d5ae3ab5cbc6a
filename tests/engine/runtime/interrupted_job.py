"""A job over an endless source that counts into part files; the test interrupts it."""

import sys
import time
from pathlib import Path

from onceproof.engine import Configuration, Encoder, FileSink, StreamExecutionEnvironment, Types
from onceproof.engine.connectors.source import Source, SplitReader


class Numbers(SplitReader):
    """Numbers without end, some at a time."""

    exhausted = False
    position = 0

    def __init__(self, position):
        self.position = position or 0

    def read(self, limit):
        begin = self.position
        self.position = begin + min(limit, 5)
        return [(number, None) for number in range(begin, self.position)]


class Endless(Source):
    """Two splits of numbers without end."""

    is_bounded = False

    def splits(self):
        return ["a", "b"]

    def open_split(self, split, position):
        return Numbers(position)


def slowly(number):
    """Say so, and take a moment."""
    print("working", flush=True)
    time.sleep(float(sys.argv[2]))
    return number


folder = Path(sys.argv[1])
options = {
    "execution.checkpointing.interval": "20 ms",
    "execution.local.workers": int(sys.argv[3]) if len(sys.argv) > 3 else 1,
    "parallelism.default": 2 if len(sys.argv) > 3 else 1,
    "execution.checkpointing.dir": str(folder / "checkpoints"),
    "execution.checkpointing.externalized-checkpoint-retention": "DELETE_ON_CANCELLATION",
}
environment = StreamExecutionEnvironment.get_execution_environment(Configuration.from_mapping(options))
sink = FileSink.for_row_format(str(folder / "out"), Encoder.simple_string_encoder()).build()
environment.from_source(Endless()).map(slowly, Types.LONG()).sink_to(sink)
environment.execute("endless")
