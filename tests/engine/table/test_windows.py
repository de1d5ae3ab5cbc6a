"""Windows, OVER and MATCH_RECOGNIZE: what the recorded vectors do not reach."""

from typing import ClassVar

import pytest

from onceproof.engine import Configuration, StreamExecutionEnvironment
from onceproof.engine.connectors.collection import CollectionSource
from onceproof.engine.functions import SinkFunction
from onceproof.engine.table.expressions.calendar import session_zone
from onceproof.engine.table.nodes.windows import WindowClock, WindowSpec, iso_duration_ms
from onceproof.engine.table.plans import read_plan
from onceproof.engine.table.table_settings import TableSettings
from onceproof.engine.table.translation import translate
from onceproof.engine.table.values import KIND_OF, row_decoder, timestamp_of
from tests.conformance.sql_vectors import (
    DEFAULT_SQL_VECTORS,
    digest_of,
    read_plans,
    read_sql_vectors,
    request_of,
)

HOUR = 3_600_000
DAY = 24 * HOUR


@pytest.fixture(scope="module")
def vectors():
    """Give each recorded vector with its plan."""
    plans = read_plans()
    return {
        vector.id: (vector, plans[digest_of(request_of(vector))].get("plan"))
        for vector in read_sql_vectors(DEFAULT_SQL_VECTORS)
    }


class Keep(SinkFunction):
    """Keeps changes, and fails once."""

    seen: ClassVar = []
    fails_at = None

    def invoke(self, value, context):
        if len(self.seen) == Keep.fails_at:
            Keep.fails_at = None
            raise RuntimeError("once")
        self.seen.append(value)


class Ends:
    """Reads the rows of a vector at once."""

    def __init__(self, vector):
        self.vector = vector

    def scan(self, environment, table, watermarks):
        decode = row_decoder(table.type)
        # Without late rows: what is late depends on the watermark, which a restart forgets.
        rows = sorted(self.vector.tables[table.name]["rows"], key=lambda row: str(row[3]))
        changes = [(KIND_OF[op], decode(values)) for op, *values in rows]
        return environment.from_source(CollectionSource.of_values(changes), watermarks, table.name)

    def sink(self, stream, table):
        stream.add_sink(Keep())


def run(vector, plan, backend, fails_at=None):
    Keep.seen, Keep.fails_at = [], fails_at
    configuration = Configuration()
    for key, value in {
        "parallelism.default": "1",
        "pipeline.auto-watermark-interval": "0 ms",
        "execution.checkpointing.interval-records": "1",
        "execution.buffer-timeout.interval": "0 ms",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.delay": "0 ms",
        "state.backend.type": backend,
    }.items():
        configuration.set_string(key, value)
    environment = StreamExecutionEnvironment.get_execution_environment(configuration)
    settings = TableSettings({"table.local-time-zone": "UTC", **vector.content.get("conf", {})})
    translate(read_plan(plan), Ends(vector), environment, settings)
    environment.execute(vector.id)
    assert Keep.fails_at is None
    return list(Keep.seen)


RESTORED = [
    "tvf.hop.agg/a",
    "tvf.session.raw/a",
    "tvf.session.nokey/a",
    "cmp.window.dedup.rank",
    "leg.hop/a",
    "leg.session/a",
    "api.slide.count",
    "wtop.2/a",
    "wdedup.last/a",
    "wj.inner",
    "over.rows_unb/a",
    "over.range_unb/a",
    "over.rows_1/a",
    "over.range_5s/a",
    "over.proctime/a",
    "over.updating/n",
    "mr.vshape/a",
    "mr.within3",
]
ON_ROCKSDB = [
    "tvf.hop.agg/a",
    "leg.session/a",
    "wj.inner",
    "over.range_5s/a",
    "over.updating/n",
    "mr.vshape/a",
]


@pytest.mark.parametrize(
    ("name", "backend"),
    [*[(name, "hashmap") for name in RESTORED], *[(name, "rocksdb") for name in ON_ROCKSDB]],
)
def test_result_is_the_same_with_a_failure(vectors, name, backend):
    vector, plan = vectors[name]
    expected = run(vector, plan, backend)
    assert expected
    fails_at = len(expected) // 2
    assert set(run(vector, plan, backend, fails_at)) == set(expected)


def test_windows_are_aligned_with_an_offset_before_the_epoch_too():
    assert WindowSpec("HOP", 10, 5, 2).assign(-1) == [(-3, 7), (-8, 2)]
    assert WindowSpec("CUMULATE", 15, 5, 0).assign(6) == [(0, 10), (0, 15)]
    assert WindowSpec("CUMULATE", 15, 5, 0).last_end(5) == 15
    assert WindowSpec("HOP", 10, 20, 0).assign(12) == []


@pytest.mark.parametrize(
    ("end", "fires_at"),
    [
        ("2021-03-14T02:00", "2021-03-14T10:00"),
        ("2021-03-14T03:00", "2021-03-14T10:00"),
        ("2021-03-14T04:00", "2021-03-14T11:00"),
        ("2021-11-07T01:00", "2021-11-07T08:00"),
        ("2021-11-07T02:00", "2021-11-07T10:00"),
    ],
)
def test_window_fires_once_where_the_clock_changes(end, fires_at):
    clock = WindowClock(session_zone("America/Los_Angeles"))
    local, moment = timestamp_of(end) // 1_000_000, timestamp_of(fires_at) // 1_000_000
    fired = clock.fires_at(local)
    assert moment - fired in (0, 1)
    assert local in clock.ends_at(fired, HOUR, 0)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("PT10S", 10_000), ("PT24H", DAY), ("P1DT0.5S", DAY + 500), ("PT-2S", -2000), ("PT1M0.001S", 60_001)],
)
def test_duration_of_java_is_read(text, milliseconds):
    assert iso_duration_ms(text) == milliseconds
