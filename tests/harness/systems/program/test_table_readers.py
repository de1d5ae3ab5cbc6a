"""Outputs that a reader shows: a command, Parquet, Delta Lake, Iceberg; what it does not see is no row."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from onceproof.harness.model.family import FamilyError
from onceproof.harness.model.history import ROWS_FOUND, Row
from onceproof.harness.model.program_ends import Output
from onceproof.harness.model.scenario import Fault
from onceproof.harness.services.object_store_server import ObjectStoreServer
from onceproof.harness.systems.process.object_io import StoreReader
from onceproof.harness.systems.process.trial_servers import TrialObjectStore
from onceproof.harness.systems.program.table_readers import IcebergOutput, ObjectsOutput
from onceproof.harness.systems.program.trial_end import TrialEnd
from tests.harness.systems.program.programs import RECORDS, events_of, program, tried

pytestmark = pytest.mark.local_kill

KILL = Fault("kill_process", "committed", occurrence=2)
PATIENT = "[done]\nquiet_seconds = 200\nmost_seconds = 600\n"
TABLE_OF_FILES = """
    import json, os, sys, time, uuid
    given, folder = sys.argv[1] + "/numbers.jsonl", sys.argv[2]
    manifest = folder + "/manifest.json"
    while True:
        table = json.load(open(manifest)) if os.path.exists(manifest) else {"files": [], "done": 0}
        lines = [line for line in open(given) if line.endswith("\\n")][table["done"] :]
        if lines:
            if len(table["files"]) == 2:
                lines = [row for name in table["files"] for row in open(f"{folder}/{name}")] + lines
                table = {"files": [], "done": 0}
            name = f"{uuid.uuid4().hex}.jsonl"
            open(f"{folder}/{name}", "w").writelines(lines)
            open(f"{folder}/orphan-{name}", "w").writelines(lines)
            table = {"files": [*table["files"], name], "done": table["done"] + len(lines)}
            json.dump(table, open(manifest + ".new", "w"))
            os.replace(manifest + ".new", manifest)
        time.sleep(0.01)
"""
"""Leaves an orphan beside each data file, and compacts every third commit."""
READER = """
import json, os, sys
folder = sys.argv[1]
if os.path.exists(folder + "/manifest.json"):
    for name in json.load(open(folder + "/manifest.json"))["files"]:
        sys.stdout.write(open(f"{folder}/{name}").read())
"""
FILES = f'[input]\nkind = "files"\n[output]\nkind = "files"\npattern = "*.jsonl"\n{PATIENT}'
BY_COMMAND = (
    '[input]\nkind = "files"\n[output]\nkind = "command"\n'
    f'command = ["{{python}}", "{{here}}/reader.py", "{{output}}"]\n{PATIENT}'
)
LOADS = """
    import json, os, sys, time
    import pyarrow as pa
    import pyarrow.parquet as parquet
    IMPORTS
    given, folder = sys.argv[1] + "/numbers.jsonl", sys.argv[2]
    done = DONE
    while True:
        lines = [json.loads(line) for line in open(given) if line.endswith("\\n")][done:]
        if lines:
            done += len(lines)
            rows = pa.table({"id": [line["id"] for line in lines]})
            APPEND
        time.sleep(0.01)
