"""Files that are replaced, cut, overwritten or copied, after a restore and while they are read."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import pickle
import shutil
from pathlib import Path

import pytest

from onceproof.engine import CsvSource, FileSource, JsonLinesSource, StreamFormat, Types
from onceproof.engine.connectors.file_content import HEAD_BYTES, ChangedFile, UnreadableFile
from tests.engine.connectors.test_bulk_readers import avro_source, parquet_file, parquet_source

ROWS = 2000
WORDS = [("word", Types.STRING()), ("n", Types.LONG())]


def csv_text(base=0, rows=ROWS):
    return "word,n\n" + "".join(f"word of {base + n:06d},{n}\n" for n in range(rows))


def csv_source(path, **options):
    return CsvSource(str(path), WORDS, block_bytes=1000, **options)


def text_source(path):
    return FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(path)).build()


def json_source(path):
    return JsonLinesSource(str(path), block_bytes=1000)


def write_text(path, base=0, rows=ROWS):
    path.write_text("".join(f'"row {base + n:06d}"\n' for n in range(rows)))


LINES = {
    "csv": (csv_source, lambda path, base=0, rows=ROWS: path.write_text(csv_text(base, rows))),
    "text": (text_source, write_text),
    "json": (json_source, write_text),
}


def opened(source, position=None, reaction="fail", split=None):
    reader = source.open_split(split or source.splits()[0], position)
    reader.react_to_change(reaction)
    return reader


def rest_of(reader, limit=7, most=None):
    values = []
    while not reader.exhausted and (most is None or len(values) < most):
        values += [value for value, _ in reader.read(limit)]
    return values


def stored(position):
    """Return a position as a checkpoint gives it back: with lists for tuples."""
    return [stored(each) for each in position] if isinstance(position, list | tuple) else position


def replace(path, write):
    write(path.with_name("_new"), 500_000)
    os.replace(path.with_name("_new"), path)


def cut(path, write):
    data = path.read_bytes()
    os.truncate(path, data.index(b"\n", len(data) // 10) + 1)


def overwrite(path, place):
    """Change the byte at a place: it may be any, as those of the mark between Avro's blocks are random."""
    with open(path, "r+b") as file:
        file.seek(place)
        [byte] = file.read(1)
        file.seek(place)
        file.write(bytes([byte ^ 1]))


CHANGES = {
    "replaced": replace,
    "cut": cut,
    "emptied": lambda path, write: os.truncate(path, 0),
    "cut and grown": lambda path, write: write(path, 500_000),
    "another beginning": lambda path, write: overwrite(path, 3),
}


@pytest.fixture(params=LINES)
def lines(request, tmp_path):
    make, write = LINES[request.param]
    path = tmp_path / "input.txt"
    write(path)
    return path, make(path), write


@pytest.mark.parametrize("change", CHANGES)
def test_changed_file_is_refused_on_restore_with_place_and_remedy(lines, change):
    path, source, write = lines
    reader = opened(source)
    rest_of(reader, most=1900)
    position = stored(reader.position)
    reader.close()
    CHANGES[change](path, write)
    end = position[2][0]
    said = rf"file {path} is not the one that was read up to byte {end}: .*: put the file back .*on-change"
    with pytest.raises(ChangedFile, match=said) as caught:
        rest_of(opened(source, position))
    assert "\n" not in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize("change", CHANGES)
def test_file_that_changes_while_it_is_read_never_ends_its_split(lines, change):
    path, source, write = lines
    whole = rest_of(opened(source))
    reader = opened(source)
    first = rest_of(reader, most=1000)
    CHANGES[change](path, write)
    if change == "replaced":
        # The file that was opened is still there, without its name.
        assert first + rest_of(reader) == whole
        return
    with pytest.raises(ChangedFile, match="is not the one that was read up to byte"):
        first += rest_of(reader)
    assert first == whole[: len(first)]


def test_block_that_is_overwritten_after_it_was_read_is_noticed_at_the_end(lines):
    path, source, _ = lines
    reader = opened(source)
    rest_of(reader, limit=1, most=ROWS - 1)
    overwrite(path, path.stat().st_size - 3)
    with pytest.raises(ChangedFile, match="its last bytes have been overwritten"):
        rest_of(reader)
    assert not reader.exhausted


@pytest.mark.parametrize("count", [0, 1, 200, 1999, ROWS])
def test_copy_with_another_inode_and_time_is_the_same_file(lines, count):
    path, source, _ = lines
    whole = rest_of(opened(source))
    reader = opened(source)
    first = rest_of(reader, limit=1, most=count) if count else []
    position = reader.position
    reader.close()
    inode = path.stat().st_ino
    shutil.copyfile(path, path.with_name("_copy"))
    os.replace(path.with_name("_copy"), path)
    os.utime(path, (1, 1))
    assert path.stat().st_ino != inode
    position = position if position is None else stored(position)
    assert first + rest_of(opened(source, position)) == whole


