"""Starts the streaming query that a script of Flink SQL is in the words of Spark.

Rules:

- All INSERTs are one query, as one checkpoint location and one output mode belong to it. Its rows have the
  number of their INSERT, and the columns of all.
- Spark has one watermark for all splits of a table, where Flink has one for each: it would drop rows that
  Flink does not. So the delay of a watermark is at least as long as no record of the scenario comes late.
- A stream without an end closes no window. Closing records, far ahead, move the watermark behind all others;
  the query itself never sees them.
- Numbers wrap around as in Flink: Spark's ANSI mode is off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.streaming.query import StreamingQuery

from onceproof.engine.runtime.spark_session import SPARK_ERRORS, one_line
from onceproof.harness.model.family import Family, FamilyError
from onceproof.harness.model.family_places import statements_of
from onceproof.harness.model.scenario import InputRecord
from onceproof.harness.model.split_names import source_of
from onceproof.harness.systems.process.fault_board import FaultBoard
from onceproof.harness.systems.process.job_specification import Spec, read_records
from onceproof.harness.systems.structured.queries.event_times import FAR_MS, FIRST_MS
from onceproof.harness.systems.structured.queries.output_modes import (
    accepted_mode,
    closing_count,
    plan_of,
)
from onceproof.harness.systems.structured.queries.query_answer import Look
from onceproof.harness.systems.structured.sinks import publish, published_before, storing
from onceproof.harness.systems.structured.source import (
    CLOSING_FILE,
    COLUMNS,
    DRIVER_PROCESS,
    RECORDS,
    SOURCE,
    SPEC,
    closing_split,
    next_offset,
)
from onceproof.harness.systems.structured.streamed_script import (
    MODES,
    Mode,
    ScriptEnds,
    StreamedInsert,
    StreamedScript,
    StreamedSource,
)

_ANSI: Final = "spark.sql.ansi.enabled"
_TIME: Final = "onceproof_ms"


def script_ends(family: Family) -> ScriptEnds:
    """Return the ends of the family of a script. Raises FamilyError where it has none here."""
    script = statements_of(family)
    assert script is not None, f"{family.name} is a script of Flink SQL"
    ends: ScriptEnds = script.on_spark_streams()
    return ends


Read = Callable[[str, StreamedSource], DataFrame]
"""Returns the records of a source."""


def start_script(
    ends: ScriptEnds, spec: Spec, path: str, session: SparkSession, board: FaultBoard, driver: int
) -> StreamingQuery:
    """Start the query of a script over its checkpoint location."""
    script = ends.script
    records = read_records(spec.records)
    own = {
        name: {split: each for split, each in records.items() if source_of(split) == name}
        for name in script.sources
    }
    far_ms = FAR_MS + max([time for each in records.values() for time, _ in each], default=FIRST_MS)

    def read(name: str, source: StreamedSource) -> DataFrame:
        schema = ", ".join([COLUMNS, *[f"c{place} {kind}" for place, kind in enumerate(source.cells)]])
        options = {SPEC: path, DRIVER_PROCESS: str(driver), SOURCE: name}
        rows = session.readStream.format(RECORDS).schema(schema).options(**options).load()
        delay_ms = max(source.delay_ms, lag_ms(own[name], spec.interval_records))
        return _table(rows, name, source, delay_ms, far_ms)

    with _as_flink(session):
        rows, mode = _query(session, script, read)
        count = closing_count(plan_of(rows)) if mode == "append" else 0
        closing = {
            name: [(far_ms, (None,) * len(source.cells))] * (count if source.time else 0)
            for name, source in script.sources.items()
        }
        Path(spec.records).with_name(CLOSING_FILE).write_bytes(msgspec.json.encode(closing))
        # Spark stores this setting in the checkpoint location with the first batch.
        session.conf.set("spark.sql.shuffle.partitions", str(spec.parallelism))
        writer = rows.writeStream.outputMode(mode).trigger(availableNow=True)
        writer = writer.option("checkpointLocation", spec.checkpoints)
        store = _storing(ends, Path(spec.output), is_complete=mode == "complete")
        return writer.foreachBatch(storing(spec, board, store, 0)).start()


def look_at_script(ends: ScriptEnds, session: SparkSession) -> Look:
    """Return that Spark can run a script, and in which mode. Raises FamilyError where it cannot."""

    def read(name: str, source: StreamedSource) -> DataFrame:
        cells = [f"CAST(NULL AS {kind}) AS c{place}" for place, kind in enumerate(source.cells)]
        rate = session.readStream.format("rate").load()
        return _table(rate.selectExpr("'' AS split", "0L AS timestamp", *cells), name, source, 0, 0)

    with _as_flink(session):
        _, mode = _query(session, ends.script, read)
    return Look({}, mode, "", None)


def lag_ms(splits: Mapping[str, Sequence[InputRecord]], batch_records: int) -> int:
    """Return by how much a record may be behind one of a batch before its own."""
    lengths = {split: len(own) for split, own in splits.items()}
    begin = dict.fromkeys(lengths, 0)
    latest, lag = None, 0
    while begin != lengths:
        end = next_offset(begin, lengths, batch_records)
        times = [time for split, own in splits.items() for time, _ in own[begin[split] : end[split]]]
        if latest is not None:
            # A time between two milliseconds counts as the earlier one.
            lag = max(lag, latest - min(times) + 1)
        latest, begin = max(times if latest is None else [latest, *times]), end
    return lag


def _table(rows: DataFrame, name: str, source: StreamedSource, delay_ms: int, far_ms: int) -> DataFrame:
    """Return a table of the script over the records of its source."""
    columns = [f"{made} AS `{column}`" for column, made in source.columns]
    rows = rows.selectExpr("split", f"timestamp AS {_TIME}", *columns)
    selected = []
    for column, made in source.computed:
        if column == source.time:
            is_closing = f"split = '{closing_split(name)}'"
            made = f"CASE WHEN {is_closing} THEN timestamp_millis({_TIME}) ELSE CAST({made} AS TIMESTAMP) END"
        selected.append(f"{made} AS `{column}`")
    rows = rows.selectExpr(*selected)
    if not source.time:
        return rows
    rows = rows.withWatermark(source.time, f"{delay_ms} milliseconds")
    # Above the watermark, where Spark leaves a condition on the event time. Those of the query stay above the
    # observation: below the watermark they would drop what closes the windows.
    rows = rows.where(f"`{source.time}` < timestamp_millis({far_ms}L)")
    return rows.observe(f"rows of {name}", functions.count("*").alias("rows"))


def _query(session: SparkSession, script: StreamedScript, read: Read) -> tuple[DataFrame, Mode]:
    """Return the rows of all INSERTs, and the output mode. Raises FamilyError where Spark refuses them."""
    for name, source in script.sources.items():
        read(name, source).createOrReplaceTempView(f"`{name}`")
    for view in script.views:
        with _named(script, view.line):
            session.sql(view.query).createOrReplaceTempView(f"`{view.name}`")
    parts: list[DataFrame] = []
    modes: Sequence[Mode] = MODES
    for each in script.inserts:
        with _named(script, each.line):
            rows = session.sql(each.query)
            rows = rows.dropDuplicates() if each.is_distinct else rows
            accepted_mode(session, rows, each.modes)
        # Of several aggregates Spark looks at the first one only.
        modes = [mode for mode in modes if mode in each.modes and _fits(session, rows, mode)]
        if not modes:
            raise FamilyError(
                f"{script.path}:{each.line}: Structured Streaming has one output mode for a query, and this"
                " INSERT needs another than those before it; leave out --system"
            )
        parts.append(_widened(script.inserts, len(parts), rows))
    whole, *others = parts
    for other in others:
        whole = whole.unionAll(other)
    with _named(script, script.inserts[-1].line):
        return whole, accepted_mode(session, whole, modes)


def _fits(session: SparkSession, rows: DataFrame, mode: Mode) -> bool:
    try:
        accepted_mode(session, rows, [mode])
    except SPARK_ERRORS:
        return False
    return True


def _widened(inserts: Sequence[StreamedInsert], number: int, rows: DataFrame) -> DataFrame:
    cells = [
        f"o{column}" if place == number else f"CAST(NULL AS {kind})"
        for place, each in enumerate(inserts)
        for column, kind in enumerate(each.types)
    ]
    return rows.selectExpr(f"{number} AS n", *[f"{cell} AS c{place}" for place, cell in enumerate(cells)])


def _storing(ends: ScriptEnds, output: Path, *, is_complete: bool) -> Callable[[DataFrame, int], None]:
    inserts = ends.script.inserts

    def store(rows: DataFrame, batch: int) -> None:
        own: dict[str, list[Sequence[Any]]] = {each.sink: [] for each in inserts}
        for number, *cells in rows.collect():
            each = inserts[number]
            begin = sum([len(before.types) for before in inserts[:number]])
            own[each.sink].append(cells[begin : begin + len(each.types)])
        before = published_before(output, batch)
        changes = [
            change
            for sink, found in own.items()
            for change in ends.changes(sink, before, found, is_complete=is_complete)
        ]
        publish(output, batch, map(msgspec.json.encode, changes))

    return store


@contextmanager
def _named(script: StreamedScript, line: int) -> Iterator[None]:
    """Raise what Spark says of a statement as a FamilyError."""
    try:
        yield
    except SPARK_ERRORS as error:
        said = one_line(error).rstrip("; .")
        raise FamilyError(
            f"{script.path}:{line}: Structured Streaming refuses it: {said}; leave out --system"
        ) from None


@contextmanager
def _as_flink(session: SparkSession) -> Iterator[None]:
    session.conf.set(_ANSI, "false")
    try:
        yield
    finally:
        session.conf.unset(_ANSI)
