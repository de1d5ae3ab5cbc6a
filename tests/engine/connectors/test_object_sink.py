"""The file sink at s3://, against a real server: what readers see, and what a commit finds."""

from __future__ import annotations

import io

import pytest

from onceproof.engine.api.data_types import DataTypes
from onceproof.engine.connectors.buckets import BucketAssigner
from onceproof.engine.connectors.encoders import Encoder
from onceproof.engine.connectors.file_sink import FileSink
from onceproof.engine.connectors.object_sink_function import ObjectSinkFunction
from onceproof.engine.connectors.part_files import FileSinkBroken, FileSinkFailed, OutputFileConfig, parts_of
from onceproof.engine.connectors.part_objects import PART_BYTES, WrongAddress, mark_of_object
from onceproof.engine.connectors.rolling import RollingPolicy
from onceproof.engine.connectors.s3_calls import S3Calls, s3_calls
from onceproof.engine.formats.parquet_files import ParquetBulkWriters
from tests.engine.connectors.object_reader import ObjectReader


@pytest.fixture
def reader(object_store, request):
    """Another client of the store, which reads below a place that only this test has."""
    return ObjectReader(object_store, f"sink/{request.node.name[:60]}".replace("[", "-").replace("]", ""))


@pytest.fixture
def new_job(sink_job, reader):
    """Makes a job with a file sink at that place."""

    def make(job_id="orders", suffix="", path="", **settings):
        builder = FileSink.for_row_format(f"{reader.address}{path}", Encoder.simple_string_encoder())
        for name, value in settings.items():
            builder = getattr(builder, f"with_{name}")(value)
        return sink_job(
            builder.with_output_file_config(OutputFileConfig("part", suffix)).build().create_function, job_id
        )

    return make


def prepare(job, *values, checkpoint_id=1):
    """Start a job that pre-commits values and dies before it commits them; return the transaction."""
    job.start(attempt="1.77").invoke_batch(list(values))
    job.snapshot(checkpoint_id)
    [transaction] = job.functions[0].pending_transactions()
    job.functions.clear()
    return transaction


def test_object_that_a_consumer_has_removed_is_committed_and_not_lost(new_job, reader):
    job = new_job(consumed_objects=True)
    prepare(job, "pending")
    job.start(restored=1)
    [name] = [name for name in reader.objects() if not name.startswith(".")]
    assert [each for each in reader.objects() if each != name] == [f".committed/{name}"]
    reader.delete(name)
    for _ in range(2):
        job.start(restored=1)
    assert [each for each in reader.objects() if not each.startswith(".")] == []


def test_upload_aborted_before_its_commit_is_lost_though_objects_are_consumed(new_job, reader):
    job = new_job(consumed_objects=True)
    prepare(job, "pending")
    reader.abort_uploads()
    for _ in range(2):
        with pytest.raises(FileSinkBroken, match=r"is lost: .* with_consumed_objects"):
            job.start(restored=1)


def test_upload_of_a_note_that_a_failure_has_left_is_dropped_at_the_next_start(new_job, reader, monkeypatch):
    job = new_job(consumed_objects=True)
    prepare(job, "pending")

    def fail(*request):
        raise ConnectionResetError(104, "no answer")

    with monkeypatch.context() as patch:
        patch.setattr(S3Calls, "put_part", fail)
        with pytest.raises(FileSinkFailed, match="no answer"):
            job.start(attempt="1.78", restored=1)
    assert sorted(key.startswith(".committed/") for key, _ in reader.uploads()) == [False, True]
    job.start(attempt="1.79", restored=1)
    assert reader.uploads() == []
    assert reader.rows() == ["committed", "pending"]


def test_rows_are_stored_while_written_and_visible_only_after_the_commit(new_job, reader):
    job = new_job(suffix=".txt")
    sink = job.start()
    sink.invoke_batch(["x" * PART_BYTES])
    sink.invoke_batch(["y"])
    assert reader.objects() == []
    [(_, parts)] = reader.uploads()
    assert parts == [PART_BYTES + 1]
    job.snapshot(1)
    [(_, parts)] = reader.uploads()
    assert parts == [PART_BYTES + 1, 2]
    assert reader.objects() == []
    job.notify(1)
    [name] = reader.objects()
    assert mark_of_object(name).owner == sink.owner
    assert name.endswith("-0-0-1.1-0.txt")
    assert reader.rows() == ["x" * PART_BYTES, "y"]
    assert reader.uploads() == []


def test_commit_is_repeated_by_another_process_without_an_effect(new_job, reader):
    job = new_job()
    prepare(job, "row")
    for _ in range(3):
        job.start(restored=1)
    assert reader.rows() == ["row"]
    assert reader.uploads() == []


