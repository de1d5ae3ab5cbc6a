"""A sink of a writer and a committer, over checkpoints and crashes."""

from __future__ import annotations

import pytest

from onceproof.engine import (
    Committer,
    CommittingSinkWriter,
    Sink,
    SinkWriter,
    StatefulSinkWriter,
    StreamExecutionEnvironment,
    SupportsCommitter,
    SupportsWriterState,
    Types,
)
from onceproof.engine.connectors.committables import CommitGivenUp
from onceproof.engine.protocol_points import COMMITTED, COMMITTING, PRE_COMMITTED


class Outside:
    """An external system with batches by name; committed ones can be read."""

    def __init__(self):
        self.batches = {}
        self.visible = []
        self.calls = []
        self.failing = set()

    def commit(self, name):
        if name not in self.visible:
            self.visible.append(name)

    @property
    def rows(self):
        return [row for name in self.visible for row in self.batches[name]]


class Writer(CommittingSinkWriter):
    def __init__(self, outside, context):
        self.outside = outside
        info = context.get_task_info()
        self.prefix = f"{info.get_index_of_this_subtask()}-{info.get_attempt_id()}"
        self.buffer = []
        self.batches = 0

    def write(self, element, context):
        self.buffer.append(element)

    def flush(self, end_of_input):
        self.outside.calls.append(f"flush {end_of_input}")

    def prepare_commit(self):
        if not self.buffer:
            return []
        self.batches += 1
        name = f"{self.prefix}-{self.batches}"
        self.outside.batches[name] = self.buffer
        self.buffer = []
        return [name]

    def close(self):
        self.outside.calls.append("close writer")


class OutsideCommitter(Committer):
    def __init__(self, outside):
        self.outside = outside

    def commit(self, committables):
        for request in committables:
            name = request.get_committable()
            self.outside.calls.append(f"commit {name}")
            if name in self.outside.failing:
                request.retry_later()
            elif name in self.outside.visible:
                request.signal_already_committed()
            else:
                self.outside.commit(name)

    def close(self):
        self.outside.calls.append("close committer")


class OutsideSink(SupportsCommitter):
    def __init__(self, outside):
        self.outside = outside

    def create_writer(self, context):
        self.outside.calls.append(f"create writer {context.get_restored_checkpoint_id()}")
        return Writer(self.outside, context)

    def create_committer(self, context):
        return OutsideCommitter(self.outside)

    def abort_unknown(self, recovery):
        self.outside.calls.append(f"abort unknown {recovery.restored_checkpoint_id}")


@pytest.fixture
def outside():
    return Outside()


@pytest.fixture
def job(sink_job, outside):
    return sink_job(OutsideSink(outside).create_function)


def write(job, *values):
    for value in values:
        job.functions[0].invoke(value, None)


def test_rows_are_committed_when_the_checkpoint_that_lists_them_is_complete(job, outside):
    job.start()
    write(job, "a")
    job.snapshot(1)
    write(job, "b")
    job.snapshot(2)
    assert outside.rows == []
    job.notify(1)
    assert outside.rows == ["a"]
    job.notify(2)
    assert outside.rows == ["a", "b"]


def test_rows_of_a_checkpoint_that_was_aborted_come_with_the_next_one(job, outside):
    job.start()
    write(job, "a")
    job.snapshot(1)
    write(job, "b")
    job.snapshot(2)
    job.notify(2)
    assert outside.visible == ["0-1.1-1", "0-1.1-2"]
    job.notify(1)
    assert outside.calls.count("commit 0-1.1-1") == 1, "an older notification has nothing left to do"


def test_restore_commits_listed_committables_before_it_aborts_others(job, outside):
    job.start()
    write(job, "a")
    job.snapshot(1)
    write(job, "b")
    outside.calls.clear()
    job.start(restored=1)
    assert outside.calls == ["commit 0-1.1-1", "abort unknown 1", "create writer 1"]
    assert outside.rows == ["a"]


def test_crash_after_the_commit_commits_again_and_finds_that_it_is_done(job, outside):
    job.start()
    write(job, "a")
    job.snapshot(1)
    job.notify(1)
    job.start(restored=1)
    write(job, "b")
    job.snapshot(2)
    job.notify(2)
    assert outside.rows == ["a", "b"]


@pytest.mark.parametrize("parallelism", [1, 3])
def test_each_committable_is_committed_by_one_subtask_at_any_parallelism(job, outside, parallelism):
    job.start(parallelism=2)
    for subtask, function in enumerate(job.functions):
        function.invoke(f"row of {subtask}", None)
    job.snapshot(1)
    outside.calls.clear()
    job.start(parallelism=parallelism, restored=1)
    assert sorted(outside.rows) == ["row of 0", "row of 1"]
    assert sum(call.startswith("commit") for call in outside.calls) == 2


@pytest.mark.parametrize("final", [2, 3])
def test_rows_after_the_last_barrier_commit_once_with_the_final_checkpoint(job, outside, final):
    """The final checkpoint may have any id, because checkpoints in between may have been aborted."""
    job.start()
    write(job, "a")
    job.snapshot(1)
    write(job, "b")
    job.functions[0].finish()
    job.snapshot(final)
    job.notify(1)
    assert outside.rows == ["a"]
    job.notify(final)
    assert outside.rows == ["a", "b"]
    assert outside.calls.count("flush True") == 1
    assert outside.calls.count("flush False") == 1, "the writer is not flushed again after the end"


def test_crash_after_the_final_checkpoint_commits_the_last_rows(job, outside):
    job.start()
    write(job, "a")
    job.functions[0].finish()
    job.snapshot(1)
    job.start(restored=1)
    assert outside.rows == ["a"]


