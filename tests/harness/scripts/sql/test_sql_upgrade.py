"""Upgrades between two plans: state is found by the ids of nodes, and what Flink refuses is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from onceproof import scenarios
from onceproof.engine.table.plans import read_plan
from onceproof.harness.commands.script_options import UsageError, upgrade_address
from onceproof.harness.model.family import FamilyError
from onceproof.harness.model.family_places import address_of, load_family
from onceproof.harness.model.history import JOB_UPGRADED
from onceproof.harness.scripts.sql.state_layouts import refused_layout
from onceproof.harness.trials.trial import scenario_of, try_scenario

SQL = Path(next(iter(scenarios.__path__))) / "sql"
SCENARIOS = 6
Edit = Callable[[dict[str, Any]], None]


def plan_named(name: str) -> dict[str, Any]:
    plan: dict[str, Any] = json.loads((SQL / f"{name}.plan.json").read_text(encoding="utf-8"))["plan"]
    return plan


def node_of(plan: dict[str, Any], kind: str) -> dict[str, Any]:
    return next(node for node in plan["nodes"] if node["type"].startswith(f"stream-exec-{kind}"))


def with_ttl(plan: dict[str, Any]) -> None:
    node_of(plan, "group-aggregate")["state"][0]["ttl"] = "3600000 ms"


def with_other_ids(plan: dict[str, Any]) -> None:
    for node in plan["nodes"]:
        node["id"] += 10
    for edge in plan["edges"]:
        edge["source"], edge["target"] = edge["source"] + 10, edge["target"] + 10


def with_a_wider_sum(plan: dict[str, Any]) -> None:
    node_of(plan, "group-aggregate")["aggCalls"][0]["type"] = "DECIMAL(38, 0)"


def with_a_bonus(plan: dict[str, Any]) -> None:
    one = {"kind": "LITERAL", "value": 1, "type": "BIGINT NOT NULL"}
    calc = node_of(plan, "calc")
    amount = calc["projection"][1]
    added = {"kind": "CALL", "syntax": "BINARY", "internalName": "$+$1", "type": "BIGINT"}
    calc["projection"][1] = {**added, "operands": [amount, one]}


@pytest.fixture
def upgraded(tmp_path):
    """Return a function from the edit of the plan of totals to the family of its upgrade."""

    def family_of(edit: Edit, following: str = ""):
        for name, change in (("old", lambda plan: None), ("new", edit)):
            plan = plan_named("totals")
            change(plan)
            (tmp_path / f"{name}.json").write_text(json.dumps(plan), encoding="utf-8")
        return load_family(f"{tmp_path / 'new.json'}?upgrades=old.json{following}")

    return family_of


def violations_of(family):
    found, upgrades = [], 0
    for seed in range(SCENARIOS):
        trial = try_scenario(family, scenario_of(family, seed), twice=False)
        found += trial.verdict.violations
        upgrades += any(event[1] == JOB_UPGRADED for event in trial.history.events)
    assert upgrades > SCENARIOS // 3
    return found


def test_a_plan_with_a_time_to_live_takes_over_the_state(upgraded):
    family = upgraded(with_ttl)
    said = "\n".join(family.notes())
    assert "state carried over: 'source-payments'" in said
    assert "its type was DYNAMIC and is TTL(DYNAMIC): it migrates" in said
    assert "both versions come to the same tables" in said
    assert violations_of(family) == []


def test_a_plan_that_computes_otherwise_goes_on_from_the_state(upgraded):
    family = upgraded(with_a_bonus)
    said = "\n".join(family.notes())
    assert "tables are judged by the new version without faults from the same state" in said
    assert violations_of(family) == []


def test_a_plan_with_other_ids_is_refused_as_its_state_is_not_found(upgraded):
    family = upgraded(with_other_ids)
    said = "\n".join(family.notes())
    assert (
        "'4_group-aggregate' (state 'groupAggregateState'): its uid was 4_group-aggregate and is 14" in said
    )
    assert (
        "the offsets of payments are state of operator '1_table-source-scan', which the new version lacks:"
        " its source is '11_table-source-scan' there"
    ) in said
    assert any("the offsets of payments" in str(violation) for violation in violations_of(family))


def test_a_plan_with_other_ids_loses_rows_where_state_may_be_left_behind(upgraded):
    family = upgraded(with_other_ids, "&allow-non-restored-state=")
    found = violations_of(family)
    assert {violation.property for violation in found} == {"exactly_once"}


def test_another_accumulator_is_refused_with_the_reason_of_flink(upgraded):
    family = upgraded(with_a_wider_sum)
    assert (
        "the new version is refused: operator '4_group-aggregate' has stored (SUM BIGINT, COUNT BIGINT NOT"
        " NULL) by (STRING) and would read (SUM DECIMAL(38, 0), COUNT BIGINT NOT NULL) by (STRING): Flink"
        " refuses it with a StateMigrationException"
    ) in "\n".join(family.notes())
    assert any("StateMigrationException" in str(violation) for violation in violations_of(family))


def test_layout_of_rows_is_that_of_the_inputs_key_and_order():
    old, new = plan_named("leaders"), plan_named("leaders")
    assert refused_layout(read_plan(old), read_plan(new)) == ""
    for node in new["nodes"]:
        node["outputType"] = node["outputType"].replace("`score` INT", "`score` BIGINT")
    refused = refused_layout(read_plan(old), read_plan(new))
    assert "_rank' has stored (STRING NOT NULL, STRING NOT NULL, INT)" in refused
    assert (
        "(STRING NOT NULL, STRING NOT NULL, BIGINT) by (STRING NOT NULL) sorted by (BIGINT, STRING" in refused
    )


def test_versions_that_read_other_tables_are_one_line(tmp_path):
    for name in ("totals", "revenue"):
        (tmp_path / f"{name}.json").write_text(json.dumps(plan_named(name)), encoding="utf-8")
    with pytest.raises(FamilyError, match=r"orders is read in one version only"):
        load_family(f"{tmp_path / 'totals.json'}?upgrades=revenue.json")


def test_a_script_is_not_upgraded_to_a_program(tmp_path):
    (tmp_path / "old.sql").touch()
    (tmp_path / "new.py").touch()
    with pytest.raises(UsageError, match=r"new\.py: upgrade compares two PyFlink programs, or two scripts"):
        upgrade_address(tmp_path / "old.sql", str(tmp_path / "new.py"), is_allowed=False)


def test_an_upgrade_has_an_address_that_loads_it(upgraded):
    family = upgraded(with_ttl)
    assert load_family(address_of(family)) is family
