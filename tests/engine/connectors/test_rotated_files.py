"""Logs that are rotated, and files that change otherwise in a monitored folder: each row is read once."""

from __future__ import annotations

import bz2
import gzip
import os
import random
import shutil
import subprocess
import sys
import time

import pytest

from onceproof.engine import CsvReaderFormat, CsvSchema, Duration, FileSource, StreamFormat
from onceproof.engine.connectors.file_content import ChangedFile, UnreadableFile
from onceproof.engine.connectors.known_files import PACKED_REST_NS, bucket_of

INTERVAL_MS = 1


class Job:
    """The readers of all buckets of a folder; ``restart`` opens them again at their positions."""

    def __init__(self, folder, buckets=1, reaction="fail", stream_format=None):
        lines = stream_format or StreamFormat.text_line_format()
        builder = FileSource.for_record_stream_format(lines, str(folder))
        self.make = builder.monitor_continuously(Duration.of_millis(INTERVAL_MS)).build
        self.reaction = reaction
        self.positions = dict.fromkeys(self.make().splits_for(buckets))
        self.rows = []
        self.readers = {}
        self.restart()

    def restart(self):
        for split, reader in self.readers.items():
            self.positions[split] = reader.position
            reader.close()
        source = self.make()
        self.readers = {split: source.open_split(split, at) for split, at in self.positions.items()}
        for reader in self.readers.values():
            reader.react_to_change(self.reaction)

    def read(self, split=None, limit=1000):
        """Read until a look finds nothing that was there before it."""
        for reader in [self.readers[split]] if split else self.readers.values():
            for _ in range(4):
                while records := reader.read(limit):
                    self.rows += [value for value, _ in records]
                time.sleep(0.002)
        return self.rows

    def read_some(self, limit):
        """Read one batch of each bucket."""
        for reader in self.readers.values():
            self.rows += [value for value, _ in reader.read(limit)]


def append(path, rows):
    with open(path, "a", encoding="utf-8") as file:
        file.write("".join(f"{row}\n" for row in rows))


def rows_of(begin, end):
    return [f"row {number:05d} of the log" for number in range(begin, end)]


@pytest.fixture
def log(tmp_path):
    (tmp_path / "in").mkdir()
    return tmp_path / "in" / "log"


@pytest.mark.parametrize("buckets", [1, 4])
@pytest.mark.parametrize("is_down", [False, True])
@pytest.mark.parametrize("times", [1, 3])
def test_log_that_is_renamed_and_begun_anew_is_read_once(log, buckets, is_down, times):
    append(log, rows_of(0, 100))
    job = Job(log.parent, buckets)
    assert job.read() == rows_of(0, 100)
    for time_ in range(times):
        begin = 100 + 60 * time_
        append(log, rows_of(begin, begin + 10))
        for older in range(time_, 0, -1):
            os.rename(f"{log}.{older}", f"{log}.{older + 1}")
        os.rename(log, f"{log}.1")
        append(log, rows_of(begin + 10, begin + 60))
        if is_down:
            job.restart()
    assert sorted(job.read()) == rows_of(0, 100 + 60 * times)
    job.restart()
    assert len(job.read()) == 100 + 60 * times


@pytest.mark.parametrize("buckets", [1, 4])
def test_writer_that_goes_on_in_the_renamed_log_loses_no_row(log, buckets):
    with open(log, "a", encoding="utf-8") as writer:
        writer.write("first\nsecond\n")
        writer.flush()
        job = Job(log.parent, buckets)
        job.read()
        os.rename(log, f"{log}.1")
        writer.write("third\n")
        writer.flush()
        append(log, ["fourth"])
        assert sorted(job.read()) == ["first", "fourth", "second", "third"]


@pytest.mark.parametrize("is_down", [False, True])
def test_log_that_is_renamed_while_it_is_read_is_read_to_its_end(log, is_down):
    append(log, rows_of(0, 50))
    job = Job(log.parent)
    job.read_some(20)
    os.rename(log, f"{log}.1")
    append(log, rows_of(50, 60))
    if is_down:
        job.restart()
    assert job.read() == rows_of(0, 60)


