"""Rows of JSON and CSV are read and written as Flink does it: by answers that Flink 2.3 gave.

`flink_answers.json` holds what Flink's own schemas made of each message and row. Where the engine answers
otherwise on purpose, `DEPARTURES` says with what, and why.
"""

from __future__ import annotations

import json
from base64 import b16decode
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path

import pytest

from onceproof.engine import (
    CsvRowDeserializationSchema,
    CsvRowSerializationSchema,
    JsonRowDeserializationSchema,
    JsonRowSerializationSchema,
    MalformedMessage,
    Row,
    Types,
)
from onceproof.engine.formats import java_texts
from onceproof.engine.formats.bulk_writers import WrongRow

ANSWERS = json.loads((Path(__file__).parent / "flink_answers.json").read_text(encoding="utf-8"))["answers"]
REFUSED = "!"

TYPES = {
    **{
        name: getattr(Types, name)()
        for name in (
            *("STRING", "BOOLEAN", "BYTE", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "BIG_DEC", "BIG_INT"),
            *("CHAR", "SQL_DATE", "SQL_TIME", "SQL_TIMESTAMP", "VOID"),
        )
    },
    "BYTES": Types.PRIMITIVE_ARRAY(Types.BYTE()),
    "OBJECT_ARRAY(INT)": Types.OBJECT_ARRAY(Types.INT()),
    "BASIC_ARRAY(STRING)": Types.BASIC_ARRAY(Types.STRING()),
    "LIST(INT)": Types.LIST(Types.INT()),
    "MAP(STRING,INT)": Types.MAP(Types.STRING(), Types.INT()),
    "MAP(INT,STRING)": Types.MAP(Types.INT(), Types.STRING()),
    "ROW(INT,STRING)": Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()]),
    "ROWPOS(INT,STRING)": Types.ROW([Types.INT(), Types.STRING()]),
}
NESTED = Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.ROW_NAMED(["c"], [Types.INT()])])
DECIMALS = Types.ROW_NAMED(
    ["s", "d", "x", "i"], [Types.STRING(), Types.BIG_DEC(), Types.DOUBLE(), Types.INT()]
)

