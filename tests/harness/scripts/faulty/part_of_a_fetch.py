"""A source fetches four rows at once; its position is behind all of them, though some are not handed out."""

from pyflink.common import WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.base import Source

from onceproof.engine import SplitReader

LOG = [f"line {number}" for number in range(22)]
FETCH = 4


class LogReader(SplitReader):
    def __init__(self, offset):
        self._offset = offset
        self._fetched = []

    def read(self, limit):
        if not self._fetched:
            self._fetched = LOG[self._offset : self._offset + FETCH]
            self._offset += len(self._fetched)
        handed, self._fetched = self._fetched[:limit], self._fetched[limit:]
        return [(line, None) for line in handed]

    @property
    def position(self):
        return self._offset

    @property
    def exhausted(self):
        return not self._fetched and self._offset >= len(LOG)


class LogSource(Source):
    def splits(self):
        return ["log"]

    def open_split(self, split, position):
        return LogReader(position or 0)


env = StreamExecutionEnvironment.get_execution_environment()
lines = env.from_source(LogSource(), WatermarkStrategy.no_watermarks(), "log")
lines.map(lambda line: line.split()[1]).print()
env.execute("log")
