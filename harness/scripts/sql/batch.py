"""The statements of a script over all rows at once, by DuckDB in this process.

Rules:

- A table holds the rows that its changes leave. What its declaration computes is a view over it.
- What cannot be translated exactly is Untranslatable, which says why.
- Rows may be late or not (`late_rows.py`): each combination is an input of its own, and all are computed at
  once (`side_by_side.py`). A script that cannot be executed so is executed over all rows only.
- The result has the types of the sink, as in Flink, and its values are those of the engine.
- DuckDB reaches neither files nor the network nor this process: a script names its own tables only.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import duckdb
from msgspec.structs import replace
from sqlglot import exp

from onceproof.engine.table.python_values import from_python, to_python
from onceproof.engine.table.types import INTEGERS, TEXTS, LogicalType
from onceproof.engine.table.values import Row
from onceproof.engine.types.row import Row as UserRow
from onceproof.harness.scripts.sql.changelog import RowCounts
from onceproof.harness.scripts.sql.dialect import INTEGER_MACROS, MACROS, Translated, translated_expression
from onceproof.harness.scripts.sql.late_rows import MOST_INPUTS, MaybeLate, inputs_of
from onceproof.harness.scripts.sql.side_by_side import (
    NUMBER,
    PLACE,
    TABLES_OF_INPUTS,
    filled_inputs,
    side_by_side,
    views_of_inputs,
    window_of_inputs,
)
from onceproof.harness.scripts.sql.sql_ends import LookedUpTable, SinkTable, SourceTable
from onceproof.harness.scripts.sql.statements import CREATE_TABLE, CREATE_VIEW, LOOKED_UP, Statements
from onceproof.harness.scripts.sql.windows import Untranslatable, split_at_commas

_TABLE: Final = re.compile(
    rf"{CREATE_TABLE}\s*\((?P<columns>.*)\)\s*(?:COMMENT\s+'.*'\s*)?(?:PARTITIONED\s.*|WITH\s*\(.*)",
    re.IGNORECASE | re.DOTALL,
)
_AS_OF: Final = re.compile(rf"{LOOKED_UP}+[\w.`]+", re.IGNORECASE)
_VIEW: Final = re.compile(CREATE_VIEW, re.IGNORECASE)
_PLACES: Final = re.compile(r"(USE|DROP|CREATE\s+(CATALOG|DATABASE))\b", re.IGNORECASE)
"""What only says where tables are: DuckDB refuses two of the same name."""
_QUERY: Final = re.compile(rf"INSERT\b|{CREATE_VIEW}", re.IGNORECASE)
_COLUMN: Final = re.compile(r"(`[^`]+`|\w+)\s+(AS\s+)?(.*)", re.IGNORECASE | re.DOTALL)
_NO_COLUMN: Final = re.compile(r"(WATERMARK|PRIMARY|CONSTRAINT|UNIQUE)\b", re.IGNORECASE)
_LITERAL: Final = re.compile(r"'(?:[^']|'')*'|`[^`]*`")
_BY_CLOCK: Final = re.compile(
    r"\b(PROCTIME|NOW|CURRENT_TIMESTAMP|CURRENT_DATE|CURRENT_TIME|LOCALTIMESTAMP|CURRENT_ROW_TIMESTAMP|RAND"
    r"|UUID)\b",
    re.IGNORECASE,
)
_SAME_ROWS: Final = (
    "table.local-time-zone",
    "table.exec.state.ttl",
    "table.exec.mini-batch.",
    "table.exec.source.idle-timeout",
    "table.exec.resource.",
    "table.exec.sink.require-on-conflict",
    "table.exec.async-",
    "table.optimizer.",
    "pipeline.",
    "sql-client.",
)
"""The options that change no row of a table's end."""
_CLOCK: Final = "what depends on the clock or on chance"
_ZONE: Final = "table.local-time-zone"
_ZONED: Final = re.compile(r"LTZ|LOCAL|UNIX|PROCTIME|NOW|CURRENT_", re.IGNORECASE)
"""In types and statements that have times with a zone."""
_MATCHES: Final = re.compile(r"\bMATCH_RECOGNIZE\b", re.IGNORECASE)
_ISOLATED: Final[dict[str, str | bool | int | float | list[str]]] = {
    "enable_external_access": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "python_enable_replacements": "false",
    "threads": 1,
    # With a join below, it finds that no SUM of a column with its type's largest number exceeds a constant.
    "disabled_optimizers": "statistics_propagation",
    "lock_configuration": "true",
}
_LONGEST: Final = 2_147_483_647
"""The length of a STRING."""
_MICROSECONDS: Final = 6
_PLAIN: Final = {"BOOLEAN": "BOOLEAN", "INT": "INTEGER", "FLOAT": "REAL", "DATE": "DATE", "TIME": "TIME"}


