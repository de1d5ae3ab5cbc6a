"""The statements of a script over all rows at once: what is computed, and what is refused."""

from pathlib import Path

import duckdb
import pytest

from onceproof.engine.table.table_ends import TableEnd
from onceproof.engine.table.types import read_type
from onceproof.harness.scripts.sql.batch import Batch
from onceproof.harness.scripts.sql.sql_ends import SinkTable, SourceTable
from onceproof.harness.scripts.sql.statements import read_statements
from onceproof.harness.scripts.sql.windows import Untranslatable


def end_of(name, columns, key=(), mode="append"):
    fields = [{"name": column, "fieldType": kind} for column, kind in columns.items()]
    row = read_type({"type": "ROW", "fields": fields})
    return TableEnd(name, name, row, {"mode": mode, "sink-mode": "upsert"}, key)


def batch_of(query, source=None, sink=None, key=(), before=""):
    """Return the batch of a script that reads ``t`` and writes ``s``."""
    source = source or {"k": "VARCHAR(2147483647)", "v": "INT"}
    sink = sink or {"k": "VARCHAR(2147483647)", "v": "BIGINT"}
    columns = ", ".join([f"{column} {kind}" for column, kind in source.items()])
    script = (
        f"{before or f'CREATE TABLE t ({columns})'} WITH ('connector' = 'kafka');"
        f" CREATE TABLE s (k STRING) WITH ('connector' = 'kafka'); {query}"
    )
    sources, sinks = {"t": SourceTable(end_of("t", source))}, {"s": SinkTable(end_of("s", sink, key), None)}
    return Batch(read_statements(script), sources, sinks)


def result(query, rows, **given):
    tables = batch_of(query, **given).tables({"t": rows})
    return tables and sorted(tables["s"].elements())


@pytest.mark.parametrize(
    "table",
    ["`/etc/passwd`", "`rows.csv`", "rows.csv", "`https://localhost/rows.parquet`", "duckdb_settings", "s"],
)
def test_only_declared_tables_are_read(table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("rows.csv").write_text("k,v\na,1\n")
    with pytest.raises(Untranslatable, match="the table"):
        batch_of(f"INSERT INTO s SELECT k, v FROM {table}")


def test_duckdb_reaches_no_file_and_keeps_its_settings():
    connection = batch_of("INSERT INTO s SELECT k, v FROM t")._connection
    with pytest.raises(duckdb.PermissionException):
        connection.execute("SELECT * FROM '/etc/passwd.csv'")
    with pytest.raises(duckdb.Error):
        connection.execute("SET enable_external_access = true")


def test_window_over_an_undeclared_table_is_refused():
    query = "SELECT k, v FROM TABLE(TUMBLE(TABLE rows.csv, DESCRIPTOR(v), INTERVAL '1' HOUR))"
    with pytest.raises(Untranslatable, match=r"the table rows\.csv"):
        batch_of(f"INSERT INTO s {query}")


def test_own_names_of_a_query_are_known():
    query = "INSERT INTO s WITH c AS (SELECT k, v FROM t) SELECT k, v FROM c"
    assert result(query, [("a", 1)]) == [("a", 1)]


def test_overflow_has_no_tables():
    assert result("INSERT INTO s SELECT k, v + 2147483647 FROM t", [("a", 1)]) is None
    assert result("INSERT INTO s SELECT k, v + 2147483647 FROM t", [("a", 0)]) == [("a", 2147483647)]


@pytest.mark.parametrize(
    "query", ["SELECT k, v FROM t WHERE k <> 'NOW'", "SELECT k, COUNT(*) FROM t GROUP BY k"]
)
def test_unused_time_of_the_clock_is_left_out(query):
    before = "CREATE TABLE t (k STRING, v INT, p AS PROCTIME())"
    assert result(f"INSERT INTO s {query}", [("a", 1)], before=before) == [("a", 1)]


@pytest.mark.parametrize(
    "query", ["SELECT k, EXTRACT(HOUR FROM p) FROM t", "SELECT k, v FROM (SELECT * FROM t)"]
)
def test_used_time_of_the_clock_is_refused(query):
    with pytest.raises(Untranslatable, match="clock"):
        batch_of(f"INSERT INTO s {query}", before="CREATE TABLE t (k STRING, v INT, p AS PROCTIME())")