def test_what_is_appended_is_read_before_and_after_a_restore(lines):
    path, source, write = lines
    reader = opened(source)
    first = rest_of(reader, most=500)
    write(path.with_name("more"), ROWS)
    with open(path, "ab") as file:
        file.write(b"".join(path.with_name("more").read_bytes().splitlines(keepends=True)[1:101]))
    position = stored(reader.position)
    at_once, later = first + rest_of(reader), first + rest_of(opened(source, position))
    assert at_once == later
    assert len(later) == ROWS + 100


def test_file_shorter_than_the_digests_may_grow_beyond_them(tmp_path):
    path = tmp_path / "small"
    path.write_text("one\ntwo\n")
    source = text_source(path)
    reader = opened(source)
    assert rest_of(reader) == ["one", "two"]
    with open(path, "a", encoding="utf-8") as file:
        file.write("three\n" * HEAD_BYTES)
    assert rest_of(opened(source, stored(reader.position))) == ["three"] * HEAD_BYTES


def test_unfinished_last_line_that_grows_is_a_change(tmp_path):
    path = tmp_path / "small"
    path.write_text("one\ntwo")
    source = text_source(path)
    reader = opened(source)
    assert rest_of(reader) == ["one", "two"]
    with open(path, "a", encoding="utf-8") as file:
        file.write(" and a half\n")
    with pytest.raises(ChangedFile, match="byte 7: its last line, which had no end, has grown"):
        rest_of(opened(source, reader.position))


@pytest.mark.parametrize("is_restored", [False, True])
@pytest.mark.parametrize("change", ["cut", "cut and grown"])
@pytest.mark.parametrize("reaction", ["skip", "from-start"])
def test_job_may_read_the_new_content_or_leave_out_the_rest(lines, reaction, change, is_restored, caplog):
    path, source, write = lines
    reader = opened(source, reaction=reaction)
    whole = rest_of(opened(source))
    first = rest_of(reader, most=1000)
    if is_restored:
        position = stored(reader.position)
        reader.close()
        reader = opened(source, position, reaction)
    CHANGES[change](path, write)
    content = rest_of(opened(source))
    rows = first + rest_of(reader)
    read_before = rows if reaction == "skip" else rows[: len(rows) - len(content)]
    assert read_before == whole[: len(read_before)]
    assert len(first) <= len(read_before)
    assert rows == [*read_before, *([] if reaction == "skip" else content)]
    assert len(caplog.records) == 1
    assert f"file {path} is not the one that was read up to byte" in caplog.text
    assert rest_of(opened(source, stored(reader.position), reaction)) == []


