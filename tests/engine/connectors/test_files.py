"""The file sources: the records that they read, and their errors for wrong files."""

from __future__ import annotations

import os
from datetime import date
from decimal import Decimal

import pytest

from onceproof.engine.connectors.file_content import UnreadableFile
from onceproof.engine.connectors.file_source import CsvSource, JsonLinesSource, MalformedRow
from onceproof.engine.types import Types

WORD_COUNT = [("word", Types.STRING()), ("n", Types.LONG())]


def read_all(source, limit=100):
    records = []
    for split in sorted(source.splits()):
        reader = source.open_split(split, None)
        while not reader.exhausted:
            records.extend(reader.read(limit))
    return records


def values(source):
    return [value for value, _ in read_all(source)]


@pytest.fixture
def write(tmp_path):
    def write(text, name="input.csv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return str(path)

    return write


# ---- CSV


def test_columns_are_found_by_the_header_and_come_in_the_order_of_the_schema(write):
    path = write("n,unused,word\n1,x,a\n2,y,b\n")
    assert read_all(CsvSource(path, WORD_COUNT)) == [(("a", 1), None), (("b", 2), None)]


def test_columns_without_a_header_are_those_of_the_schema(write):
    assert values(CsvSource(write("a,1\nb,2"), WORD_COUNT, header=False)) == [("a", 1), ("b", 2)]


def test_a_timestamp_column_gives_records_their_timestamp(write):
    path = write("word,n\na,1000\nb,2000\n")
    source = CsvSource(path, WORD_COUNT, timestamp_column="n")
    assert read_all(source) == [(("a", 1000), 1000), (("b", 2000), 2000)]


def test_every_type_is_read(write):
    schema = [
        ("text", Types.STRING()),
        ("flag", Types.BOOLEAN()),
        ("small", Types.SHORT()),
        ("number", Types.DOUBLE()),
        ("large", Types.BIG_INT()),
        ("price", Types.BIG_DEC()),
        ("day", Types.SQL_DATE()),
    ]
    path = write(f"a,true,-5,1e3,{10**30},1.10,2013-01-31\nb,FALSE,7,-0.5,-1,2,2013-02-01\n")
    assert values(CsvSource(path, schema, header=False)) == [
        ("a", True, -5, 1000.0, 10**30, Decimal("1.10"), date(2013, 1, 31)),
        ("b", False, 7, -0.5, -1, Decimal(2), date(2013, 2, 1)),
    ]


def test_null_values_are_none_in_nullable_columns_only(write):
    path = write("word,n\nNA,NA\n,\nb,3\n")
    source = CsvSource(path, WORD_COUNT, nullable=["n"], null_values=["NA", ""])
    assert values(source) == [("NA", None), ("", None), ("b", 3)]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last_end", [True, False])
def test_line_ends_of_both_kinds_are_read_and_the_last_may_be_missing(write, end, last_end):
    text = end.join(["word,n", "a,1", "b,2"]) + (end if last_end else "")
    assert values(CsvSource(write(text), WORD_COUNT)) == [("a", 1), ("b", 2)]


def test_a_byte_order_mark_is_no_part_of_the_first_name(write):
    assert values(CsvSource(write(b"\xef\xbb\xbfword,n\na,1\n"), WORD_COUNT)) == [("a", 1)]


def test_blank_lines_are_skipped(write):
    assert values(CsvSource(write("word,n\n\na,1\n\n\nb,2\n\n"), WORD_COUNT)) == [("a", 1), ("b", 2)]


def test_blank_lines_are_skipped_in_a_file_of_one_column_too(write):
    schema = [("word", Types.STRING())]
    assert values(CsvSource(write("\na\n\nb\n"), schema, header=False)) == [("a",), ("b",)]


def test_quotes_hold_delimiters_quotes_and_newlines(write):
    path = write('word,n\n"a,b",1\n"c""d",2\n"e\nf\n\ng",3\nh,4\n')
    assert values(CsvSource(path, WORD_COUNT)) == [("a,b", 1), ('c"d', 2), ("e\nf\n\ng", 3), ("h", 4)]


def test_another_delimiter_is_taken(write):
    assert values(CsvSource(write("word;n\na,b;1\n"), WORD_COUNT, delimiter=";")) == [("a,b", 1)]


def test_characters_that_python_takes_for_line_ends_are_text(write):
    text = "a\u2028b\x0bc\x1cd\x85e"
    assert values(CsvSource(write(f"word,n\n{text},1\n"), WORD_COUNT)) == [(text, 1)]


@pytest.mark.parametrize("content", ["", "word,n", "word,n\n", "word,n\n\n\n"])
def test_a_file_without_rows_has_no_records(write, content):
    source = CsvSource(write(content), WORD_COUNT, header=content != "")
    assert read_all(source) == []


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ("x,abc", r"column 'n': 'abc' is no LONG"),
        ("x,", r"column 'n': '' is no LONG"),
        ("x,1.5", r"column 'n': '1\.5' is no LONG"),
        ("x,1_000", r"column 'n': '1_000' is no LONG"),
        ("x,9223372036854775808", r"column 'n': '9223372036854775808' is no LONG"),
        ("x", r"2 fields are needed, it has 1"),
        ("x,1,2", r"2 fields are needed, it has 3"),
        (",", r"column 'n': '' is no LONG"),
        ('"x"y,1', r"',' expected after '\"'"),
        ('x,"1', r"a quote opens that never closes"),
    ],
)
@pytest.mark.parametrize("quoted", [False, True])
def test_a_malformed_row_names_file_line_and_what_is_wrong(write, row, what, quoted):
    before = '"a\nb",1\n' if quoted else "a,1\nb,1\n"
    path = write(f"word,n\n{before}{row}\nc,3\n")
    with pytest.raises(MalformedRow, match=rf"/input\.csv, line 4: {what}") as caught:
        read_all(CsvSource(path, WORD_COUNT))
    assert caught.value.line == 4
    assert "\n" not in str(caught.value)


