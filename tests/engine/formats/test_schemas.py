"""Schemas of messages: text, bytes and rows of JSON, also from senders that mean harm."""

from __future__ import annotations

import json
import pickle
from decimal import Decimal

import pytest

from onceproof.engine import (
    ByteArraySchema,
    CsvRowDeserializationSchema,
    CsvRowSerializationSchema,
    DeserializationSchema,
    JsonRowDeserializationSchema,
    JsonRowSerializationSchema,
    MalformedMessage,
    Row,
    RowFieldExtractorSchema,
    SerializationSchema,
    SimpleStringSchema,
    Types,
)
from onceproof.engine.formats.bulk_writers import WrongRow
from onceproof.engine.formats.json_schema import InvalidJsonSchema, row_type_of_json_schema

ORDER = Types.ROW_NAMED(
    ["id", "price", "items"],
    [Types.LONG(), Types.BIG_DEC(), Types.OBJECT_ARRAY(Types.ROW_NAMED(["name"], [Types.STRING()]))],
)


def json_reader(kind, *options):
    builder = JsonRowDeserializationSchema.builder().type_info(kind)
    for option in options:
        getattr(builder, option)()
    return builder.build()


def json_writer(kind):
    return JsonRowSerializationSchema.builder().with_type_info(kind).build()


@pytest.mark.parametrize("charset", ["UTF-8", "ISO-8859-1", "UTF-16", "utf-16-le"])
def test_text_comes_back_in_each_charset(charset):
    schema = pickle.loads(pickle.dumps(SimpleStringSchema(charset)))
    assert schema.deserialize(schema.serialize("één")) == "één"
    assert schema.get_produced_type() is Types.STRING()


def test_utf_16_is_that_of_java():
    assert SimpleStringSchema("UTF-16").serialize("a") == b"\xfe\xff\0a"
    assert SimpleStringSchema("UTF-16").deserialize(b"\0a") == "a"
    assert SimpleStringSchema("UTF-16").deserialize(b"\xff\xfea\0") == "a"


@pytest.mark.parametrize("charset", ["nonsense", "hex", "rot13", "a\0b"])
def test_charset_that_is_none_is_refused(charset):
    with pytest.raises(ValueError, match="give one such as UTF-8"):
        SimpleStringSchema(charset)


def test_bytes_that_are_no_text_are_malformed():
    with pytest.raises(MalformedMessage, match="byte 0xff at 1 is not UTF-8: name the right charset"):
        SimpleStringSchema().deserialize(b"a\xff")


@pytest.mark.parametrize(("schema", "value"), [(SimpleStringSchema(), 5), (SimpleStringSchema("ascii"), "é")])
def test_value_that_is_no_text_of_the_charset_is_refused(schema, value):
    with pytest.raises(WrongRow):
        schema.serialize(value)


def test_bytes_are_left_alone():
    schema = ByteArraySchema()
    assert schema.deserialize(schema.serialize(bytearray(b"\0\xff"))) == b"\0\xff"
    assert schema.get_produced_type() is Types.PRIMITIVE_ARRAY(Types.BYTE())
    with pytest.raises(WrongRow, match="str is not bytes"):
        schema.serialize("a")


def test_field_of_a_row_is_a_message():
    schema = RowFieldExtractorSchema(1)
    assert schema.serialize(Row("a", b"value")) == b"value"
    assert schema.serialize(("a", bytearray(b"value"))) == b"value"
    with pytest.raises(WrongRow, match="field 1 is str, not bytes: encode it"):
        schema.serialize(Row("a", "b"))
    with pytest.raises(WrongRow, match="there is no field 1: the row has 1"):
        schema.serialize(Row("a"))
    with pytest.raises(WrongRow, match="int is not a row"):
        schema.serialize(5)
    with pytest.raises(ValueError, match="Field index must be non-negative, got: -1"):
        RowFieldExtractorSchema(-1)


def test_schema_of_ones_own_gives_several_values_or_none():
    class Words(SerializationSchema, DeserializationSchema):
        def serialize(self, element):
            return element.encode()

        def deserialize(self, message):
            return message.decode() or None

        def get_produced_type(self):
            return Types.STRING()

    assert list(Words().deserialize_all(b"a")) == ["a"]
    assert list(Words().deserialize_all(b"")) == []
    assert not Words().is_end_of_stream("a")


def test_nested_rows_come_back_from_json():
    row = Row(id=1, price=Decimal("1.50"), items=[Row(name="é\n"), None])
    message = pickle.loads(pickle.dumps(json_writer(ORDER))).serialize(row)
    assert message.decode() == '{"id":1,"price":1.50,"items":[{"name":"é\\n"},null]}'
    schema = pickle.loads(pickle.dumps(json_reader(ORDER)))
    assert schema.get_produced_type() is ORDER
    read = schema.deserialize(message)
    assert (read.id, read.price, read["items"]) == (1, Decimal("1.5"), [Row(name="é\n"), None])


