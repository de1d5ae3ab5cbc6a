"""Buckets of the file sink: folders below its base path, their names, and what becomes of a crash in them."""

from __future__ import annotations

import os
import pickle
import re
from pathlib import Path

import pytest

from onceproof.engine.connectors.buckets import (
    BucketAssigner,
    DateTimeBucketAssigner,
    WrongBucket,
)
from onceproof.engine.connectors.commit_ledger import entry_of
from onceproof.engine.connectors.encoders import Encoder
from onceproof.engine.connectors.file_sink import FileSink
from onceproof.engine.connectors.part_files import FileSinkBroken, parts_of
from onceproof.engine.connectors.rolling import RollingPolicy
from onceproof.engine.file_calls import SystemFileCalls
from onceproof.engine.functions import SinkFunction

DAY_MS = 86_400_000
HOUR_MS = 3_600_000


class ByFirstLetter(BucketAssigner):
    def get_bucket_id(self, element, context):
        return element.split(":")[0]


def builder(folder):
    return FileSink.for_row_format(str(folder), Encoder.simple_string_encoder())


def in_buckets(sink_job, folder, assigner=None, policy=None):
    made = builder(folder).with_bucket_assigner(assigner or ByFirstLetter())
    if policy is not None:
        made.with_rolling_policy(policy)
    return sink_job(made.build().create_function)


def visible(folder):
    return {
        os.path.relpath(place, folder): sorted(
            Path(place, name).read_text() for name in names if not name.startswith(".")
        )
        for place, _, names in os.walk(folder)
        if [name for name in names if entry_of(name) is None]
    }


def hidden(folder):
    found = [name for _, _, names in os.walk(folder) for name in names if name.startswith(".")]
    return [name for name in found if entry_of(name) is None]


def test_rows_of_each_bucket_are_visible_in_its_folder_with_the_checkpoint(sink_job, tmp_path):
    job = in_buckets(sink_job, tmp_path)
    sink = job.start()
    for row in ("a:1", "b/inner:2", ":3", "a:4"):
        sink.invoke(row, None)
    job.snapshot(1)
    assert set(map(tuple, visible(tmp_path).values())) == {()}
    job.notify(1)
    assert visible(tmp_path) == {"a": ["a:1\na:4\n"], "b/inner": ["b/inner:2\n"], ".": [":3\n"]}
    assert hidden(tmp_path) == []


def test_files_of_a_bucket_roll_by_themselves(sink_job, tmp_path):
    job = in_buckets(sink_job, tmp_path, policy=RollingPolicy.default_rolling_policy(part_size=6))
    sink = job.start()
    for row in ("a:1", "b:1", "a:2", "a:3", "b:2", "b:3"):
        sink.invoke(row, None)
    job.snapshot(1)
    job.notify(1)
    assert visible(tmp_path) == {"a": ["a:1\na:2\n", "a:3\n"], "b": ["b:1\nb:2\n", "b:3\n"]}


def test_restore_commits_the_files_of_all_buckets_and_deletes_what_is_unlisted(sink_job, tmp_path):
    job = in_buckets(sink_job, tmp_path)
    sink = job.start()
    for row in ("a:1", "b/inner:2"):
        sink.invoke(row, None)
    job.snapshot(1)
    for row in ("a:lost", "c/deeper/still:lost"):
        sink.invoke(row, None)
    job.start(restored=1)
    assert visible(tmp_path) == {"a": ["a:1\n"], "b/inner": ["b/inner:2\n"]}
    assert hidden(tmp_path) == []


def test_pending_buckets_are_found_in_a_base_path_that_was_moved(sink_job, tmp_path):
    job = in_buckets(sink_job, tmp_path / "old")
    sink = job.start()
    sink.invoke("a/inner:1", None)
    job.snapshot(1)
    (tmp_path / "old").rename(tmp_path / "new")
    moved = in_buckets(sink_job, tmp_path / "new")
    moved.checkpoints = job.checkpoints
    moved.start(restored=1)
    assert visible(tmp_path / "new") == {"a/inner": ["a/inner:1\n"]}


def test_pending_buckets_are_committed_by_a_sink_without_buckets(sink_job, tmp_path):
    job = in_buckets(sink_job, tmp_path)
    job.start().invoke("a:1", None)
    job.snapshot(1)
    plain = sink_job(builder(tmp_path).build().create_function)
    plain.checkpoints = job.checkpoints
    plain.start(restored=1).invoke("all in one", None)
    plain.snapshot(2)
    plain.notify(2)
    assert visible(tmp_path) == {"a": ["a:1\n"], ".": ["all in one\n"]}


def test_files_that_get_no_rows_are_complete_at_the_next_check(sink_job, tmp_path):
    made = builder(tmp_path).with_bucket_assigner(ByFirstLetter()).with_bucket_check_interval(10)
    made.with_rolling_policy(RollingPolicy.default_rolling_policy(inactivity_interval=30))
    job = sink_job(made.build().create_function)
    sink = job.start()
    sink.invoke("a:1", None)
    for job.now_ms in (9, 19, 31):
        sink.invoke("b:1", None)
        assert list(sink._open_parts) == (["a", "b"] if job.now_ms < 30 else ["b"])
    sink.invoke("a:2", None)
    job.snapshot(1)
    job.notify(1)
    assert visible(tmp_path)["a"] == ["a:1\n", "a:2\n"]


