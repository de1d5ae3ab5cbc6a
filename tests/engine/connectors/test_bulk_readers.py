"""Files of Parquet, Avro and CSV are read block by block, from any position, and damage is one clear line."""

from __future__ import annotations

import json
import pickle
from datetime import date, datetime, time
from decimal import Decimal

import fastavro
import pyarrow
import pytest
from pyarrow import parquet

from onceproof.engine import (
    AvroInputFormat,
    AvroParquetReaders,
    AvroSchema,
    CsvReaderFormat,
    CsvSchema,
    DataTypes,
    FileSource,
    InvalidJob,
    MalformedFile,
    MalformedRow,
    ParquetColumnarRowInputFormat,
    Row,
    StreamExecutionEnvironment,
    Types,
)
from onceproof.engine.connectors import avro_input
from onceproof.engine.connectors.file_content import UnreadableFile

ROWS = 50
RECORD = {
    "type": "record",
    "name": "R",
    "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"]}],
}
SCHEMA = AvroSchema.parse_string(json.dumps(RECORD))
ROW_TYPE = DataTypes.ROW(
    [DataTypes.FIELD("id", DataTypes.BIGINT()), DataTypes.FIELD("name", DataTypes.STRING())]
)
RECORDS = [{"id": number, "name": None if number % 7 == 0 else f"n{number}\n"} for number in range(ROWS)]


def avro_file(path, codec="null", records=RECORDS, schema=RECORD):
    with path.open("wb") as file:
        fastavro.writer(file, schema, records, codec=codec, sync_interval=100)


def parquet_file(path, records=RECORDS):
    parquet.write_table(pyarrow.Table.from_pylist(records), path, row_group_size=9)


def avro_source(path):
    avro_file(path)
    return AvroInputFormat(str(path), SCHEMA).create_source()


def parquet_source(path):
    parquet_file(path)
    return FileSource.for_bulk_file_format(
        ParquetColumnarRowInputFormat(ROW_TYPE, batch_size=4), str(path)
    ).build()


def avro_parquet_source(path):
    parquet_file(path)
    return FileSource.for_record_stream_format(
        AvroParquetReaders.for_generic_record(SCHEMA), str(path)
    ).build()


def csv_schema():
    return CsvSchema.builder().add_number_column("id").add_string_column("name").set_null_value("-")


def csv_source(path):
    lines = [f'{each["id"]},"{each["name"] or "-"}"\n' for each in RECORDS]
    path.write_text("name,id\n".join(["", ""]) + "".join(f"{line}" for line in swapped(lines)))
    schema = csv_schema().set_use_header().build()
    return FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema), str(path)).build()


def swapped(lines):
    for line in lines:
        number, _, name = line.rstrip("\n").partition(",")
        yield f"{name},{number}\n"


SOURCES = [avro_source, parquet_source, avro_parquet_source, csv_source]


def read(reader, limit, most=None):
    records = []
    while not reader.exhausted and (most is None or len(records) < most):
        records += [value for value, _ in reader.read(limit)]
    return records


def as_dicts(records):
    return [each.as_dict() if isinstance(each, Row) else each for each in records]


@pytest.mark.parametrize("make", SOURCES)
@pytest.mark.parametrize("limit", [1, 3, 1000])
def test_reader_goes_on_exactly_from_any_position(tmp_path, make, limit):
    source = pickle.loads(pickle.dumps(make(tmp_path / "file")))
    [split] = source.splits()
    for most in range(0, ROWS + 1, 3):
        reader = source.open_split(split, None)
        first = read(reader, limit, most)
        position = json.loads(json.dumps(reader.position))
        reader.close()
        again = source.open_split(split, None if position is None else tuple(position))
        second = read(again, 7)
        again.close()
        assert as_dicts(first + second) == RECORDS, most
        assert again.exhausted


@pytest.mark.parametrize("make", [avro_source, parquet_source, avro_parquet_source])
def test_file_that_became_shorter_is_refused_on_restore(tmp_path, make):
    path = tmp_path / "file"
    source = make(path)
    with pytest.raises(UnreadableFile, match="lacks records that were read"):
        read(source.open_split(str(path), (path.stat().st_size + 1, 1)), 9)
    first_place = source.open_split(str(path), None)
    read(first_place, 1, 1)
    place, _, mark = first_place.position
    first_place.close()
    with pytest.raises(UnreadableFile, match="lacks records that were read"):
        read(source.open_split(str(path), (place, 1000, mark)), 9)


@pytest.mark.parametrize("make", SOURCES)
def test_file_that_is_gone_is_one_clear_line(tmp_path, make):
    path = tmp_path / "file"
    source = make(path)
    path.unlink()
    with pytest.raises(UnreadableFile, match="cannot be read: No such file or directory: check the path"):
        source.open_split(str(path), None).read(1)


