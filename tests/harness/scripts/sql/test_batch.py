"""The statements of a script over all rows at once: what is computed, and what is refused."""

from pathlib import Path

import duckdb
import pytest

from onceproof.engine.table.table_ends import TableEnd
from onceproof.engine.table.types import read_type
from onceproof.harness.scripts.sql import batch as batches
from onceproof.harness.scripts.sql.sql_ends import SinkTable, SourceTable
from onceproof.harness.scripts.sql.statements import read_statements
from onceproof.harness.scripts.sql.windows import Untranslatable

TIMES = {"k": "VARCHAR(2147483647)", "at": "TIMESTAMP(3)"}


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
    return batches.batch_of(read_statements(script), sources, sinks)


def result(query, rows, **given):
    tables = batch_of(query, **given).tables({"t": rows})
    return tables and sorted(tables[0]["s"].elements())


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


def test_window_over_a_declared_table_is_read():
    query = "SELECT k, v FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(seen), SIZE => INTERVAL '1' HOUR))"
    source = {"k": "VARCHAR(2147483647)", "seen": "TIMESTAMP(3)", "v": "INT"}
    assert result(f"INSERT INTO s {query}", [("a", 0, 1)], source=source) == [("a", 1)]


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


@pytest.mark.parametrize("field", ["DOW", "ISODOW", "MILLISECOND", "EPOCH", "DOY"])
def test_parts_of_a_time_that_differ_are_refused(field):
    with pytest.raises(Untranslatable, match=f"EXTRACT of {field}"):
        batch_of(f"INSERT INTO s SELECT k, EXTRACT({field} FROM at) FROM t", source=TIMES)


def test_parts_of_a_time_that_are_the_same_are_taken():
    query = "INSERT INTO s SELECT k, EXTRACT(HOUR FROM at) FROM t"
    assert result(query, [("a", 7_200_000_000_000)], source=TIMES) == [("a", 2)]


@pytest.mark.parametrize("average", ["AVG(DISTINCT v)", "AVG(v) FILTER (WHERE v > 1)"])
def test_averages_of_some_values_are_refused(average):
    with pytest.raises(Untranslatable, match="AVG of DISTINCT"):
        batch_of(f"INSERT INTO s SELECT k, {average} FROM t GROUP BY k")


@pytest.mark.parametrize(("order", "is_free"), [("v", False), ("v, k", True)])
def test_order_of_arrival_shows_in_the_opposite_order(order, is_free):
    rows = [("a", 1), ("b", 1), ("c", 2)]
    query = f"SELECT k, v FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY {order}) AS n FROM t) WHERE n = 1"
    batch = batch_of(f"INSERT INTO s {query}")
    assert (batch.tables({"t": rows}) == batch.tables({"t": rows}, is_backwards=True)) is is_free


def test_text_is_cut_to_the_length_of_the_sink():
    sink = {"k": "VARCHAR(2)", "v": "BIGINT"}
    assert result("INSERT INTO s SELECT k, v FROM t", [("abc", 1)], sink=sink) == [("ab", 1)]


@pytest.mark.parametrize("name", ["table.exec.sink.not-null-enforcer", "table.exec.legacy-cast-behaviour"])
def test_option_that_may_change_rows_is_refused(name):
    with pytest.raises(Untranslatable, match=f"the option {name}"):
        batch_of(f"SET '{name}' = 'DROP'; INSERT INTO s SELECT k, v FROM t")


def test_several_rows_of_a_key_have_no_tables():
    query = "INSERT INTO s SELECT k, v FROM t"
    assert batch_of(query, key=(0,)).tables({"t": [("a", 1), ("a", 2)]}) == [{}]
    assert result(query, [("a", 1), ("a", 1)], key=(0,)) == [("a", 1)]
    assert result("INSERT INTO s SELECT k, v FROM t", [("a", 1), ("b", 2)], key=(0,)) == [("a", 1), ("b", 2)]