def test_rows_of_an_upload_that_was_aborted_are_named_as_lost(new_job, reader):
    job = new_job()
    transaction = prepare(job, "row")
    reader.abort_uploads()
    with pytest.raises(FileSinkBroken, match=rf"{transaction[0]} is lost: .*lists it with 4 byte"):
        job.start(restored=1)


def test_object_that_is_gone_after_its_commit_is_named_as_lost(new_job, reader):
    job = new_job()
    transaction = prepare(job, "row")
    job.start(restored=1)
    reader.delete(transaction[0])
    with pytest.raises(FileSinkBroken, match="is lost: neither the object"):
        job.start(restored=1)


def test_other_object_under_the_name_is_not_overwritten(new_job, reader):
    job = new_job()
    transaction = prepare(job, "row")
    reader.put(transaction[0], b"of another writer")
    with pytest.raises(FileSinkBroken, match=r"exists already, but is not what transaction .* wrote"):
        job.start(restored=1)
    assert reader.rows() == ["of another writer"]


def test_answer_of_a_commit_that_is_lost_does_no_harm(new_job, reader, monkeypatch):
    job = new_job()
    prepare(job, "row")
    calls = type(s3_calls("any"))
    complete = calls.complete_upload

    def lost(self, key, upload_id, tags):
        complete(self, key, upload_id, tags)
        raise OSError(5, "the connection was reset")

    monkeypatch.setattr(calls, "complete_upload", lost)
    job.start(restored=1)
    assert reader.rows() == ["row"]


def test_uploads_of_dead_attempts_are_dropped_and_those_of_other_jobs_stay(new_job, reader):
    job, other = new_job("orders"), new_job("others")
    other.start(attempt="1.9").invoke_batch(["open"])
    job.start(parallelism=2)
    for function in job.functions:
        function.invoke_batch(["lost with its attempt"])
    assert len(reader.uploads()) == 3
    job.start(parallelism=1)
    [(name, _)] = reader.uploads()
    assert mark_of_object(name).owner == other.functions[0].owner
    other.snapshot(1)
    other.notify(1)
    assert reader.rows() == ["open"]


def test_uploads_of_a_later_process_stay(new_job, reader):
    late, job = new_job("orders"), new_job("orders")
    job.start(attempt="2.1").invoke_batch(["row"])
    late.start(attempt="1.5")
    job.snapshot(1)
    job.notify(1)
    assert reader.rows() == ["row"]


def test_closed_attempt_leaves_no_upload(new_job, reader):
    sink = new_job().start()
    sink.invoke_batch(["row"])
    sink.close()
    assert reader.uploads() == []


def test_size_and_age_and_buckets_give_several_objects_of_one_transaction(new_job, reader):
    job = new_job(
        rolling_policy=RollingPolicy.default_rolling_policy(10, 1_000, 500),
        bucket_assigner=ByFirstLetter(),
        bucket_check_interval=1,
    )
    sink = job.start()
    for now_ms, value in ((0, "a1-long-enough"), (1, "a2"), (2, "b1"), (600, "b2"), (601, "c")):
        job.now_ms = now_ms
        sink.invoke(value, None)
    assert reader.objects() == []
    job.snapshot(1)
    [transaction] = sink.pending_transactions()
    job.notify(1)
    assert sorted(len(reader.rows(name)) for name in reader.objects()) == [1, 1, 1, 1, 1]
    assert sorted(name.partition("/")[0] for name in reader.objects()) == ["a", "a", "b", "b", "c"]
    assert len(list(parts_of(transaction))) == 6
    job.start(restored=1)
    assert len(reader.objects()) == 5


class ByFirstLetter(BucketAssigner):
    """Puts rows into the bucket of their first letter."""

    def get_bucket_id(self, element, context):
        return element[0]


def test_transaction_without_bytes_leaves_neither_object_nor_upload(new_job, reader):
    job = new_job()
    job.start()
    job.snapshot(1)
    job.notify(1)
    sink = job.start(restored=1)
    sink._write(sink.current_transaction(), "", [])
    job.snapshot(2)
    job.notify(2)
    assert reader.objects() == reader.uploads() == []


def test_parquet_file_is_whole_when_it_becomes_visible(sink_job, reader):
    pyarrow_parquet = pytest.importorskip("pyarrow.parquet", reason="the extra parquet is not installed")
    columns = [DataTypes.FIELD("shop", DataTypes.STRING()), DataTypes.FIELD("cents", DataTypes.BIGINT())]
    writers = ParquetBulkWriters.for_row_type(DataTypes.ROW(columns))
    job = sink_job(FileSink.for_bulk_format(reader.address, writers).build().create_function)
    job.start().invoke_batch([("north", 1), ("south", 2)])
    job.snapshot(1)
    assert reader.objects() == []
    job.start(restored=1)
    [name] = reader.objects()
    table = pyarrow_parquet.read_table(io.BytesIO(reader.content(name)))
    assert table.to_pylist() == [{"shop": "north", "cents": 1}, {"shop": "south", "cents": 2}]