@pytest.mark.parametrize("make", [avro_source, parquet_source])
@pytest.mark.parametrize("damage", ["cut", "empty", "text", "flipped"])
def test_damaged_file_is_one_line_with_file_place_and_mend(tmp_path, make, damage):
    path = tmp_path / "file"
    source = make(path)
    whole = path.read_bytes()
    middle = len(whole) // 2
    path.write_bytes(
        {
            "cut": whole[:middle],
            "empty": b"",
            "text": b"id,name\n" * 100,
            "flipped": whole[: middle - 20] + b"\xff" * 40 + whole[middle + 20 :],
        }[damage]
    )
    with pytest.raises(MalformedFile) as raised:
        read(source.open_split(str(path), None), 9)
    text = str(raised.value)
    assert text.startswith(f"{path}, ")
    assert "\n" not in text
    assert "leave it out" in text or "with its own format" in text or "declare" in text


@pytest.mark.parametrize("codec", ["deflate", "bzip2", "xz"])
def test_avro_is_read_in_each_codec(tmp_path, codec):
    avro_file(tmp_path / "file", codec)
    source = AvroInputFormat(str(tmp_path / "file"), SCHEMA).create_source()
    assert read(source.open_split(str(tmp_path / "file"), None), 9) == RECORDS


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz"])
def test_block_that_unpacks_to_too_much_is_refused(tmp_path, monkeypatch, codec):
    path = tmp_path / "file"
    avro_file(path, codec, [{"id": 1, "name": "x" * 10_000}])
    monkeypatch.setattr(avro_input, "MOST_BLOCK_BYTES", 5000)
    with pytest.raises(MalformedFile, match="block at byte"):
        read(AvroInputFormat(str(path), SCHEMA).create_source().open_split(str(path), None), 9)


def number(value):
    """A whole number in Avro's form."""
    value = (value << 1) ^ (value >> 63)
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def entry(name, value):
    return number(len(name)) + name + number(len(value)) + value


def container(schema, block=b"", codec=b"null"):
    header = b"Obj\x01" + number(2) + entry(b"avro.schema", schema) + entry(b"avro.codec", codec) + b"\0"
    return header + b"m" * 16 + block


RECURSIVE = {"type": "record", "name": "R", "fields": [{"name": "n", "type": ["null", "R"]}]}
NULLS = {"type": "record", "name": "R", "fields": [{"name": "n", "type": {"type": "array", "items": "null"}}]}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"Obj\x01" + number(2**62), "more than 1000 entries"),
        (b"Obj\x01" + number(1) + number(2**62), "an entry has 4611686018427387904 bytes"),
        (b"Obj\x01" + b"\xff" * 20, "a number has too many bytes"),
        (container(json.dumps(RECURSIVE).encode()), "contains itself"),
        (container(json.dumps(NULLS).encode()), "items without bytes"),
        (container(b"[" * 100_000), "nested too deeply"),
        (container(b""), "not a schema of Avro"),
        (
            container(json.dumps(RECORD).encode(), codec=b"snappy"),
            "codec 'snappy' is not read: write with null",
        ),
        (
            container(json.dumps(RECORD).encode(), number(1) + number(2**40)),
            "it has 1 records and 1099511627776",
        ),
        (container(json.dumps(RECORD).encode(), number(-1) + number(0)), "it has -1 records"),
        (container(json.dumps(RECORD).encode(), number(2**40) + number(0) + b"m" * 16), "record 1: EOFError"),
        (container(json.dumps(RECORD).encode(), number(1) + number(2) + b"\2\0" + b"x" * 16), "the marker"),
        (container(json.dumps(RECORD).encode(), number(1) + number(3) + b"\2\0\0" + b"m" * 16), "left over"),
    ],
)
def test_hostile_avro_file_is_one_clear_line(tmp_path, data, reason):
    path = tmp_path / "file"
    path.write_bytes(data)
    with pytest.raises(MalformedFile, match=reason) as raised:
        read(AvroInputFormat(str(path), SCHEMA).create_source().open_split(str(path), None), 9)
    assert "\n" not in str(raised.value)


def test_avro_file_of_another_version_is_read_with_the_schema_of_the_program(tmp_path):
    path = tmp_path / "file"
    old = {**RECORD, "fields": [{"name": "id", "type": "int"}, {"name": "gone", "type": "string"}]}
    avro_file(path, records=[{"id": 5, "gone": "x"}], schema=old)
    wanted = json.loads(json.dumps(RECORD))
    wanted["fields"][1]["default"] = None
    source = AvroInputFormat(str(path), AvroSchema.parse_string(json.dumps(wanted))).create_source()
    assert read(source.open_split(str(path), None), 9) == [{"id": 5, "name": None}]


