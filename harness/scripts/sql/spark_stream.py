"""The statements of a script as one streaming query, in the words of Spark.

Rules:

- What streams is what DuckDB executes in batch (`dialect.py`), in the words of the second oracle
  (`spark_oracle.py`). What has no exact translation is refused in one line with the place of its statement.
- Window functions become `window` and `session_window`. A GROUP BY of their columns groups by the window
  itself, as only this has the watermark that closes it.
- A query has one output mode. Without a key a sink takes rows that never change; by key also those that
  replace others, if nothing above the aggregate leaves rows out: then the whole table comes with each batch.
- Whether Spark can run the query as a stream is for Spark to say.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from sqlglot import exp

from onceproof.engine.table.types import INTEGERS, LogicalType
from onceproof.harness.model.family import FamilyError
from onceproof.harness.scripts.sql.dialect import AVERAGE, DIVIDED, Translated, translated_expression
from onceproof.harness.scripts.sql.spark_oracle import spark_tree
from onceproof.harness.scripts.sql.spark_oracle import type_name as exact_type_name
from onceproof.harness.scripts.sql.sql_ends import SinkTable, SourceTable
from onceproof.harness.scripts.sql.statements import CREATE_TABLE, CREATE_VIEW, Statement, Statements
from onceproof.harness.scripts.sql.windows import Untranslatable, WindowView, microseconds, split_at_commas
from onceproof.harness.systems.structured.streamed_script import (
    MODES,
    Mode,
    StreamedInsert,
    StreamedScript,
    StreamedSource,
    StreamedView,
)

_TABLE: Final = re.compile(
    rf"{CREATE_TABLE}\s*\((?P<columns>.*)\)\s*(?:COMMENT\s.*|WITH\s*\(.*)", re.I | re.S
)
_VIEW: Final = re.compile(CREATE_VIEW, re.I)
_MATCHES: Final = re.compile(r"\bMATCH_RECOGNIZE\b", re.I)
_COLUMN: Final = re.compile(r"(`[^`]+`|\w+)\s+(AS\s+)?(.*)", re.I | re.S)
_NO_COLUMN: Final = re.compile(r"(WATERMARK|PRIMARY|CONSTRAINT|UNIQUE)\b", re.I)
_WATERMARK: Final = re.compile(
    r"WATERMARK\s+FOR\s+([\w`]+)\s+AS\s+([\w`]+)(?:\s*-\s*(INTERVAL\s.*))?", re.I | re.S
)
_BY_CLOCK: Final = re.compile(r"\b(PROCTIME|NOW|CURRENT_\w+|LOCALTIME\w*|RAND|UUID)\b", re.I)
_LITERAL: Final = re.compile(r"'(?:[^']|'')*'")
_FLOATS: Final = ("FLOAT", "DOUBLE")
_LONGEST: Final = 2_147_483_647
_WINDOW: Final = "onceproof_window"
_LAST_MOMENT: Final = exp.Var(this=f"{_WINDOW}.end - INTERVAL 1 MILLISECOND")
_START, _END, _TIME = "window_start", "window_end", "window_time"


def streamed_script(
    path: Path,
    statements: Statements,
    sources: Mapping[str, SourceTable],
    sinks: Mapping[str, SinkTable],
    reason: str,
) -> StreamedScript:
    """Return a script as a streaming query. Raises FamilyError.

    Args:
        path: the file.
        statements: what it holds.
        sources: the tables that it reads.
        sinks: those that it writes.
        reason: why the statements are not executed in batch; "": they are.
    """
    shown = Path(os.path.relpath(path)) if path.is_relative_to(Path.cwd()) else path
    made = _Statements(sources, sinks)
    line = 0
    try:
        for each in (*statements.ddl, *statements.inserts):
            line = each.line
            made.take(each)
        line = statements.inserts[0].line
        if reason:
            raise Untranslatable(reason)
    except Untranslatable as error:
        raise FamilyError(
            f"{shown}:{line}: Structured Streaming cannot run {error}; leave out --system"
        ) from None
    return StreamedScript(str(shown), made.sources, made.views, made.inserts)


class _Statements:
    """Takes the statements of a script, one after another. Raises Untranslatable."""

    def __init__(self, tables: Mapping[str, SourceTable], sinks: Mapping[str, SinkTable]) -> None:
        self._tables, self._sinks = tables, sinks
        self.sources: dict[str, StreamedSource] = {}
        self.views: list[StreamedView] = []
        self.inserts: list[StreamedInsert] = []
        self._windows = 0
        self._aggregating: set[str] = set()
        """The views that have aggregates."""
        self._modes: tuple[Mode, ...] = MODES

    def take(self, statement: Statement) -> None:
        text = statement.text.strip()
        if _MATCHES.search(_LITERAL.sub("", text)):
            raise Untranslatable("MATCH_RECOGNIZE")
        table = _TABLE.fullmatch(text)
        if table is not None:
            name = table["name"].rpartition(".")[2].strip("`")
            if name in self._tables:
                self.sources[name] = _source(self._tables[name], table["columns"])
        elif _VIEW.match(text):
            self._take_view(text, statement.line)
        elif text[:6].upper() == "INSERT":
            self._take_insert(text, statement.line)

    def _take_view(self, text: str, line: int) -> None:
        translated = self._translated(text)
        name, columns = translated.target()
        tree = self._query(translated)
        if self._aggregates(tree):
            self._aggregating.add(name)
        query = tree.sql("spark")
        if columns:
            query = f"SELECT * FROM ({query}) AS q({_names(columns)})"
        self.views.append(StreamedView(name, query, line))

    def _take_insert(self, text: str, line: int) -> None:
        translated = self._translated(text)
        name, columns = translated.target()
        sink, tree = self._sinks[name], self._query(translated)
        if sink.sink.is_numbered and sink.sink.key is None:
            raise Untranslatable(f"an INSERT that corrects rows of {name}, a table without a key")
        is_distinct = isinstance(tree, exp.Select | exp.Union) and bool(tree.args.get("distinct"))
        if is_distinct:
            tree.set("distinct", None if isinstance(tree, exp.Select) else False)
        modes = self._modes_of(tree, sink, is_distinct=is_distinct)
        self._modes = tuple([each for each in self._modes if each in modes])
        if not self._modes:
            raise Untranslatable("it beside the INSERT before it, as a query has one output mode")
        fields = sink.end.type.fields
        columns = columns or [each.name for each in fields]
        places = {each: f"c{place}" for place, each in enumerate(columns)}
        selected = [
            f"{_as_in_sink(places.get(each.name, 'NULL'), each.type)} AS o{place}"
            for place, each in enumerate(fields)
        ]
        query = f"SELECT {', '.join(selected)} FROM ({tree.sql('spark')}) AS q({_names(places.values())})"
        types = [_type_name(each.type) for each in fields]
        self.inserts.append(StreamedInsert(name, query, types, is_distinct, modes, line))

    def _translated(self, text: str) -> Translated:
        translated = Translated(text, self._windows)
        self._windows += len(translated.views)
        return translated

    def _query(self, translated: Translated) -> exp.Expr:
        text = translated.query()
        has_floats = translated.kinds & {*_FLOATS} or any(
            kind.root in _FLOATS for table in self._tables.values() for kind in table.end.type.types
        )
        if has_floats and any(each in text for each in (DIVIDED, AVERAGE)):
            raise Untranslatable("divisions and averages of DOUBLE")
        tree = spark_tree(text)
        _stream_windows(tree, translated.views)
        return tree

    def _modes_of(self, tree: exp.Expr, sink: SinkTable, *, is_distinct: bool) -> tuple[Mode, ...]:
        """Return the output modes in which the rows of a query are the changes of a sink."""
        found = self._aggregates(tree)
        if not found:
            return ("append", "update")
        if sink.sink.key is None or is_distinct:
            return ("append",)
        tops = list(_tops(tree))
        is_whole = all(any(each is top for top in tops) for each in found) and not tree.find(exp.Having)
        return MODES if is_whole else ("append", "complete")

    def _aggregates(self, tree: exp.Expr) -> list[exp.Expr]:
        """Return the SELECTs that group or make one row of all, and the views that do."""
        views = [each for each in tree.find_all(exp.Table) if each.name in self._aggregating]
        selects = [
            each
            for each in tree.find_all(exp.Select)
            if each.args.get("group") or each.args.get("distinct") or _has_aggregates(each)
        ]
        return [*views, *selects]


def _source(table: SourceTable, declared: str) -> StreamedSource:
    if table.is_changing:
        raise Untranslatable(f"changes of rows, which {table.name} sends")
    fields = table.end.type.fields
    columns = [(each.name, _column(place, each.type)) for place, each in enumerate(fields)]
    computed: list[tuple[str, str]] = []
    time, delay_ms = "", 0
    for part in split_at_commas(declared):
        watermark, column = _WATERMARK.fullmatch(part.strip()), _COLUMN.match(part)
        if watermark is not None and watermark[1] == watermark[2]:
            time = watermark[1].strip("`")
            delay_ms = -(-microseconds(watermark[3]) // 1000) if watermark[3] else 0
        elif part.strip()[:9].upper() == "WATERMARK":
            raise Untranslatable("a watermark that is not the time less an interval")
        elif column is not None and not _NO_COLUMN.match(part):
            name = column[1].strip("`")
            if not column[2]:
                computed.append((name, f"`{name}`"))
            elif not _BY_CLOCK.search(_LITERAL.sub("", column[3])):
                computed.append((name, _expression(column[3])))
    return StreamedSource([_cell(each.type) for each in fields], columns, computed, time, delay_ms)


def _type_name(kind: LogicalType) -> str:
    # What differs in the last digits of a sum is not compared.
    return kind.root if kind.root in _FLOATS else exact_type_name(kind)


def _cell(kind: LogicalType) -> str:
    """Return the type of a column of records."""
    if kind.root in INTEGERS:
        return "BIGINT"
    if kind.root in _FLOATS:
        return "DOUBLE"
    return "BOOLEAN" if kind.root == "BOOLEAN" else "STRING"


def _column(place: int, kind: LogicalType) -> str:
    if kind.root.startswith("TIMESTAMP"):
        # The text of a time with a zone has one.
        return f"CAST(CAST(c{place} AS TIMESTAMP) AS {_type_name(kind)})"
    return f"CAST(c{place} AS {_type_name(kind)})"


def _expression(text: str) -> str:
    select = spark_tree(f"SELECT {translated_expression(text)} AS value FROM t")
    return str(select.expressions[0].this.sql("spark"))


def _as_in_sink(column: str, kind: LogicalType) -> str:
    cast = f"CAST({column} AS {_type_name(kind)})"
    return f"left({cast}, {kind.precision})" if kind.root == "VARCHAR" and kind.precision < _LONGEST else cast


def _names(names: Iterable[str]) -> str:
    return ", ".join([f"`{each}`" for each in names])


def _tops(tree: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the SELECTs whose rows are those of a query, as they are."""
    if isinstance(tree, exp.Union):
        yield from _tops(tree.left)
        yield from _tops(tree.right)
    elif isinstance(tree, exp.Subquery):
        yield from _tops(tree.this)
    else:
        yield tree