def test_two_rows_whose_fields_add_up_are_both_malformed_not_one_of_them_shifted(write):
    path = write("word,n\na,1,b\n2\nc,3\n")
    with pytest.raises(MalformedRow, match=r"line 2: 2 fields are needed, it has 3"):
        read_all(CsvSource(path, WORD_COUNT))


def test_the_line_is_right_far_into_a_file_and_in_a_byte_range(write):
    rows = [f"w{n},{n}" for n in range(5000)]
    rows[4321] = "w,x"
    path = write("word,n\n" + "\n".join(rows))
    for step in (None, 1000):
        source = CsvSource(path, WORD_COUNT, bytes_per_split=step, block_bytes=512)
        with pytest.raises(MalformedRow, match=r"line 4323: column 'n': 'x' is no LONG"):
            read_all(source)


def test_bytes_that_are_no_utf_8_name_their_line(write):
    with pytest.raises(MalformedRow, match=r"line 3: byte 0xff is not UTF-8"):
        read_all(CsvSource(write(b"word,n\na,1\n\xff,2\n"), WORD_COUNT))


def test_a_column_that_the_header_lacks_is_named(write):
    with pytest.raises(MalformedRow, match=r"line 1: no column 'n' in the header: it has word, m"):
        read_all(CsvSource(write("word,m\na,1\n"), WORD_COUNT))


def test_a_column_that_the_header_has_twice_is_refused(write):
    with pytest.raises(MalformedRow, match=r"line 1: more than one column 'n' in the header"):
        read_all(CsvSource(write("word,n,n\na,1,2\n"), WORD_COUNT))


def test_a_missing_header_is_an_error(write):
    with pytest.raises(MalformedRow, match=r"line 1: no header"):
        read_all(CsvSource(write("\n"), WORD_COUNT))


@pytest.mark.parametrize(
    ("schema", "named", "what"),
    [
        ([], {}, "the schema has no column"),
        ([*WORD_COUNT, ("n", Types.INT())], {}, "column 'n' is in the schema twice"),
        (
            WORD_COUNT,
            {"timestamp_column": "time"},
            "timestamp column 'time' is not in the schema: it has word, n",
        ),
        (WORD_COUNT, {"timestamp_column": "word"}, "timestamp column 'word' is STRING"),
        (WORD_COUNT, {"nullable": ["m"]}, "nullable column 'm' is not in the schema"),
        ([("x", Types.LIST(Types.INT()))], {}, "column 'x' is .*, which CSV does not carry"),
        (WORD_COUNT, {"bytes_per_split": 0}, "bytes_per_split is 0"),
    ],
)
def test_a_source_that_cannot_work_is_refused_when_it_is_made(schema, named, what):
    with pytest.raises(ValueError, match=what):
        CsvSource("input.csv", schema, **named)


# ---- JSON lines


def test_fields_of_documents_come_in_the_order_of_the_schema(write):
    path = write('{"n": 1, "word": "a", "more": []}\n\n{"word": "b", "n": 2}')
    assert read_all(JsonLinesSource(path, WORD_COUNT)) == [(("a", 1), None), (("b", 2), None)]


def test_without_a_schema_values_are_documents(write):
    path = write('{"a": 1}\n[1, "x"]\nnull\n"text"\n')
    assert values(JsonLinesSource(path)) == [{"a": 1}, [1, "x"], None, "text"]


def test_names_that_are_no_identifiers_and_nested_types_are_read(write):
    schema = [("class", Types.STRING()), ("a b", Types.LIST(Types.INT()))]
    assert values(JsonLinesSource(write('{"class":"x","a b":[1,2]}'), schema)) == [("x", [1, 2])]


