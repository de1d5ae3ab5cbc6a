"""Scripts whose statements differ from the job without any fault, and plans that are malformed."""

import json
import re
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace

from onceproof.harness.checkers.declared_rows import DeclaredRows
from onceproof.harness.commands.cli import main
from onceproof.harness.generation.generator import generate
from onceproof.harness.model.columns import shown_columns_of
from onceproof.harness.model.exit_codes import PASSED, USAGE
from onceproof.harness.model.family import Declared
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.history import rows_at_end
from onceproof.harness.model.scenario import BEHIND_RESTORE
from onceproof.harness.scripts import calm_runs
from onceproof.harness.scripts.calm_runs import CalmRuns
from onceproof.harness.scripts.sql import plans
from onceproof.harness.scripts.sql.judging import BY_DUCKDB, BY_RUNS
from onceproof.harness.scripts.sql.plans import digest_of
from onceproof.harness.scripts.sql.statements import read_statements
from onceproof.harness.systems.flink.sql_script import SqlScriptError
from onceproof.harness.systems.simulation.world import World
from onceproof.reports.notes import judged_text

TOTALS = Path(__file__).parents[4] / "scenarios" / "sql" / "totals.sql"


def script_with(tmp_path, text, change=None):
    """Return a script with a plan that is that of totals.sql, changed."""
    kept = json.loads(TOTALS.with_suffix(".plan.json").read_text())
    if change is not None:
        change(kept["plan"])
    kept["digest"] = digest_of(read_statements(text))
    script = tmp_path / "changed.sql"
    script.write_text(text)
    script.with_suffix(".plan.json").write_text(json.dumps(kept))
    return script


def plan_with(tmp_path, change):
    plan = json.loads(TOTALS.with_suffix(".plan.json").read_text())["plan"]
    change(plan)
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(plan))
    return path


def node_of(plan, part):
    return next(each for each in plan["nodes"] if part in each["type"])


def run(path, tmp_path):
    return main(["run", str(path), "--scenarios", "20", "--seed", "1", "--out", str(tmp_path / "out")])


def test_difference_without_a_fault_is_said_and_no_violation(tmp_path):
    script = script_with(tmp_path, TOTALS.read_text().replace("COUNT(*)", "COUNT(*) + 1"))
    assert run(script, tmp_path) == PASSED
    family = load_family(str(script))
    assert any("differ from the job's own run without faults in" in note for note in family.notes())
    records = family.generate(Random(2)).records
    calm = sorted(family.calm_rows(records).elements(), key=repr)
    assert family.expected(records, Declared(calm)) == calm
    assert family.expected(records, Declared(calm[1:])) != calm[1:]


def test_sink_that_records_do_not_determine_keeps_no_other_from_being_judged(monkeypatch):
    family = load_family(str(TOTALS.with_name("meters.sql")))
    records = family.generate(Random(3)).records
    calm = family.calm_rows(records)
    sinks = {row[0] for row in calm}
    assert {"moving", "log"} <= sinks
    other = Counter({row: count for row, count in calm.items() if row[0] != "log"})
    monkeypatch.setattr(CalmRuns, "variants", lambda self, records, **how: [other])
    without_log = [row for row in calm.elements() if row[0] != "log"]
    assert Counter(family.expected(records, Declared(without_log))) == other
    assert family.judged_by(records, Declared(without_log)) == f"{BY_RUNS} but for 1 table"
    lost = next(row for row in without_log if row[0] == "moving")
    assert lost in family.expected(records, Declared([row for row in without_log if row != lost]))


def test_run_without_faults_starts_at_the_date_of_the_run_that_is_judged(monkeypatch):
    family = load_family(str(TOTALS))
    records = family.generate(Random(3)).records
    starts = set()
    monkeypatch.setattr(calm_runs, "rows_of", lambda family, run: starts.add(run.starts_at_ms))
    family.expected(records, Declared([], starts_at_ms=1_700_000_000_000))
    assert starts == {1_700_000_000_000}


def test_runs_that_differ_are_wrong_where_the_statements_say_one_table(monkeypatch):
    family = load_family(str(TOTALS.with_name("revenue.sql")))
    rows = [("ada", "1.00", f"2024-01-01T00:{minute}:00.000") for minute in (11, 22)]
    records = {"orders.0": tuple(enumerate(rows))}
    first, second = sorted(family.calm_rows(records))
    monkeypatch.setattr(CalmRuns, "variants", lambda self, records, **how: [Counter([first])])
    assert family.judged_by(records, Declared([second])) == BY_DUCKDB
    assert Counter(family.expected(records, Declared([second]))) == Counter([first, second])
    monkeypatch.setattr(family._judge, "_batch", None)
    family._judge._answers.clear()
    assert family.judged_by(records, Declared([second])) == "no judge: its runs without faults differ"


