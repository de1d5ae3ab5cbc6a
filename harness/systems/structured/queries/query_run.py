"""Runs a user's query: as a stream under trial, and in batch mode, which says what it should write.

Rules:

- The answer is the query in batch mode, called once with all records. Rows that only closing records cause
  may be missing, because no guarantee closes their windows. In update mode rows of earlier batches come too.
- Where batch mode does not know an operator, the answer is an undisturbed stream of one batch.
- Spark may drop a record behind the watermark: rows are those of all records, or those without that one. With
  several such records rows are not judged.
- If the rows of a trial differ from the answer, the driver finds out what is determined. Rows of a query with
  state that depend on the order of arrival differ in batch mode on reversed records. A function of
  foreachBatch, and one over state of its own, may write what depends on the batches: for it an undisturbed
  stream of the same batches answers.
- What a function of foreachBatch has written is judged when the input is over: lines, tables of SQLite, CSV
  and Parquet below its working directory.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import msgspec
from msgspec.structs import replace
from pyspark.errors import AnalysisException, UnsupportedOperationException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamReader

from onceproof.engine.runtime.spark_session import SPARK_ERRORS, one_line
from onceproof.harness.model.family import FamilyError
from onceproof.harness.model.family_places import check_samples, load_family
from onceproof.harness.model.history import Row, as_tuple
from onceproof.harness.model.scenario import InputRecord
from onceproof.harness.model.split_names import source_of
from onceproof.harness.systems.kit.sqlite_tables import SQLITE, tables_in
from onceproof.harness.systems.process.fault_board import FaultBoard
from onceproof.harness.systems.process.job_specification import Spec, read_records, write_spec
from onceproof.harness.systems.recording.event_log import EventLog
from onceproof.harness.systems.structured.kills import query_board
from onceproof.harness.systems.structured.output import batch_ends, rows_in, visible_rows
from onceproof.harness.systems.structured.queries.event_times import (
    FAR_MS,
    closing_records,
    late_among,
    own_records,
    time_of,
)
from onceproof.harness.systems.structured.queries.output_modes import (
    OUT_OF_ORDER,
    STATE_OF_ITS_OWN,
    accepted_mode,
    closing_count,
    plan_of,
)
from onceproof.harness.systems.structured.queries.query_answer import (
    LOOKED_SUFFIX,
    Answer,
    Look,
    LookedSource,
    Mistake,
    accepts,
)
from onceproof.harness.systems.structured.queries.query_records import (
    RECORD_COLUMNS,
    batch_records,
    parsed,
    texts_of,
)
from onceproof.harness.systems.structured.queries.replaced_ends import Asked, flat
from onceproof.harness.systems.structured.queries.user_query import (
    ANY_MODE,
    FoundQuery,
    UserQuery,
    user_query,
)
from onceproof.harness.systems.structured.script_job import look_at_script, script_ends
from onceproof.harness.systems.structured.sinks import ROWS, Store, commit, publish
from onceproof.harness.systems.structured.source import (
    CLOSING_FILE,
    DRIVER_PROCESS,
    RECORDS,
    SOURCE,
    SPEC,
    closing_split,
    has_all,
)

_WATERMARK: Final = re.compile(r"EventTimeWatermark.*?, (?:delay )?((?:\d+ [a-z]+ ?)+)")
_UNITS_MS: Final = {"millisecond": 1, "second": 1_000, "minute": 60_000, "hour": 3_600_000, "day": 86_400_000}
_ALL: Final = 1_000_000


class QueryRun:
    """The query of one specification, in the driver."""

    def __init__(self, query: UserQuery, spec: Spec, path: str, session: SparkSession) -> None:
        self._query, self._spec, self._path, self._session = query, spec, path, session
        self._records = read_records(spec.records)
        self._home = Path(spec.output).parent / "home"
        self._plan = ""
        self._asked = Asked()
        self._stream: StreamingQuery | None = None
        self._closing: Mapping[str, Sequence[InputRecord]] = {}
        """By source, what closes the windows of its records."""

    # As a stream.

    def start(self, driver: int, board: FaultBoard) -> StreamingQuery:
        """Start the query over its checkpoint location."""
        options = {SPEC: self._path, DRIVER_PROCESS: str(driver)}

        def read(name: str, asked: Asked) -> DataFrame:
            names.append(name)
            # The real reader: in the file, that of the session is replaced.
            reader = DataStreamReader(self._session).format(RECORDS).schema(RECORD_COLUMNS)
            records = reader.options(**options, **{SOURCE: name}).load()
            return parsed(self._session, records, name, asked, self._query.sample(name))

        names: list[str] = []
        found = self._query.find(read, self._home)
        self._plan = plan_of(found.rows)
        count = closing_count(self._plan) if "EventTimeWatermark" in self._plan else 0
        self._closing = {name: closing_records(own_records(self._records, name), count) for name in names}
        closing_file = Path(self._spec.records).with_name(CLOSING_FILE)
        closing_file.write_bytes(msgspec.json.encode(self._closing))
        # The file may have set it; Spark stores it in the checkpoint location with the first batch.
        self._session.conf.set("spark.sql.shuffle.partitions", str(self._spec.parallelism))
        self._asked = asked = with_mode(self._session, found)
        rows = found.rows if asked.store is not None else flat(found.rows)
        writer = rows.writeStream.outputMode(asked.mode).trigger(availableNow=True)
        writer = writer.option("checkpointLocation", self._spec.checkpoints)
        is_added = asked.store is None and asked.mode == "append"
        ends = writer.format(ROWS).options(**options) if is_added else None
        self._stream = (ends or writer.foreachBatch(self._storing(asked, board))).start()
        return self._stream

    def _storing(self, asked: Asked, board: FaultBoard) -> Store:
        output = Path(self._spec.output)
        store = asked.store and self._query.storing(asked.store, self._home)

        def act(rows: DataFrame, batch: int) -> None:
            if store is not None:
                store(rows, batch)
                if self._is_at_end(batch):
                    _replace(output, map(msgspec.json.encode, contents(self._home)))
                return
            lines = [msgspec.json.encode(tuple(row)) for row in rows.collect()]
            if asked.mode == "complete":
                if self._is_at_end(batch):
                    _replace(output, lines)
            else:
                publish(output, batch, lines)

        def stored(rows: DataFrame, batch: int) -> None:
            commit(self._spec, board, batch, lambda: act(rows, batch))

        return stored

    def _is_at_end(self, batch: int) -> bool:
        end = batch_ends(Path(self._spec.checkpoints))[batch]
        is_closed = all(end.get(closing_split(name), 0) == len(own) for name, own in self._closing.items())
        return is_closed and has_all(self._spec, end)

    # What it should write.

    def answer(self, driver: int) -> Answer:
        """Return what the query should have written, as far as that is determined."""
        visible = visible_rows(Path(self._spec.output))
        if mistake := self._mistake(visible):
            return Answer([], mistake=mistake)
        late = self._late()
        if sum(map(len, late.values())) > 1:
            return Answer([list(visible.elements())])
        answer = self._in_batch_mode("batch")
        if answer is None:
            answer = Answer([self._undisturbed(driver, "one", _ALL)])
        if any(late.values()):
            other = self._in_batch_mode("without-late", left_out=late)
            if other is None:
                other = Answer([self._undisturbed(driver, "without-late", _ALL, left_out=late)])
            optional = Counter(answer.optional) | Counter(other.optional)
            return Answer([*answer.runs, *other.runs], list(optional.elements()))
        if accepts(answer, visible):
            return answer
        depends_on_batches = any(each in self._plan for each in STATE_OF_ITS_OWN)
        if self._asked.store is not None or depends_on_batches:
            interval = self._spec.interval_records
            calm = [self._undisturbed(driver, f"calm-{number}", interval) for number in (1, 2)]
            if self._asked.store is not None or not Counter(answer.runs[0]) - Counter(calm[0]):
                return Answer(calm)
            return answer
        # A query without state takes records in their order, so that the order decides nothing.
        other = self._in_batch_mode("again", is_reversed=any(each in self._plan for each in OUT_OF_ORDER))
        return answer if other is None else replace(answer, runs=[*answer.runs, *other.runs])

    def _mistake(self, visible: Counter[Row]) -> str:
        """Return why the rows of the query cannot be judged; "": they can."""
        path = self._query.path
        if self._asked.store is not None and not visible and any(self._records.values()):
            return (
                f"{path}: its function of foreachBatch leaves nothing that can be read: let it write by"
                " df.write, or into files or a database of SQLite in the working directory"
            )
        progress: Any = self._stream and self._stream.lastProgress
        watermark = progress and progress.get("eventTime", {}).get("watermark")
        ends = [time_of(str(own[-1][1])) or own[-1][0] for own in self._closing.values() if own]
        # The watermark is behind by its delay.
        if watermark and ends and (time_of(watermark) or 0) < min(ends) - FAR_MS // 2:
            return (
                f"{path}: its watermark does not follow the times in its records: give them as dates, or as"
                " seconds or milliseconds since 1970"
            )
        return ""

    def _late(self) -> dict[str, list[InputRecord]]:
        """Return by source the records that Spark may drop."""
        delay_ms = _delay_in(self._plan)
        found = {}
        for name in self._closing if delay_ms is not None else ():
            own = own_records(self._records, name)
            found[name] = [own[place] for place in late_among(own, delay_ms or 0)]
        return found

    def _in_batch_mode(
        self,
        name: str,
        *,
        is_reversed: bool = False,
        left_out: Mapping[str, Sequence[InputRecord]] = MappingProxyType({}),
    ) -> Answer | None:
        """Return what the query writes in batch mode; None where that does not know an operator of it.

        Args:
            left_out: by source, records that it does not get.
        """
        runs = []
        for number, is_closed in enumerate((False, True) if any(self._closing.values()) else (False,)):

            def read(source: str, asked: Asked, is_closed: bool = is_closed) -> DataFrame:
                own = _without(own_records(self._records, source), left_out.get(source, ()))
                own = own[:: -1 if is_reversed else 1]
                closing = self._closing[source] if is_closed else ()
                records = batch_records(self._session, source, [*own, *closing])
                return parsed(self._session, records, source, asked, self._query.sample(source))

            home = self._home.with_name(f"{name}-{number}")
            try:
                runs.append(self._written(self._query.find(read, home), home))
            except (AnalysisException, UnsupportedOperationException):
                return None
            except FamilyError as error:
                if not isinstance(error.__cause__, AnalysisException | UnsupportedOperationException):
                    raise
                return None
        asked = self._asked
        if asked.mode != "append" or len(runs) == 1:
            return Answer(runs[-1:], is_open=asked.mode == "update" and asked.store is None)
        alone, with_closing = map(Counter, runs)
        certain = alone & with_closing
        return Answer([list(certain.elements())], list(((alone | with_closing) - certain).elements()))

    def _written(self, found: FoundQuery, home: Path) -> list[Row]:
        if found.asked.store is not None:
            self._query.storing(found.asked.store, home)(found.rows, 0)
            return contents(home)
        # As lines of JSON, since a trial compares them with such.
        return [
            as_tuple(msgspec.json.decode(msgspec.json.encode(tuple(row))))
            for row in flat(found.rows).collect()
        ]

    def _undisturbed(
        self,
        driver: int,
        name: str,
        interval: int,
        left_out: Mapping[str, Sequence[InputRecord]] = MappingProxyType({}),
    ) -> list[Row]:
        """Return the rows of a stream without faults, in batches of a number of records."""
        folder = Path(self._spec.output).parent / name
        (folder / "output").mkdir(parents=True)
        records = {
            split: _without(own, left_out.get(source_of(split), ())) for split, own in self._records.items()
        }
        (folder / "records.json").write_bytes(msgspec.json.encode(records))
        path = folder / "spec.json"
        spec = replace(
            self._spec,
            checkpoints=str(folder / "checkpoints"),
            output=str(folder / "output"),
            records=str(folder / "records.json"),
            events=str(folder / "events"),
            board=str(folder / "faults.json"),
            faults=(),
            interval_records=interval,
        )
        write_spec(spec, path)
        run = QueryRun(self._query, spec, str(path), self._session)
        run.start(driver, query_board(spec, driver, EventLog(spec.events))).awaitTermination()
        return list(visible_rows(Path(spec.output)).elements())


def answer_look(path: Path, session: SparkSession) -> int:
    """Look at the query whose address a file holds; write what is found, or the mistake, beside it."""
    looked: Look | Mistake
    try:
        address = path.read_text(encoding="utf-8")
        query = user_query(address, session)
        if query is not None:
            looked = look_at(query, session, path.with_name("home"))
        else:
            looked = look_at_script(script_ends(load_family(address)), session)
    except FamilyError as error:
        looked = Mistake(str(error))
    path.with_suffix(LOOKED_SUFFIX).write_bytes(msgspec.json.encode(looked))
    return 0


def look_at(query: UserQuery, session: SparkSession, folder: Path) -> Look:
    """Return the sources of a query with their records, and what it asks of its sink. Raises FamilyError."""
    sources: dict[str, LookedSource] = {}
    unknown: list[FamilyError] = []

    def read(name: str, asked: Asked) -> DataFrame:
        sample = query.sample(name)
        try:
            sources[name] = LookedSource(*texts_of(session, name, asked, sample))
        except FamilyError as error:
            # The name of its sample may be misspelt.
            unknown.append(error)
            sources[name] = LookedSource([], "")
        records = (
            DataStreamReader(session)
            .format("rate")
            .load()
            .selectExpr("'' AS split", "0L AS offset", "0L AS timestamp", "'' AS value")
        )
        return parsed(session, records, name, asked, sample)

    found = query.find(read, folder)
    check_samples(query.path, query.said.samples, sources)
    for error in unknown:
        raise FamilyError(f"{query.path}: {error}") from None
    if not sources:
        raise FamilyError(f"{query.path}: its query reads no stream: it begins with spark.readStream")
    try:
        asked = with_mode(session, found)
    except SPARK_ERRORS as error:
        raise FamilyError(f"{query.path}: {one_line(error)}") from error
    plan = plan_of(found.rows)
    knows_late = asked.mode == "append" and asked.store is None
    may_be_late = knows_late and not any(each in plan for each in STATE_OF_ITS_OWN)
    return Look(sources, asked.mode, asked.format, _delay_in(plan), may_be_late)


def with_mode(session: SparkSession, found: FoundQuery) -> Asked:
    """Return what a query asks of its sink, with its output mode.

    Raises one of Spark's errors where it cannot run as a stream in this mode, or in any.
    """
    asked = found.asked
    modes = ("append", "complete", "update") if asked.mode == ANY_MODE else (asked.mode,)
    return dataclasses.replace(asked, mode=accepted_mode(session, found.rows, modes))


def _without(records: Sequence[InputRecord], left_out: Sequence[InputRecord]) -> list[InputRecord]:
    """Return records in their order, each of some others left out once, at its last place."""
    rest = Counter(left_out)
    kept = []
    for record in reversed(records):
        if rest[record]:
            rest[record] -= 1
        else:
            kept.append(record)
    return kept[::-1]


def _delay_in(plan: str) -> int | None:
    """Return the shortest delay of the watermarks in a plan; None: it has none."""
    return min(map(_delay_ms, _WATERMARK.findall(plan)), default=None)


def _delay_ms(text: str) -> int:
    parts = re.findall(r"(\d+) ([a-z]+?)s?\b", text)
    return sum([int(number) * _UNITS_MS.get(unit, 0) for number, unit in parts])


# What a function of foreachBatch has written.


def contents(folder: Path) -> list[Row]:
    """Return what lies in the files below a folder, as rows."""
    return [_plain(row) for path in sorted(folder.rglob("*")) if path.is_file() for row in _rows_of(path)]


def _rows_of(path: Path) -> Iterable[Iterable[Any]]:
    if path.name.startswith((".", "_")) or path.name.endswith(("-journal", "-wal", "-shm")):
        return []
    with path.open("rb") as file:
        is_database = file.read(len(SQLITE)) == SQLITE
    if is_database:
        tables = tables_in(path)
        if len(tables) == 1:
            return next(iter(tables.values()))
        return [(table, *row) for table, rows in tables.items() for row in rows]
    if path.suffix == ".parquet":
        import pyarrow.parquet

        return [tuple(row.values()) for row in pyarrow.parquet.read_table(path).to_pylist()]
    if path.suffix in (".json", ".jsonl"):
        return rows_in([path])
    return [(line,) for line in path.read_text(encoding="utf-8", errors="replace").splitlines()]


def _plain(row: Iterable[Any]) -> Row:
    return tuple([cell if isinstance(cell, str | int | float | bool | None) else str(cell) for cell in row])


def _replace(output: Path, lines: Iterable[bytes]) -> None:
    hidden, visible = output / ".result.jsonl", output / "result.jsonl"
    hidden.write_bytes(b"".join([line + b"\n" for line in lines]))
    hidden.replace(visible)