def test_nullable_fields_may_be_null_or_missing(write):
    source = JsonLinesSource(write('{"word":"a","n":null}\n{"word":"b"}'), WORD_COUNT, nullable=["n"])
    assert values(source) == [("a", None), ("b", None)]


@pytest.mark.parametrize("schema", [WORD_COUNT, None])
def test_a_timestamp_field_gives_documents_their_timestamp(write, schema):
    source = JsonLinesSource(write('{"word":"a","n":5}\n'), schema, timestamp_column="n")
    assert [timestamp for _, timestamp in read_all(source)] == [5]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ('{"word": "a", "n": "1"}', r"Expected `int`, got `str` - at `\$\.n`"),
        ('{"word": "a"}', r"Object missing required field `n`"),
        ('{"word": null, "n": 1}', r"Expected `str`, got `null`"),
        ('{"word": "a", "n": 9223372036854775808}', r"Expected `int`"),
        ('{"word": "a", "n": 1', r"truncated"),
        ("a,1", r"JSON is malformed"),
        ("[1]", r"Expected `object`, got `array`"),
    ],
)
def test_a_malformed_document_names_file_line_and_what_is_wrong(write, line, what):
    path = write('{"word": "a", "n": 1}\n\n' + line + "\n", "input.jsonl")
    with pytest.raises(MalformedRow, match=rf"/input\.jsonl, line 3: .*{what}") as caught:
        read_all(JsonLinesSource(path, WORD_COUNT))
    assert "\n" not in str(caught.value)


def test_a_timestamp_that_is_no_number_names_its_line(write):
    source = JsonLinesSource(write('{"t": 1}\n{"t": "x"}\n'), timestamp_column="t")
    with pytest.raises(MalformedRow, match=r"line 2: timestamp column 't' holds 'x'"):
        read_all(source)


# ---- files and splits


def test_each_file_is_a_split(write):
    first, second = write("word,n\na,1\n", "1.csv"), write("word,n\nb,2\n", "2.csv")
    source = CsvSource([first, second], WORD_COUNT)
    assert source.splits() == [first, second]
    assert values(source) == [("a", 1), ("b", 2)]


def test_a_missing_file_is_named_before_the_job_starts(tmp_path):
    source = CsvSource(str(tmp_path / "none.csv"), WORD_COUNT)
    with pytest.raises(UnreadableFile, match=r"none\.csv cannot be read: No such file"):
        source.splits()


def test_a_file_given_twice_is_refused():
    with pytest.raises(ValueError, match=r"file a\.csv is given twice"):
        CsvSource(["a.csv", "b.csv", "a.csv"], WORD_COUNT)


def test_a_split_of_other_files_is_refused(write):
    source = CsvSource(write("word,n\n"), WORD_COUNT)
    for split in ("other.csv", "other.csv@000000000000000-000000000000009"):
        with pytest.raises(UnreadableFile, match="is not of this source"):
            source.open_split(split, None)


def test_a_file_that_became_shorter_than_a_position_is_an_error(write):
    path = write("word,n\n" + "a,1\n" * 100)
    source = CsvSource(path, WORD_COUNT)
    reader = source.open_split(path, None)
    reader.read(50)
    os.truncate(path, len("word,n\n" + "a,1\n" * 20))
    with pytest.raises(UnreadableFile, match=r"is not the one that was read up to byte 407: it has 87 bytes"):
        source.open_split(path, reader.position).read(10)


def test_csv_file_with_a_quoted_newline_is_refused_by_ranges_before_reading(write):
    path = write('word,n\n"a",1\n"b\nc",2\n')
    with pytest.raises(MalformedRow, match=r"line 3: a quoted field spans lines.*leave out bytes_per_split"):
        CsvSource(path, WORD_COUNT, bytes_per_split=10).splits()
    assert values(CsvSource(path, WORD_COUNT)) == [("a", 1), ("b\nc", 2)]


def test_a_range_reader_too_refuses_a_quoted_newline(write):
    path = write('word,n\n"b\nc",2\n')
    source = CsvSource(path, WORD_COUNT, bytes_per_split=100)
    reader = source.open_split(f"{path}@000000000000000-000000000000014", None)
    with pytest.raises(MalformedRow, match=r"line 2: a quoted field spans lines"):
        reader.read(10)


def test_a_reader_holds_no_file_before_its_first_and_after_its_last_read(write):
    path = write("word,n\na,1\n")
    reader = CsvSource(path, WORD_COUNT).open_split(path, None)
    assert reader._content is None
    reader.read(10)
    assert reader.exhausted
    assert reader._content is None


def test_a_closed_reader_has_no_file(write):
    path = write("word,n\na,1\nb,2\n")
    reader = CsvSource(path, WORD_COUNT).open_split(path, None)
    reader.read(1)
    reader.close()
    reader.close()
    assert reader._content is None