def batch_of(
    statements: Statements, sources: Mapping[str, SourceTable], sinks: Mapping[str, SinkTable]
) -> Batch:
    """Return the batch of a script, with late rows where they can be taken. Raises Untranslatable."""
    with suppress(Untranslatable):
        return Batch(statements, sources, sinks, takes_late_rows=True)
    return Batch(statements, sources, sinks)


class Batch:
    """Computes the final tables of a script. Raises Untranslatable.

    Args:
        statements: the script.
        sources: the tables that it reads.
        sinks: those that it writes.
        takes_late_rows: whether rows may be late.
    """

    def __init__(
        self,
        statements: Statements,
        sources: Mapping[str, SourceTable],
        sinks: Mapping[str, SinkTable],
        *,
        takes_late_rows: bool = False,
    ) -> None:
        self._sources, self._sinks = sources, sinks
        self.takes_late_rows = takes_late_rows
        self.windowed: set[str] = set()
        """The tables that window functions read."""
        self._connection = duckdb.connect(":memory:", config=_ISOLATED)
        self.columns: dict[str, list[str]] = {}
        """By table, the columns of its rows."""
        self.definitions: list[tuple[str, str]] = []
        """What its views are, late rows aside, in the order in which one reads another."""
        self.queries: list[tuple[str, str]] = []
        """By sink, what gives its table."""
        self._views = 0
        self._names: set[str] = set()
        """The tables and views that there are."""
        self._has_clock = False
        """Whether a column of a source is left out, as it is the time of the clock."""
        if statements.options.get(_ZONE, "UTC").upper() != "UTC" and self._has_zone(statements):
            raise Untranslatable("times of another zone than UTC")
        for option, value in statements.options.items():
            if not option.startswith(_SAME_ROWS):
                raise Untranslatable(f"the option {option} = {value}")
        try:
            for prepared in (*self._macros(statements), *(TABLES_OF_INPUTS if takes_late_rows else ())):
                self._connection.execute(prepared)
            for statement in statements.ddl:
                self._declare(statement.text)
            for statement in statements.inserts:
                self._prepare(statement.text)
        except duckdb.Error as error:
            refused = f"a statement that DuckDB refuses: {str(error).splitlines()[0]}"
            raise Untranslatable(_CLOCK if self._has_clock else refused) from None

    def tables(
        self,
        rows: Mapping[str, Iterable[Row]],
        late: Sequence[MaybeLate] = (),
        sinks: Collection[str] | None = None,
        *,
        is_backwards: bool = False,
    ) -> list[dict[str, RowCounts]] | None:
        """Return by sink the rows of its final table, as plain data; None: DuckDB cannot compute them.

        A sink of which the order of arrival decides which row of a key is left has no table.

        Args:
            rows: those that each source table has in the end.
            late: which of them may be late. There is a result for each combination, first that for no late
                row.
            sinks: those whose tables are computed; None: all.
            is_backwards: whether rows are in the opposite order, which changes what depends on it.
        """
        try:
            return self._computed(rows, late, self._sinks if sinks is None else sinks, is_backwards)
        except (duckdb.Error, TypeError, ValueError, OverflowError):
            return None

    def _computed(
        self,
        rows: Mapping[str, Iterable[Row]],
        late: Sequence[MaybeLate],
        sinks: Collection[str],
        is_backwards: bool,
    ) -> list[dict[str, RowCounts]] | None:
        count = inputs_of(late)
        if count > MOST_INPUTS or (late and not self.takes_late_rows):
            return None
        if self.takes_late_rows:
            for statement in filled_inputs(late, count):
                self._connection.execute(statement)
        for name, own in rows.items():
            self._connection.execute(f'DELETE FROM "{name} rows"')
            types = self._sources[name].end.type.types
            into = [to_python(without_zone(kind)) for kind in types]
            values = [
                [_bound(convert(value)) for convert, value in zip(into, row, strict=True)] for row in own
            ]
            if self.takes_late_rows:
                values = [[*row, place] for place, row in enumerate(values)]
            if is_backwards:
                values.reverse()
            if values:
                marks = ", ".join(["?"] * len(values[0]))
                self._connection.executemany(f'INSERT INTO "{name} rows" VALUES ({marks})', values)
        found: list[dict[str, RowCounts]] = [{name: Counter() for name in sinks} for _ in range(count)]
        for name, query in self.queries:
            if name not in sinks:
                continue
            sink = self._sinks[name]
            out_of = [from_python(kind) for kind in sink.end.type.types]
            for number, *row in self._connection.execute(query).fetchall():
                cells = [convert(value) for convert, value in zip(out_of, row, strict=True)]
                found[number][name][sink.cells(cells)] += 1
        for name in sinks:
            all_left = [_by_key(self._sinks[name], tables.pop(name)) for tables in found]
            left = [each for each in all_left if each is not None]
            for tables, own in zip(found, left, strict=True) if len(left) == count else ():
                tables[name] = own
        return found

    def _has_zone(self, statements: Statements) -> bool:
        """Return whether the zone of the session may change a row: only of a time with a zone it does."""
        ends = [*[each.end for each in self._sources.values()], *[each.end for each in self._sinks.values()]]
        kinds = [str(kind) for end in ends for kind in end.type.types]
        return any(_ZONED.search(text) for text in (*kinds, *_texts_of(statements)))

    def _macros(self, statements: Statements) -> Sequence[str]:
        """Return the macros for the numbers that a script has. Raises Untranslatable."""
        texts = _texts_of(statements)
        kinds = {kind.root for source in self._sources.values() for kind in source.end.type.types}
        divides = False
        for text in texts:
            if (table := _TABLE.fullmatch(text.strip())) is None:
                if _QUERY.match(text):
                    translated = Translated(self._with_plain_lookups(text))
                    divides, kinds = divides or translated.divides, kinds | translated.kinds
                continue
            for part in split_at_commas(table["columns"]):
                divides = divides or "/" in _LITERAL.sub("", part)
        if divides and "DECIMAL" in kinds:
            raise Untranslatable("divisions and averages beside numbers of DECIMAL")
        return MACROS if kinds & {"FLOAT", "DOUBLE"} else INTEGER_MACROS

    def _declare(self, statement: str) -> None:
        """Make what a statement declares."""
        if _VIEW.match(statement):
            translated = self._translated(statement)
            name, columns = translated.target()
            if columns and self.takes_late_rows:
                columns = [NUMBER, *columns]
            named = f"({', '.join(columns)})" if columns else ""
            query = self._query(translated)
            self._create_view(f'"{name}"{named}', query)
            self.definitions.append((f'"{name}"{named}', query))
            self._names.add(name)
        elif _PLACES.match(statement):
            return
        elif (table := _TABLE.fullmatch(statement.strip())) is None:
            raise Untranslatable(f"the statement {' '.join(statement.split())[:40]}")
        elif (name := table["name"].rpartition(".")[2].strip("`")) in self._sources:
            self._declare_source(name, table["columns"])

    def _declare_source(self, name: str, columns: str) -> None:
        fields = self._sources[name].end.type.fields
        types = [f'"{each.name}" {type_name(each.type)}' for each in fields]
        if self.takes_late_rows:
            types.append(f"{PLACE} BIGINT")
        self._connection.execute(f'CREATE TABLE "{name} rows" ({", ".join(types)})')
        selected = []
        for part in split_at_commas(columns):
            column = _COLUMN.match(part)
            if _NO_COLUMN.match(part) or column is None:
                continue
            own = column[1].strip("`")
            if column[2] and _BY_CLOCK.search(_LITERAL.sub("", column[3])):
                self._has_clock = True
                continue
            computed = f'{translated_expression(column[3])} AS "{own}"' if column[2] else f'"{own}"'
            selected.append(computed)
        self.columns[name] = [each.name for each in fields]
        self.definitions.append((f'"{name}"', f'SELECT {", ".join([NUMBER, *selected])} FROM "{name} rows"'))
        if self.takes_late_rows:
            for view in views_of_inputs(name, selected):
                self._connection.execute(view)
        else:
            self._create_view(f'"{name}"', f'SELECT {", ".join(selected)} FROM "{name} rows"')
        self._names.add(name)

    def _prepare(self, statement: str) -> None:
        """Keep the query of an INSERT, with the types and the order of the sink's columns."""
        translated = self._translated(statement)
        name, columns = translated.target()
        fields = self._sinks[name].end.type.fields
        columns = columns or [each.name for each in fields]
        names = [f"c{number}" for number in range(len(columns))]
        place = dict(zip(columns, names, strict=True))
        selected = [_as_in_sink(place.get(each.name, "NULL"), each.type) for each in fields]
        number = NUMBER if self.takes_late_rows else "0"
        names = [NUMBER, *names] if self.takes_late_rows else names
        given = f"({self._query(translated)}) AS q({', '.join(names)})"
        query = f"SELECT {', '.join([number, *selected])} FROM {given}"
        self._connection.execute(query).fetchall()
        self.queries.append((name, query))

    def _translated(self, statement: str) -> Translated:
        statement = self._with_plain_lookups(statement)
        bare = _LITERAL.sub("", statement)
        if _BY_CLOCK.search(bare):
            raise Untranslatable(_CLOCK)
        if _MATCHES.search(bare):
            raise Untranslatable("MATCH_RECOGNIZE")
        translated = Translated(statement, self._views)
        self._views += len(translated.views)
        for view in translated.views:
            self._check_name(view.table, "")
            self.windowed.add(view.table)
            query = view.query
            if self.takes_late_rows:
                query = window_of_inputs(query, view.table if view.table in self._sources else "")
                self.definitions.append((f'"{view.name}"', window_of_inputs(view.query, "")))
            self._create_view(view.name, query)
            self._names.add(view.name)
        self._check_query(translated.tree.args.get("expression"))
        return translated

    def _with_plain_lookups(self, statement: str) -> str:
        """Return a statement whose lookup joins are joins: the tables never change."""

        def joined(match: re.Match[str]) -> str:
            is_looked_up = isinstance(self._sources.get(match["table"]), LookedUpTable)
            return f"`{match['table']}` " if is_looked_up else match[0]

        return _AS_OF.sub(joined, statement)

    def _query(self, translated: Translated) -> str:
        if self.takes_late_rows:
            side_by_side(translated.tree.expression, NUMBER)
        return translated.query()

    def _create_view(self, name: str, query: str) -> None:
        self._connection.execute(f"CREATE VIEW {name} AS {query}")

    def _check_query(self, query: exp.Expr | None) -> None:
        """Raise Untranslatable for a query that reads what the script has not declared."""
        if query is None:
            return
        own = {each.alias for each in query.find_all(exp.CTE)}
        for table in query.find_all(exp.Table):
            if table.name not in own:
                self._check_name(table.name, table.db)
        if self._has_clock and any(
            not isinstance(star.parent, exp.Count) for star in query.find_all(exp.Star)
        ):
            raise Untranslatable(_CLOCK)

    def _check_name(self, name: str, database: str) -> None:
        if database or name not in self._names:
            raise Untranslatable(f"the table {database}{'.' if database else ''}{name}")