TYPES = {
    "b": (DataTypes.BOOLEAN(), True),
    "i": (DataTypes.INT(), -5),
    "f": (DataTypes.FLOAT(), 0.5),
    "d": (DataTypes.DOUBLE(), 0.1),
    "p": (DataTypes.DECIMAL(10, 2), Decimal("1.50")),
    "day": (DataTypes.DATE(), date(2026, 1, 31)),
    "hour": (DataTypes.TIME(), time(12, 34, 56, 789)),
    "at": (DataTypes.TIMESTAMP(), datetime(2026, 1, 31, 12, 34, 56, 789)),
    "raw": (DataTypes.BYTES(), b"\0\xff"),
    "tags": (DataTypes.ARRAY(DataTypes.STRING()), ["a", "b"]),
    "counts": (DataTypes.MAP(DataTypes.STRING(), DataTypes.INT()), {"a": 1}),
    "inner": (DataTypes.ROW([DataTypes.FIELD("on", DataTypes.BOOLEAN())]), Row(on=True)),
}


def parquet_rows(path, row_type, **options):
    source = FileSource.for_bulk_file_format(
        ParquetColumnarRowInputFormat(row_type, **options), str(path)
    ).build()
    return read(source.open_split(str(path), None), 9)


def test_parquet_rows_of_all_types_come_back(tmp_path):
    row_type = DataTypes.ROW([DataTypes.FIELD(name, kind) for name, (kind, _) in TYPES.items()])
    row = Row(**{name: value for name, (_, value) in TYPES.items()})
    fields = {**row.as_dict(True), "counts": [("a", 1)]}
    table = pyarrow.Table.from_pylist([fields, dict.fromkeys(TYPES)], schema=arrow_schema())
    parquet.write_table(table, tmp_path / "file")
    assert parquet_rows(tmp_path / "file", row_type) == [row, Row(**dict.fromkeys(TYPES))]


def arrow_schema():
    kinds = {
        "b": pyarrow.bool_(),
        "i": pyarrow.int32(),
        "f": pyarrow.float32(),
        "d": pyarrow.float64(),
        "p": pyarrow.decimal128(10, 2),
        "day": pyarrow.date32(),
        "hour": pyarrow.time64("ns"),
        "at": pyarrow.timestamp("ns", tz="UTC"),
        "raw": pyarrow.binary(),
        "tags": pyarrow.list_(pyarrow.string()),
        "counts": pyarrow.map_(pyarrow.string(), pyarrow.int32()),
        "inner": pyarrow.struct([("on", pyarrow.bool_())]),
    }
    return pyarrow.schema(list(kinds.items()))


def test_parquet_column_that_the_file_lacks_is_none(tmp_path):
    parquet_file(tmp_path / "file", [{"ID": 1}])
    assert parquet_rows(tmp_path / "file", ROW_TYPE) == [Row(id=None, name=None)]
    assert parquet_rows(tmp_path / "file", ROW_TYPE, is_case_sensitive=False) == [Row(id=1, name=None)]


@pytest.mark.parametrize(
    ("value", "declared", "reason"),
    [
        ("x", DataTypes.INT(), "row group 1, row 2: field 'a': 'x' .* is no INT"),
        (2**31, DataTypes.INT(), "it holds"),
        (0.1, DataTypes.FLOAT(), "not a float of 32 bits: declare DOUBLE"),
        ([1, None], DataTypes.ARRAY(DataTypes.INT()), "element 1"),
        (5, DataTypes.MAP(DataTypes.STRING(), DataTypes.INT()), "is no MAP"),
    ],
)
def test_parquet_value_of_another_type_is_refused_with_its_row(tmp_path, value, declared, reason):
    parquet_file(tmp_path / "file", [{"a": None}, {"a": value}])
    with pytest.raises(MalformedFile, match=reason):
        parquet_rows(tmp_path / "file", DataTypes.ROW([DataTypes.FIELD("a", declared)]))


def test_parquet_record_of_avro_has_the_values_that_avro_stores(tmp_path):
    fields = [
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "seen", "type": {"type": "map", "values": "long"}},
        {"name": "gone", "type": ["null", "int"]},
    ]
    schema = AvroSchema.parse_string(json.dumps({"type": "record", "name": "R", "fields": fields}))
    kinds = [
        ("at", pyarrow.timestamp("ms", tz="UTC")),
        ("seen", pyarrow.map_(pyarrow.string(), pyarrow.int64())),
    ]
    rows = [{"at": datetime(1970, 1, 1, 0, 0, 5), "seen": [("a", 1)]}]
    parquet.write_table(pyarrow.Table.from_pylist(rows, schema=pyarrow.schema(kinds)), tmp_path / "file")
    source = FileSource.for_record_stream_format(
        AvroParquetReaders.for_generic_record(schema), str(tmp_path / "file")
    ).build()
    reader = source.open_split(str(tmp_path / "file"), None)
    assert read(reader, 9) == [{"at": 5000, "seen": {"a": 1}, "gone": None}]
    parquet_file(tmp_path / "file", [{"seen": None}])
    with pytest.raises(
        MalformedFile, match="row 1: field 'at' is missing, and the schema does not let it be null"
    ):
        read(source.open_split(str(tmp_path / "file"), None), 9)


