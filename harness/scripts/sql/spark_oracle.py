"""The statements of a script over all scenarios at once, in Spark SQL: the second oracle of campaigns.

Rules:

- What is executed is what DuckDB executes side by side (`side_by_side.py`), in the words of Spark. The input
  of a scenario are the rows that its changes leave in each table, the output the final table of each sink.
- Spark judges the scenarios that DuckDB has judged. Where rows may be late it gets the table without late
  rows instead of that of the run, as it knows no watermarks.
- What has no exact translation is judged by Python alone, and the campaign says why.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from onceproof.engine.table.python_values import to_python
from onceproof.engine.table.types import LogicalType
from onceproof.engine.table.values import Row
from onceproof.harness.model.family import NO_OPTIONS, Records
from onceproof.harness.model.family import Rows as OutputRows
from onceproof.harness.scripts.sql.batch import Batch, without_zone
from onceproof.harness.scripts.sql.changelog import RowCounts
from onceproof.harness.scripts.sql.dialect import AVERAGE, DIVIDED, KNOWN, TEXT
from onceproof.harness.scripts.sql.side_by_side import NUMBER
from onceproof.harness.scripts.sql.sql_ends import SinkTable, SourceTable
from onceproof.harness.scripts.sql.windows import Untranslatable

_TYPES: Final = {
    "VARCHAR": "STRING",
    "TIMESTAMP": "TIMESTAMP_NTZ",
    "TIMESTAMP_LTZ": "TIMESTAMP_NTZ",
    **{each: each for each in ("TINYINT", "SMALLINT", "INT", "BIGINT", "BOOLEAN", "DATE")},
}
_FLOATS: Final = re.compile(r"\b(DOUBLE|FLOAT|REAL)\b", re.IGNORECASE)
_EPOCH: Final = "TIMESTAMP_NTZ'1970-01-01 00:00:00'"
_OF_ORACLES: Final = ("records", "declared", "parameters")
"""The views that a query of a family reads."""
_TABLE: Final = "in_table"
_TAKEN: Final[frozenset[type]] = frozenset(
    {*KNOWN, exp.IntDiv, exp.Left, exp.IgnoreNulls, exp.GenerateSeries} - {exp.RegexpExtract, exp.Replace}
)
"""What means the same in Spark, of what scripts have and what DuckDB's queries have beside it."""


class SparkStatements:
    """What Spark SQL needs of a script: the members of a family that a campaign's judgement reads.

    Args:
        name: that of the family.
        sources: the tables that are read.
        sinks: those that are written.
        batch: the statements as DuckDB executes them; None: it does not.
    """

    generator_version = 1
    options = NO_OPTIONS

    def __init__(
        self,
        name: str,
        sources: Mapping[str, SourceTable],
        sinks: Mapping[str, SinkTable],
        batch: Batch | None,
    ) -> None:
        self.name = name
        self._inputs = {each: source.end.type.types for each, source in sources.items()}
        self._outputs = {each: sink.end.type.types for each, sink in sinks.items()}
        self._sinks = sinks
        self.record_schema = self.row_schema = self.oracle_sql = self.reason = ""
        try:
            if batch is None or not batch.takes_late_rows:
                raise Untranslatable("statements that are not executed side by side")
            self.record_schema, self.row_schema = _schema_of(self._inputs), _schema_of(self._outputs)
            self.oracle_sql = self._query(batch)
        except Untranslatable as reason:
            self.record_schema = self.row_schema = ""
            self.reason = f"Spark SQL has no exact translation of {reason}"

    def records_of(self, rows: Mapping[str, Iterable[Row]]) -> Records:
        """Return the rows that tables have in the end, as a query's records."""
        return {
            table: tuple([(0, each) for each in found]) for table, found in self._rows(self._inputs, rows)
        }

    def rows_of(self, tables: Mapping[str, RowCounts]) -> OutputRows:
        """Return the final tables of sinks, as a query's rows."""
        values = {
            name: [self._sinks[name].values_of(row) for row in rows.elements()]
            for name, rows in tables.items()
        }
        return [row for _, found in self._rows(self._outputs, values) for row in found]

    def _rows(
        self, types_of: Mapping[str, Sequence[LogicalType]], rows: Mapping[str, Iterable[Row]]
    ) -> Iterable[tuple[str, list[Row]]]:
        """Yield the rows of each table as one that has the columns of all tables."""
        width, before = sum(map(len, types_of.values())), 0
        for name, types in types_of.items():
            into = [to_python(without_zone(kind)) for kind in types]
            rest = (None,) * (width - before - len(types))
            yield (
                name,
                [
                    (
                        name,
                        *(None,) * before,
                        *[convert(value) for convert, value in zip(into, row, strict=True)],
                        *rest,
                    )
                    for row in rows.get(name, ())
                ],
            )
            before += len(types)

    def _query(self, batch: Batch) -> str:
        """Return the statements as one query of Spark SQL. Raises Untranslatable."""
        texts = [*[text for _, text in batch.definitions], *[text for _, text in batch.queries]]
        if any(_FLOATS.search(text) for text in texts) and any(
            each in text for text in texts for each in (DIVIDED, AVERAGE)
        ):
            raise Untranslatable("divisions and averages of DOUBLE")
        parts, before = [], 0
        for name, types in self._inputs.items():
            columns = ", ".join(
                [f"c{before + place} AS `{each}`" for place, each in enumerate(batch.columns[name])]
            )
            read = f"SELECT scenario_id AS {NUMBER}, {columns} FROM records WHERE {_TABLE} = '{name}'"
            parts.append(f"`{name} rows` AS ({read})")
            before += len(types)
        for name, text in batch.definitions:
            if name.partition("(")[0].strip('"').lower() in _OF_ORACLES:
                raise Untranslatable(f"a table with the name {name}")
            quoted = name.replace('"', "`")
            parts.append(f"{quoted} AS ({spark_text(text)})")
        selected, before = [], 0
        for name, types in self._outputs.items():
            cells = [
                f"o{place - before}" if before <= place < before + len(types) else "NULL"
                for place in range(sum(map(len, self._outputs.values())))
            ]
            names = ", ".join(["scenario_id", *[f"o{place}" for place in range(len(types))]])
            for text in [text for sink, text in batch.queries if sink == name]:
                columns = ", ".join([f"{cell} AS c{place}" for place, cell in enumerate(cells)])
                read = f"({spark_text(text)}) AS q({names})"
                selected.append(f"SELECT scenario_id, '{name}' AS {_TABLE}, {columns} FROM {read}")
            before += len(types)
        return f"WITH {', '.join(parts)} {' UNION ALL '.join(selected)}"


