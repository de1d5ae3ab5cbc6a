"""Rows as messages of Avro, read and written by the package as well, also from senders that mean harm."""

from __future__ import annotations

import io
import json
import pickle
from datetime import UTC, date, datetime, time
from decimal import Decimal

import fastavro
import pytest

from onceproof.engine import (
    AvroRowDeserializationSchema,
    AvroRowSerializationSchema,
    MalformedMessage,
    Row,
    Types,
)
from onceproof.engine.formats.avro_schema import InvalidAvroSchema
from onceproof.engine.formats.bulk_writers import WrongRow

INNER = {"type": "record", "name": "Inner", "fields": [{"name": "on", "type": "boolean"}]}
DECIMAL = {"logicalType": "decimal", "scale": 2}
FIELDS = {
    "id": "long",
    "name": ["null", "string"],
    "kind": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]},
    "tag": {"type": "fixed", "name": "Tag", "size": 2},
    "items": {"type": "array", "items": ["null", "int"]},
    "counts": {"type": "map", "values": "double"},
    "inner": INNER,
    "again": ["Inner", "null"],
    "day": {"type": "int", "logicalType": "date"},
    "hour": {"type": "int", "logicalType": "time-millis"},
    "minute": {"type": "long", "logicalType": "time-micros"},
    "at": {"type": "long", "logicalType": "timestamp-millis"},
    "exactly": {"type": "long", "logicalType": "timestamp-micros"},
    "price": {**DECIMAL, "type": "bytes", "precision": 10},
    "cents": {
        "type": "fixed",
        "name": "Cents",
        "size": 4,
        "logicalType": "decimal",
        "precision": 6,
        "scale": 2,
    },
    "any": ["null", "int", "string"],
    "local": {"type": "long", "logicalType": "local-timestamp-millis"},
}


def schema_of(fields):
    members = [{"name": name, "type": kind} for name, kind in fields.items()]
    return json.dumps({"type": "record", "name": "R", "fields": members})


ROW = Row(
    id=-(2**63),
    name="é",
    kind="B",
    tag=b"\0\xff",
    items=[1, None],
    counts={"a": 0.1},
    inner=Row(on=True),
    again=None,
    day=date(1969, 12, 31),
    hour=time(12, 34, 56, 789_000),
    minute=time(12, 34, 56, 789_012),
    at=datetime(1969, 12, 31, 23, 59, 59, 500_000),
    exactly=datetime(2026, 1, 31, 12, 34, 56, 123_456),
    price=Decimal("-1.28"),
    cents=Decimal("12.30"),
    any="x",
    local=5,
)


def test_row_of_all_types_comes_back():
    schema = schema_of(FIELDS)
    message = pickle.loads(pickle.dumps(AvroRowSerializationSchema(avro_schema_string=schema))).serialize(ROW)
    reader = pickle.loads(pickle.dumps(AvroRowDeserializationSchema(avro_schema_string=schema)))
    assert reader.deserialize(message) == ROW
    assert reader.get_produced_type().converter()(ROW) is ROW


def test_package_reads_what_is_written():
    schema = schema_of(FIELDS)
    message = AvroRowSerializationSchema(avro_schema_string=schema).serialize(ROW)
    record = fastavro.schemaless_reader(io.BytesIO(message), fastavro.parse_schema(json.loads(schema)))
    assert record["exactly"] == ROW.exactly.replace(tzinfo=UTC)
    assert (record["day"], record["hour"], record["minute"]) == (ROW.day, ROW.hour, ROW.minute)
    assert (record["price"], record["cents"]) == (ROW.price, ROW.cents)
    assert (record["inner"], record["again"], record["items"]) == ({"on": True}, None, [1, None])


