"""A script of SQL on Flink: what its client gets and makes of the plan, and which rows its lines are."""

from __future__ import annotations

import importlib.util
import json
import struct
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from onceproof import scenarios
from onceproof.engine.table.table_ends import TableEnd
from onceproof.engine.table.types import read_type
from onceproof.engine.table.values import decoder
from onceproof.harness.model.family_places import load_family
from onceproof.harness.scripts.sql.flink_ends import FlinkEnds
from onceproof.harness.scripts.sql.sql_ends import SinkTable, SourceTable
from onceproof.harness.systems.flink.files import FlinkPartFiles, read_metadata
from onceproof.harness.systems.flink.home import CLIENT
from onceproof.harness.systems.flink.order import FlinkOrder
from onceproof.harness.trials.trial import scenario_of

SQL = Path(next(iter(scenarios.__path__))) / "sql"
VALUES = {
    "BOOLEAN": True,
    "INT": -7,
    "BIGINT": 1 << 62,
    "FLOAT": 0.1,
    "DOUBLE": "NaN",
    "DECIMAL(10, 2)": "1.50",
    "VARCHAR(2147483647)": "ada",
    "VARBINARY(2147483647)": "00ff",
    "DATE": "1969-12-31",
    "TIME(3)": "23:59:59.001",
    "TIMESTAMP(9)": "0001-01-01T00:00:00.000000001",
    "TIMESTAMP(3) WITH LOCAL TIME ZONE": "2026-01-02T03:04:05.678Z",
    "ARRAY<DATE>": ["1970-01-01", None],
    "MAP<DATE, TIMESTAMP(3)>": [["1970-01-02", "1970-01-01T00:00:00.001"]],
    "ROW<`a` TIME(0), `b` ROW<`c` DECIMAL(3, 1)>>": ["00:00:01", ["0.5"]],
}
"""By type, a value in JSON."""


class Gateway:
    """Stands for the Java of PyFlink: whatever is asked of it, it notes."""

    def __init__(self) -> None:
        self.plan: dict[str, Any] = {}
        self.settings: dict[str, str] = {}

    def __getattr__(self, name: str) -> Any:
        return self

    def __call__(self, *arguments: Any) -> Any:
        return self

    def fromJsonString(self, text: str) -> str:  # noqa: N802 (the name is Flink's)
        self.plan = json.loads(text)
        return text

    def set(self, key: str, value: str) -> None:
        self.settings[key] = value

    def new_array(self, kind: Any, length: int) -> list[Any]:
        return [None] * length

    def explain(self, form: Any, details: list[Any]) -> str:
        return "the plan"

    def toString(self) -> str:  # noqa: N802
        return "job-1"


@pytest.fixture
def gateway(monkeypatch):
    module = ModuleType("pyflink.java_gateway")
    found = Gateway()
    module.get_gateway = lambda: found
    package = ModuleType("pyflink")
    # A look for an installed PyFlink reads it.
    package.__spec__ = ModuleSpec("pyflink", None)
    monkeypatch.setitem(sys.modules, "pyflink", package)
    monkeypatch.setitem(sys.modules, "pyflink.java_gateway", module)
    return found


def job_of(order):
    spec = importlib.util.spec_from_file_location("table_jobs", CLIENT / "table_jobs.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.TableJob(object(), order)


def order_of(name, folder):
    family = load_family(str(SQL / f"{name}.sql"))
    scenario = scenario_of(family, 3)
    return family, scenario, FlinkOrder(family, scenario, folder).made(1, 1, 3, "hashmap", None)


def read_splits(path):
    """Return by split the texts in a file of records."""
    content, place = Path(path).read_bytes(), 4
    found = {}
    for _ in range(struct.unpack_from(">i", content)[0]):
        (length,) = struct.unpack_from(">i", content, place)
        name = content[place + 4 : place + 4 + length].decode()
        (count,) = struct.unpack_from(">i", content, place + 4 + length)
        place += 8 + length
        found[name] = []
        for _ in range(count):
            _, size = struct.unpack_from(">qi", content, place)
            found[name].append(json.loads(content[place + 12 : place + 12 + size]))
            place += 12 + size
    assert place == len(content)
    return found


def test_client_gives_the_plan_the_tables_of_the_scenario(gateway, tmp_path):
    _, scenario, order = order_of("leaders", tmp_path)
    job = job_of(order)
    assert job.submit() == "job-1"
    assert job.readers() == 2 * 3
    ends = {
        node[end]["table"]["identifier"].split("`")[-2]: node[end]["table"]["resolvedTable"]
        for node in gateway.plan["nodes"]
        for end in ("scanTableSource", "dynamicTableSink")
        if end in node
    }
    assert ends["scores"]["options"]["mode"] == "retract"
    assert ends["scores"]["schema"]["primaryKey"]["columns"] == ["game", "player"]
    assert ends["leaders"]["options"] == {
        "connector": "onceproof-scenario",
        "name": "leaders",
        "mode": "upsert",
        "numbered": "true",
        "key": "0,1",
        "writers": "1",
        "records": f"{tmp_path}-1-",
        "output": str(tmp_path / "output"),
    }
    splits = {
        **read_splits(ends["scores"]["options"]["records"]),
        **read_splits(ends["players"]["options"]["records"]),
    }
    assert splits == {
        split: [list(value) for _, value in records] for split, records in scenario.records.items()
    }
    assert gateway.settings["table.local-time-zone"] == "UTC"


def test_job_that_is_only_built_is_explained(gateway, tmp_path):
    # Java has no method without the two arguments.
    assert job_of(order_of("totals", tmp_path)[2]).execution_plan() == "the plan"


def test_table_that_is_read_twice_has_the_earlier_of_two_positions():
    content = struct.pack(">iiq", 0x4960672D, 4, 7)
    content += b"[onceproof-read 0 5 7 orders.0][onceproof-read 0 3 7 orders.0]"
    metadata = read_metadata(content, {"orders.0": 9, "orders.1": 4})
    assert metadata is not None
    assert metadata.cut == {"orders.0": 3, "orders.1": 4}


def test_part_files_have_the_rows_of_the_engine(tmp_path):
    family = load_family(str(SQL / "totals.sql"))
    (tmp_path / "part-1").write_text('["totals", "+U", ["ada", 7, 2], 3]\n')
    new, _ = FlinkPartFiles(tmp_path, family.on_flink().row_of).changes()
    assert new == {"part-1": [("+U", "ada", 7, 2, 3)]}


@pytest.mark.parametrize("text", VALUES)
def test_values_are_the_same_on_their_way_to_flink_and_back(text):
    kind = read_type(f"ROW<`x` {text}>")
    end = TableEnd("t", "`c`.`d`.`t`", kind, {"mode": "append"})
    source, sink = SourceTable(end), SinkTable(end, None)
    held = source.held((0, (decoder(kind.types[0])(VALUES[text]),)))
    ends = FlinkEnds({}, {}, {"t": source}, {"t": sink})
    order = ends.order({"t.0": ((0, held),)})
    [[given, *cells]] = json.loads(json.dumps(order["sources"]["`c`.`d`.`t`"]["splits"]["t.0"]))
    assert given == "+I"
    assert ends.row_of(("t", "+I", tuple(cells), None)) == ("+I", *held)