def _schema_of(types_of: Mapping[str, Sequence[LogicalType]]) -> str:
    """Return one schema for the rows of several tables: the name of the table, and the columns of all."""
    kinds = [kind for types in types_of.values() for kind in types]
    return ", ".join(
        [f"{_TABLE} STRING", *[f"c{place} {type_name(kind)}" for place, kind in enumerate(kinds)]]
    )


def type_name(kind: LogicalType) -> str:
    """Return Spark's name of a type. Raises Untranslatable."""
    if kind.root == "DECIMAL":
        return f"DECIMAL({kind.precision}, {kind.scale})"
    if kind.root not in _TYPES:
        raise Untranslatable(f"the type {kind}")
    return _TYPES[kind.root]


def spark_text(text: str) -> str:
    """Return a query of DuckDB's in the words of Spark. Raises Untranslatable."""
    return spark_tree(text).sql("spark")


def spark_tree(text: str) -> exp.Expr:
    """Return a query of DuckDB's as sqlglot has one of Spark. Raises Untranslatable."""
    try:
        tree = parse_one(text, dialect="duckdb")
    except SqlglotError:
        raise Untranslatable(f"the query {text[:40]}") from None
    changed: exp.Expr = tree.transform(_changed)
    return changed


def _changed(node: exp.Expr) -> exp.Expr:
    match node:
        case exp.Anonymous():
            return _call(node.name.lower(), [each.transform(_changed) for each in node.expressions])
        case exp.UnixToTime():
            seconds = f"CAST(CAST({node.this.transform(_changed).sql('spark')} AS DECIMAL(24, 0)) / 1000000"
            return _raw(f"({_EPOCH} + make_dt_interval(0, 0, 0, {seconds} AS DECIMAL(18, 6))))")
        case exp.Trunc() if isinstance(node.parent, exp.Cast):
            whole: exp.Expr = node.this.transform(_changed)
            return whole
        case exp.Table() if isinstance(node.this, exp.GenerateSeries):
            return _numbers(node)
        case exp.DataType() if node.this == exp.DType.TIMESTAMP:
            return exp.DataType(this=exp.DType.TIMESTAMPNTZ)
        case exp.Func() if type(node) not in _TAKEN:
            raise Untranslatable(f"{node.sql('duckdb')[:40]!r}")
    return node


def _call(name: str, arguments: Sequence[exp.Expr]) -> exp.Expr:
    """Return a function that DuckDB has of its own, or that Flink's numbers need."""
    if name == DIVIDED:
        return exp.Paren(
            this=exp.IntDiv(this=exp.Paren(this=arguments[0]), expression=exp.Paren(this=arguments[1]))
        )
    if name == AVERAGE:
        counted = exp.Count(this=arguments[0].copy(), big_int=True)
        return exp.Paren(this=exp.IntDiv(this=exp.Sum(this=arguments[0]), expression=counted))
    if name == TEXT:
        return exp.Cast(this=arguments[0], to=exp.DataType(this=exp.DType.TEXT))
    if name == "epoch_us":
        return _raw(f"timestampdiff(MICROSECOND, {_EPOCH}, {arguments[0].sql('spark')})")
    raise Untranslatable(f"the function {name}")


def _numbers(table: exp.Table) -> exp.Expr:
    """Return a subquery in place of DuckDB's ``range``, whose end is not in it."""
    series, alias = table.this, table.args["alias"]
    begin, end, step = [series.args[each].sql("spark") for each in ("start", "end", "step")]
    column = alias.args["columns"][0].name
    numbers = f"explode(sequence({begin}, {end} - 1, {step})) AS {column}"
    return exp.Subquery(
        this=exp.Select(expressions=[_raw(numbers)]), alias=exp.TableAlias(this=exp.to_identifier(alias.name))
    )


def _raw(text: str) -> exp.Expr:
    """Return a text of Spark's as an expression."""
    return exp.Var(this=text)
