"""Types of plans are read from text and JSON, and printed as Flink prints them."""

import gzip
import json

import pytest

from onceproof.engine.table.types import InvalidType, parse_type, read_type
from tests.conformance.sql_vectors import PLANS


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("INT NOT NULL", "INT NOT NULL"),
        ("VARCHAR(2147483647)", "STRING"),
        ("VARBINARY(2147483647) NOT NULL", "BYTES NOT NULL"),
        ("CHAR(3)", "CHAR(3)"),
        ("DECIMAL(10, 2)", "DECIMAL(10, 2)"),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE NOT NULL", "TIMESTAMP_LTZ(3) NOT NULL"),
        ("TIME(0)", "TIME(0)"),
        ("INTERVAL SECOND(6) NOT NULL", "INTERVAL SECOND(6) NOT NULL"),
        ("INTERVAL DAY(2) TO SECOND(3)", "INTERVAL DAY(2) TO SECOND(3)"),
        ("ARRAY<ROW<`a b` INT, `c` MAP<STRING, DOUBLE>> NOT NULL>",) * 2,
        ("MULTISET<STRING NOT NULL>", "MULTISET<STRING NOT NULL>"),
        ("ROW<x INT, y STRING>", "ROW<`x` INT, `y` STRING>"),
    ],
)
def test_text_of_a_type_is_read_and_printed(text, printed):
    assert str(parse_type(text)) == printed


def test_time_attribute_is_an_object_in_plans():
    data = {"type": "TIMESTAMP_WITHOUT_TIME_ZONE", "nullable": False, "precision": 3, "kind": "ROWTIME"}
    assert str(read_type(data)) == "TIMESTAMP(3) *ROWTIME* NOT NULL"


@pytest.mark.parametrize("text", ["", "INT INT", "NOTHING", "ARRAY<INT", "ROW<a>", "INTERVAL"])
def test_text_that_is_no_type_is_refused_with_the_text(text):
    with pytest.raises(InvalidType, match="is no type"):
        parse_type(text)


def test_schemas_of_all_recorded_plans_are_printed_as_flink_printed_them():
    answers = json.loads(gzip.decompress(PLANS.read_bytes()))["answers"].values()
    for answer in answers:
        for _, text in answer.get("schema", ()):
            if "*" not in text and "STRUCTURED" not in text:
                assert str(parse_type(text)) == text