def test_integers_are_divided_toward_zero_with_all_digits():
    source = {"k": "VARCHAR(2147483647)", "v": "BIGINT"}
    large = 2**53 + 1
    rows = [("a", large), ("b", -7)]
    assert result("INSERT INTO s SELECT k, v / 1 FROM t", rows, source=source) == [("a", large), ("b", -7)]
    assert result("INSERT INTO s SELECT k, v / 2 FROM t", rows, source=source)[1] == ("b", -3)
    averages = "INSERT INTO s SELECT k, AVG(v) FROM t GROUP BY k"
    assert result(averages, [*rows, ("b", -6)], source=source) == [("a", large), ("b", -6)]


@pytest.mark.parametrize("value", ["v / 2", "AVG(v)"])
def test_division_of_decimals_is_refused(value):
    source = {"k": "VARCHAR(2147483647)", "v": "DECIMAL(10, 2)"}
    with pytest.raises(Untranslatable, match="DECIMAL"):
        batch_of(f"INSERT INTO s SELECT MAX(k), {value} FROM t GROUP BY k, v", source=source)
    with pytest.raises(Untranslatable, match="DECIMAL"):
        batch_of("INSERT INTO s SELECT k, v / 2.5 FROM t")


def test_what_sums_in_another_order_leave_is_no_difference():
    sink = {"k": "FLOAT", "v": "DOUBLE"}
    end = SinkTable(end_of("s", sink), None)
    assert end.cells((1 / 3, 0.1 + 0.2 - 0.3)) == (0.333333, 0.0)
    assert end.cells((1234567.0, 1 / 3)) == (1234570.0, 0.333333333)


@pytest.mark.parametrize(
    ("expression", "text", "value"),
    [
        ("SPLIT_INDEX(k, '/', 1)", "a/b", "b"),
        ("SPLIT_INDEX(k, '/', 2)", "a/b", None),
        ("SPLIT_INDEX(k, '/', 0)", "", None),
        ("REGEXP_EXTRACT(k, '(&|^)id=([^&]*)', 2)", "x&id=7&y", "7"),
        ("REGEXP_EXTRACT(k, '(&|^)id=([^&]*)', 2)", "x", None),
        ("REPLACE(k, 'b', '')", "abc", "ac"),
    ],
)
def test_function_in_another_form_has_the_value_of_flink(expression, text, value):
    assert result(f"INSERT INTO s SELECT {expression}, 1 FROM t", [(text, 1)]) == [(value, 1)]


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("REGEXP_EXTRACT(k, '(a)?b', 1)", "the regular expression"),
        ("DATE_FORMAT(k, 'EEE')", "the form EEE of a time"),
        ("SPLIT_INDEX(k, '/', v)", "an index that is not constant"),
        ("REPLACE(k, '', 'x')", "REPLACE of what is not a constant"),
        ("DATE_FORMAT(k)", "with 1 arguments"),
    ],
)
def test_function_whose_form_is_not_known_is_refused(expression, reason):
    with pytest.raises(Untranslatable, match=reason):
        batch_of(f"INSERT INTO s SELECT {expression}, 1 FROM t")


