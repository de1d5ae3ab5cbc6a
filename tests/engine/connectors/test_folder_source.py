"""Files and folders as sources: which files are read, by whom, and from which position on."""

from __future__ import annotations

import os
import time
from itertools import chain

import pytest

from onceproof.engine import Duration, FileSource, MalformedRow, StreamFormat
from onceproof.engine.connectors.file_content import UnreadableFile
from onceproof.engine.connectors.folder_source import WrongBucket, list_files
from onceproof.engine.connectors.known_files import bucket_of

OFTEN = Duration.of_millis(1)
SELDOM = Duration.of_hours(1)


@pytest.fixture
def folder(tmp_path):
    """A folder in which a file appears whole; each one is a second younger than the one before."""
    home = tmp_path / "in"
    home.mkdir()
    made = []

    def write(name, text, encoding="utf-8"):
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        hidden = path.with_name("_" + path.name)
        hidden.write_bytes(text.encode(encoding))
        made.append(path)
        os.utime(hidden, (len(made), len(made)))
        hidden.rename(path)
        return str(path)

    write.home = home
    return write


def once(*paths, charset="UTF-8"):
    return FileSource.for_record_stream_format(StreamFormat.text_line_format(charset), *paths).build()


def monitored(path, interval=OFTEN):
    text = StreamFormat.text_line_format()
    return FileSource.for_record_stream_format(text, str(path)).monitor_continuously(interval).build()


def rest_of(reader, limit=1000):
    """Read until nothing comes; the look for files has an interval of 1 ms."""
    values = []
    for _ in range(3):
        while records := reader.read(limit):
            values += [value for value, _ in records]
        if reader.exhausted:
            break
        time.sleep(0.003)
    reader.close()
    return values


def lines_of(source):
    return [value for split in source.splits() for value in rest_of(source.open_split(split, None))]


def test_a_record_is_a_line_without_its_end(folder):
    path = folder("a.txt", "one\ntwo\r\n\n  three \nä\u2028\nlast")
    assert lines_of(once(path)) == ["one", "two", "", "  three ", "ä\u2028", "last"]


def test_lines_are_read_in_the_charset_of_the_file(folder):
    path = folder("a.txt", "früh\nspät\n", "latin-1")
    assert lines_of(once(path, charset="ISO-8859-1")) == ["früh", "spät"]


def test_bytes_outside_the_charset_are_named_by_file_and_line(folder):
    path = folder("a.txt", "früh\nspät\n", "latin-1")
    with pytest.raises(MalformedRow, match=r"a\.txt, line 1: byte 0xfc is not UTF-8"):
        lines_of(once(path))


@pytest.mark.parametrize(
    ("charset", "said"), [("utf-9", "'utf-9' is not known"), ("utf-16", "convert the files to UTF-8")]
)
def test_charset_that_is_unknown_or_has_wide_line_ends_is_refused(charset, said):
    with pytest.raises(ValueError, match=said):
        StreamFormat.text_line_format(charset)


def test_visible_files_of_a_folder_and_below_are_read_oldest_first(folder):
    names = ["z", "sub/y", "a", "sub/deep/b"]
    for name in names:
        folder(name, f"of {name}\n")
    for hidden in (".hidden", "_temporary", ".folder/c", "_folder/d"):
        folder(hidden, "never\n")
    home = str(folder.home)
    assert list_files([home]) == [f"{home}/{name}" for name in names]
    assert lines_of(once(home)) == [f"of {name}" for name in names]


def test_path_that_does_not_exist_is_one_line(tmp_path):
    with pytest.raises(UnreadableFile, match=r"file .*gone cannot be read: No such file or directory"):
        once(str(tmp_path / "gone"))


def test_path_below_another_one_is_read_once(folder):
    path = folder("a", "one\n")
    assert lines_of(once(str(folder.home), path)) == ["one"]


@pytest.mark.parametrize("buckets", [1, 2, 5])
def test_each_file_belongs_to_one_bucket(folder, buckets):
    for number in range(40):
        folder(f"{number}", f"{number}\n")
    source = monitored(folder.home)
    splits = source.splits_for(buckets)
    assert len(set(splits)) == buckets
    read = [rest_of(source.open_split(split, None)) for split in splits]
    assert sorted(chain(*read)) == sorted(map(str, range(40)))
    assert all(read), "40 files leave no bucket empty"


def test_bucket_of_a_path_is_the_same_in_every_process():
    assert [bucket_of(f"in/{name}", 8) for name in "abcd"] == [0, 4, 1, 2]


def test_reader_goes_on_at_any_position_while_files_come(folder):
    for name in "abc":
        folder(name, "".join(f"{name}{line}\n" for line in range(4)))
    source = monitored(folder.home)
    [split] = source.splits()
    reader = source.open_split(split, None)
    read, positions = [], [reader.position]
    for _ in range(12):
        read += [value for value, _ in reader.read(1)]
        positions.append(reader.position)
    reader.close()
    folder("0", "later\n")
    whole = [f"{name}{line}" for name in "abc" for line in range(4)]
    assert read == whole
    for count, position in enumerate(positions):
        came = rest_of(source.open_split(split, position))
        if count:
            assert came == [*whole[count:], "later"]
        else:
            assert sorted(came) == sorted([*whole, "later"])


def test_new_files_are_read_and_what_old_ones_have_grown_by(folder):
    folder("a", "one\n")
    source = monitored(folder.home)
    reader = source.open_split(source.splits()[0], None)
    assert rest_of(reader) == ["one"]
    folder("b", "two\n")
    folder("a", "one\nmore\n")
    assert rest_of(reader) == ["two", "more"]
    assert not reader.exhausted
    assert not source.is_bounded


def test_file_that_was_read_may_be_deleted(folder):
    path = folder("a", "one\n")
    source = monitored(folder.home)
    [split] = source.splits()
    reader = source.open_split(split, None)
    rest_of(reader)
    os.remove(path)
    folder("b", "two\n")
    assert rest_of(source.open_split(split, reader.position)) == ["two"]


def test_reader_with_nothing_to_read_asks_for_the_rest_of_the_interval(folder):
    folder("a", "one\n")
    source = monitored(folder.home, SELDOM)
    reader = source.open_split(source.splits()[0], None)
    assert reader.read(10) == [("one", None)]
    folder("b", "two\n")
    assert reader.read(10) == []
    assert 3_590_000 < reader.retry_ms <= 3_600_001


def test_source_that_monitors_refuses_the_splits_of_one_that_does_not(folder):
    path = folder("a", "one\n")
    with pytest.raises(WrongBucket, match="restore with the source"):
        monitored(folder.home).open_split(path, None)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: FileSource.for_record_stream_format("text", "a"), "takes a StreamFormat, not 'text'"),
        (lambda: FileSource.for_record_stream_format(StreamFormat.text_line_format()), "has no path"),
        (lambda: monitored("a", Duration.of_millis(0)), "interval 0 ms must be positive"),
    ],
)
def test_what_a_file_source_cannot_be_is_one_line(make, said):
    with pytest.raises((TypeError, ValueError), match=said):
        make()