def test_file_that_is_renamed_before_it_was_opened_is_found(log):
    append(log, ["a"])
    append(log.with_name("b"), rows_of(0, 3))
    os.utime(log, (1, 1))
    job = Job(log.parent)
    job.read_some(1)
    os.rename(log.with_name("b"), log.with_name("c"))
    assert job.read() == ["a", *rows_of(0, 3)]


@pytest.mark.parametrize("is_down", [False, True])
@pytest.mark.parametrize("is_read", [False, True])
def test_log_that_is_copied_and_truncated_is_read_once(log, is_down, is_read):
    append(log, rows_of(0, 50))
    job = Job(log.parent, 3)
    if is_read:
        job.read()
        append(log, rows_of(50, 55))
    else:
        job.read_some(20)
        append(log, rows_of(50, 55))
    shutil.copyfile(log, f"{log}.1")
    os.truncate(log, 0)
    append(log, rows_of(55, 60))
    if is_down:
        job.restart()
    assert sorted(job.read()) == rows_of(0, 60)


@pytest.mark.parametrize(("pack", "suffix"), [(gzip.open, "gz"), (bz2.open, "bz2")], ids=["gz", "bz2"])
def test_rotated_log_that_is_compressed_is_not_read_again(log, pack, suffix):
    append(log, rows_of(0, 50))
    job = Job(log.parent, 3)
    job.read()
    os.rename(log, f"{log}.1")
    append(log, rows_of(50, 60))
    job.read()
    name = f"{log}.1.{suffix}"
    with open(f"{log}.1", "rb") as plain, pack(name, "wb") as packed:
        shutil.copyfileobj(plain, packed)
    job.read()
    os.remove(f"{log}.1")
    long_ago = time.time() - 2 * PACKED_REST_NS / 1e9
    os.utime(name, (long_ago, long_ago))
    assert sorted(job.read()) == rows_of(0, 60)
    job.restart()
    assert sorted(job.read()) == rows_of(0, 60)


@pytest.mark.parametrize("buckets", [1, 3])
def test_rotated_logs_with_a_header_may_have_no_rows_at_first(log, buckets):
    schema = CsvSchema.builder().add_string_column("row").set_use_header().build()
    job = Job(log.parent, buckets, stream_format=CsvReaderFormat.for_schema(schema))
    append(log, ["row"])
    assert job.read() == []
    append(log, rows_of(0, 10))
    job.read()
    os.rename(log, f"{log}.1")
    append(log, ["row"])
    job.read()
    job.restart()
    append(log, rows_of(10, 20))
    assert sorted(row[0] for row in job.read()) == rows_of(0, 20)


def test_compressed_file_waits_until_it_is_left_alone(log):
    path = log.with_name("old.gz")
    path.write_bytes(gzip.compress(b"one\ntwo\n")[:20])
    job = Job(log.parent)
    assert job.read() == []
    path.write_bytes(gzip.compress(b"one\ntwo\n"))
    assert job.read() == []
    long_ago = time.time() - 2 * PACKED_REST_NS / 1e9
    os.utime(path, (long_ago, long_ago))
    assert job.read() == ["one", "two"]


def test_file_compressed_in_another_way_is_refused_by_name(log):
    job = Job(log.parent)
    log.with_name("old.zst").write_bytes(b"x")
    with pytest.raises(UnreadableFile, match=r"old\.zst is compressed in a way that is not read"):
        job.read()


def test_copies_on_a_new_machine_are_not_read_again(log):
    append(log, rows_of(0, 50))
    job = Job(log.parent, 3)
    job.read()
    os.rename(log, f"{log}.1")
    append(log, rows_of(50, 60))
    job.read()
    job.readers, readers = {}, job.readers
    job.positions = {split: reader.position for split, reader in readers.items()}
    for path in list(log.parent.iterdir()):
        shutil.copyfile(path, log.parent.parent / path.name)
        path.unlink()
        os.replace(log.parent.parent / path.name, path)
    append(log, rows_of(60, 70))
    job.restart()
    assert sorted(job.read()) == rows_of(0, 70)


