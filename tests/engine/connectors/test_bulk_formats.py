"""Files of Avro, Parquet and CSV that the file sink writes, read back by other packages."""

from __future__ import annotations

import pickle
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import partial

import fastavro
import pytest
from pyarrow import parquet

from onceproof.engine import (
    AvroBulkWriters,
    AvroParquetWriters,
    AvroSchema,
    BucketAssigner,
    CsvBulkWriters,
    CsvSchema,
    DataTypes,
    FileSink,
    OutputFileConfig,
    ParquetBulkWriters,
    RollingPolicy,
    Row,
    StreamExecutionEnvironment,
    Types,
)
from onceproof.engine.connectors.commit_ledger import entry_of
from onceproof.engine.connectors.file_sink_function import UnwritableValue
from onceproof.engine.formats import parquet_files

READING = AvroSchema.parse_string(
    '{"type": "record", "name": "Reading", "fields": ['
    '{"name": "sensor", "type": "string"},'
    '{"name": "value", "type": ["null", "double"]},'
    '{"name": "tags", "type": {"type": "array", "items": "string"}},'
    '{"name": "seen", "type": {"type": "map", "values": "long"}},'
    '{"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}}]}'
)
NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
READINGS = [
    {"sensor": f"s{n}", "value": n / 2, "tags": ["a"] * n, "seen": {"x": n}, "at": NEW_YEAR} for n in range(3)
]
ROW_TYPE = DataTypes.ROW(
    [
        DataTypes.FIELD("id", DataTypes.INT()),
        DataTypes.FIELD("name", DataTypes.STRING()),
        DataTypes.FIELD("price", DataTypes.DECIMAL(38, 18)),
        DataTypes.FIELD("tags", DataTypes.ARRAY(DataTypes.STRING())),
        DataTypes.FIELD("counts", DataTypes.MAP(DataTypes.STRING(), DataTypes.BIGINT())),
        DataTypes.FIELD("day", DataTypes.DATE()),
        DataTypes.FIELD("hour", DataTypes.TIME()),
        DataTypes.FIELD("at", DataTypes.TIMESTAMP()),
        DataTypes.FIELD("raw", DataTypes.BYTES()),
        DataTypes.FIELD("inner", DataTypes.ROW([DataTypes.FIELD("on", DataTypes.BOOLEAN())])),
    ]
)


def row(number):
    return Row(
        id=number,
        name=f"n{number}",
        price=Decimal("1.5"),
        tags=["a", "b"],
        counts={"k": number},
        day=date(2026, 11, 24),
        hour=time(9, 30),
        at=datetime(2026, 11, 24, 9, 30),
        raw=b"\0\xff",
        inner=Row(on=True),
    )


def written(sink_job, folder, factory, rows):
    """Write rows with one checkpoint; return the files that are visible then."""
    built = FileSink.for_bulk_format(str(folder), factory).build()
    job = sink_job(pickle.loads(pickle.dumps(built)).create_function)
    sink = job.start()
    assert sink.invoke_batch(rows[:1])
    for each in rows[1:]:
        sink.invoke(each, None)
    job.snapshot(1)
    assert [path for path in folder.iterdir() if not path.name.startswith(".")] == []
    job.notify(1)
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))


def test_avro_file_is_read_by_other_packages(sink_job, tmp_path):
    [path] = written(sink_job, tmp_path, AvroBulkWriters.for_generic_record(READING), READINGS)
    with path.open("rb") as file:
        assert list(fastavro.reader(file)) == READINGS


def test_parquet_file_of_rows_is_read_by_other_packages(sink_job, tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_files, "ROWS_PER_GROUP", 2)
    rows = [row(1), row(2), tuple(row(3)), Row(*([None] * 10))]
    [path] = written(sink_job, tmp_path, ParquetBulkWriters.for_row_type(ROW_TYPE), rows)
    assert parquet.ParquetFile(path).num_row_groups == 2
    *read, empty = parquet.read_table(path).to_pylist()
    expected = [row(number).as_dict(True) for number in (1, 2, 3)]
    assert [{**each, "counts": dict(each["counts"])} for each in read] == expected
    assert set(empty.values()) == {None}


def test_parquet_file_of_avro_records_is_read_by_other_packages(sink_job, tmp_path):
    [path] = written(sink_job, tmp_path, AvroParquetWriters.for_generic_record(READING), READINGS)
    table = parquet.read_table(path)
    assert [{**each, "seen": dict(each["seen"])} for each in table.to_pylist()] == READINGS
    assert b"parquet.avro.schema" in table.schema.metadata


def csv_schema():
    builder = CsvSchema.builder().add_number_column("id", DataTypes.INT()).add_string_column("name")
    return builder.add_array_column("list", ",").add_boolean_column("on").set_column_separator("|")


@pytest.mark.parametrize(
    ("builder", "expected"),
    [
        (csv_schema(), '1|a|x,y|true\n2|"b|c"||\n'),
        (
            csv_schema().set_use_header().set_line_separator("\r\n"),
            'id|name|list|on\r\n1|a|x,y|true\r\n2|"b|c"||\r\n',
        ),
        (csv_schema().disable_quote_char().set_escape_char("\\"), "1|a|x,y|true\n2|b\\|c||\n"),
        (csv_schema().set_null_value("null"), '1|a|x,y|true\n2|"b|c"||null\n'),
    ],
    ids=["default", "header", "escape", "null"],
)
def test_csv_file_has_the_signs_of_its_schema(sink_job, tmp_path, builder, expected):
    rows = [Row(id=1, name="a", list=["x", "y"], on=True), (2, "b|c", [], None)]
    [path] = written(sink_job, tmp_path, CsvBulkWriters.for_schema(builder.build()), rows)
    assert path.read_bytes().decode() == expected