LOST = "Flink loses what it cannot place"
PYTHON = "Python has no such value"
TYPE = "the declared type does not admit it"
FORM = "the same document, written in another way"
SECOND = "Flink leaves out a second record unseen"
CALENDAR = "no calendar has it"
AMBIGUOUS = "what Flink writes is read as something else"
SHORTEST = "the shortest digits that mean the float, as in later versions of Java"
DEPARTURES = {
    ("json", "CHAR", '""'): (REFUSED, PYTHON),
    ("json", "CHAR", "65"): (REFUSED, LOST),
    ("json", "CHAR", '"\U0001f600"'): ("(\U0001f600)", PYTHON),
    ("json", "SQL_DATE", '"+12026-01-01"'): (REFUSED, PYTHON),
    ("json", "SQL_TIMESTAMP", '"2026-01-31T12:34:56.123456789Z"'): ("(2026-01-31 12:34:56.123456)", PYTHON),
    ("json", "BYTES", "1"): (REFUSED, LOST),
    ("json", "BYTES", "[1]"): (REFUSED, LOST),
    ("json", "LIST(INT)", '[1,null,"3"]'): (REFUSED, TYPE),
    ("json", "LIST(INT)", '["x"]'): (REFUSED, TYPE),
    ("json", "MAP(STRING,INT)", "[]"): (REFUSED, LOST),
    ("json", "MAP(STRING,INT)", "1"): (REFUSED, LOST),
    ("json-ignore", "MAP(INT,STRING)", '{"x":"a"}'): ("(null)", TYPE),
    ("json", "FLOAT", '"0x1p3"'): (REFUSED, PYTHON),
    ("json", "DOUBLE", '"0x1p3"'): (REFUSED, PYTHON),
    ("json-doc", "", '{"a":1} x'): (REFUSED, LOST),
    ("json-doc", "", '{"a":1}{"a":2}'): (REFUSED, LOST),
    ("json-doc-ignore", "", '{"a":1} x'): ("null", LOST),
    ("json-doc-ignore", "", '{"a":1}{"a":2}'): ("null", LOST),
    ("json-out", "STRING", "\U0001f600"): ('{"f":"\U0001f600"}', FORM),
    ("json-out", "STRING", 'é\u2028"\\/\n\x1f\x7f'): ('{"f":"é\u2028\\"\\\\/\\n\\u001f\x7f"}', FORM),
    ("json-out", "DOUBLE", "4.9E-324"): ('{"f":5.0E-324}', SHORTEST),
    ("json-out", "FLOAT", "1.17549435E-38"): ('{"f":1.1754944E-38}', SHORTEST),
    ("json-out", "LIST(INT)", "[1, null]"): (REFUSED, TYPE),
    **{("csv", "STRING", given): (REFUSED, SECOND) for given in ("a,x\nb,y", "a,x\rb,y")},
    **{("csv-ignore", "STRING", given): ("null", SECOND) for given in ("a,x\nb,y", "a,x\rb,y")},
    ("csv-ignore", "STRING", "\na,x"): ("null", SECOND),
    ("csv", "SQL_DATE", "2026-02-30,x"): (REFUSED, CALENDAR),
    ("csv", "SQL_TIME", "25:00:00,x"): (REFUSED, CALENDAR),
    ("csv", "SQL_TIME", "24:00:00,x"): (REFUSED, CALENDAR),
    ("csv", "SQL_TIME", "12:60:00,x"): (REFUSED, CALENDAR),
    ("csv", "SQL_TIMESTAMP", "2026-02-30 12:34:56,x"): (REFUSED, CALENDAR),
    ("csv", "SQL_TIMESTAMP", "2026-01-31 12:34:56.123456789,x"): ("(2026-01-31 12:34:56.123456|x)", PYTHON),
    ("csv-out:noquote", "STRING", "a,b"): (REFUSED, AMBIGUOUS),
    ("csv-out:noquote-escape", "STRING", "a,b"): (REFUSED, AMBIGUOUS),
    ("csv-out:noquote-escape", "STRING", "a\nb"): (REFUSED, AMBIGUOUS),
    ("csv-out:", "BASIC_ARRAY(STRING)", '[a|null|b;c|d,e|"q]'): (REFUSED, AMBIGUOUS),
}


