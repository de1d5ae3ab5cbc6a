"""Tables with connectors on trial: rows that scripts look up, and programs without their servers."""

import json
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from onceproof.engine import StreamExecutionEnvironment
from onceproof.engine.configuration import ConfigurationError
from onceproof.engine.table.api.environment import StreamTableEnvironment
from onceproof.engine.table.api.planning import use_planner
from onceproof.engine.table.connectors.console import DiscardingSink
from onceproof.engine.table.connectors.registry import WrongTable, sink_of, source_of, standing_in
from onceproof.engine.table.table_ends import TableEnd
from onceproof.engine.table.types import read_type
from onceproof.engine.table.values import KIND_OF
from onceproof.harness.model.family import Declared, FamilyError
from onceproof.harness.model.family_places import load_family
from onceproof.harness.scripts.sql.statements import read_statements
from onceproof.harness.scripts.sql.tables_on_trial import TrialTables, table_pool

SCRIPTS = Path(__file__).parents[4] / "scenarios" / "sql"
DISCOUNTS = str(SCRIPTS / "discounts.sql")


def test_looked_up_rows_are_judged_by_duckdb():
    family = load_family(DISCOUNTS)
    assert "DuckDB" in family.judge
    assert "table customers: rows are looked up in 3 rows, which never change" in family.notes()
    met = Counter()
    for seed in range(5):
        records = family.generate(Random(seed)).records
        calm = list(family.calm_rows(records).elements())
        assert Counter(family.expected(records, Declared(calm))) == Counter(calm)
        met.update(row[1] == "unknown" for row in calm)
    assert met[True]
    assert met[False]


def test_looked_up_rows_come_from_a_sample(tmp_path):
    sample = tmp_path / "customers.jsonl"
    sample.write_text('{"name": "ada", "country": "UK", "discount": 1}\n')
    family = load_family(f"{DISCOUNTS}?sample=customers={sample}")
    rows = family.calm_rows({"orders.0": ((0, (1, "ada", 5)), (1, (2, "bob", 7)))})
    assert rows == Counter([("+I", "UK", 1, 4, 1), ("+I", "unknown", 1, None, 1)])


def test_lookups_are_not_run_on_flink_here():
    with pytest.raises(FamilyError, match="rows are looked up in customers"):
        load_family(DISCOUNTS).on_flink()


@pytest.mark.parametrize(("connector", "lookup"), [("jdbc", True), ("redis", True), ("upsert-kafka", False)])
def test_connector_says_whether_a_joined_table_is_looked_up(connector, lookup):
    script = (
        (SCRIPTS / "discounts.sql")
        .read_text()
        .replace("'connector' = 'jdbc'", f"'connector' = '{connector}'")
    )
    customers, sales = [each.text for each in read_statements(script).ddl[1:]]
    assert ("'lookup' = 'sync'" in customers) == lookup
    assert "lookup" not in sales


KAFKA = {
    "connector": "kafka",
    "topic": "payments",
    "properties.bootstrap.servers": "nowhere:1",
    "format": "json",
}
PLACES = {
    "payments": {**KAFKA, "properties.group.id": "g"},
    "totals": {"connector": "jdbc", "url": "jdbc:postgresql://nowhere/db", "table-name": "totals"},
}
PROGRAM = """
from pyflink.table import EnvironmentSettings, TableEnvironment

TableEnvironment.create(EnvironmentSettings.in_streaming_mode()).execute_sql("INSERT INTO totals SELECT 1")
"""


@pytest.fixture
def plan():
    """A plan that reads Kafka and writes to PostgreSQL, where no server is."""
    plan = json.loads((SCRIPTS / "totals.plan.json").read_text())["plan"]
    for node in plan["nodes"]:
        for end in ("scanTableSource", "dynamicTableSink"):
            if end in node:
                table = node[end]["table"]
                name = table["identifier"].rpartition(".")[2].strip("`")
                table["resolvedTable"]["options"] = PLACES[name]
    use_planner(lambda request: {"plan": plan})
    yield plan
    use_planner(None)


def test_program_is_on_trial_without_its_servers(plan, tmp_path):
    program = tmp_path / "totals.py"
    program.write_text(PROGRAM)
    sample = tmp_path / "payments.csv"
    sample.write_text("customer,amount\nada,3\nada,4\n")
    family = load_family(f"{program}?sample=payments={sample}")
    assert list(family.pools["payments"].held) == [("ada", 3), ("ada", 4)]
    assert "source payments: 2 records of payments.csv" in list(family.notes())


def test_connector_that_the_engine_lacks_is_replaced_on_trial():
    end = TableEnd("t", "`c`.`d`.`t`", read_type("ROW<id INT>"), {"connector": "pulsar"})
    with standing_in(TrialTables()):
        pool = table_pool(source_of(end), None, has_splits=True)
        assert isinstance(sink_of(end)[0], DiscardingSink)
    assert {kind for (kind, _), _ in pool.records} == {KIND_OF["+I"]}
    with pytest.raises(WrongTable, match="the connector 'pulsar' is no source here; these are: datagen"):
        source_of(end)


@pytest.mark.parametrize("connector", ["kafka", "upsert-kafka"])
def test_rows_of_a_far_table_are_drawn_and_some_have_nulls(connector):
    formats = {"key.format": "json", "value.format": "json"} if connector == "upsert-kafka" else {}
    options = {**KAFKA, "connector": connector, "properties.group.id": "g", **formats}
    if formats:
        del options["format"]
    row = read_type("ROW<id INT NOT NULL, name STRING, at TIMESTAMP(3)>")
    with standing_in(TrialTables()):
        source = source_of(TableEnd("t", "`c`.`d`.`t`", row, options, (0,)))
    pool = table_pool(source, None, has_splits=True)
    cells = [held[-3:] for held in pool.held]
    assert all(None not in each for each in cells[:40])
    assert any(name is None for _, name, _ in cells)
    assert all(at is not None for _, _, at in cells)
    kinds = {kind for (kind, _), _ in pool.records}
    assert kinds == (
        {KIND_OF["+I"]} if connector == "kafka" else {KIND_OF[each] for each in ("+I", "+U", "-D")}
    )


def test_options_of_the_job_count_although_they_are_set_for_tables(plan):
    env = StreamExecutionEnvironment.get_execution_environment()
    tables = StreamTableEnvironment.create(env)
    tables.get_config().set("execution.checkpointing.interval", "300 ms").set("parallelism.default", "3")
    with standing_in(TrialTables()):
        tables.create_statement_set().add_insert_sql("INSERT INTO totals SELECT 1").attach_as_datastream()
    assert env.get_checkpoint_config().get_checkpoint_interval() == 300
    assert env.get_parallelism() == 3
    tables.get_config().set("execution.checkpointing.interval", "often")
    with pytest.raises(ConfigurationError, match="cannot be 'often'"), standing_in(TrialTables()):
        tables.create_statement_set().add_insert_sql("INSERT INTO totals SELECT 1").attach_as_datastream()