@pytest.mark.parametrize(
    ("factory", "wrong", "reason"),
    [
        (AvroBulkWriters.for_generic_record(READING), {"sensor": 1}, "sensor"),
        (
            AvroParquetWriters.for_generic_record(READING),
            {"sensor": None},
            "does not let it be null",
        ),
        (AvroParquetWriters.for_generic_record(READING), {"sensors": "s"}, "no column 'sensors'"),
        (ParquetBulkWriters.for_row_type(ROW_TYPE), (1, 2), "not a row of the columns"),
        (ParquetBulkWriters.for_row_type(ROW_TYPE), ("x", *[None] * 9), "x"),
        (CsvBulkWriters.for_schema(csv_schema().build()), (1, "a", ["x,y"], True), "holds the separator"),
        (CsvBulkWriters.for_schema(csv_schema().build()), ("one", "a", [], True), "INT"),
        (CsvBulkWriters.for_schema(csv_schema().disable_quote_char().build()), (1, "|", [], True), "escape"),
    ],
)
def test_row_that_the_format_does_not_take_is_named(sink_job, tmp_path, factory, wrong, reason):
    job = sink_job(FileSink.for_bulk_format(str(tmp_path), factory).build().create_function)
    sink = job.start()

    def write():
        sink.invoke(wrong, None)
        job.snapshot(1)

    with pytest.raises(UnwritableValue, match=reason) as caught:
        write()
    assert repr(wrong) in str(caught.value)
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_killed_writer_of_parquet_leaves_each_row_once(sink_job, tmp_path):
    class ByParity(BucketAssigner):
        def get_bucket_id(self, element, context):
            return f"odd={element[0] % 2}"

    kind = DataTypes.ROW([DataTypes.FIELD("n", DataTypes.BIGINT())])
    builder = FileSink.for_bulk_format(str(tmp_path), ParquetBulkWriters.for_row_type(kind))
    builder.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).with_bucket_assigner(ByParity())
    config = OutputFileConfig.builder().with_part_suffix(".parquet").build()
    job = sink_job(builder.with_output_file_config(config).build().create_function)
    sink = job.start()
    for number in range(4):
        sink.invoke((number,), None)
    job.snapshot(1)
    sink.invoke((99,), None)
    sink = job.start(restored=1)
    for number in range(4, 7):
        sink.invoke((number,), None)
    job.snapshot(2)
    job.notify(2)
    assert not [path for path in tmp_path.rglob(".*") if path.is_file() and entry_of(path.name) is None]
    read = {name: [] for name in ("odd=0", "odd=1")}
    for path in tmp_path.rglob("*.parquet"):
        read[path.parent.name] += parquet.ParquetFile(path).read()["n"].to_pylist()
    assert {name: sorted(numbers) for name, numbers in read.items()} == {
        "odd=0": [0, 2, 4, 6],
        "odd=1": [1, 3, 5],
    }


def test_job_writes_parquet_as_pyflink_programs_do(tmp_path):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    kind = Types.ROW_NAMED(["word", "count"], [Types.STRING(), Types.INT()])
    rows = env.from_collection(
        [Row("ant", 1), Row("bee", 2)], type_info=Types.ROW([Types.STRING(), Types.INT()])
    )
    named = rows.map(lambda each: Row(word=each[0], count=each[1]), output_type=kind)
    columns = [DataTypes.FIELD("word", DataTypes.STRING()), DataTypes.FIELD("count", DataTypes.INT())]
    factory = ParquetBulkWriters.for_row_type(DataTypes.ROW(columns))
    named.sink_to(FileSink.for_bulk_format(str(tmp_path / "out"), factory).build())
    env.execute()
    [path] = (tmp_path / "out").iterdir()
    assert parquet.ParquetFile(path).read().to_pylist() == [
        {"word": "ant", "count": 1},
        {"word": "bee", "count": 2},
    ]


BULK = FileSink.for_bulk_format("out", AvroBulkWriters.for_generic_record(READING))


@pytest.mark.parametrize(
    ("make", "given", "message"),
    [
        (ParquetBulkWriters.for_row_type, Types.INT(), "INT is not a row with names"),
        (ParquetBulkWriters.for_row_type, Types.ROW([Types.INT()]), "is not a row with names"),
        (ParquetBulkWriters.for_row_type, Types.ROW_NAMED(["a"], [Types.DYNAMIC()]), "column 'a' is DYNAMIC"),
        (AvroBulkWriters.for_generic_record, "x", "is not an AvroSchema"),
        (AvroParquetWriters.for_generic_record, AvroSchema.parse_string('"int"'), "is not a record"),
        (CsvBulkWriters.for_schema, {}, "is not a CsvSchema"),
        (partial(FileSink.for_bulk_format, "out"), "parquet", "is not a BulkWriterFactory"),
        (
            BULK.with_rolling_policy,
            RollingPolicy.default_rolling_policy(),
            "cannot be used with a bulk",
        ),
    ],
    ids=["scalar", "no names", "no type", "avro", "no record", "csv", "factory", "policy"],
)
def test_wrong_schema_or_policy_is_refused_as_the_sink_is_built(make, given, message):
    with pytest.raises(TypeError, match=message):
        make(given)