def test_rows_are_taken_as_tuples_and_dicts():
    kind = Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()])
    for row in ((1, "x"), [1, "x"], {"b": "x", "a": 1}, Row(b="x", a=1)):
        assert json_writer(kind).serialize(row) == b'{"a":1,"b":"x"}'


@pytest.mark.parametrize("row", [(1,), ("x", "y"), 5, ("1", "x"), (2**31, "x"), (1, "\ud800")])
def test_row_that_does_not_match_the_type_is_refused(row):
    with pytest.raises(WrongRow):
        json_writer(Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()])).serialize(row)


def test_error_names_the_place_in_the_message_and_the_mend():
    message = b'{"id": 1, "price": 2, "items": [{"name": "a"}, 7]}'
    with pytest.raises(MalformedMessage) as raised:
        json_reader(ORDER).deserialize(message)
    assert "field 'items': 7 is not an object" in str(raised.value)
    assert "ignore_parse_errors()" in str(raised.value)
    with pytest.raises(MalformedMessage, match="there is no field 'price'"):
        json_reader(ORDER, "fail_on_missing_field").deserialize(b'{"id": 1}')


def test_long_message_is_shown_in_short():
    with pytest.raises(MalformedMessage) as raised:
        json_reader(ORDER).deserialize(b'{"id": "' + b"x" * 100_000)
    assert len(str(raised.value)) < 400


@pytest.mark.parametrize(
    "message",
    [
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"id": 1, "x": ' + b"[" * 300 + b"]" * 300 + b"}",
        b'{"price": 1e' + b"9" * 50 + b"}",
        b'{"price": 0.' + b"1" * 5000 + b"}",
        b'{"id": ' + b"1" * 5000 + b"}",
        b'{"id": "' + b"1" * 5000 + b'"}',
        b'{"items": [{"name": "\\ud800"}]}',
        b'{"id": \xff}',
        b'{"id": "\xed\xa0\x80"}',
        b"\0\0\0",
        b"\xff\xfe{",
    ],
)
def test_hostile_message_is_malformed_and_can_be_ignored(message):
    with pytest.raises(MalformedMessage):
        json_reader(ORDER).deserialize(message)
    ignoring = json_reader(ORDER, "ignore_parse_errors")
    assert all(row == Row(id=None, price=None, items=None) for row in ignoring.deserialize_all(message))


def test_brackets_in_text_are_no_levels():
    kind = Types.ROW_NAMED(["a"], [Types.STRING()])
    text = '[{"\\' * 500
    assert json_reader(kind).deserialize(json.dumps({"a": text}).encode()) == Row(a=text)
    wide = {"a": "x", "b": [[] for _ in range(1000)]}
    assert json_reader(kind).deserialize(json.dumps(wide).encode()) == Row(a="x")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
def test_json_is_read_in_each_encoding_of_unicode(encoding):
    kind = Types.ROW_NAMED(["a"], [Types.STRING()])
    assert json_reader(kind).deserialize('{"a": "é"}'.encode(encoding)) == Row(a="é")


def test_builders_refuse_what_cannot_be():
    with pytest.raises(TypeError, match="set it with type_info or json_schema"):
        JsonRowDeserializationSchema.builder().build()
    with pytest.raises(TypeError, match="set it with with_type_info"):
        JsonRowSerializationSchema.builder().build()
    with pytest.raises(TypeError, match=r"give Types.ROW_NAMED"):
        JsonRowDeserializationSchema.builder().type_info(Types.INT())
    with pytest.raises(ValueError, match="contradict each other"):
        json_reader(ORDER, "fail_on_missing_field", "ignore_parse_errors")
    with pytest.raises(TypeError, match="field 'a' of the row is PICKLED_BYTE_ARRAY"):
        json_writer(Types.ROW_NAMED(["a"], [Types.PICKLED_BYTE_ARRAY()]))


JSON_SCHEMA = {
    "definitions": {"day": {"type": "string", "format": "date"}},
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "name": {"type": ["string", "null"]},
        "day": {"$ref": "#/definitions/day"},
        "raw": {"type": "string", "contentEncoding": "base64"},
        "tags": {"type": "array", "items": {"type": "boolean"}},
        "pair": {"type": "array", "items": [{"type": "number"}, {"type": "string", "format": "time"}]},
        "at": {"oneOf": [{"type": "null"}, {"type": "string", "format": "date-time"}]},
        "none": {"type": "null"},
    },
}


def test_json_schema_gives_the_type_of_rows():
    kind = row_type_of_json_schema(json.dumps(JSON_SCHEMA))
    assert kind is Types.ROW_NAMED(
        ["id", "name", "day", "raw", "tags", "pair", "at", "none"],
        [
            Types.BIG_DEC(),
            Types.STRING(),
            Types.SQL_DATE(),
            Types.PRIMITIVE_ARRAY(Types.BYTE()),
            Types.OBJECT_ARRAY(Types.BOOLEAN()),
            Types.ROW([Types.BIG_DEC(), Types.SQL_TIME()]),
            Types.SQL_TIMESTAMP(),
            Types.VOID(),
        ],
    )
    schema = JsonRowDeserializationSchema.builder().json_schema(json.dumps(JSON_SCHEMA)).build()
    assert schema.get_produced_type() is kind


