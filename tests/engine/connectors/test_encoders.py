"""The output of encoders, read back by common libraries."""

from __future__ import annotations

import csv
import io
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onceproof.engine.connectors.encoders import Encoder
from onceproof.engine.types import Row

TEXTS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0") | st.sampled_from(',"\n\r;')
)


def test_a_string_encoder_writes_a_line_for_each_value():
    assert Encoder.simple_string_encoder().encode_batch(["a", 1, ("b", 2)]) == b"a\n1\n('b', 2)\n"


def test_a_string_encoder_writes_its_charset():
    assert Encoder.simple_string_encoder("UTF-16-LE").encode_batch(["ä"]) == "ä\n".encode("UTF-16-LE")


def test_an_unknown_charset_is_refused_at_once():
    with pytest.raises(LookupError, match="unknown encoding"):
        Encoder.simple_string_encoder("UTF-99")


def test_a_csv_encoder_takes_tuples_lists_rows_and_single_values():
    values = [("a", 1), ["b", None], Row(name="c", n=2), "d"]
    assert Encoder.csv_encoder().encode_batch(values) == b"a,1\nb,\nc,2\nd\n"


@settings(deadline=None)
@given(st.lists(st.lists(TEXTS, min_size=2, max_size=4), min_size=1), st.sampled_from(",;\t|"))
def test_csv_reader_reads_the_rows_of_the_csv_encoder(rows, delimiter):
    written = Encoder.csv_encoder(delimiter).encode_batch(rows).decode()
    assert list(csv.reader(io.StringIO(written, newline=""), delimiter=delimiter)) == rows


def test_a_json_encoder_writes_arrays_objects_and_rows():
    values = [(1, "a"), {"b": None}, Row(1, 2), Row(x=1)]
    lines = Encoder.json_lines_encoder().encode_batch(values).decode().splitlines()
    assert [json.loads(line) for line in lines] == [[1, "a"], {"b": None}, [1, 2], {"x": 1}]


def test_a_json_encoder_with_names_writes_objects():
    written = Encoder.json_lines_encoder(["word", "n"]).encode_batch([("a", 1), ("b", 2)])
    assert written == b'{"word":"a","n":1}\n{"word":"b","n":2}\n'


def test_a_row_of_another_length_than_the_names_is_an_error():
    with pytest.raises(ValueError, match="zip"):
        Encoder.json_lines_encoder(["word", "n"]).encode_batch([("a", 1, 2)])
