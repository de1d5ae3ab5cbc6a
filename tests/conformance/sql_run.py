"""Runs the plan of a vector on the engine, row by row, and says which change came after which row.

A row is delivered, the job becomes idle, then the next row is: the local runtime calls ``_wait`` when no
task has anything left to do. After the last row the sources end one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from onceproof.engine import Configuration, StreamExecutionEnvironment
from onceproof.engine.api.datastream import DataStream
from onceproof.engine.connectors.source import Source, SplitReader
from onceproof.engine.elements import Record
from onceproof.engine.functions import SinkFunction
from onceproof.engine.runtime import local
from onceproof.engine.runtime.clocks import Clocks
from onceproof.engine.runtime.job_result import JobExecutionFailed
from onceproof.engine.table.plans import UnsupportedPlan, read_plan
from onceproof.engine.table.table_ends import TableEnd, source_end
from onceproof.engine.table.table_settings import TableSettings
from onceproof.engine.table.translation import translate
from onceproof.engine.table.values import KIND_OF, KINDS, Change, row_decoder, row_encoder
from onceproof.engine.task.task import Task
from onceproof.engine.watermarks.strategy import WatermarkStrategy
from tests.conformance.sql_vectors import SqlVector

END: Final = "end"
PAUSE: Final = "pause:"
STUCK_ROUNDS: Final = 50
SETTINGS: Final = {
    "parallelism.default": "1",
    "pipeline.auto-watermark-interval": "0 ms",
    "restart-strategy.type": "none",
}
NOON: Final = 1_700_000_000_000
"""The wall clock at the beginning, in milliseconds."""


class StandingClocks(Clocks):
    """Clocks that stand still unless a vector pauses."""

    def __init__(self) -> None:
        self.passed_ms = 0

    def steady_ns(self) -> int:
        return (1_000_000 + self.passed_ms) * 1_000_000

    def wall_ms(self) -> int:
        return NOON + self.passed_ms


class Feed:
    """What is delivered when; shared by the sources, the sinks and the runtime of one run."""

    def __init__(self, rows: Mapping[str, Sequence[Change]], order: Sequence[str]) -> None:
        self.rows = rows
        self.order = list(order)
        self.step: int | str | None = None
        self.released = dict.fromkeys(rows, 0)
        self.ended: set[str] = set()
        self.read: list[str] = []
        """The tables that the plan reads."""
        self.wake: dict[str, Any] = {}
        self.clocks = StandingClocks()
        self.changes: dict[str, list[tuple[int | str | None, Change]]] = {}
        self._place = 0

    def __deepcopy__(self, memo: Any) -> Feed:
        return self

    def advance(self) -> bool:
        """Deliver the next row, or end the next source; False: everything has ended."""
        while self._place < len(self.order):
            self.step, table = self._place, self.order[self._place]
            self._place += 1
            if table.startswith(PAUSE):
                self.clocks.passed_ms += int(table.removeprefix(PAUSE))
                return True
            if table in self.read:
                self.released[table] += 1
                self.wake_up(table)
                return True
        self.step = END
        for table in self.rows:
            if table in self.read and table not in self.ended:
                self.ended.add(table)
                self.wake_up(table)
                return True
        return False

    def wake_up(self, table: str) -> None:
        """Have all sources of a table polled."""
        for wake in self.wake[table]:
            wake()


class FeedReader(SplitReader):
    """Reads the rows of a table that the feed has released."""

    def __init__(self, feed: Feed, table: str) -> None:
        self._feed, self._table, self._position = feed, table, 0

    def read(self, limit: int) -> list[Record]:
        begin, self._position = self._position, self._feed.released[self._table]
        return [(change, None) for change in self._feed.rows[self._table][begin : self._position]]

    @property
    def position(self) -> int:
        return self._position

    @property
    def exhausted(self) -> bool:
        return self._table in self._feed.ended

    @property
    def retry_ms(self) -> int:
        return 1 << 40

    def when_available(self, wake_up: Any) -> None:
        self._feed.wake.setdefault(self._table, []).append(wake_up)


class FeedSource(Source):
    """The one split of a table."""

    is_bounded = False

    def __init__(self, feed: Feed, table: str) -> None:
        self._feed, self._table = feed, table

    def splits(self) -> Sequence[str]:
        return ["0"]

    def open_split(self, split: str, position: Any | None) -> FeedReader:
        return FeedReader(self._feed, self._table)


class FeedSink(SinkFunction):
    """Keeps each change with the step at which it came."""

    def __init__(self, feed: Feed, table: str) -> None:
        self._feed, self._table = feed, table

    def invoke(self, value: Change, context: Any) -> None:
        self._feed.changes[self._table].append((self._feed.step, value))


class FeedTables:
    """The ends of a vector."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self.sinks: dict[str, TableEnd] = {}

    def scan(
        self, environment: StreamExecutionEnvironment, table: TableEnd, watermarks: WatermarkStrategy | None
    ) -> DataStream:
        if table.options.get("connector") != "vec":
            raise UnsupportedPlan(f"a source of {table.options.get('connector')}")
        self._feed.read.append(table.name)
        return environment.from_source(FeedSource(self._feed, table.name), watermarks, table.name)

    def sink(self, stream: DataStream, table: TableEnd) -> None:
        self.sinks[table.name] = table
        self._feed.changes[table.name] = []
        stream.add_sink(FeedSink(self._feed, table.name))