def test_rows_of_one_moment_are_written_together_into_the_bucket_of_their_time(sink_job, tmp_path):
    job = in_buckets(sink_job, tmp_path, BucketAssigner.date_time_bucket_assigner(timezone_id="UTC+00:00"))
    job.now_ms = 50 * DAY_MS + 9 * HOUR_MS
    sink = job.start()
    assert sink.invoke_batch(["1", "2"])
    job.now_ms += HOUR_MS
    assert sink.invoke_batch(["3", "4"])
    job.snapshot(1)
    job.notify(1)
    assert visible(tmp_path) == {"1970-02-20--09": ["1\n2\n"], "1970-02-20--10": ["3\n4\n"]}


@pytest.mark.parametrize(
    ("pattern", "zone", "expected"),
    [
        ("yyyy-MM-dd--HH", "UTC+00:00", "2026-01-02--03"),
        ("'dt='yyyyMMdd/'h='H", "GMT+02:00", "dt=20260102/h=5"),
        ("yy.M.d_mm.ss.SSS", "-05:00", "26.1.1_04.05.006"),
        ("uuuu-DDD", "Europe/Vienna", "2026-002"),
        ("HH 'o''clock'", "America/Los_Angeles", "19 o'clock"),
    ],
)
def test_folder_is_named_by_the_pattern_in_the_time_zone(pattern, zone, expected):
    time_ms = 1_767_323_045_006
    assigner = pickle.loads(pickle.dumps(BucketAssigner.date_time_bucket_assigner(pattern, zone)))
    assert assigner.get_bucket_id("row", SinkFunction.Context(lambda: time_ms)) == expected


@pytest.mark.parametrize(
    ("pattern", "zone", "message"),
    [
        ("yyyy-bb", None, "'bb' in the pattern 'yyyy-bb'"),
        ("yyyy 'open", None, "a quote that never closes"),
        ("/yyyy", None, "relative path"),
        (".yyyy", None, "begins with . or _"),
        ("'../../'yyyy", None, "relative path"),
        ("yyyy", "Mars/Olympus", "no time zone 'Mars/Olympus'"),
        ("yyyy", "GMT+25:00", "no time zone"),
        ("yyyy", "../../etc/passwd", "no time zone"),
    ],
)
def test_pattern_or_zone_that_names_no_folder_is_refused_at_once(pattern, zone, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        DateTimeBucketAssigner(pattern, zone)


@pytest.mark.parametrize(
    "bucket", ["..", "../out", "/etc", "a//b", "a/./b", "_tmp", ".hidden", "nul\0", 3, None]
)
def test_bucket_that_leaves_the_base_path_or_is_hidden_is_refused(sink_job, tmp_path, bucket):
    class Wrong(BucketAssigner):
        def get_bucket_id(self, element, context):
            return bucket

    sink = in_buckets(sink_job, tmp_path / "out", Wrong()).start()
    with pytest.raises(WrongBucket, match="Wrong gives the bucket"):
        sink.invoke("row", None)
    assert list(tmp_path.iterdir()) == [tmp_path / "out"]


@pytest.mark.parametrize("bucket", ["../out", "/etc", 3, None, "_x"])
def test_forged_bucket_in_a_checkpoint_is_refused(bucket):
    with pytest.raises(FileSinkBroken, match="it is not ours"):
        list(parts_of(["name", 0, "/folder", "hidden", [["name", 1, "/folder", "hidden", bucket]]]))


def test_file_in_place_of_a_bucket_is_one_clear_line(sink_job, tmp_path):
    sink = in_buckets(sink_job, tmp_path).start()
    (tmp_path / "a").write_text("a file of the user's")
    with pytest.raises(FileSinkBroken, match=r"bucket .*/a cannot be made.*move it away"):
        sink.invoke("a:1", None)


def test_new_buckets_are_durable_before_their_checkpoint(sink_job, tmp_path):
    synced = []

    class Noting(SystemFileCalls):
        def fsync(self, descriptor):
            synced.append(os.path.relpath(os.readlink(f"/proc/self/fd/{descriptor}"), tmp_path))

    job = in_buckets(sink_job, tmp_path)
    sink = job.start()
    (tmp_path / "a").mkdir()  # By a process that died before it synced the name.
    sink.calls = Noting()
    sink.invoke("a/inner:1", None)
    assert synced == ["a", "."]
    job.snapshot(1)
    assert synced[-1] == "a/inner"


@pytest.mark.parametrize("wrong", [None, "by-hour", BucketAssigner])
def test_what_is_no_assigner_is_refused(tmp_path, wrong):
    with pytest.raises(TypeError, match="is not a BucketAssigner"):
        builder(tmp_path).with_bucket_assigner(wrong)


@pytest.mark.parametrize("interval", [0, -1, True, "60"])
def test_wrong_check_interval_is_named(tmp_path, interval):
    with pytest.raises(ValueError, match="bucket check interval"):
        builder(tmp_path).with_bucket_check_interval(interval)