def _has_aggregates(select: exp.Select) -> bool:
    return any(
        each.parent_select is select and not isinstance(each.parent, exp.Window)
        for column in select.expressions
        for each in column.find_all(exp.AggFunc)
    )


# Windows.


def _stream_windows(tree: exp.Expr, views: Sequence[WindowView]) -> None:
    """Put windows of Spark in the place of those views that stand for window functions."""
    by_name = {each.name: each for each in views}
    for table in list(tree.find_all(exp.Table)):
        view = by_name.get(table.name)
        if view is None:
            continue
        alias, select = table.alias or view.name, table.parent_select
        rows = f"SELECT *, {_window(view)} AS {_WINDOW} FROM `{view.table}`"
        if not isinstance(select, exp.Select) or not _group_by_window(select, view, alias):
            if view.kind == "SESSION":
                raise Untranslatable("SESSION without a GROUP BY of its columns")
            columns = ", ".join([f"{_part(name).sql('spark')} AS {name}" for name in (_START, _END, _TIME)])
            rows = f"SELECT *, {columns} FROM ({rows})"
            for star in select.expressions if isinstance(select, exp.Select) else ():
                inner = star.this if isinstance(star, exp.Column) else star
                if isinstance(inner, exp.Star):
                    inner.set("except_", [exp.to_identifier(_WINDOW)])
        table.replace(exp.Var(this=f"({rows}) AS `{alias}`"))