def test_nothing_is_said_where_both_agree():
    assert not any("workloads" in note for note in load_family(str(TOTALS)).notes())


def test_what_duckdb_cannot_compute_is_judged_by_the_run(tmp_path, capsys):
    script = script_with(
        tmp_path, TOTALS.read_text().replace("AS BIGINT)", "AS TINYINT) * CAST(100 AS TINYINT)")
    )
    assert run(script, tmp_path) == PASSED
    assert any("cannot be executed by DuckDB in" in note for note in load_family(str(script)).notes())
    said = capsys.readouterr().out
    (judged,) = re.findall(r"changed: judged (.*) of 20 scenarios\n", said)
    judges = dict(re.findall(r"by ([A-Za-z ]+) in (\d+)", judged))
    assert judges.keys() == {"DuckDB", "its own runs without faults"}
    assert sum(map(int, judges.values())) == 20


def test_two_statements_write_one_sink(tmp_path):
    def second(plan):
        sink = node_of(plan, "exec-sink")
        plan["nodes"].append({**sink, "id": 99})
        edges = [each for each in plan["edges"] if each["target"] == sink["id"]]
        plan["edges"] += [{**each, "target": 99} for each in edges]

    assert run(plan_with(tmp_path, second), tmp_path) == PASSED


@pytest.mark.parametrize(
    ("part", "key", "value"),
    [
        ("group-aggregate", "grouping", None),
        ("group-aggregate", "grouping", ["a"]),
        ("group-aggregate", "aggCalls", [{}]),
        ("group-aggregate", "state", [{"index": 0, "ttl": "soon", "name": "s"}]),
        ("exec-sink", "inputChangelogMode", ["ODD"]),
        ("table-source-scan", "scanTableSource", {}),
    ],
)
def test_malformed_node_is_one_line_that_names_it(part, key, value, tmp_path, capsys):
    path = plan_with(tmp_path, lambda plan: node_of(plan, part).update({key: value}))
    assert main(["run", str(path), "--scenarios", "1"]) == USAGE
    said = capsys.readouterr().err
    assert "changed.json: " in said
    assert "Traceback" not in said
    assert "soon" in said or "node " in said


def test_compiled_plan_says_which_options_are_assumed(tmp_path):
    family = load_family(str(plan_with(tmp_path, lambda plan: None)))
    assert any("table.local-time-zone is UTC" in note for note in family.notes())


@pytest.mark.parametrize(
    "statement",
    [
        "COMPILE PLAN 'file:///tmp/a' FOR INSERT INTO a SELECT 1",
        "CREATE FUNCTION f AS 'a.B' USING JAR '/tmp/a.jar'",
        "DELETE FROM a",
        "CALL sys.procedure()",
    ],
)
def test_statement_that_does_more_than_declare_is_refused(statement):
    with pytest.raises(SqlScriptError, match=r"line 1: .* is not executed"):
        read_statements(f"{statement}; INSERT INTO a SELECT 1")


def test_statements_that_declare_are_taken():
    text = (
        "CREATE TEMPORARY TABLE t (a INT, b AS a + 1) COMMENT 'same AS x' WITH ('connector' = 'kafka');"
        " CREATE VIEW v AS SELECT a FROM t; USE CATALOG c; DROP VIEW v; INSERT INTO a SELECT 1"
    )
    assert len(read_statements(text).ddl) == 4


def test_state_with_a_time_to_live_is_noted(tmp_path):
    def expire(plan):
        node_of(plan, "group-aggregate")["state"][0]["ttl"] = "1 h"

    family = load_family(str(plan_with(tmp_path, expire)))
    assert any("time to live" in note for note in family.notes())
    records = family.generate(Random(2)).records
    calm = list(family.calm_rows(records).elements())
    of_clocks = family.judged_by(records, Declared(calm, set_by_ms=3_540_000))
    assert of_clocks == "no judge: a clock was set, and state has a time to live"
    assert family.judged_by(records, Declared(calm, set_by_ms=3_539_999)) == BY_RUNS
    assert family.judged_by(records, Declared(calm)) == BY_RUNS
    assert not any("time to live" in note for note in load_family(str(TOTALS)).notes())


RESTED = {"set_by_ms": 3_600_000, "has_restored": True, "rested_at": {"logins.0": 2}}