def csv_rows(path, schema):
    source = FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema), str(path)).build()
    return read(source.open_split(str(path), None), 9)


@pytest.mark.parametrize(
    ("change", "text", "rows"),
    [
        (lambda b: b, '1,"a,""b"""\n\n2,-\r\n', [(1, 'a,"b"'), (2, None)]),
        (lambda b: b.set_column_separator("|").set_quote_char("'"), "1|'a|b'\n", [(1, "a|b")]),
        (lambda b: b.set_escape_char("\\"), "1,a\\,b\\nc\n", [(1, "a,b\nc")]),
        (lambda b: b.set_allow_comments(), "# x,y,z\n1,a\n #\n2,b", [(1, "a"), (2, "b")]),
        (lambda b: b.set_skip_first_data_row(), "x,y\n1,a\n", [(1, "a")]),
        (lambda b: b.set_use_header().set_skip_first_data_row(), "name,id\nskipped,0\na,1\n", [(1, "a")]),
        (lambda b: b.set_use_header().set_strict_headers(), "id,name\n1,a\n", [(1, "a")]),
        (lambda b: b.set_use_header(), "\ufeffid,name\n1,a\n", [(1, "a")]),
        (lambda b: b.add_array_column("c", ":"), "1,a,x:y\n", [(1, "a", ["x", "y"])]),
        (lambda b: b, "", []),
    ],
)
def test_csv_file_is_read_with_the_signs_of_its_schema(tmp_path, change, text, rows):
    (tmp_path / "file").write_bytes(text.encode())
    assert [tuple(row) for row in csv_rows(tmp_path / "file", change(csv_schema()).build())] == rows


@pytest.mark.parametrize(
    ("change", "text", "reason"),
    [
        (lambda b: b, "1,a\nx,b\n", "line 2: column 'id': 'x' is no LONG"),
        (lambda b: b, '1,"a\nb"\n1,a,c\n', "line 3: 2 fields are needed, it has 3"),
        (lambda b: b, '1,a\n2,"b', "line 2: a quote opens that never closes"),
        (lambda b: b, '1,"a"b\n', "line 1: 'b' follows a closing quote"),
        (lambda b: b.set_use_header(), "id,nom\n1,a\n", "line 1: the header has id, nom"),
        (lambda b: b.set_use_header().set_strict_headers(), "name,id\na,1\n", "the schema asks for id, name"),
        (lambda b: b, b"1,a\n2,\xff\n", "line 2: byte 0xff is not UTF-8"),
    ],
)
def test_malformed_csv_row_names_file_line_and_reason(tmp_path, change, text, reason):
    (tmp_path / "file").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(MalformedRow, match=reason):
        csv_rows(tmp_path / "file", change(csv_schema()).build())


def test_create_input_gives_the_records_of_an_avro_file(tmp_path):
    avro_file(tmp_path / "file")
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = env.create_input(AvroInputFormat(str(tmp_path / "file"), SCHEMA))
    assert sorted(stream.execute_and_collect(), key=lambda record: record["id"]) == RECORDS


def test_what_is_no_format_is_refused_with_the_mend(tmp_path):
    with pytest.raises(InvalidJob, match="such as AvroInputFormat"):
        StreamExecutionEnvironment.get_execution_environment().create_input(5)
    with pytest.raises(TypeError, match="such as ParquetColumnarRowInputFormat"):
        FileSource.for_bulk_file_format(AvroParquetReaders.for_generic_record(SCHEMA), "x")
    with pytest.raises(ValueError, match="has no path"):
        FileSource.for_bulk_file_format(ParquetColumnarRowInputFormat(ROW_TYPE))
    with pytest.raises(TypeError, match=r"make one with CsvSchema\.builder"):
        CsvReaderFormat.for_schema(ROW_TYPE)
    with pytest.raises(TypeError, match="not a row with names"):
        ParquetColumnarRowInputFormat(Types.INT())
    with pytest.raises(ValueError, match="batch_size is 0"):
        ParquetColumnarRowInputFormat(ROW_TYPE, batch_size=0)