def _window(view: WindowView) -> str:
    lengths = {name: f"'{length // 1000} milliseconds'" for name, length in view.lengths_us.items()}
    time, size, offset = f"`{view.time}`", lengths.get("SIZE"), lengths.get("OFFSET", "'0 seconds'")
    match view.kind:
        case "TUMBLE":
            return f"window({time}, {size}, {size}, {offset})"
        case "HOP":
            return f"window({time}, {size}, {lengths['SLIDE']}, {offset})"
        case "SESSION":
            return f"session_window({time}, {lengths['GAP']})"
    raise Untranslatable(f"{view.kind} windows")


def _part(name: str) -> exp.Expr:
    """Return a column of Flink's windows as a part of the window."""
    if name == _TIME:
        return exp.Anonymous(this="window_time", expressions=[exp.column(_WINDOW)])
    return exp.column("start" if name == _START else "end", table=_WINDOW)


def _group_by_window(select: exp.Select, view: WindowView, alias: str) -> bool:
    """Group by the window itself where a SELECT groups by its columns; return whether it does."""
    group = select.args.get("group")
    if group is None or select.args.get("joins"):
        return False

    def is_part(node: exp.Expr) -> bool:
        is_named = isinstance(node, exp.Column) and node.table in ("", alias)
        return is_named and node.name in (_START, _END, _TIME)

    parts = {each.name for each in group.expressions if is_part(each)}
    if not {_START, _END} <= parts:
        return False
    keys = [each for each in group.expressions if not is_part(each)]
    names = [each.name for each in keys if isinstance(each, exp.Column)]
    if view.kind == "SESSION" and (len(names) < len(keys) or {*names} != {*view.keys}):
        raise Untranslatable("SESSION with a GROUP BY of other columns than those it is partitioned by")
    group.set("expressions", [*keys, exp.column(_WINDOW)])
    for column in [each for each in select.find_all(exp.Column) if is_part(each)]:
        if column.parent_select is select:
            part = _part(column.name) if column.name != _TIME else _LAST_MOMENT.copy()
            is_bare = column.parent is select
            column.replace(exp.alias_(part, column.name) if is_bare else part)
    return True