def login(kind, account, number, place):
    return (kind, account, number, 1, place)


@pytest.mark.parametrize(
    ("last", "is_right"), [([1, 2], True), ([3, 4], False), ([1], False)], ids=["anew", "goes on", "lost"]
)
def test_job_that_rests_behind_a_restore_begins_anew(last, is_right):
    family = load_family(str(TOTALS.with_name("logins.sql")))
    records = {"logins.0": tuple((place, ("ada", "phone")) for place in range(4))}
    numbers = [1, 2, *last]
    rows = [
        login("+U" if number > 1 else "+I", "ada", number, place) for place, number in enumerate(numbers, 1)
    ]
    declared = Declared(rows, **RESTED)
    assert (Counter(family.expected(records, declared)) == Counter(rows)) is is_right
    assert family.judged_by(records, declared) == BY_DUCKDB
    elsewhere = Declared(rows, set_by_ms=3_600_000, has_restored=True)
    assert family.judged_by(records, elsewhere) == "no judge: a clock was set, and state has a time to live"


def test_rest_of_a_run_is_where_its_state_was_restored():
    family = load_family(str(TOTALS.with_name("logins.sql")))
    judged = Counter()
    for seed in range(120):
        scenario = generate(family, seed)
        if not any(fault.point == "restored" for fault in scenario.faults):
            continue
        history = World(family, scenario).run()
        rows = Counter(rows_at_end(history))
        oracle = DeclaredRows(family, scenario, family.options)
        by = oracle.judge(scenario.records, list(rows), history)
        judged[by] += 1
        assert oracle.rows(scenario.records, list(rows.elements()), history, None, True) == rows
    assert judged[BY_DUCKDB] >= 5


@pytest.mark.parametrize(
    ("name", "rests_ms"), [("logins", 3_600_000), ("totals", 0), ("leaders", 0), ("revenue", 0)]
)
def test_job_rests_where_it_forgets_all(name, rests_ms):
    family = load_family(str(TOTALS.with_name(f"{name}.sql")))
    assert family.options.rests_ms == rests_ms
    rests = [replace(BEHIND_RESTORE, delay=delay) for delay in (3_600_000, 3_600_001)]
    faults = [generate(family, seed).faults for seed in range(30)]
    clocks = [[each for each in own if FAULTS[each.kind].turns_clock] for own in faults]
    resting = [own for own in clocks if any(each in rests for each in own)]
    assert bool(resting) is (rests_ms > 0)
    assert all(len(own) == 1 for own in resting)


def asked_plan(tmp_path, monkeypatch):
    """Return a script that has no plan beside it, and what the planner would make of it."""
    plan = json.loads(TOTALS.with_suffix(".plan.json").read_text())["plan"]
    monkeypatch.setattr(plans, "_asked", lambda path, statements: plan)
    script = tmp_path / "asked.sql"
    script.write_text(TOTALS.read_text())
    return script


def test_plan_is_kept_once_and_nothing_beside_it(tmp_path, monkeypatch):
    script = asked_plan(tmp_path, monkeypatch)
    place = plans.plan_of(script).place
    assert [each.name for each in place.parent.iterdir()] == [place.name]
    monkeypatch.setattr(plans, "_asked", None)
    assert plans.plan_of(script).place == place


def test_plan_is_taken_where_it_cannot_be_kept(tmp_path, monkeypatch):
    script = asked_plan(tmp_path, monkeypatch)
    (tmp_path / "file").touch()
    monkeypatch.setattr(plans, "user_cache", lambda: tmp_path / "file")
    assert plans.plan_of(script).place == script


def test_counts_of_judges_name_the_reasons():
    notes = {"judged by no judge: b": 2, "judged by DuckDB": 5, "judged by no judge: a": 1, "undecided: c": 9}
    assert judged_text(notes, 8) == "judged by DuckDB in 5 of 8 scenarios, not judged in 3 (b in 2; a in 1)"
    assert judged_text({"judged by no judge: a": 8}, 8) == "not judged in 8 (a in 8)"
    assert judged_text({"undecided: c": 9}, 8) == ""


def test_rows_of_a_report_have_the_columns_of_their_sink():
    shown = shown_columns_of(load_family(str(TOTALS)))
    assert shown[0] == "kind"
    assert shown[1:] == (*load_family(str(TOTALS)).sinks["totals"].end.type.names, "number of the change")
    assert shown_columns_of(load_family("word_count")) == ("word", "count")
    assert shown_columns_of(load_family(str(TOTALS.with_name("meters.sql")))) == ()
