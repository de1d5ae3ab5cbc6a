"""A script at least once: what must be there after a restore, and which queries are judged at all."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from onceproof import scenarios
from onceproof.engine.table.plans import read_plan
from onceproof.harness.model.family import Declared
from onceproof.harness.model.family_places import load_family
from onceproof.harness.scripts.sql.changelog import Sink
from onceproof.harness.scripts.sql.plans import digest_of
from onceproof.harness.scripts.sql.repeats import adds_up, missing_rows
from onceproof.harness.scripts.sql.statements import read_statements
from onceproof.harness.trials.trial import scenario_of, try_scenario

SQL = Path(next(iter(scenarios.__path__))) / "sql"
SCENARIOS = 8
SET = "SET 'execution.checkpointing.mode' = 'AT_LEAST_ONCE';\n"
BY_KEY = Sink("t", None, (0,), is_numbered=True)
ALL = Sink("t", None, None, is_numbered=False)


def extremes_of(folder):
    """Return a script whose totals are extremes, which records that come again do not change."""
    text = SET + (SQL / "totals.sql").read_text(encoding="utf-8")
    text = text.replace("SUM(CAST(amount AS BIGINT)), COUNT(*)", "MAX(amount), MIN(amount)")
    kept = json.loads((SQL / "totals.plan.json").read_text(encoding="utf-8"))
    kept["digest"] = digest_of(read_statements(text))
    aggregate = next(node for node in kept["plan"]["nodes"] if "group-aggregate" in node["type"])
    for call, name in zip(aggregate["aggCalls"], ("$MAX$1", "$MIN$1"), strict=True):
        call.update({"internalName": name, "argList": [1], "type": "BIGINT"})
        call.pop("syntax", None)
    (folder / "extremes.sql").write_text(text, encoding="utf-8")
    plan = json.dumps(kept).replace("`EXPR$2` BIGINT NOT NULL", "`EXPR$2` BIGINT")
    (folder / "extremes.plan.json").write_text(plan, encoding="utf-8")
    return load_family(str(folder / "extremes.sql"))


@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        ([("+I", "a", 1, 1), ("+U", "a", 2, 2)], []),
        ([("+I", "a", 2, 1), ("+I", "a", 2, 1), ("+U", "a", 2, 1)], []),
        ([("+U", "a", 2, 2), ("+U", "a", 1, 2)], []),
        ([("+I", "a", 2, 1), ("+U", "a", 1, 2)], [("+I", "a", 2, 3)]),
        ([("+I", "a", 2, 1), ("-D", "a", 2, 2)], [("+I", "a", 2, 3)]),
        ([], [("+I", "a", 2, 1)]),
        ([("+I", "a", 2, 1), ("+I", "b", 7, 1)], [("-D", "b", 7, 2)]),
        ([("+I", "a", 2, 1), ("+I", "b", 7, 1), ("-D", "b", 7, 2)], []),
    ],
)
def test_one_of_the_last_changes_of_each_key_is_its_row(changes, missing):
    assert list(missing_rows(BY_KEY, changes, Counter({("a", 2): 1}))) == missing


def test_without_a_key_each_row_is_there_at_least_once():
    changes = [("+I", "a"), ("+I", "a"), ("+I", "c")]
    assert list(missing_rows(ALL, changes, Counter({("a",): 1, ("b",): 2}))) == [("+I", "b")]


def test_sums_and_joins_count_records_that_come_again():
    for name, node in (("totals", "GroupAggregate"), ("leaders", "Rank")):
        plan = json.loads((SQL / f"{name}.plan.json").read_text(encoding="utf-8"))["plan"]
        assert node in adds_up(read_plan(plan))


def test_script_at_least_once_runs_so_and_its_table_is_there_by_key(tmp_path):
    family = extremes_of(tmp_path)
    assert family.options.barriers == "at_least_once"
    assert "after a restore tables are judged, by key where they have one" in "\n".join(family.notes())
    for seed in range(SCENARIOS):
        scenario = scenario_of(family, seed)
        trial = try_scenario(family, scenario, twice=False)
        assert not scenario.is_exactly_once
        assert trial.verdict.passed, (seed, trial.verdict.violations)


def test_a_row_that_is_lost_at_least_once_is_expected(tmp_path):
    family = extremes_of(tmp_path)
    records = scenario_of(family, 3).records
    rows = list(family.calm_rows(records).elements())
    last = max(rows, key=lambda row: row[-1])
    twice = [*rows, *rows]
    assert family.expected(records, Declared(rows=twice, has_restored=True)) == twice
    without = [row for row in twice if row != last]
    expected = family.expected(records, Declared(rows=without, has_restored=True))
    assert [row[1:-1] for row in (Counter(expected) - Counter(without)).elements()] == [last[1:-1]]


def test_script_that_sums_up_is_not_judged_after_a_restore(tmp_path):
    path = tmp_path / "totals.sql"
    path.write_text(SET + (SQL / "totals.sql").read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "totals.plan.json").write_bytes((SQL / "totals.plan.json").read_bytes())
    family = load_family(str(path))
    assert "after a restore no table is judged, as node 4, GroupAggregate" in "\n".join(family.notes())
    records = scenario_of(family, 3).records
    assert family.expected(records, Declared(has_restored=True)) == ()
    assert family.expected(records, Declared()) != ()