def _texts_of(statements: Statements) -> list[str]:
    return [each.text for each in (*statements.ddl, *statements.inserts)]


def _by_key(end: SinkTable, rows: RowCounts) -> RowCounts | None:
    """Return the rows that are left of each key; None: the order of arrival decides which."""
    sink = end.sink
    if sink.key is None:
        return rows
    return Counter([*rows]) if len({sink.identity(row) for row in rows}) == len(rows) else None


def _bound(value: Any) -> Any:
    """Return a value as DuckDB takes it: a row as a dict."""
    return value.as_dict(recursive=True) if isinstance(value, UserRow) else value


def _as_in_sink(column: str, kind: LogicalType) -> str:
    """Return a column with the type of a sink's, to which Flink casts."""
    if kind.root == "ROW":
        raise Untranslatable(f"the type {kind} of a column that is written")
    cast = f"CAST({column} AS {type_name(kind)})"
    return f"left({cast}, {kind.precision})" if kind.root == "VARCHAR" and kind.precision < _LONGEST else cast


def type_name(kind: LogicalType) -> str:
    """Return DuckDB's name of a type. Raises Untranslatable."""
    root = kind.root
    if root in ("TIMESTAMP", "TIMESTAMP_LTZ") and kind.precision <= _MICROSECONDS:
        return "TIMESTAMP"
    if root == "DECIMAL":
        return f"DECIMAL({kind.precision}, {kind.scale})"
    if root == "VARCHAR":
        return "VARCHAR"
    if root in INTEGERS or root == "DOUBLE":
        return root
    if root == "ROW":
        fields = ", ".join([f'"{each.name}" {type_name(each.type)}' for each in kind.fields])
        return f"STRUCT({fields})"
    if root not in _PLAIN or root in TEXTS:
        raise Untranslatable(f"the type {kind}")
    return _PLAIN[root]


def without_zone(kind: LogicalType) -> LogicalType:
    """Return the type as DuckDB has it: a time in UTC."""
    if kind.root == "ROW":
        return replace(
            kind, fields=tuple([replace(each, type=without_zone(each.type)) for each in kind.fields])
        )
    return replace(kind, root="TIMESTAMP") if kind.root == "TIMESTAMP_LTZ" else kind
