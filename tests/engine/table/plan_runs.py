"""Jobs of plans: they fail once, or are stopped with a savepoint and resume at another parallelism."""

import time
from collections import Counter
from typing import ClassVar

from onceproof.engine import Configuration, StreamExecutionEnvironment
from onceproof.engine.connectors.collection import CollectionSource
from onceproof.engine.connectors.source import Source, SplitReader
from onceproof.engine.functions import CheckpointedFunction, SinkFunction
from onceproof.engine.table.plans import read_plan
from onceproof.engine.table.table_settings import TableSettings
from onceproof.engine.table.translation import translate
from onceproof.engine.table.values import ADDS, KIND_OF, row_decoder
from tests.conformance.sql_vectors import (
    DEFAULT_SQL_VECTORS,
    digest_of,
    read_plans,
    read_sql_vectors,
    request_of,
)
from tests.patience import PATIENCE_SECONDS

OPTIONS = {
    "pipeline.auto-watermark-interval": "0 ms",
    "execution.buffer-timeout.interval": "0 ms",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.delay": "0 ms",
}
VECTORS = {vector.id: vector for vector in read_sql_vectors(DEFAULT_SQL_VECTORS)}
PLANS = read_plans()


def plan_of(name):
    """Return the plan of a recorded vector."""
    return PLANS[digest_of(request_of(VECTORS[name]))]["plan"]


def changes_in(name):
    """Return the function from a table of a vector to its changes, none of them late."""

    def changes_of(table):
        decode = row_decoder(table.type)
        given = VECTORS[name].tables[table.name]
        rows = given["rows"]
        if "watermark" in given:
            # What is late depends on the watermark, which a restart forgets.
            places = [place for place, kind in enumerate(table.type.types) if "TIMESTAMP" in kind.root]
            rows = sorted(rows, key=lambda row: str(row[1 + places[-1]]))
        return [(KIND_OF[op], decode(values)) for op, *values in rows]

    return changes_of


class Keep(SinkFunction, CheckpointedFunction):
    """Keeps changes, forgets those behind the checkpoint that is restored, and fails once."""

    seen: ClassVar = []
    counts: ClassVar = {}
    fails_at = None
    has_failed = False

    @classmethod
    def begin(cls, fails_at=None):
        """Forget the last run."""
        cls.seen, cls.counts, cls.fails_at, cls.has_failed = [], {}, fails_at, False

    def initialize_state(self, context):
        if not Keep.has_failed:
            return
        count = self.counts[context.get_restored_checkpoint_id()] if context.is_restored() else 0
        del self.seen[count:]

    def snapshot_state(self, context):
        self.counts[context.get_checkpoint_id()] = len(self.seen)

    def invoke(self, value, context):
        if len(self.seen) == Keep.fails_at:
            Keep.fails_at, Keep.has_failed = None, True
            raise RuntimeError("once")
        self.seen.append(value)


class Ends:
    """Reads the changes of each table at once."""

    def __init__(self, changes_of):
        self.changes_of = changes_of
        self.sinks = []

    def source(self, table):
        return CollectionSource.of_values(self.changes_of(table))

    def scan(self, environment, table, watermarks):
        return environment.from_source(self.source(table), watermarks, table.name)

    def sink(self, stream, table):
        self.sinks.append(table)
        stream.add_sink(Keep())


def described(plan, ends, settings=None, **options):
    """Return an environment with the job of a plan."""
    configuration = Configuration()
    for key, value in {**OPTIONS, **options}.items():
        configuration.set_string(key, str(value))
    environment = StreamExecutionEnvironment.get_execution_environment(configuration)
    translate(read_plan(plan), ends, environment, TableSettings(settings or {}))
    return environment


def run(plan, changes_of, fails_at=None, backend="hashmap", settings=None, parallelism=1, interval=2):
    """Run a plan, which fails once at a change of the result; return the changes that count."""
    Keep.begin(fails_at)
    options = {
        "parallelism.default": parallelism,
        "state.backend.type": backend,
        "execution.checkpointing.interval-records": interval,
    }
    described(plan, Ends(changes_of), settings, **options).execute("table")
    assert fails_at is None or Keep.has_failed
    return list(Keep.seen)


class PartReader(SplitReader):
    """Reads a table up to a row, and waits there."""

    position = 0
    retry_ms = 5

    def __init__(self, ends, table, position):
        self.ends, self.table, self.position = ends, table, position or 0

    def read(self, limit):
        begin, self.position = self.position, self.ends.stops[self.table]
        self.ends.reached[self.table] = self.position
        return [(change, None) for change in self.ends.rows[self.table][begin : self.position]]

    @property
    def exhausted(self):
        return self.position == len(self.ends.rows[self.table])


class PartSource(Source):
    is_bounded = False

    def __init__(self, ends, table):
        self.ends, self.table = ends, table

    def splits(self):
        return ["0"]

    def open_split(self, split, position):
        return PartReader(self.ends, self.table, position)


class PartEnds(Ends):
    """Reads a part of each table."""

    def __init__(self, changes_of, part):
        super().__init__(changes_of)
        self.part, self.rows, self.stops, self.reached = part, {}, {}, {}

    def __deepcopy__(self, memo):
        return self

    def source(self, table):
        rows = self.rows[table.name] = self.changes_of(table)
        self.stops[table.name] = min(int(len(rows) * self.part), len(rows) - (self.part < 1))
        return PartSource(self, table.name)


def run_rescaled(plan, changes_of, folder, parallelisms, backend="hashmap", settings=None):
    """Run a part of a plan at each parallelism, stopped with savepoints; return all changes."""
    Keep.begin()
    savepoint = None
    for number, parallelism in enumerate(parallelisms, 1):
        ends = PartEnds(changes_of, number / len(parallelisms))
        options = {
            "parallelism.default": parallelism,
            "state.backend.type": backend,
            "execution.checkpointing.interval": "1 h",
        }
        if savepoint is not None:
            options["execution.state-recovery.path"] = savepoint
        environment = described(plan, ends, settings, **options)
        if number == len(parallelisms):
            environment.execute("table")
            break
        client = environment.execute_async("table")
        deadline = time.monotonic() + PATIENCE_SECONDS
        while ends.reached != ends.stops:
            assert time.monotonic() < deadline, "the sources do not get on"
            time.sleep(0.005)
        savepoint = client.stop_with_savepoint(False, str(folder)).result(PATIENCE_SECONDS)
        client.get_job_execution_result().result(PATIENCE_SECONDS)
    return list(Keep.seen)


def table_of(changes, key=None):
    """Return the rows that changes leave, as text; each must be there before it goes.

    ``key``: the columns under which a change takes the place of the row before; None: it is one of rows.
    """
    if key is not None:
        rows = {}
        for kind, row in changes:
            place = repr([row[column] for column in key])
            if ADDS[kind]:
                rows[place] = repr(row)
            else:
                rows.pop(place, None)
        return Counter(rows.values())
    counts = Counter()
    for kind, row in changes:
        counts[repr(row)] += 1 if ADDS[kind] else -1
        assert counts[repr(row)] >= 0, (kind, row)
    return +counts
