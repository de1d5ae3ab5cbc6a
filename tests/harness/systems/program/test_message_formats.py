"""Messages of Kafka: records and rows in Avro, Protobuf, bytes and lines, and one line for each mistake."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorSet

from onceproof.harness.model.family import FamilyError
from onceproof.harness.model.program_ends import Input, Output
from onceproof.harness.systems.program.message_formats import encoder_of, message_row_of

COLUMNS = {"id": "BIGINT", "key": "STRING", "mean": "DOUBLE"}
RECORD = {"id": 2**40, "key": "ant", "mean": 0.5, "timestamp": 7}
ROW = (2**40, "ant", 0.5)
AVRO = {
    "type": "record",
    "name": "Number",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "key", "type": "string"},
        {"name": "mean", "type": "double"},
    ],
}


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder with a schema of Avro and a descriptor file of Protobuf."""
    (tmp_path / "number.avsc").write_text(json.dumps(AVRO))
    described = FileDescriptorSet()
    file = described.file.add(name="number.proto", package="shop", syntax="proto3")
    message = file.message_type.add(name="Number")
    kinds = ((1, FieldDescriptorProto.TYPE_INT64), (2, FieldDescriptorProto.TYPE_STRING), (3, 1))
    for name, (number, kind) in zip(COLUMNS, kinds, strict=True):
        message.field.add(name=name, number=number, type=kind, label=FieldDescriptorProto.LABEL_OPTIONAL)
    (tmp_path / "number.desc").write_bytes(described.SerializeToString())
    return tmp_path


FORMATS = [
    {"format": "json"},
    {"format": "avro", "schema": "number.avsc"},
    {"format": "protobuf", "descriptor": "number.desc", "message": "shop.Number"},
]


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form["format"])
def test_a_record_and_its_row_are_the_same_message(here: Path, form: dict) -> None:
    message = encoder_of(Input("kafka", **form), COLUMNS, here, "input")(RECORD)
    read = message_row_of(Output("kafka", **form), COLUMNS, here, "output")
    assert read(None, message) == ROW


@pytest.mark.parametrize("form", FORMATS[1:], ids=lambda form: form["format"])
def test_a_message_that_is_none_is_a_row_of_what_it_holds(here: Path, form: dict) -> None:
    read = message_row_of(Output("kafka", **form), COLUMNS, here, "output")
    assert read(None, b"\xff") == ("\ufffd",)


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        ("BIGINT", 258, b"\0\0\0\0\0\0\1\2"),
        ("INT", -1, b"\xff\xff\xff\xff"),
        ("DOUBLE", 1.0, b"\x3f\xf0\0\0\0\0\0\0"),
        ("STRING", "\xe4", b"\xc3\xa4"),
    ],
)
def test_bytes_are_those_of_the_serializers_of_kafka(kind: str, value: object, message: bytes) -> None:
    columns = {"value": kind}
    end = Input("kafka", format="bytes")
    assert encoder_of(end, columns, Path(), "input")({"value": value, "timestamp": 1}) == message
    keyed = message_row_of(
        Output("kafka", format="bytes", key="id"), {"id": "BIGINT", **columns}, Path(), "output"
    )
    assert keyed(b"17", message) == (17, value)


@pytest.mark.parametrize(
    ("form", "line"),
    [
        ({"format": "avro", "schema": "none.avsc"}, r"input\.schema: .*none\.avsc: No such file"),
        ({"format": "avro", "schema": "number.desc"}, r"input\.schema: .*number\.desc is no schema of Avro"),
        ({**FORMATS[2], "descriptor": "number.avsc"}, r"input\.descriptor: .*number\.avsc is no descriptor"),
        ({**FORMATS[2], "message": "shop.Order"}, r"number\.desc describes no message 'shop\.Order'"),
    ],
)
def test_a_mistake_about_a_format_is_one_line(here: Path, form: dict, line: str) -> None:
    with pytest.raises(FamilyError, match=line):
        encoder_of(Input("kafka", **form), COLUMNS, here, "input")


@pytest.mark.parametrize("form", FORMATS[1:], ids=lambda form: form["format"])
def test_a_record_that_does_not_fit_its_format_is_one_line(here: Path, form: dict) -> None:
    encode = encoder_of(Input("kafka", **form), COLUMNS, here, "input")
    with pytest.raises(FamilyError, match=rf"input\.format: .*'id': 'ant'.* is no {form['format']}: "):
        encode({**RECORD, "id": "ant"})