@pytest.mark.parametrize("make", [avro_source, parquet_source])
@pytest.mark.parametrize("change", ["replaced", "cut", "end"])
def test_changed_file_of_blocks_is_refused_on_restore(tmp_path, make, change):
    path = tmp_path / "file"
    source = make(path)
    reader = opened(source)
    whole = rest_of(reader)
    reader = opened(source)
    first = rest_of(reader, limit=1, most=len(whole) - 1)
    position = stored(reader.position)
    reader.close()
    shutil.copyfile(path, tmp_path / "copy")
    os.replace(tmp_path / "copy", path)
    assert first + rest_of(opened(source, position)) == whole
    size = path.stat().st_size
    match change:
        case "replaced":
            path.write_bytes(path.read_bytes()[::-1])
        case "cut":
            os.truncate(path, size // 2)
        case "end":
            overwrite(path, position[2][0] - 2)
    with pytest.raises(ChangedFile, match=r"file .*file is not the one that was read up to byte"):
        rest_of(opened(source, position))
    assert rest_of(opened(source, position, "skip")) == []


def test_parquet_file_that_is_overwritten_while_it_is_read_is_noticed_at_its_end(tmp_path):
    path = tmp_path / "file"
    source = parquet_source(path)
    parquet_file(path, [{"id": number, "name": f"name {number}"} for number in range(500)])
    reader = opened(source)
    rest_of(reader, limit=1, most=40)
    overwrite(path, path.stat().st_size - 20)
    with pytest.raises(ChangedFile, match="bytes before that differ"):
        rest_of(reader)


@pytest.mark.parametrize("make", [avro_source, parquet_source])
def test_file_of_blocks_that_is_cut_while_it_is_read_never_ends_its_split(tmp_path, make):
    path = tmp_path / "file"
    source = make(path)
    reader = opened(source)
    rest_of(reader, limit=1, most=1)
    os.truncate(path, 0)
    with pytest.raises(ChangedFile, match=r"it had [0-9]+ bytes and has 0"):
        rest_of(reader)
    assert not reader.exhausted


# ---- byte ranges


def test_range_behind_the_end_of_a_file_that_was_cut_is_an_error(tmp_path):
    path = tmp_path / "input.csv"
    path.write_text(csv_text())
    source = csv_source(path, bytes_per_split=10_000)
    splits = sorted(source.splits())
    os.truncate(path, 15_000)
    assert rest_of(opened(source, split=splits[0]))
    for split in splits[1:]:
        with pytest.raises(ChangedFile, match=r"it had [0-9]+ bytes and has 15000"):
            rest_of(opened(source, split=split))


def test_last_range_reads_what_is_appended(tmp_path):
    path = tmp_path / "input.csv"
    path.write_text(csv_text())
    source = csv_source(path, bytes_per_split=10_000)
    splits = sorted(source.splits())
    with open(path, "a", encoding="utf-8") as file:
        file.write("later,1\n")
    rows = [row for split in splits for row in rest_of(opened(source, split=split))]
    assert len(rows) == ROWS + 1
    assert rows[-1] == ("later", 1)


def test_ranges_of_changed_file_cannot_be_read_from_the_start(tmp_path):
    path = tmp_path / "input.csv"
    path.write_text(csv_text())
    source = csv_source(path, bytes_per_split=10_000)
    split = sorted(source.splits())[1]
    reader = opened(source, split=split)
    rest_of(reader, most=10)
    position = reader.position
    replace(path, LINES["csv"][1])
    with pytest.raises(ChangedFile, match="byte ranges that were read before would not be read again"):
        rest_of(opened(source, position, "from-start", split))
    assert rest_of(opened(source, position, "skip", split)) == []


# ---- positions of earlier versions


def test_position_without_content_restores_with_one_warning_and_is_checked_then(tmp_path, caplog):
    paths = [tmp_path / "a.csv", tmp_path / "b.csv"]
    for path in paths:
        path.write_text(csv_text())
    source = CsvSource([str(path) for path in paths], WORDS, block_bytes=1000)
    place = csv_text().index("word of 000100")
    readers = [opened(source, [place, 5], split=str(path)) for path in paths]
    for reader in readers:
        assert rest_of(reader, limit=1, most=1) == [("word of 000105", 105)]
    assert caplog.text.count("is of an earlier version") == 1
    replace(paths[0], LINES["csv"][1])
    with pytest.raises(ChangedFile):
        rest_of(opened(source, stored(readers[0].position), split=str(paths[0])))


def test_position_without_content_behind_the_end_is_an_error(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(csv_text(rows=10))
    with pytest.raises(ChangedFile, match="which lack records"):
        rest_of(opened(csv_source(path), [csv_text().index("word of 000100"), 5]))


# ---- compressed files


@pytest.mark.parametrize(
    ("suffix", "pack"),
    [(".gz", gzip.compress), (".GZ", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)],
)
def test_compressed_file_is_unpacked_and_resumes_at_any_position(tmp_path, suffix, pack):
    path = tmp_path / f"input.csv{suffix}"
    path.write_bytes(pack(csv_text().encode()))
    source = csv_source(path)
    whole = [(f"word of {n:06d}", n) for n in range(ROWS)]
    reader = opened(source)
    first = []
    for _ in range(8):
        assert first + rest_of(opened(source, reader.position)) == whole
        first += rest_of(reader, limit=260, most=260)
    assert first + rest_of(reader) == whole
    assert rest_of(opened(source, reader.position)) == []
    path.write_bytes(pack(csv_text(7).encode()))
    with pytest.raises(ChangedFile):
        rest_of(opened(source, reader.position))


@pytest.mark.parametrize("kind", LINES)
@pytest.mark.parametrize("end", ["", "\n"])
def test_compressed_lines_end_like_plain_ones(tmp_path, kind, end):
    make, write = LINES[kind]
    plain = tmp_path / "plain"
    write(plain)
    plain.write_text(plain.read_text()[:-1] + end)
    path = tmp_path / "packed.gz"
    path.write_bytes(gzip.compress(plain.read_bytes()))
    plain_reader, reader = opened(make(plain)), opened(make(path))
    whole = rest_of(plain_reader)
    assert len(whole) == ROWS
    assert rest_of(reader) == whole
    assert reader.position == plain_reader.position
    assert rest_of(opened(make(plain), stored(reader.position))) == []


@pytest.mark.parametrize("damage", ["cut", "no gzip"])
def test_damaged_compressed_file_is_one_line(tmp_path, damage):
    path = tmp_path / "input.csv.gz"
    data = gzip.compress(csv_text().encode())
    path.write_bytes(data[: len(data) // 2] if damage == "cut" else b"word,n\na,1\n")
    with pytest.raises(UnreadableFile, match=r"input\.csv\.gz cannot be unpacked \(.*\): it must be whole"):
        rest_of(opened(csv_source(path)))


def test_compressed_file_has_no_byte_ranges(tmp_path):
    path = tmp_path / "input.csv.gz"
    path.write_bytes(gzip.compress(csv_text().encode()))
    with pytest.raises(UnreadableFile, match=r"is compressed, .*: leave out bytes_per_split"):
        csv_source(path, bytes_per_split=1000).splits()


@pytest.mark.parametrize("name", ["a.zst", "a.ZIP", "a.csv.lz4"])
def test_file_compressed_in_another_way_is_refused_by_name(tmp_path, name):
    path = Path(tmp_path / name)
    path.write_bytes(b"x")
    with pytest.raises(UnreadableFile, match="is compressed in a way that is not read: unpack it"):
        csv_source(path).splits()
