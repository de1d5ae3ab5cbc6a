"""Byte ranges cover a file exactly, and a reader resumes exactly, at any size of range, block and batch."""

from __future__ import annotations

import csv
import io
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onceproof.engine.connectors.file_source import CsvSource, JsonLinesSource
from onceproof.engine.types import Types

SCHEMA = [("word", Types.STRING()), ("n", Types.LONG())]


def read(source, split, position=None, limit=7):
    reader = source.open_split(split, position)
    records = []
    while not reader.exhausted:
        records.extend(reader.read(limit))
    return [value for value, _ in records]


def read_ranges(source):
    return [value for split in sorted(source.splits()) for value in read(source, split)]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("header", [False, True])
def test_csv_ranges_of_every_size_cover_the_file(tmp_path, end, header):
    rows = [("a", 1), ("", 22), ("ä€", 3), ("long word", 4), ("x,y", 5), ('"', 6), ("z", 7)]
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator=end).writerows([*([("word", "n")] if header else []), *rows])
    path = tmp_path / "input.csv"
    path.write_bytes(text.getvalue().encode())
    for step in range(1, path.stat().st_size + 2):
        for block_bytes in (1, 5, 1000):
            source = CsvSource(path, SCHEMA, header=header, bytes_per_split=step, block_bytes=block_bytes)
            assert read_ranges(source) == rows, (step, block_bytes)


@pytest.mark.parametrize("last_newline", [False, True])
def test_json_ranges_of_every_size_cover_the_file(tmp_path, last_newline):
    documents = [{"word": "a", "n": 1}, [], "two\nlines", {"ä": None}, 5]
    lines = "\n\n".join(json.dumps(document, ensure_ascii=False) for document in documents)
    path = tmp_path / "input.jsonl"
    path.write_text(lines + "\n" * last_newline, encoding="utf-8")
    for step in range(1, path.stat().st_size + 2):
        for block_bytes in (1, 9, 1000):
            source = JsonLinesSource(path, bytes_per_split=step, block_bytes=block_bytes)
            assert read_ranges(source) == documents, (step, block_bytes)


CHARACTERS = st.characters(exclude_categories=["Cs"]) | st.sampled_from(',"\n\r\u2028 ')
ROWS = st.lists(st.tuples(st.text(CHARACTERS, max_size=8), st.integers(-(2**63), 2**63 - 1)), max_size=12)


@settings(deadline=None)
@given(rows=ROWS, block_bytes=st.integers(1, 60), quote_all=st.booleans())
def test_csv_is_read_back_with_blocks_of_any_size(tmp_path_factory, rows, block_bytes, quote_all):
    path = tmp_path_factory.mktemp("csv") / "input.csv"
    quoting = csv.QUOTE_ALL if quote_all else csv.QUOTE_MINIMAL
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file, quoting=quoting).writerows(rows)
    source = CsvSource(path, SCHEMA, header=False, block_bytes=block_bytes)
    assert read(source, str(path)) == rows


@settings(deadline=None)
@given(
    rows=ROWS,
    block_bytes=st.integers(1, 60),
    later_block_bytes=st.integers(1, 60),
    limits=st.lists(st.integers(1, 5), min_size=1, max_size=12),
)
def test_a_reader_resumes_after_any_batch_with_blocks_of_any_other_size(
    tmp_path_factory, rows, block_bytes, later_block_bytes, limits
):
    path = tmp_path_factory.mktemp("csv") / "input.csv"
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("word", "n"), *rows])
    source = CsvSource(path, SCHEMA, block_bytes=block_bytes)
    later = CsvSource(path, SCHEMA, block_bytes=later_block_bytes)
    reader = source.open_split(str(path), None)
    given_so_far = []
    for limit in limits:
        assert given_so_far + read(later, str(path), reader.position) == rows
        batch = reader.read(limit)
        assert len(batch) <= limit
        assert batch or reader.exhausted
        given_so_far += [value for value, _ in batch]
    assert given_so_far + read(later, str(path), reader.position) == rows
    reader.close()


def test_a_reader_of_a_range_resumes_after_every_record(tmp_path):
    rows = [(f"w{n}", n) for n in range(30)]
    path = tmp_path / "input.csv"
    path.write_text("".join(f"{word},{n}\n" for word, n in rows))
    source = CsvSource(path, SCHEMA, header=False, bytes_per_split=41, block_bytes=16)
    total = []
    for split in sorted(source.splits()):
        whole = read(source, split)
        for given_count in range(len(whole) + 1):
            reader = source.open_split(split, None)
            before = []
            while len(before) < given_count:
                before += [value for value, _ in reader.read(1)]
            assert before + read(source, split, reader.position) == whole
            reader.close()
        total += whole
    assert total == rows
