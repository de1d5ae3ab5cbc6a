"""What is read of a script: queries that show rows, catalogs, hints, and what changes no row."""

import pytest

from onceproof.engine.table.planner.planner_process import PlanningFailed
from onceproof.harness.scripts.sql.dialect import Translated
from onceproof.harness.scripts.sql.plans import digest_of
from onceproof.harness.scripts.sql.statements import SHOWN, read_statements
from onceproof.harness.systems.flink.sql_script import SqlScriptError

TABLE = "CREATE TABLE a (x INT) WITH ('connector' = 'kafka');\n"


def test_query_that_shows_rows_gets_a_sink_of_its_own():
    statements = read_statements(f"{TABLE}SELECT x FROM a;\nWITH b AS (SELECT x FROM a) SELECT * FROM b;")
    assert [(each.line, each.text) for each in statements.inserts] == [
        (2, "INSERT INTO `shown` SELECT x FROM a"),
        (3, "INSERT INTO `shown_2` WITH b AS (SELECT x FROM a) SELECT * FROM b"),
    ]
    assert statements.query_sinks[SHOWN].query.text == "SELECT x FROM a"
    assert statements.said[0] == "line 2: the rows that this query shows on a screen go to sink shown"


def test_query_that_shows_rows_beside_an_insert_is_left_out():
    statements = read_statements(f"{TABLE}INSERT INTO b SELECT x FROM a;\nSELECT * FROM b LIMIT 10;")
    assert [each.text for each in statements.inserts] == ["INSERT INTO b SELECT x FROM a"]
    assert not statements.query_sinks
    assert statements.said[0].startswith("line 3: this query is left out")


def test_table_declared_by_its_query_is_a_sink():
    made = "CREATE TABLE b WITH ('connector' = 'jdbc') AS SELECT x FROM a"
    statements = read_statements(f"{TABLE}{made};")
    assert [each.text for each in statements.inserts] == ["INSERT INTO `b` SELECT x FROM a"]
    assert "'sink-mode' = 'append'" in statements.query_sinks["b"].options
    assert statements.given["b"] == {"connector": "jdbc"}
    other = read_statements(f"{TABLE}{made.replace('jdbc', 'print')};")
    assert digest_of(statements) != digest_of(other)


@pytest.mark.parametrize(
    "text",
    [
        "ADD JAR '/x.jar'",
        "SHOW TABLES",
        "DESCRIBE a",
        "EXPLAIN SELECT * FROM a",
        "RESET 'table.exec.state.ttl'",
    ],
)
def test_statement_that_changes_no_row_is_left_out(text):
    statements = read_statements(f"{TABLE}{text};\nINSERT INTO b SELECT x FROM a;")
    assert len(statements.ddl) == len(statements.inserts) == 1


def test_option_that_is_reset_before_an_insert_is_not_set():
    insert = "INSERT INTO b SELECT x FROM a;"
    text = f"{TABLE}SET 'table.exec.state.ttl' = '1 h';"
    assert read_statements(f"{text}{insert}RESET 'table.exec.state.ttl';").options
    assert not read_statements(f"{text}RESET 'table.exec.state.ttl';{insert}").options
    assert not read_statements(f"{text}RESET;{insert}").options


def test_tables_of_a_catalog_are_those_of_the_script():
    text = (
        "CREATE CATALOG lake WITH ('type' = 'paimon', 'warehouse' = 's3://x'); USE CATALOG lake;"
        " CREATE DATABASE db; CREATE TABLE db.t (x INT PRIMARY KEY NOT ENFORCED, n BIGINT);"
        f" CREATE TABLE log (x INT) WITH ('bucket' = '2'); {TABLE} INSERT INTO db.t SELECT x, 1 FROM a"
    )
    statements = read_statements(text)
    catalog, *_, table, log, source = [each.text for each in statements.ddl]
    assert catalog == "CREATE CATALOG lake WITH ('type' = 'generic_in_memory')"
    assert "'mode' = 'upsert', 'sink-mode' = 'upsert'" in table
    assert "'mode' = 'append', 'sink-mode' = 'append'" in log
    assert source.startswith("CREATE TABLE a (x INT)")
    assert statements.given["log"] == {"connector": "paimon", "bucket": "2"}


def test_options_in_hints_are_those_of_a_replaced_connector():
    hint = "/*+ OPTIONS('scan.startup.mode' = 'earliest (offset)') */"
    kept = "/*+ STATE_TTL('a' = '1d') */"
    [insert] = read_statements(f"{TABLE}INSERT INTO b SELECT {kept} x FROM a {hint}").inserts
    assert insert.text == f"INSERT INTO b SELECT {kept} x FROM a "


def test_script_of_declarations_alone_starts_no_job():
    with pytest.raises(SqlScriptError, match="no INSERT INTO"):
        read_statements(f"{TABLE}SHOW TABLES;")


@pytest.mark.parametrize("kind", ["TEMPORARY VIEW", "VIEW IF NOT EXISTS"])
def test_temporary_view_is_translated_as_any(kind):
    assert Translated(f"CREATE {kind} v AS SELECT x FROM a").target()[0] == "v"


def test_refusal_of_a_wrapper_says_its_cause():
    cause = {"class": "X", "message": "Table t already exists"}
    refusal = PlanningFailed(
        {"phase": "ddl", "message": "Could not execute CreateTable in path t", "cause": cause}
    )
    assert str(refusal).endswith("CreateTable in path t: Table t already exists")
