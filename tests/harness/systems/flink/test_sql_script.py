"""Which statements a script of SQL has, and which scripts are no job."""

from __future__ import annotations

import pytest

from onceproof.harness.systems.flink.sql_script import SqlScriptError, statements_of


def test_semicolons_in_strings_names_and_comments_end_no_statement():
    script = """
    -- first; a comment
    SET 'table.local-time-zone' = 'UTC';
    CREATE TABLE t (`a;b` STRING) WITH ('x' = 'it''s; one'); /* more; */
    INSERT INTO t SELECT 1 - 2 /*+ OPTIONS('a' = 'b') */ FROM s
    """
    assert statements_of(script) == [
        "SET 'table.local-time-zone' = 'UTC'",
        "CREATE TABLE t (`a;b` STRING) WITH ('x' = 'it''s; one')",
        "INSERT INTO t SELECT 1 - 2 /*+ OPTIONS('a' = 'b') */ FROM s",
    ]


@pytest.mark.parametrize(
    "begin", ["EXECUTE STATEMENT SET BEGIN", "BEGIN STATEMENT SET;", "execute statement set\nbegin"]
)
def test_words_around_a_statement_set_are_left_out(begin):
    script = f"{begin} INSERT INTO a SELECT 1; INSERT INTO b SELECT 2; END;"
    assert statements_of(script) == ["INSERT INTO a SELECT 1", "INSERT INTO b SELECT 2"]


@pytest.mark.parametrize(
    ("script", "line"),
    [
        ("CREATE TABLE t (a INT);", "it has no INSERT INTO"),
        ("-- a\n\nINSERT INTO t SELECT 1;\nselect * from t;", "line 4: SELECT shows rows on a screen"),
        ("EXPLAIN INSERT INTO t SELECT 1;", "line 1: EXPLAIN shows rows"),
        ("", "it has no INSERT INTO"),
    ],
)
def test_a_script_that_is_no_job_is_refused_with_line_and_reason(script, line):
    with pytest.raises(SqlScriptError, match=line):
        statements_of(script)