class SteppedExecution(local.LocalExecution):
    """The local runtime, which asks the feed for more when it has nothing to do."""

    def __init__(self, feed: Feed, errors: list[BaseException], *arguments: Any) -> None:
        self._feed, self._errors, self._stuck = feed, errors, 0
        super().__init__(*arguments, clocks=feed.clocks)

    def _wait(self) -> None:
        if self._feed.advance():
            return
        self._stuck += 1
        assert self._stuck < STUCK_ROUNDS, "all sources have ended, and the job does not"
        super()._wait()

    def task_died(self, task: Task, error: BaseException) -> None:
        self._errors.append(error)
        super().task_died(task, error)


class Run:
    """What came of a vector: changes by sink (``[step, kind, row in JSON]``) and the error that ended it."""

    def __init__(self) -> None:
        self.changes: dict[str, list[list[Any]]] = {}
        self.keys: dict[str, tuple[int, ...] | None] = {}
        self.error: BaseException | None = None


def run_vector(
    vector: SqlVector,
    plan: Mapping[str, Any],
    settings: TableSettings | None = None,
    functions: Mapping[str, Any] | None = None,
) -> Run:
    """Run the plan of a vector, with the functions of its program.

    Raises:
        UnsupportedPlan: the engine lacks something that it needs.
    """
    configuration = Configuration()
    options = {**SETTINGS, **vector.content.get("conf", {})}
    for key in SETTINGS:
        configuration.set_string(key, options[key])
    environment = StreamExecutionEnvironment.get_execution_environment(configuration)
    session = {"table.local-time-zone": "UTC", **vector.content.get("conf", {})}
    settings = settings or TableSettings(session, functions or {})
    feed = Feed({}, ())
    tables = FeedTables(feed)
    parsed = read_plan(plan)
    translate(parsed, tables, environment, settings)
    _load(feed, vector, plan)
    run, errors = Run(), []
    graph = environment._take_job_graph(vector.id)
    try:
        local.execute(graph, make=partial(SteppedExecution, feed, errors))
    except JobExecutionFailed as failure:
        run.error = errors[0] if errors else failure
    for name, end in tables.sinks.items():
        encode = row_encoder(end.type)
        run.changes[name] = [[step, KINDS[kind], encode(row)] for step, (kind, row) in feed.changes[name]]
        run.keys[name] = end.upsert_key
    return run


def _load(feed: Feed, vector: SqlVector, plan: Mapping[str, Any]) -> None:
    """Give the feed the rows of the tables that the plan reads, decoded by the types that it says."""
    types = {}
    for node in read_plan(plan).nodes:
        if node.type == "table-source-scan":
            types[source_end(node).name] = node.output
    rows = {}
    for name, table in vector.tables.items():
        if name in types:
            decode = row_decoder(types[name])
            rows[name] = [(KIND_OF[op], decode(values)) for op, *values in table["rows"]]
    feed.rows, feed.released = rows, dict.fromkeys(rows, 0)
    default = [name for name, table in vector.tables.items() for _ in table["rows"]]
    feed.order = list(vector.content.get("feed", default))
    if not rows:
        feed.order = []
