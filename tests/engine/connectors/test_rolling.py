"""Rolling policies: when a part file is complete, and what a transaction of several files commits."""

from __future__ import annotations

import pytest

from onceproof.engine.api.data_types import DataTypes
from onceproof.engine.connectors.buckets import BucketAssigner
from onceproof.engine.connectors.encoders import Encoder
from onceproof.engine.connectors.file_sink import FileSink
from onceproof.engine.connectors.part_files import FileSinkBroken, parts_of
from onceproof.engine.connectors.rolling import RollingPolicy
from onceproof.engine.formats.parquet_files import ParquetBulkWriters


def rolled(sink_job, folder, **policy):
    builder = FileSink.for_row_format(str(folder), Encoder.simple_string_encoder())
    return sink_job(
        builder.with_rolling_policy(RollingPolicy.default_rolling_policy(**policy)).build().create_function
    )


def visible(folder):
    return sorted(path.read_text() for path in visible_files(folder))


def visible_files(folder):
    return [path for path in folder.iterdir() if not path.name.startswith(".")]


def test_file_is_complete_at_its_size_and_visible_with_the_checkpoint(sink_job, tmp_path):
    job = rolled(sink_job, tmp_path, part_size=4)
    sink = job.start()
    for row in ("a", "b", "c", "d", "e"):
        sink.invoke(row, None)
    assert visible(tmp_path) == []
    job.snapshot(1)
    job.notify(1)
    assert visible(tmp_path) == ["a\nb\n", "c\nd\n", "e\n"]


def test_names_of_further_files_are_numbered(sink_job, tmp_path):
    job = rolled(sink_job, tmp_path, part_size=1)
    sink = job.start()
    for row in "abc":
        sink.invoke(row, None)
    job.snapshot(1)
    job.notify(1)
    first, *others = sorted((path.name for path in visible_files(tmp_path)), key=len)
    assert sorted(others) == [f"{first}-1", f"{first}-2"]


def test_checkpoint_that_is_restored_commits_all_files(sink_job, tmp_path):
    job = rolled(sink_job, tmp_path, part_size=1)
    sink = job.start()
    for row in "abc":
        sink.invoke(row, None)
    job.snapshot(1)
    sink.invoke("lost", None)
    sink.invoke("lost too", None)
    job.start(restored=1)
    assert visible(tmp_path) == ["a\n", "b\n", "c\n"]
    assert len(visible_files(tmp_path)) == 3


@pytest.mark.parametrize(
    ("length", "begun_ms", "written_ms", "rolls"),
    [(9, 0, 0, False), (10, 0, 0, True), (1, -100, 0, True), (1, -99, -49, False), (1, 0, -50, True)],
)
def test_file_is_complete_by_size_age_and_idleness(length, begun_ms, written_ms, rolls):
    policy = RollingPolicy.default_rolling_policy(10, 100, 50)
    assert policy.should_roll(length, begun_ms, written_ms, 0) is rolls


def test_policy_of_checkpoints_never_rolls_in_between():
    assert not RollingPolicy.on_checkpoint_rolling_policy().should_roll(1 << 40, 0, 0, 1 << 40)


@pytest.mark.parametrize("batch", [1, 2, 3, 8])
def test_file_is_complete_with_its_number_of_rows_however_many_come_at_once(sink_job, tmp_path, batch):
    job = rolled(sink_job, tmp_path, part_rows=3)
    sink = job.start()
    rows = "abcdefgh"
    for begin in range(0, len(rows), batch):
        sink.invoke_batch(list(rows[begin : begin + batch]))
    job.snapshot(1)
    sink.invoke_batch(["i"])
    job.snapshot(2)
    job.notify(2)
    assert visible(tmp_path) == ["a\nb\nc\n", "d\ne\nf\n", "g\nh\n", "i\n"]


def test_number_of_rows_counts_for_each_bucket(sink_job, tmp_path):
    class ByLetter(BucketAssigner):
        def get_bucket_id(self, element, context):
            return element

    builder = FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder())
    policy = RollingPolicy.on_checkpoint_rolling_policy(part_rows=2)
    sink_of = builder.with_rolling_policy(policy).with_bucket_assigner(ByLetter()).build().create_function
    job = sink_job(sink_of)
    sink = job.start()
    for row in "abaab":
        sink.invoke(row, None)
    job.snapshot(1)
    job.notify(1)
    assert visible(tmp_path / "a") == ["a\n", "a\na\n"]
    assert visible(tmp_path / "b") == ["b\nb\n"]


def test_full_files_of_a_checkpoint_without_later_rows_are_committed(sink_job, tmp_path):
    job = rolled(sink_job, tmp_path, part_rows=2, part_size=1)
    job.start().invoke_batch(["a", "b", "c", "d"])
    job.snapshot(1)
    job.start(restored=1)
    assert visible(tmp_path) == ["a\nb\n", "c\nd\n"]


def test_bulk_file_is_complete_with_its_number_of_rows(sink_job, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet", reason="the extra parquet is not installed")
    columns = DataTypes.ROW([DataTypes.FIELD("number", DataTypes.BIGINT())])
    builder = FileSink.for_bulk_format(str(tmp_path), ParquetBulkWriters.for_row_type(columns))
    policy = RollingPolicy.on_checkpoint_rolling_policy(part_rows=2)
    job = sink_job(builder.with_rolling_policy(policy).build().create_function)
    job.start().invoke_batch([(1,), (2,), (3,)])
    job.snapshot(1)
    job.notify(1)
    files = [
        parquet.ParquetFile(path).read().column("number").to_pylist() for path in visible_files(tmp_path)
    ]
    assert sorted(files) == [[1, 2], [3]]


@pytest.mark.parametrize("name", ["part_size", "rollover_interval", "inactivity_interval", "part_rows"])
def test_wrong_number_of_a_policy_is_named(name):
    with pytest.raises(ValueError, match=f"^{name} of a rolling policy is 0: give a whole number above 0"):
        RollingPolicy.default_rolling_policy(**{name: 0})


def test_what_is_no_policy_is_refused(tmp_path):
    builder = FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder())
    with pytest.raises(TypeError, match=r"7 is not a RollingPolicy, such as RollingPolicy"):
        builder.with_rolling_policy(7)


@pytest.mark.parametrize("further", ["a", [["a"]], [7]])
def test_forged_list_of_files_is_refused(further):
    with pytest.raises(FileSinkBroken, match="it is not ours"):
        list(parts_of(["name", 1, "/folder", "hidden", further]))
