"""Write-ahead sinks in cases that the vectors do not cover: rescaling, crashes, the end of the input."""

from __future__ import annotations

import pytest

from onceproof.engine.connectors.two_phase import CommitFailed
from onceproof.engine.connectors.write_ahead import CheckpointCommitter, GenericWriteAheadSink
from onceproof.engine.types import Types


class Died(BaseException):
    """The process dies here."""


class Target(CheckpointCommitter):
    """A target that records batches separately from rows, and can recognise a batch that it has."""

    def __init__(self):
        self.rows = []
        self.known = set()
        self.remembered = set()
        self.answers = []
        """What the next sends come to: True, False or an error."""
        self.dies_before_remembering = False
        self.is_open = 0

    def open(self):
        self.is_open += 1

    def close(self):
        self.is_open -= 1

    def take(self, batch):
        answer = self.answers.pop(0) if self.answers else True
        if isinstance(answer, BaseException):
            raise answer
        if answer and batch.place not in self.known:
            self.known.add(batch.place)
            self.rows += batch.values
        return answer

    def commit_checkpoint(self, subtask_idx, checkpoint_id):
        if self.dies_before_remembering:
            self.dies_before_remembering = False
            raise Died
        self.remembered.add((subtask_idx, checkpoint_id))

    def is_checkpoint_committed(self, subtask_idx, checkpoint_id):
        return (subtask_idx, checkpoint_id) in self.remembered


class WriteAheadSink(GenericWriteAheadSink):
    def __init__(self, target, value_type=None):
        super().__init__(target, value_type)
        self.target = target

    def send_batch(self, batch):
        return self.target.take(batch)


@pytest.fixture
def target():
    return Target()


@pytest.fixture
def job(sink_job, target):
    return sink_job(lambda: WriteAheadSink(target))


def write(job, *values):
    for value in values:
        job.functions[0].invoke(value, None)


def test_nothing_is_sent_before_the_checkpoint_is_complete(job, target):
    job.start()
    write(job, "a", "b")
    job.snapshot(1)
    write(job, "c")
    assert target.rows == []
    job.notify(1)
    assert target.rows == ["a", "b"]


def test_crash_between_sending_and_recording_sends_the_batch_again(job, target):
    job.start()
    write(job, "a")
    job.snapshot(1)
    target.dies_before_remembering = True
    with pytest.raises(Died):
        job.notify(1)
    assert target.remembered == set()
    job.start(restored=1)
    write(job, "b")
    job.snapshot(2)
    job.notify(2)
    assert target.rows == ["a", "b"]
    assert target.remembered == {(0, 1), (0, 2)}


def test_restored_batches_wait_for_the_next_completion(job, target):
    job.start()
    write(job, "a")
    job.snapshot(1)
    job.start(restored=1)
    assert target.rows == []
    job.snapshot(2)
    job.notify(2)
    assert target.rows == ["a"]


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_batches_keep_their_name_in_any_subtask(sink_job, target, parallelism):
    job = sink_job(lambda: WriteAheadSink(target))
    job.start(parallelism=2)
    for subtask, function in enumerate(job.functions):
        function.invoke(f"row of {subtask}", None)
    job.snapshot(1)
    job.functions[0].notify_checkpoint_complete(1)
    assert target.rows == ["row of 0"]
    job.start(parallelism=parallelism, restored=1)
    job.snapshot(2)
    job.notify(2)
    assert sorted(target.rows) == ["row of 0", "row of 1"]


def test_target_that_raises_stops_the_batches_behind(job, target):
    job.start()
    for checkpoint_id in (1, 2):
        write(job, checkpoint_id)
        job.snapshot(checkpoint_id)
    target.answers = [OSError("no answer")]
    job.notify(2)
    assert target.rows == []
    job.notify(2)
    assert target.rows == [1, 2]


@pytest.mark.parametrize("answer", [False, OSError("no answer")])
def test_batch_refused_at_a_stop_fails_the_job_and_the_restore_sends_it(job, target, answer):
    job.start()
    write(job, "a")
    job.functions[0].stop_with(1)
    job.snapshot(1)
    target.answers = [answer]
    with pytest.raises(CommitFailed, match=r"the batch of checkpoint 1.* no other checkpoint follows"):
        job.notify(1)
    job.start(restored=1)
    job.snapshot(2)
    job.notify(2)
    assert target.rows == ["a"]


@pytest.mark.parametrize("answer", [False, OSError("no answer")])
def test_batch_refused_at_the_end_fails_the_job_and_the_restore_sends_it(job, target, answer):
    job.start()
    write(job, "a")
    job.functions[0].finish()
    job.snapshot(1)
    target.answers = [answer]
    with pytest.raises(CommitFailed, match=r"the batch of checkpoint 1.* no other checkpoint follows"):
        job.notify(1)
    job.start(restored=1)
    job.functions[0].finish()
    job.snapshot(2)
    job.notify(2)
    assert target.rows == ["a"]