def test_two_files_with_the_same_content_are_both_read(log):
    append(log.with_name("a"), ["same"])
    append(log.with_name("b"), ["same"])
    job = Job(log.parent, 3)
    assert job.read() == ["same", "same"]
    append(log.with_name("c"), ["same"])
    assert len(job.read()) == 3


def test_file_like_one_that_was_read_and_deleted_is_read(log):
    append(log.with_name("monday"), ["nothing to report"])
    job = Job(log.parent)
    job.read()
    os.remove(log.with_name("monday"))
    append(log.with_name("tuesday"), ["nothing to report"])
    assert job.read() == ["nothing to report"] * 2


def test_link_to_a_file_is_the_file(log):
    append(log, rows_of(0, 5))
    os.symlink(log, log.with_name("current"))
    os.link(log, log.with_name("hard"))
    job = Job(log.parent, 4)
    assert job.read() == rows_of(0, 5)


def test_unfinished_line_waits_until_it_is_complete_or_old(log):
    log.write_text("one\ntw")
    now = time.time() + 3600
    os.utime(log, (now, now))
    text = StreamFormat.text_line_format()
    builder = FileSource.for_record_stream_format(text, str(log.parent))
    source = builder.monitor_continuously(Duration.of_hours(2)).build()
    reader = source.open_split(source.splits()[0], None)
    assert reader.read(9) == [("one", None)]
    assert reader.read(9) == []
    position = reader.position
    reader.close()
    with open(log, "a", encoding="utf-8") as file:
        file.write("o\nthree")
    reader = source.open_split(source.splits()[0], position)
    assert reader.read(9) == [("two", None)]
    position = reader.position
    reader.close()
    os.utime(log, (1, 1))
    assert source.open_split(source.splits()[0], position).read(9) == [("three", None)]


def test_last_line_that_grows_after_it_was_read_is_an_error(log):
    log.write_text("one\ntwo")
    job = Job(log.parent)
    assert job.read() == ["one", "two"]
    with open(log, "a", encoding="utf-8") as file:
        file.write(" halves\n")
    with pytest.raises(
        ChangedFile, match=r"log is not .* byte 7: its last line, which had no end, has grown"
    ):
        job.read()


@pytest.mark.parametrize("reaction", ["fail", "skip", "from-start"])
def test_file_replaced_before_it_was_read_to_its_end(log, reaction, caplog):
    append(log, rows_of(0, 50))
    job = Job(log.parent, reaction=reaction)
    job.read_some(20)
    job.restart()
    os.remove(log)
    append(log, ["other", "content"])
    if reaction == "fail":
        with pytest.raises(ChangedFile, match=r"log is not the one that was read up to byte 1050"):
            job.read()
        return
    assert job.read() == [*rows_of(0, 20), "other", "content"]
    assert "is not the one that was read" in caplog.text


def test_file_deleted_before_it_was_read_is_named(log):
    append(log, rows_of(0, 50))
    append(log.with_name("other"), ["x"])
    os.utime(log.with_name("other"), (1, 1))
    job = Job(log.parent)
    job.read_some(1)
    os.remove(log)
    with pytest.raises(UnreadableFile, match=r"log cannot be read: No such file"):
        job.read()


def test_positions_of_an_earlier_version_go_on_and_warn_once(log, caplog):
    names = ["a", "b", "c"]
    for place, name in enumerate(names, 1):
        append(log.with_name(name), [f"{name}{line}" for line in range(3)])
        os.utime(log.with_name(name), (place, place))
    job = Job(log.parent)
    paths = [str(log.with_name(name)) for name in names]
    # What version 0.9 stored: files read, files left, the position in the first of these.
    job.readers, job.positions = {}, {"bucket 00000 of 00001": (paths[:1], paths[1:], (0, 2))}
    job.restart()
    assert job.read() == ["b2", "c0", "c1", "c2"]
    assert caplog.text.count("of an earlier version") == 1
    os.rename(paths[0], log)
    append(log, ["a3"])
    append(paths[0], ["new"])
    job.restart()
    assert sorted(job.read()) == ["a3", "b2", "c0", "c1", "c2", "new"]
    assert caplog.text.count("of an earlier version") == 1