def laughs():
    """A schema of few lines whose references multiply."""
    parts = {f"p{n}": {"type": "array", "items": [{"$ref": f"#/d/p{n + 1}"}] * 10} for n in range(20)}
    return {"d": {**parts, "p20": {"type": "string"}}, "$ref": "#/d/p0"}


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"type": "date"}, "unknown type 'date'"),
        ({"type": ["string", "boolean"]}, "2 types"),
        ({"anyOf": []}, "'anyOf'"),
        ({}, "no type"),
        ({"type": "array"}, "array without items"),
        ({"type": "object", "properties": 1}, "properties of the JSON schema is not an object"),
        ({"type": "object", "properties": {}, "additionalProperties": True}, "additional properties"),
        ({"type": "array", "items": [], "additionalItems": True}, "additional items"),
        ({"type": "string", "contentEncoding": "hex"}, "only base64"),
        ({"$ref": "http://example.org"}, "refer to a part of it"),
        ({"$ref": "#/nowhere"}, "not there"),
        ({"d": {"type": "array", "items": {"$ref": "#/d"}}, "$ref": "#/d"}, "refers to itself"),
        (laughs(), "more than 10000 parts"),
        (5, "is not an object"),
    ],
)
def test_json_schema_that_no_row_has_is_one_clear_line(schema, reason):
    with pytest.raises(InvalidJsonSchema, match=reason) as raised:
        row_type_of_json_schema(json.dumps(schema))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("text", ["{", "[" * 100_000, " " * (1 << 21)])
def test_json_schema_that_is_no_json_is_refused(text):
    with pytest.raises(InvalidJsonSchema):
        row_type_of_json_schema(text)


CSV_ROW = Types.ROW_NAMED(["a", "b"], [Types.STRING(), Types.OBJECT_ARRAY(Types.INT())])


def test_rows_come_back_from_csv():
    row = Row(a='x,"y"\nz', b=[1, 2])
    message = pickle.loads(pickle.dumps(CsvRowSerializationSchema.Builder(CSV_ROW).build())).serialize(row)
    assert message.decode() == '"x,""y""\nz",1;2\n'
    schema = pickle.loads(pickle.dumps(CsvRowDeserializationSchema.Builder(CSV_ROW).build()))
    assert schema.deserialize(message) == row
    assert schema.get_produced_type() is CSV_ROW


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"x", "2 fields are needed, it has 1"),
        (b"x,1,2", "2 fields are needed, it has 3"),
        (b"", "there is no record"),
        (b"x,1\ny,2", "there is more than one record"),
        (b'"x', "a quote opens that never closes"),
        (b'"x"y,1', "'y' follows a closing quote"),
        (b"x,1;z", "field 'b': '1;z' is no OBJECT_ARRAY"),
        (b"\xff,1", "can't decode byte 0xff"),
        (b'x,"' + b"1" * 100_000, "a quote opens"),
        (b"," * 100_000, "2 fields are needed, it has 100001"),
    ],
)
def test_malformed_record_is_one_clear_line_and_can_be_ignored(message, reason):
    builder = CsvRowDeserializationSchema.Builder(CSV_ROW)
    with pytest.raises(MalformedMessage, match=reason) as raised:
        builder.build().deserialize(message)
    assert len(str(raised.value)) < 400
    assert "set_ignore_parse_errors" in str(raised.value)
    builder.set_ignore_parse_errors(True).build().deserialize(message)


def test_csv_builders_refuse_what_cannot_be():
    with pytest.raises(TypeError, match="field 'a' of the row is MAP"):
        CsvRowSerializationSchema.Builder(
            Types.ROW_NAMED(["a"], [Types.MAP(Types.STRING(), Types.INT())])
        ).build()
    kind = Types.OBJECT_ARRAY(Types.OBJECT_ARRAY(Types.INT()))
    with pytest.raises(TypeError, match="an element of field 'a' of the row is OBJECT_ARRAY"):
        CsvRowDeserializationSchema.Builder(Types.ROW_NAMED(["a"], [kind])).build()
    with pytest.raises(TypeError, match="is not a type of rows"):
        CsvRowSerializationSchema.Builder(Types.INT())
    with pytest.raises(ValueError, match="line delimiter ';'"):
        CsvRowSerializationSchema.Builder(CSV_ROW).set_line_delimiter(";")
    with pytest.raises(ValueError, match="field delimiter '::' must be one character"):
        CsvRowSerializationSchema.Builder(CSV_ROW).set_field_delimiter("::")