def test_commit_that_is_put_off_too_often_fails_the_task_and_the_restore_does_it(job, outside):
    job.start()
    write(job, "a")
    job.snapshot(1)
    outside.failing.add("0-1.1-1")
    job.functions[0].max_retries = 2
    with pytest.raises(CommitGivenUp):
        job.notify(1)
    assert outside.calls.count("commit 0-1.1-1") == 3
    outside.failing.clear()
    job.start(restored=1)
    assert outside.rows == ["a"]


def test_protocol_points_are_reported_around_commits(job):
    job.start()
    write(job, "a")
    job.snapshot(1)
    job.notify(1)
    assert job.passed == [(PRE_COMMITTED, 1), (COMMITTING, 1), (COMMITTED, 1)]


def test_writer_and_committer_are_closed(job, outside):
    job.start()
    write(job, "a")
    job.snapshot(1)
    job.notify(1)
    outside.calls.clear()
    job.functions[0].close()
    job.functions[0].close()
    assert outside.calls == ["close writer", "close committer"]


def test_task_neither_commits_nor_aborts_if_the_driver_commits(job, outside):
    job.start(settled=True)
    write(job, "a")
    job.snapshot(1)
    outside.calls.clear()
    job.start(restored=1, settled=True)
    assert outside.calls == ["create writer 1"]
    job.snapshot(2)
    job.settle(1)
    assert outside.calls[-3:] == ["commit 0-1.1-1", "close committer", "abort unknown None"]
    assert outside.rows == ["a"]
    outside.calls.clear()
    job.settle(2)
    assert outside.calls == ["abort unknown None"], "the second snapshot does not list it again"


class Numbering(StatefulSinkWriter):
    """A writer whose state is the number of the next row."""

    def __init__(self, rows, number):
        self.rows = rows
        self.number = number

    def write(self, element, context):
        self.rows.append((self.number, element))
        self.number += 1

    def flush(self, end_of_input):
        pass

    def snapshot_state(self, checkpoint_id):
        return [self.number]


class NumberingSink(SupportsWriterState):
    def __init__(self, rows):
        self.rows = rows

    def create_writer(self, context):
        return Numbering(self.rows, 0)

    def restore_writer(self, context, recovered_state):
        return Numbering(self.rows, sum(recovered_state))


def test_writer_without_committer_restores_its_state(sink_job):
    rows = []
    job = sink_job(NumberingSink(rows).create_function)
    job.start()
    write(job, "a", "b")
    job.snapshot(1)
    job.notify(1)
    job.start(restored=1)
    write(job, "c")
    assert rows == [(0, "a"), (1, "b"), (2, "c")]


class Point:
    """A committable that is not plain data."""

    def __init__(self, name):
        self.name = name


class PointType:
    """The part of a type that the sink needs."""

    def encode(self, value):
        return Types.STRING().encode(value.name)

    def decode(self, data):
        return Point(Types.STRING().decode(data))


def test_committables_that_are_no_plain_data_are_stored_by_their_type(sink_job, outside):
    class PointWriter(Writer):
        def prepare_commit(self):
            return [Point(name) for name in super().prepare_commit()]

    class PointCommitter(OutsideCommitter):
        def commit(self, committables):
            for request in committables:
                self.outside.commit(request.get_committable().name)

    class PointSink(OutsideSink):
        committable_type = PointType()

        def create_writer(self, context):
            return PointWriter(self.outside, context)

        def create_committer(self, context):
            return PointCommitter(self.outside)

    job = sink_job(PointSink(outside).create_function)
    job.start()
    write(job, "a")
    job.snapshot(1)
    job.start(restored=1)
    assert outside.rows == ["a"]


def test_sink_that_describes_no_writer_or_no_committer_is_named():
    class Nothing(Sink):
        pass

    with pytest.raises(NotImplementedError, match="Nothing must implement create_writer"):
        Nothing().create_writer(None)
    with pytest.raises(NotImplementedError, match="Nothing must implement restore_writer"):
        Nothing().restore_writer(None, [])
    with pytest.raises(NotImplementedError, match="derive it from SupportsCommitter"):
        Nothing().create_committer(None)


class Collecting(SinkWriter):
    def __init__(self, rows):
        self.rows = rows

    def write(self, element, context):
        self.rows.append((element, context.timestamp()))

    def flush(self, end_of_input):
        self.rows.append(("flush", end_of_input))


class CollectingSink(Sink):
    def __init__(self, rows):
        self.rows = rows

    def create_writer(self, context):
        return Collecting(self.rows)


def test_job_runs_a_writer_without_checkpoints():
    rows = []
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection([1, 2]).sink_to(CollectingSink(rows)).name("out")
    env.execute("numbers")
    assert rows == [(1, None), (2, None), ("flush", True)]


@pytest.mark.parametrize(("retries", "calls"), [(None, 11), (0, 1), (3, 4)])
def test_option_sets_the_number_of_commit_retries(outside, retries, calls):
    env = StreamExecutionEnvironment.get_execution_environment()
    if retries is not None:
        env.get_configuration().set_integer("sink.committer.retries", retries)
    outside.failing.add("0-1.1-1")
    env.from_collection([1]).sink_to(OutsideSink(outside))
    with pytest.raises(Exception, match=f"failed after {calls - 1} retries"):
        env.execute("numbers")
    assert outside.calls.count("commit 0-1.1-1") == calls


def test_job_with_checkpoints_commits_everything_once(outside):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.get_configuration().set_integer("execution.checkpointing.interval-records", 10)
    env.get_configuration().set_integer("pipeline.buffer-records", 3)
    env.from_collection(list(range(100))).sink_to(OutsideSink(outside))
    env.execute("numbers")
    assert outside.rows == list(range(100))
    assert len(outside.visible) > 2