def test_buckets_of_an_earlier_version_keep_their_files(log):
    paths = [str(log.with_name(f"file {number}")) for number in range(12)]
    for number, path in enumerate(paths):
        append(path, [f"{number} first", f"{number} second"])
    job = Job(log.parent)
    read, owners = paths[:5], {path: bucket_of(path, 3) for path in paths}
    job.readers, job.positions = (
        {},
        {
            f"bucket {bucket:05d} of 00003": ([path for path in read if owners[path] == bucket], (), None)
            for bucket in range(3)
        },
    )
    job.restart()
    rows = [f"{number} {place}" for number in range(5, 12) for place in ("first", "second")]
    assert sorted(job.read()) == sorted(rows)
    append(paths[0], ["0 third"])
    job.restart()
    assert sorted(job.read()) == sorted([*rows, "0 third"])


def test_single_file_may_be_missing_between_its_rotation_and_its_successor(log):
    append(log, rows_of(0, 10))
    job = Job(log)
    job.read()
    os.rename(log, f"{log}.1")
    assert job.read() == rows_of(0, 10)
    append(log, rows_of(10, 20))
    assert job.read() == rows_of(0, 20)


def test_folder_that_vanishes_is_an_error(log):
    append(log, rows_of(0, 10))
    job = Job(log.parent)
    job.read()
    os.rename(log.parent, log.parent.with_name("elsewhere"))
    with pytest.raises(UnreadableFile, match="in cannot be read: No such file or directory"):
        job.read()


@pytest.mark.parametrize("seed", range(20))
def test_each_row_is_read_once_while_logs_grow_rotate_and_the_job_restarts(tmp_path, seed):
    chance = random.Random(seed)
    folder = tmp_path / "in"
    folder.mkdir()
    job = Job(folder, chance.choice([1, 2, 5]))
    logs = [folder / name for name in ("app.log", "web.log")]
    written = 0
    for _ in range(60):
        log = chance.choice(logs)
        match chance.choice(["append", "append", "rename", "copy", "restart", "read", "read some", "one"]):
            case "append":
                count = chance.randrange(1, 400)
                append(log, rows_of(written, written + count))
                written += count
            case "rename" if log.exists():
                for older in range(30, 0, -1):
                    if os.path.exists(f"{log}.{older}"):
                        os.rename(f"{log}.{older}", f"{log}.{older + 1}")
                os.rename(log, f"{log}.1")
            case "copy" if log.exists():
                shutil.copyfile(log, f"{log}-{written}-{chance.random()}")
                os.truncate(log, 0)
            case "restart":
                job.restart()
            case "read":
                job.read()
            case "read some":
                job.read_some(chance.randrange(1, 50))
            case "one":
                job.read(chance.choice(list(job.readers)))
    job.read()
    assert sorted(job.rows) == rows_of(0, written)


WRITER = """
import os, random, sys

folder, chance = sys.argv[1], random.Random(sys.argv[2])
written = 0
for _ in range(int(sys.argv[3])):
    log = os.path.join(folder, chance.choice(["app.log", "web.log"]))
    count = chance.randrange(1, 60)
    with open(log, "ab", buffering=0) as file:
        rows = range(written, written + count)
        file.write(b"".join(b"row %05d of the log\\n" % row for row in rows))
    written += count
    if chance.random() < 0.4:
        for older in range(20, 0, -1):
            if os.path.exists(f"{log}.{older}"):
                os.rename(f"{log}.{older}", f"{log}.{older + 1}" if older < 20 else f"{log}-{written}")
        os.rename(log, f"{log}.1")
print(written)
"""


@pytest.mark.parametrize("seed", range(3))
def test_each_row_is_read_once_while_another_process_rotates_the_logs(tmp_path, seed):
    folder = tmp_path / "in"
    folder.mkdir()
    chance = random.Random(seed)
    job = Job(folder, 3)
    command = [sys.executable, "-c", WRITER, str(folder), str(seed), "600"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
        while writer.poll() is None:
            job.read_some(chance.randrange(1, 100))
            if chance.random() < 0.02:
                job.restart()
        written = int(writer.stdout.read())
    job.read()
    assert sorted(job.rows) == rows_of(0, written)