def test_job_that_writes_elsewhere_commits_where_the_rows_were_prepared(new_job, reader):
    job, heir = new_job(), new_job(path="/elsewhere")
    prepare(job, "pending")
    heir.checkpoints = job.checkpoints
    heir.start(restored=1).invoke("new", None)
    heir.snapshot(2)
    heir.notify(2)
    assert sorted(name.rpartition("/")[0] for name in reader.objects()) == ["", "elsewhere"]
    assert reader.rows() == ["new", "pending"]


def test_job_that_goes_from_a_folder_to_a_store_or_back_is_refused(new_job, sink_job, tmp_path):
    stored = new_job()
    folder = sink_job(
        FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder()).build().create_function
    )
    for before, after in ((stored, folder), (folder, stored)):
        prepare(before, "row")
        after.checkpoints = before.checkpoints
        with pytest.raises(FileSinkBroken, match=r"transaction .* waits (at|in) .* with a *savepoint"):
            after.start(restored=1)


FORGED = {
    "no mark": ["part", 4, "s3://b/a", ["u", "t", ["e"]]],
    "a way out of the folder": ["../part-0123456789abcdef-0-0-1.1-0", 4, "s3://b/a", ["u", "t", ["e"]]],
    "a length that is not a number": ["part-0123456789abcdef-0-0-1.1-0", "4", "s3://b/a", ["u", "t", ["e"]]],
    "an upload that is no list": ["part-0123456789abcdef-0-0-1.1-0", 4, "s3://b/a", "u"],
    "tags that are no text": ["part-0123456789abcdef-0-0-1.1-0", 4, "s3://b/a", ["u", "t", [1]]],
}


@pytest.mark.parametrize("transaction", FORGED.values(), ids=FORGED.keys())
def test_forged_transaction_of_a_store_is_refused(transaction, new_job):
    sink = new_job().create_function()
    for method in (sink.commit, sink.abort):
        with pytest.raises(FileSinkBroken, match=r"checkpoint .*is not ours"):
            method(transaction)


@pytest.mark.parametrize("text", ["gs://bucket/a", "s3://", "s3:///a", "s3://bucket/a//b"])
def test_address_that_the_sink_cannot_write_to_is_refused_at_once(text):
    with pytest.raises(WrongAddress) as caught:
        FileSink.for_row_format(text, Encoder.simple_string_encoder())
    assert "\n" not in str(caught.value)


def test_affix_that_looks_like_a_mark_is_refused():
    builder = FileSink.for_row_format("s3://bucket/a", Encoder.simple_string_encoder())
    builder.with_output_file_config(OutputFileConfig("part", "-0123456789abcdef-0-0-1.1-0"))
    with pytest.raises(WrongAddress, match="looks like the mark of a sink"):
        builder.build()


def test_missing_bucket_and_wrong_key_are_one_line_that_a_restart_retries(
    sink_job, object_store, reader, monkeypatch
):
    builder = FileSink.for_row_format("s3://absent/words", Encoder.simple_string_encoder())
    with pytest.raises(FileSinkFailed, match=r"s3://absent/words .*bucket does not exist: check") as caught:
        sink_job(builder.build().create_function).start()
    assert not isinstance(caught.value, FileSinkBroken)
    with reader.other_keys_refused(monkeypatch):
        builder = FileSink.for_row_format(reader.address, Encoder.simple_string_encoder())
        with pytest.raises(FileSinkFailed, match=r"cannot be used: .*([Kk]ey|signature).*: check") as caught:
            sink_job(builder.build().create_function).start()
        assert "\n" not in str(caught.value)


def test_store_that_is_down_fails_the_commit_and_the_next_attempt_commits(new_job, reader, monkeypatch):
    job = new_job()
    prepare(job, "row")
    with reader.nothing_listening(monkeypatch), pytest.raises(FileSinkFailed, match=r"Could not connect"):
        job.start(restored=1)
    assert reader.rows() == []
    job.start(restored=1)
    assert reader.rows() == ["row"]


def test_sink_at_an_address_is_the_one_of_stores():
    sink = FileSink.for_row_format("s3://bucket/a/", Encoder.simple_string_encoder()).build()
    assert isinstance(sink.create_function(), ObjectSinkFunction)
    assert sink.base_path == "s3://bucket/a"