def test_completion_of_an_older_checkpoint_after_the_end_is_not_the_last(job, target):
    job.start()
    write(job, "a")
    job.snapshot(1)
    job.functions[0].finish()
    target.answers = [False]
    job.notify(1)
    job.snapshot(2)
    job.notify(2)
    assert target.rows == ["a"]


def test_many_values_at_once_and_values_that_are_no_plain_data(sink_job, target):
    job = sink_job(lambda: WriteAheadSink(target, Types.TUPLE([Types.STRING(), Types.LONG()])))
    function = job.start()
    assert function.invoke_batch([("a", 1), ("b", 2)])
    job.snapshot(1)
    job.start(restored=1)
    job.snapshot(2)
    job.notify(2)
    assert target.rows == [("a", 1), ("b", 2)]


def test_tasks_send_nothing_if_the_driver_commits(sink_job, target):
    job = sink_job(lambda: WriteAheadSink(target))
    job.start(settled=True)
    write(job, "a")
    job.snapshot(1)
    job.start(restored=1, settled=True)
    write(job, "b")
    job.snapshot(2)
    assert target.rows == []
    job.settle(1)
    assert target.rows == ["a"]
    job.settle(2)
    assert target.rows == ["a", "b"]
    target.answers = [False]
    job.settle(1)
    assert target.rows == ["a", "b"], "what the target remembers is not sent again"


def test_driver_fails_if_the_target_refuses_a_batch(sink_job, target):
    job = sink_job(lambda: WriteAheadSink(target))
    job.start(settled=True)
    write(job, "a")
    job.snapshot(1)
    target.answers = [False]
    with pytest.raises(CommitFailed):
        job.settle(1)


def test_memory_of_the_target_is_opened_and_closed_once(job, target):
    job.start()
    assert target.is_open == 1
    job.functions[0].close()
    job.functions[0].close()
    assert target.is_open == 0


def test_sink_without_send_values_is_named(sink_job, target):
    class Incomplete(GenericWriteAheadSink):
        pass

    with pytest.raises(NotImplementedError, match="Incomplete must implement send_values"):
        Incomplete(target).send_values([], 1, 0)


class SharedTarget(Target):
    """A target of several sinks, which names a batch by all ids that it gets."""

    def name_of(self, subtask_idx, checkpoint_id):
        return self.job_id, self.operator_id, subtask_idx, checkpoint_id

    def take(self, batch):
        name = batch.job_id, batch.operator_id, *batch.place
        if name not in self.known:
            self.known.add(name)
            self.rows += batch.values
        return True

    def commit_checkpoint(self, subtask_idx, checkpoint_id):
        self.remembered.add(self.name_of(subtask_idx, checkpoint_id))

    def is_checkpoint_committed(self, subtask_idx, checkpoint_id):
        return self.name_of(subtask_idx, checkpoint_id) in self.remembered


def test_two_jobs_and_a_fresh_run_of_one_do_not_collide_in_a_target(sink_job):
    target = SharedTarget()
    for job_id, scope in (("one", ""), ("other", ""), ("other", "a new checkpoint folder")):
        job = sink_job(lambda: WriteAheadSink(target), job_id)
        job.scope = scope
        job.start().invoke(f"{job_id} {scope}", None)
        job.snapshot(1)
        job.notify(1)
    assert target.rows == ["one ", "other ", "other a new checkpoint folder"]


def test_two_jobs_from_one_savepoint_send_its_batches_once(sink_job):
    target = SharedTarget()
    before = sink_job(lambda: WriteAheadSink(target), "before")
    before.start().invoke("pending", None)
    before.snapshot(1)
    for job_id in ("one", "other"):
        heir = sink_job(lambda: WriteAheadSink(target), job_id)
        heir.checkpoints = before.checkpoints
        heir.start(restored=1).invoke(job_id, None)
        heir.snapshot(2)
        heir.notify(2)
    assert target.rows == ["pending", "one", "other"]


def test_batch_of_version_0_2_is_taken_for_one_of_the_sink(sink_job):
    target = SharedTarget()
    job = sink_job(lambda: WriteAheadSink(target), "one")
    sink = job.start()
    batch = sink._restored([1, 0, "1.1", 7, ["a"]])
    assert (batch.place, batch.values, batch.job_id) == ((1, 0), ["a"], "one")
    assert sink._restored(sink._stored(batch)) == batch


def test_committer_knows_its_sink_before_it_is_opened(sink_job):
    class Opened(SharedTarget):
        def open(self):
            self.opened_with = self.job_id, self.operator_id

    target = Opened()
    context = sink_job(lambda: WriteAheadSink(target), "one").start().get_runtime_context()
    assert target.opened_with == ("one", context.get_owner_id())