def test_fields_of_rows_are_read():
    row = {
        "type": "ROW",
        "fields": [{"name": "v", "fieldType": "BIGINT"}, {"name": "at", "fieldType": "TIMESTAMP(3)"}],
    }
    given = {"source": {"k": "VARCHAR(2147483647)", "r": row}}
    given["before"] = "CREATE TABLE t (k STRING, r ROW<v BIGINT, `at` TIMESTAMP(3)>, a AS r.`at`)"
    rows = [("a", (5, 60_000_000_000)), ("b", None)]
    query = "SELECT COALESCE(DATE_FORMAT(a, 'yyyy-MM-dd HH:mm:ss'), 'never'), t.r.v FROM t"
    assert result(f"INSERT INTO s {query}", rows, **given) == [("1970-01-01 00:01:00", 5), ("never", None)]


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        ("TUMBLE(seen, INTERVAL '10' SECOND)", [("00:10", 2), ("00:20", 1)]),
        ("HOP(seen, INTERVAL '10' SECOND, INTERVAL '20' SECOND)", [("00:10", 2), ("00:20", 3), ("00:30", 1)]),
        ("SESSION(seen, INTERVAL '2' SECOND)", [("00:03", 1), ("00:13", 2)]),
    ],
)
def test_windows_in_group_by_are_window_functions(window, expected):
    source = {"k": "VARCHAR(2147483647)", "seen": "TIMESTAMP(3)"}
    rows = [("a", second * 1_000_000_000) for second in (1, 9, 11)]
    kind = window.partition("(")[0]
    end = f"DATE_FORMAT({window.replace(kind, f'{kind}_END', 1)}, 'mm:ss')"
    query = f"INSERT INTO s SELECT {end}, COUNT(*) FROM t AS e GROUP BY k, {window}"
    assert result(query, rows, source=source) == expected


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("SELECT CAST(v AS STRING), v FROM t", [("7", 7)]),
        ("SELECT CONCAT(k, '-', k), GREATEST(v, 9) FROM t", [("a-a", 9)]),
        ("SELECT CONCAT(k, CAST(NULL AS STRING)), LEAST(v, CAST(NULL AS INT)) FROM t", [(None, None)]),
        ("SELECT k, v FROM t WHERE EXISTS (SELECT 1 FROM t AS r WHERE r.v = t.v)", [("a", 7)]),
        ("SELECT k, LAG(v) OVER (ORDER BY k) FROM t", [("a", None)]),
    ],
)
def test_functions_are_as_in_flink(query, rows):
    assert result(f"INSERT INTO s {query}", [("a", 7)]) == rows


def test_first_and_last_value_leave_nulls_out():
    query = "SELECT k, {}(v) OVER (PARTITION BY k ORDER BY at) FROM t"
    source = {**TIMES, "v": "INT"}
    rows = [("a", 1, None), ("a", 2_000_000, 7), ("a", 3_000_000, None), ("a", 4_000_000, 8)]
    for name, last in (("FIRST_VALUE", 7), ("LAST_VALUE", 8)):
        found = batch_of(f"INSERT INTO s {query.format(name)}", source=source).tables({"t": rows})
        assert found[0]["s"] == {("a", None): 1, ("a", 7): 3 if last == 7 else 2} | (
            {} if last == 7 else {("a", 8): 1}
        )


@pytest.mark.parametrize(
    "query",
    [
        "SELECT k, FIRST_VALUE(v) FROM t GROUP BY k",
        "SELECT k, (SELECT COUNT(*) FROM t AS r WHERE r.k = t.k) FROM t",
        "SELECT CAST(k AS VARCHAR(2)), v FROM t",
        "SELECT k, FLOOR(at TO MINUTE) FROM t",
    ],
)
def test_what_has_another_meaning_is_refused(query):
    with pytest.raises(Untranslatable):
        batch_of(f"INSERT INTO s {query}", source={**TIMES, "v": "INT"})


def test_text_of_a_time_has_no_tables():
    assert result("INSERT INTO s SELECT CAST(at AS STRING), 1 FROM t", [("a", 1)], source=TIMES) is None


def test_zone_matters_only_where_times_have_one():
    zone = "SET 'table.local-time-zone' = 'Asia/Tokyo'; "
    query = "INSERT INTO s SELECT k, v FROM t"
    assert result(zone + query, [("a", 1)]) == [("a", 1)]
    for given in ({"source": {"k": "VARCHAR(9)", "v": "TIMESTAMP_LTZ(3)"}}, {}):
        text = query if given else "INSERT INTO s SELECT CAST(CURRENT_DATE AS STRING), v FROM t"
        with pytest.raises(Untranslatable, match="zone"):
            batch_of(zone + text, **given)


def test_windows_before_1970_begin_before_their_rows():
    window = "TABLE(TUMBLE(TABLE t, DESCRIPTOR(at), INTERVAL '10' SECOND))"
    query = f"SELECT k, EXTRACT(SECOND FROM window_start) FROM {window}"
    assert result(f"INSERT INTO s {query}", [("a", -3_000_000_000)], source=TIMES) == [("a", 50)]
