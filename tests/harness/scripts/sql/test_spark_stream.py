"""Statements of scripts as streaming queries of Spark: their words, output modes, and what is refused."""

from pathlib import Path

import pytest

from onceproof.harness.model.family import FamilyError
from onceproof.harness.scripts.sql.spark_ends import SparkEnds
from onceproof.harness.scripts.sql.spark_stream import streamed_script
from onceproof.harness.scripts.sql.sql_ends import SinkTable, SourceTable
from onceproof.harness.scripts.sql.statements import read_statements
from tests.harness.scripts.sql.test_batch import end_of

SOURCE = {"k": "VARCHAR(2147483647)", "v": "INT", "at": "TIMESTAMP(3)"}
DECLARED = "k STRING, v INT, `at` TIMESTAMP(3), WATERMARK FOR `at` AS `at` - INTERVAL '5' SECOND"
TUMBLE = "TABLE(TUMBLE(TABLE t, DESCRIPTOR(`at`), INTERVAL '1' MINUTE))"
SESSION = "TABLE(SESSION(TABLE t PARTITION BY k, DESCRIPTOR(`at`), INTERVAL '5' SECOND))"
KINDS = {"k": "VARCHAR(2147483647)", "v": "BIGINT"}


def streamed(query, key=(), mode="append", reason=""):
    """Return a script that reads ``t`` and writes ``s``, whose INSERT stands in line 5."""
    text = (
        f"CREATE TABLE t ({DECLARED})\nWITH ('connector' = 'kafka');\n"
        f"CREATE TABLE s (k STRING, v BIGINT)\nWITH ('connector' = 'kafka');\nINSERT INTO s {query};"
    )
    sources = {"t": SourceTable(end_of("t", SOURCE, mode=mode))}
    return streamed_script(Path("x.sql"), read_statements(text), sources, sinks_of(key), reason)


def sinks_of(key):
    return {"s": SinkTable(end_of("s", KINDS, key), None)}


def test_source_has_its_columns_its_time_and_its_delay():
    source = streamed("SELECT k, v FROM t").sources["t"]
    assert source.cells == ["STRING", "BIGINT", "STRING"]
    assert source.columns[1:] == [
        ("v", "CAST(c1 AS INT)"),
        ("at", "CAST(CAST(c2 AS TIMESTAMP) AS TIMESTAMP_NTZ)"),
    ]
    assert (source.time, source.delay_ms) == ("at", 5000)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELECT UPPER(k), v FROM t WHERE v / 2 > 1", "SELECT UPPER(k), v FROM t WHERE ((v) DIV (2)) > 1"),
        (
            f"SELECT k, SUM(v) FROM {TUMBLE} GROUP BY k, window_start, window_end",
            "SELECT k, SUM(v) FROM (SELECT *, window(`at`, '60000 milliseconds', '60000 milliseconds',"
            " '0 seconds') AS onceproof_window FROM `t`) AS `windows_0` GROUP BY k, onceproof_window",
        ),
        (
            "SELECT k, COUNT(*) FROM t GROUP BY k, HOP(`at`, INTERVAL '1' SECOND, INTERVAL '3' SECOND)",
            "window(`at`, '3000 milliseconds', '1000 milliseconds', '0 seconds')",
        ),
        (
            f"SELECT k, COUNT(*) FROM {SESSION} GROUP BY k, window_start, window_end",
            "session_window(`at`, '5000 milliseconds') AS onceproof_window FROM `t`",
        ),
        (
            f"SELECT k, EXTRACT(MINUTE FROM window_end) FROM {TUMBLE} GROUP BY k, window_start, window_end",
            "EXTRACT(MINUTE FROM onceproof_window.end)",
        ),
        (
            f"SELECT k, v FROM {TUMBLE}",
            "WINDOW_TIME(onceproof_window) AS window_time FROM (SELECT *, window(",
        ),
    ],
)
def test_statement_has_the_words_of_spark(query, words):
    [insert] = streamed(query).inserts
    assert words in insert.query
    assert insert.query.startswith("SELECT CAST(c0 AS STRING) AS o0, CAST(c1 AS BIGINT) AS o1 FROM (")


@pytest.mark.parametrize(
    ("query", "key", "modes"),
    [
        ("SELECT k, v FROM t", (), ("append", "update")),
        (f"SELECT k, SUM(v) FROM {TUMBLE} GROUP BY k, window_start, window_end", (), ("append",)),
        ("SELECT k, SUM(v) FROM t GROUP BY k", (0,), ("append", "update", "complete")),
        # In update mode a row that the condition leaves out would stay.
        ("SELECT k, SUM(v) FROM t GROUP BY k HAVING SUM(v) < 9", (0,), ("append", "complete")),
        (
            "SELECT k, n FROM (SELECT k, SUM(v) AS n FROM t GROUP BY k) WHERE n < 9",
            (0,),
            ("append", "complete"),
        ),
        # Without rows Flink has none.
        ("SELECT 'all', COUNT(*) FROM t", (0,), ("append", "complete")),
        ("SELECT DISTINCT k, v FROM t", (0, 1), ("append", "update")),
    ],
)
def test_output_modes_are_those_whose_rows_are_the_changes_of_the_sink(query, key, modes):
    [insert] = streamed(query, key).inserts
    assert insert.modes == modes
    assert insert.is_distinct is ("DISTINCT" in query)
    assert "DISTINCT" not in insert.query


@pytest.mark.parametrize(
    ("line", "query", "what", "given"),
    [
        (5, "SELECT a, b FROM t MATCH_RECOGNIZE (PATTERN (A)) AS m", "MATCH_RECOGNIZE", {}),
        (5, f"SELECT k, v FROM {TUMBLE.replace('TUMBLE', 'CUMULATE')}", "CUMULATE windows", {}),
        (5, f"SELECT k, v FROM {SESSION}", "SESSION without a GROUP BY of its columns", {}),
        (
            5,
            f"SELECT MAX(k), v FROM {SESSION} GROUP BY v, window_start, window_end",
            "SESSION with a GROUP BY of other columns than those it is partitioned by",
            {},
        ),
        (1, "SELECT k, v FROM t", "changes of rows, which t sends", {"mode": "retract"}),
        (5, "SELECT k, v FROM t", "times of another zone", {"reason": "times of another zone"}),
    ],
)
def test_what_spark_cannot_run_has_a_line_with_its_place(line, query, what, given):
    with pytest.raises(FamilyError) as refused:
        streamed(query, **given)
    assert str(refused.value) == f"x.sql:{line}: Structured Streaming cannot run {what}; leave out --system"


def test_changes_by_key_are_numbered_over_batches():
    ends = SparkEnds(streamed("SELECT k, SUM(v) FROM t GROUP BY k", (0,)), sinks_of((0,)))
    first = ends.changes("s", [], [("a", 1), ("b", 2)], is_complete=False)
    assert first == [("+I", "a", 1, 1), ("+I", "b", 2, 1)]
    # A row that is there is no change.
    second = ends.changes("s", first, [("a", 1), ("b", 3)], is_complete=False)
    assert second == [("+U", "b", 3, 2)]
    assert ends.changes("s", [*first, *second], [("a", 4)], is_complete=True) == [
        ("+U", "a", 4, 2),
        ("-D", "b", 3, 3),
    ]


def test_rows_without_a_key_are_inserted():
    ends = SparkEnds(streamed("SELECT k, v FROM t"), sinks_of(()))
    sink = ends._sinks["s"].sink
    assert not sink.is_numbered
    assert ends.changes("s", [], [("a", 1), ("a", 1)], is_complete=False) == [("+I", "a", 1)] * 2
