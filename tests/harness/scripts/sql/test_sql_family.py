"""Scripts of Flink SQL as families: what is planned, drawn, and judged."""

import json
import shutil
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from onceproof.harness.commands.cli import main
from onceproof.harness.model.exit_codes import PASSED, USAGE
from onceproof.harness.model.family import Declared, FamilyError
from onceproof.harness.model.family_places import address_of, family_names, load_family
from onceproof.harness.scripts.sql.changelog import Sink, applied, corrected
from onceproof.harness.scripts.sql.drawn_rows import rows_left
from onceproof.harness.scripts.sql.statements import declared, read_statements
from onceproof.harness.systems.flink.sql_script import SqlScriptError

SCRIPTS = Path(__file__).parents[4] / "scenarios" / "sql"
NAMES = ["totals", "revenue", "leaders"]


def family_of(name):
    return load_family(str(SCRIPTS / f"{name}.sql"))


@pytest.mark.parametrize("name", NAMES)
def test_script_passes_without_flink(name, tmp_path):
    given = ["run", str(SCRIPTS / f"{name}.sql"), "--scenarios", "12", "--seed", "1", "--out", str(tmp_path)]
    assert main(given) == PASSED


@pytest.mark.parametrize("name", NAMES)
def test_batch_and_calm_run_agree(name):
    family = family_of(name)
    assert "DuckDB" in family.judge
    for seed in range(5):
        records = family.generate(Random(seed)).records
        calm = list(family.calm_rows(records).elements())
        assert Counter(family.expected(records, Declared(calm))) == Counter(calm)


def test_script_is_no_built_in_family_and_has_an_address():
    family = family_of("totals")
    assert "totals" not in family_names()
    assert address_of(family) == str(SCRIPTS / "totals.sql")


def test_lost_row_and_wrong_row_are_expected_otherwise():
    family = family_of("totals")
    records = {"payments.0": ((0, ("ada", 2)), (1, ("ada", 3)))}
    first, second = ("+I", "ada", 2, 1, 1), ("+U", "ada", 5, 2, 2)
    assert family.expected(records, Declared([first, second])) == [first, second]
    assert ("+I", "ada", 5, 2, 2) in family.expected(records, Declared([first]))
    wrong = ("+U", "ada", 3, 1, 2)
    assert wrong not in family.expected(records, Declared([first, wrong]))
    assert Counter(family.expected(records, Declared([first, second, second]))) == Counter([first, second])


def test_script_without_a_plan_names_the_command(tmp_path):
    script = tmp_path / "other.sql"
    script.write_text((SCRIPTS / "totals.sql").read_text().replace("SUM(", "MAX("))
    with pytest.raises(FamilyError, match=r"other\.sql: its plan is not kept.*onceproof flink install"):
        load_family(str(script))


def test_compiled_plan_is_judged_by_its_own_runs(tmp_path):
    kept = json.loads((SCRIPTS / "totals.plan.json").read_text())
    plan = tmp_path / "saved.json"
    plan.write_text(json.dumps(kept["plan"]))
    family = load_family(str(plan))
    assert "runs without faults" in family.judge
    assert (
        main(["run", str(plan), "--scenarios", "3", "--seed", "1", "--out", str(tmp_path / "out")]) == PASSED
    )


def test_unknown_node_is_one_line(tmp_path, capsys):
    text = (SCRIPTS / "totals.plan.json").read_text().replace("exec-group-aggregate_1", "exec-magic_7")
    plan = tmp_path / "magic.json"
    plan.write_text(json.dumps(json.loads(text)["plan"]))
    assert main(["run", str(plan), "--scenarios", "1"]) == USAGE
    assert "the plan needs node magic_7, which the engine lacks" in capsys.readouterr().err


def test_sample_gives_the_rows(tmp_path):
    script = tmp_path / "totals.sql"
    for suffix in (".sql", ".plan.json"):
        shutil.copy(SCRIPTS / f"totals{suffix}", tmp_path)
    sample = tmp_path / "payments.jsonl"
    sample.write_text('{"customer": "zoe", "amount": 7}\n{"amount": null, "customer": "yan"}\n')
    family = load_family(f"{script}?sample=payments=payments.jsonl")
    drawn = [
        value
        for seed in range(4)
        for own in family.generate(Random(seed)).records.values()
        for _, value in own
    ]
    assert set(drawn) == {("zoe", 7), ("yan", None)}


@pytest.mark.parametrize(
    ("given", "sends", "takes"),
    [
        ("'connector' = 'kafka', 'format' = 'json'", "append", "append"),
        ("'connector' = 'kafka', 'format' = 'debezium-json'", "retract", "any"),
        ("'connector' = 'upsert-kafka', 'topic' = 'a)b'", "upsert", "upsert"),
        ("'connector' = 'jdbc'", "append", "upsert"),
        ("'connector' = 'print'", "append", "any"),
    ],
)
def test_connector_becomes_one_that_declares_changes(given, sends, takes):
    text = declared(f"CREATE TABLE t (a INT, PRIMARY KEY (a) NOT ENFORCED) WITH ({given})")
    assert f"'mode' = '{sends}', 'sink-mode' = '{takes}'" in text
    assert text.count("WITH") == 1


def test_options_are_set_and_batch_mode_is_refused():
    script = "SET 'table.exec.state.ttl' = '1 h'; INSERT INTO a SELECT 1"
    assert read_statements(script).options == {"table.exec.state.ttl": "1 h"}
    with pytest.raises(SqlScriptError, match="only STREAMING"):
        read_statements("SET 'execution.runtime-mode' = 'batch'; INSERT INTO a SELECT 1")


def test_changelog_is_applied_and_what_is_unsound_is_left_out():
    sink = Sink("t", None, None, True)
    found = applied(sink, [("+I", "a", 1), ("-U", "a", 2), ("-D", "a", 3), ("+I", "b", 2)])
    assert found.table == Counter({("b",): 1})
    assert found.unsound == [("-D", "a", 3)]
    assert found.gaps == [("b", 1)]
    rows = corrected(sink, [("+I", "a", 1), ("-D", "a", 2), ("-D", "a", 3)], Counter(), is_sound=True)
    assert Counter(rows) == Counter([("+I", "a", 1), ("-D", "a", 2)])


def test_changes_that_no_table_has_leave_nothing():
    change = (1, ("k", 1))
    assert rows_left([(0, ("k", 1)), change, (2, ("k", 2))], "retract", (0,)) == [("k", 2)]
    assert rows_left([(0, ("k", 1)), change], "retract", (0,)) is None
    assert rows_left([change], "retract", (0,)) is None
