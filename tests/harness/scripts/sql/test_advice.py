"""What is said of a script beside its verdict, and the statements that are refused with a remedy."""

import json
from types import SimpleNamespace

import pytest

from onceproof.engine.table.planner.planner_process import PlanningFailed
from onceproof.engine.table.plans import read_plan
from onceproof.harness.scripts.sql.advice import draws_chance, growing_state, promise_of, undetermined
from onceproof.harness.scripts.sql.statements import read_statements
from onceproof.harness.systems.flink.sql_script import SqlScriptError
from tests.doc_output import ROOT

TABLE = "CREATE TABLE a (x INT) WITH ('connector' = 'kafka');\n"
INSERT = "INSERT INTO a SELECT x FROM a"


def plan_of(name):
    return read_plan(json.loads((ROOT / "scenarios" / "sql" / f"{name}.plan.json").read_bytes())["plan"])


def test_join_keeps_the_rows_of_both_sides_unless_they_expire():
    said = list(growing_state(plan_of("leaders"), {}))
    assert [each.partition(";")[0] for each in said] == [
        "state: the Top-N keeps every row of scores forever",
        "state: the join of scores and players keeps every row of both forever",
    ]
    assert list(growing_state(plan_of("leaders"), {"table.exec.state.ttl": "1 d"})) == []


def test_sums_by_key_and_windows_are_not_mentioned():
    assert list(growing_state(plan_of("totals"), {})) == []
    assert list(growing_state(plan_of("revenue"), {})) == []


@pytest.mark.parametrize(
    ("given", "has_key", "words"),
    [
        ({"connector": "kafka", "format": "json"}, False, "repeats rows after a restart"),
        ({"connector": "kafka", "value.format": "debezium-json"}, True, "repeats changes after a restart"),
        ({"connector": "kafka", "sink.delivery-guarantee": "exactly-once"}, False, ""),
        ({"connector": "upsert-kafka"}, True, ""),
        ({"connector": "jdbc"}, False, "declare a PRIMARY KEY"),
        ({"connector": "jdbc"}, True, ""),
        ({}, False, ""),
    ],
)
def test_sink_that_writes_again_after_a_restart_is_named(given, has_key, words):
    said = promise_of("totals", given, has_key)
    assert words in said
    assert bool(words) == bool(said)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("CREATE FUNCTION f AS 'com.acme.F'", "a function in Java runs on Flink alone"),
        ("CREATE TEMPORARY FUNCTION f AS 'm.f' LANGUAGE PYTHON", "register the function in a program"),
        ("CREATE TEMPORARY FUNCTION f\nAS 'm.f'\nLANGUAGE PYTHON", "register the function in a program"),
        ("COMPILE PLAN '/p.json' FOR INSERT INTO a SELECT 1", "write the INSERT alone"),
        ("CREATE TABLE b (x) WITH ('connector' = 'print') AS SELECT x FROM a", "as an INSERT INTO it"),
        ("QUIT", "for the prompt of the SQL client"),
        ("DELETE FROM a WHERE x = 1", "no stream job does it"),
        ("ALTER TABLE a SET ('x' = 'y')", "only SET, USE, DROP"),
    ],
)
def test_statement_that_is_not_executed_is_refused_with_a_remedy(text, words):
    with pytest.raises(SqlScriptError, match=f"line 2: .*{words}"):
        read_statements(f"{TABLE}{text};\n{INSERT};")


def test_script_without_an_insert_is_refused_after_its_statements():
    with pytest.raises(SqlScriptError, match="no INSERT INTO"):
        read_statements(TABLE)


@pytest.mark.parametrize(
    "text",
    [
        f"\ufeff{TABLE}{INSERT};",
        f"{TABLE}{INSERT};".replace("\n", "\r\n"),
        f"/* a; b */ -- 'quoted\n{TABLE}{INSERT} -- the end",
        f"{TABLE}EXECUTE STATEMENT SET\nBEGIN\n{INSERT};\nEND;",
    ],
    ids=["byte order mark", "line ends of Windows", "comments", "statement set"],
)
def test_script_as_editors_and_clients_write_it_is_read(text):
    statements = read_statements(text)
    assert [each.text for each in statements.inserts] == [INSERT]
    assert statements.given == {"a": {"connector": "kafka"}}


def test_refusal_of_the_planner_says_what_to_do():
    words = "Table sink 'best' doesn't support consuming update and delete changes"
    assert "declare a PRIMARY KEY" in str(PlanningFailed({"phase": "execute", "message": words}))
    asked = {"phase": "execute", "message": "Please specify an ON CONFLICT clause to define"}
    assert "only since Flink 2.3" in str(PlanningFailed(asked))
    assert str(PlanningFailed({"phase": "plan", "message": "no table"})).endswith("no table")


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        (
            {"projection": [{"internalName": "$UUID$1"}, {"internalName": "$NOW$1"}]},
            "values: NOW, UUID gives",
        ),
        ({"windowing": {"timeAttributeType": {"kind": "PROCTIME"}}}, "windows: in processing time"),
        ({"windowing": {"timeAttributeType": {"kind": "ROWTIME"}}}, ""),
        ({"projection": [{"internalName": "$CURRENT_WATERMARK$1"}]}, ""),
    ],
)
def test_what_records_do_not_determine_is_named(attributes, words):
    [*said] = undetermined(SimpleNamespace(nodes=[SimpleNamespace(attributes=attributes)]))
    assert [each[: len(words)] for each in said] == ([words] if words else [])


@pytest.mark.parametrize(("name", "is_drawn"), [("UUID", True), ("RAND", True), ("CURRENT_TIMESTAMP", False)])
def test_two_runs_of_a_scenario_differ_by_chance_and_not_by_the_clock(name, is_drawn):
    nodes = [SimpleNamespace(attributes={"projection": [{"internalName": f"${name}$1"}]})]
    assert draws_chance(SimpleNamespace(nodes=nodes)) is is_drawn