"""
PARQUET = {
    "IMPORTS": "",
    "DONE": "sum(parquet.read_metadata(f'{folder}/{each}').num_rows for each in os.listdir(folder)"
    " if each.endswith('t'))",
    "APPEND": "parquet.write_table(rows, f'{folder}/.new'); os.replace(f'{folder}/.new',"
    " f'{folder}/{done}.parquet')",
}
DELTA = {
    "IMPORTS": "from deltalake import DeltaTable, write_deltalake",
    "DONE": "DeltaTable(folder).to_pyarrow_table().num_rows if DeltaTable.is_deltatable(folder) else 0",
    "APPEND": "parquet.write_table(rows, f'{folder}/orphan-{done}.parquet'); write_deltalake(folder, rows,"
    " mode='append'); done % 2 or DeltaTable(folder).optimize.compact()",
}
ICEBERG = {
    "IMPORTS": "from pyiceberg.catalog import load_catalog",
    "DONE": "0\n    uri = f'sqlite:///{folder}/catalog.db'"
    "\n    catalog = load_catalog('c', type='sql', uri=uri, warehouse=folder)"
    "\n    catalog.create_namespace_if_not_exists('n')"
    "\n    table = catalog.create_table_if_not_exists('n.numbers', pa.schema([('id', pa.int64())]))"
    "\n    done = table.scan().to_arrow().num_rows",
    "APPEND": "table.append(rows);"
    " parquet.write_table(rows, f'{folder}/n/numbers/data/orphan-{done}.parquet')",
}
CATALOG = """
table = "n.numbers"
catalog = { name = "c", type = "sql", uri = "sqlite:///{output}/catalog.db", warehouse = "{output}" }
"""


def loader(folder: Path, parts: dict[str, str], kind: str, more: str = "") -> Path:
    text = LOADS
    for name, part in parts.items():
        text = text.replace(name, part)
    ends = f'[input]\nkind = "files"\n[output]\nkind = "{kind}"\ncolumns = ["id"]\n{more}\n{PATIENT}'
    return program(folder, text, ends)


def test_rows_are_those_that_the_command_of_the_output_prints(tmp_path: Path) -> None:
    (tmp_path / "reader.py").write_text(READER)
    history, verdict = tried(program(tmp_path, TABLE_OF_FILES, BY_COMMAND), faults=(KILL,))
    assert verdict.passed, verdict.violations
    assert sum(len(payload["rows"]) for _, payload in events_of(history, ROWS_FOUND)) == 6


def test_orphans_are_rows_of_a_folder_that_is_read_as_files(tmp_path: Path) -> None:
    # A reader of all files sees what the manifest leaves out.
    path = program(tmp_path, TABLE_OF_FILES, FILES)
    _, verdict = tried(path)
    assert ("exactly_once", "duplicated") in {(each.property, each.anomaly) for each in verdict.violations}


@pytest.mark.parametrize(
    ("reader", "line"),
    [
        ("raise SystemExit('no manifest')", r"command: exit code 1: no manifest"),
        ("print('reading the table')", r"command: prints what is no row: reading the table"),
        (
            "print('{\"number\": 1}')",
            r"command: prints what is no row without the column 'id': \{\"number\": 1\}",
        ),
    ],
)
def test_a_reader_that_fails_is_one_line_and_no_verdict(tmp_path: Path, reader: str, line: str) -> None:
    (tmp_path / "reader.py").write_text(reader)
    path = program(tmp_path, TABLE_OF_FILES, BY_COMMAND.replace("most_seconds = 600", "most_seconds = 1"))
    with pytest.raises(FamilyError, match=rf"job\.toml: output: {line}$"):
        tried(path)


def test_a_reader_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    path = program(tmp_path, TABLE_OF_FILES, BY_COMMAND.replace('"{python}", ', '"no-such-reader", '))
    with pytest.raises(FamilyError, match=r"output\.command: no-such-reader: No such file"):
        tried(path)


def test_parquet_files_are_read_when_they_are_whole(tmp_path: Path) -> None:
    history, verdict = tried(loader(tmp_path, PARQUET, "parquet"))
    assert verdict.passed, verdict.violations
    assert sum(len(payload["rows"]) for _, payload in events_of(history, ROWS_FOUND)) == 6


def test_a_parquet_file_without_a_footer_is_a_leak(tmp_path: Path) -> None:
    half = {
        **PARQUET,
        "APPEND": f"{PARQUET['APPEND']}; open(f'{{folder}}/half.parquet', 'wb').write(b'PAR1')",
    }
    half["DONE"] = "0"
    _, verdict = tried(loader(tmp_path, half, "parquet"))
    assert [(each.property, each.anomaly) for each in verdict.violations] == [
        ("no_leaks", "line without an end")
    ]


def test_orphaned_and_compacted_files_are_no_rows_of_a_delta_table(tmp_path: Path) -> None:
    _, verdict = tried(loader(tmp_path, DELTA, "delta"), faults=(KILL,))
    assert verdict.passed, verdict.violations


def test_orphaned_files_are_no_rows_of_an_iceberg_table(tmp_path: Path) -> None:
    _, verdict = tried(loader(tmp_path, ICEBERG, "iceberg", CATALOG))
    assert verdict.passed, verdict.violations


def test_an_iceberg_table_without_a_catalog_is_that_of_its_newest_metadata(tmp_path: Path) -> None:
    import pyarrow as pa
    from pyiceberg.catalog import load_catalog

    end = TrialEnd(Output("iceberg"), "output", tmp_path, tmp_path / "output", {"id": "BIGINT"}, {})
    output = IcebergOutput(end)
    assert output.read() == []
    catalog = load_catalog("c", type="sql", uri="sqlite://", warehouse=str(tmp_path))
    catalog.create_namespace("n")
    schema = pa.schema([("id", pa.int64())])
    table = catalog.create_table("n.numbers", schema, location=output.address)
    for number in range(11):
        table.append(pa.table({"id": [number]}))
    assert sorted(output.read()) == [(number,) for number in range(11)]
    output.close()


def test_a_column_that_a_table_lacks_is_one_line(tmp_path: Path) -> None:
    path = loader(tmp_path, PARQUET, "parquet")
    path.write_text(path.read_text().replace('columns = ["id"]', 'columns = ["number"]'))
    with pytest.raises(
        FamilyError, match=r"output\.columns: the output has no column 'number'; there are id"
    ):
        tried(path, records={"numbers": RECORDS["numbers"][:1]})


def test_objects_are_rows_of_one_listing_by_pattern_and_name(
    object_store_server: ObjectStoreServer, tmp_path: Path
) -> None:
    store = TrialObjectStore(object_store_server)
    with store.place() as objects:
        output = Output("s3", pattern="**/day=*/*")
        end = TrialEnd(
            output, "job.toml: output", tmp_path, tmp_path / "output", {"id": ""}, {}, objects=objects
        )
        reader = ObjectsOutput(end)
        assert reader.address.startswith(f"s3://{objects.bucket}/")
        puts = StoreReader(objects)
        parquet = io.BytesIO()
        pyarrow.parquet.write_table(pyarrow.table({"id": [3], "key": ["k"]}), parquet)
        puts.put("output", "day=1/a.jsonl", b'{"id": 1}\n\n{"id": 2}\n')
        puts.put("output", "day=1/b.parquet", parquet.getvalue())
        for hidden in ("day=1/_SUCCESS", "_tmp/day=1/a.jsonl", "other.jsonl"):
            puts.put("output", hidden, b"none\n")
        puts.put("output-2", "day=1/a.jsonl", b'{"id": 9}\n')
        assert reader.read() == [(1,), (2,), (3,)]
        puts.put("output", "day=1/c.jsonl", b'{"id": 4}\n')
        read = reader.rows_in

        def compacted_meanwhile(name: str) -> list[Row] | None:
            rows = read(name)
            reader.rows_in = read  # type: ignore[method-assign]
            puts.put("output", "day=1/a.jsonl", b'{"id": 1}\n{"id": 2}\n{"id": 4}\n')
            puts.put("output", "day=1/c.jsonl", b"")
            return rows

        reader.rows_in = compacted_meanwhile  # type: ignore[method-assign]
        assert reader.read() == [(1,), (2,), (4,), (3,)]
        puts.put("output", "day=1/d.parquet", b"PAR1")
        reader.read()
        assert reader.left_behind(has_ended=False) == [
            ("line without an end", "day=1/d.parquet: no footer", True)
        ]
        reader.close()
    store.close()