@pytest.mark.parametrize(
    ("kind", "value", "encoded"),
    [
        ("long", -1, "01"),
        ("string", "a", "0261"),
        (["null", "int"], None, "00"),
        (["int", "null"], 5, "000a"),
        (FIELDS["day"], date(1970, 1, 2), "02"),
        (FIELDS["at"], datetime(1970, 1, 1, 0, 0, 0, 1000), "02"),
        (FIELDS["price"], Decimal("1.5"), "040096"),
        (FIELDS["price"], Decimal("0"), "0200"),
        (FIELDS["price"], Decimal("1E+2"), "042710"),
        (FIELDS["cents"], Decimal("-0.01"), "ffffffff"),
        (FIELDS["items"], [], "00"),
    ],
)
def test_value_has_the_bytes_of_the_specification(kind, value, encoded):
    writer = AvroRowSerializationSchema(avro_schema_string=schema_of({"f": kind}))
    assert writer.serialize((value,)).hex() == encoded


@pytest.mark.parametrize(
    ("kind", "value", "reason"),
    [
        ("int", 2**31, "it holds"),
        ("string", 5, "is no STRING"),
        ("string", None, "TypeError|must be"),
        (FIELDS["kind"], "C", "C"),
        (FIELDS["tag"], b"abc", "ValueError"),
        (FIELDS["price"], Decimal("1.505"), "field 'f': 1.505 has more than 2 digits behind the point"),
        (FIELDS["price"], Decimal("123456789.00"), "more than 10 digits"),
        (FIELDS["price"], Decimal("1E+999999"), "more than 10 digits"),
        (FIELDS["price"], Decimal("NaN"), "digits"),
    ],
)
def test_row_that_does_not_match_the_schema_is_refused(kind, value, reason):
    writer = AvroRowSerializationSchema(avro_schema_string=schema_of({"f": kind}))
    with pytest.raises(WrongRow, match=reason):
        writer.serialize((value,))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("string", "02"),
        ("string", "feffffffffffffffff01"),
        ("string", "01"),
        ("string", "02ff"),
        ("bytes", "ffffffffffffffffffffffffffffffffffffff"),
        ("long", ""),
        ("long", "0200"),
        (FIELDS["kind"], "08"),
        (FIELDS["name"], "08"),
        (FIELDS["items"], "feffffffffffffffff01"),
        (FIELDS["counts"], "feffffffffffffffff0100"),
        (FIELDS["day"], "feffffff0f"),
        (FIELDS["at"], "feffffffffffffffff01"),
        (FIELDS["minute"], "01"),
        (FIELDS["price"], "8001" + "ff" * 64),
    ],
)
def test_hostile_message_is_one_clear_line(kind, message):
    reader = AvroRowDeserializationSchema(avro_schema_string=schema_of({"f": kind}))
    with pytest.raises(MalformedMessage, match="give the schema that it was written with") as raised:
        reader.deserialize(bytes.fromhex(message))
    assert "\n" not in str(raised.value)


RECURSIVE = {"type": "record", "name": "R", "fields": [{"name": "next", "type": ["null", "R"]}]}
NOTHING = {"type": "record", "name": "N", "fields": [{"name": "n", "type": "null"}]}

EMPTY = {"type": "fixed", "name": "F", "size": 0}


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (json.dumps(RECURSIVE), "contains itself"),
        (schema_of({"f": {"type": "array", "items": "null"}}), "items without bytes"),
        (schema_of({"f": {"type": "array", "items": NOTHING}}), "items without bytes"),
        (
            schema_of({"f": {"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}}),
            "without bytes",
        ),
        ("{", "is not a schema of Avro"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_schema_that_harms_or_is_none_is_refused(schema, reason):
    with pytest.raises(InvalidAvroSchema, match=reason):
        AvroRowDeserializationSchema(avro_schema_string=schema)


def test_schema_that_is_no_record_is_refused():
    with pytest.raises(TypeError, match="is not a type of rows"):
        AvroRowSerializationSchema(avro_schema_string='"string"')


def test_class_of_java_is_refused_with_the_mend():
    with pytest.raises(TypeError, match="give avro_schema_string instead"):
        AvroRowDeserializationSchema(record_class="org.example.User")
    with pytest.raises(TypeError, match="there is no schema"):
        AvroRowSerializationSchema()


def test_union_of_several_types_is_what_avro_has():
    reader = AvroRowDeserializationSchema(avro_schema_string=schema_of({"f": ["null", "int", "string"]}))
    assert reader.get_produced_type() is Types.ROW_NAMED(["f"], [Types.DYNAMIC()])