def shown(value, kind=None):
    """Write a value as the recording has it: with Java's texts."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case float():
            return java_texts.float_text(value) if kind == "FLOAT" else java_texts.double_text(value)
        case bytes():
            return f"0x{value.hex()}"
        case list():
            return f"[{'|'.join(map(shown, value))}]" if kind != "LIST(INT)" else str(value)
        case dict():
            return f"{{{', '.join(f'{shown(key)}={shown(item)}' for key, item in value.items())}}}"
        case Row():
            return f"({'|'.join(shown(field, kind) for field in value)})"
        case datetime():
            return f"{value:%Y-%m-%d %H:%M:%S}{java_texts.fraction_text(value) or '.0'}"
        case _:
            return str(value)


def value_of(text, kind):
    """Read a value as the recording has it."""
    readers = {
        "STRING": str,
        "CHAR": str,
        "BOOLEAN": lambda text: text == "true",
        "FLOAT": float,
        "DOUBLE": float,
        "BIG_DEC": Decimal,
        "SQL_DATE": date.fromisoformat,
        "SQL_TIME": time.fromisoformat,
        "SQL_TIMESTAMP": datetime.fromisoformat,
        "BYTES": lambda text: b16decode(text[2:], casefold=True),
        "MAP(STRING,INT)": lambda text: {"a": 1, "b": 2},
        "MAP(INT,STRING)": lambda text: {1: "a"},
    }
    if text == "null":
        return None
    if text[:1] == "[":
        separator = ", " if kind == "LIST(INT)" else "|"
        items = text[1:-1].split(separator) if len(text) > 2 else []
        return [None if item == "null" else item if "STRING" in kind else int(item) for item in items]
    if text[:1] == "(":
        number, name = text[1:-1].split("|")
        return Row(a=None if number == "null" else int(number), b=None if name == "null" else name)
    return readers.get(kind, int)(text)


def json_reader(what, kind):
    builder = JsonRowDeserializationSchema.builder()
    builder.type_info(Types.ROW_NAMED(["f"], [TYPES[kind]]) if kind else NESTED)
    match what:
        case "json-ignore" | "json-doc-ignore":
            builder.ignore_parse_errors()
        case "json-doc-fail-missing":
            builder.fail_on_missing_field()
        case "json-dec":
            builder.type_info(DECIMALS)
    return builder.build()


CSV_SETTINGS = {
    "null=null": ("set_null_literal", "null"),
    "null=empty": ("set_null_literal", ""),
    "null=n/a": ("set_null_literal", "n/a"),
    "null=a,b": ("set_null_literal", "a,b"),
    "escape": ("set_escape_character", "\\"),
    "delimiter=|": ("set_field_delimiter", "|"),
    "delimiter=tab": ("set_field_delimiter", "\t"),
    "quote='": ("set_quote_character", "'"),
    "comments": ("set_allow_comments", True),
    "array=:": ("set_array_element_delimiter", ":"),
    "array=::": ("set_array_element_delimiter", "::"),
    "line=crlf": ("set_line_delimiter", "\r\n"),
    "line=": ("set_line_delimiter", ""),
    "noquote": ("disable_quote_character",),
}


def csv_schema(builder, setting):
    for each in setting.split("-"):
        if each in CSV_SETTINGS:
            method, *arguments = CSV_SETTINGS[each]
            getattr(builder, method)(*arguments)
    return builder.build()


def csv_answer(what, kind, given):
    row_type = Types.ROW_NAMED(["f", "g"], [TYPES[kind], Types.STRING()])
    way, _, setting = what.partition(":")
    if way == "csv-out":
        row = (value_of(given, kind), "x")
        return csv_schema(CsvRowSerializationSchema.Builder(row_type), setting).serialize(row).decode()
    builder = CsvRowDeserializationSchema.Builder(row_type).set_ignore_parse_errors(way == "csv-ignore")
    return shown(csv_schema(builder, setting).deserialize(given.encode()), kind)


def answer_of(what, kind, given):
    try:
        if what.startswith("csv"):
            return csv_answer(what, kind, given)
        if what == "json-out":
            builder = JsonRowSerializationSchema.builder().with_type_info(
                Types.ROW_NAMED(["f"], [TYPES[kind]])
            )
            return builder.build().serialize((value_of(given, kind),)).decode()
        message = f'{{"f":{given}}}' if kind else given
        return shown(json_reader(what, kind).deserialize(message.encode()), kind)
    except (MalformedMessage, WrongRow) as error:
        return REFUSED if "\n" not in str(error) else "a message of several lines"


def expected(what, kind, given, answer):
    """The answer of Flink, or ours where it departs. What is refused is None where errors are ignored."""
    if (what, kind, given) in DEPARTURES:
        return DEPARTURES[what, kind, given][0]
    if (
        what.endswith("-ignore")
        and DEPARTURES.get((what.removesuffix("-ignore"), kind, given), ("",))[0] == REFUSED
    ):
        return {"json-ignore": "(null)", "csv-ignore": "(null|x)"}[what]
    if what.endswith("-ignore") and (what.removesuffix("-ignore"), kind, given) in DEPARTURES:
        return DEPARTURES[what.removesuffix("-ignore"), kind, given][0]
    return answer


def groups():
    found = {}
    for what, kind, given, answer in ANSWERS:
        found.setdefault((what, kind), []).append((given, answer))
    return found


GROUPS = groups()


@pytest.mark.parametrize(("what", "kind"), GROUPS)
def test_rows_are_read_and_written_as_flink_does(what, kind):
    wrong = []
    for given, answer in GROUPS[what, kind]:
        ours, theirs = answer_of(what, kind, given), expected(what, kind, given, answer)
        if ours != theirs:
            wrong.append(f"{given}: {ours} instead of {theirs}")
    assert wrong == []


def test_each_departure_is_one():
    recorded = {(what, kind, given): answer for what, kind, given, answer in ANSWERS}
    assert [case for case, (ours, _) in DEPARTURES.items() if recorded[case] == ours] == []
