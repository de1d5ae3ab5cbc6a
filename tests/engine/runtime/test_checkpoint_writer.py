"""What waits for the second thread, and what a dead attempt leaves behind."""

import gc
import threading
import time
import weakref

import pytest

from onceproof.engine import KeyedProcessFunction, StreamExecutionEnvironment, Types
from onceproof.engine.checkpoint.events import CheckpointAborted
from onceproof.engine.protocol_points import ELEMENT
from onceproof.engine.runtime.checkpoint_writer import CheckpointWriter, Work
from onceproof.engine.runtime.job_startup import open_job_storage
from onceproof.engine.runtime.local import LocalExecution
from onceproof.engine.runtime.recovery import recover
from onceproof.engine.runtime.storage import StorageError
from onceproof.engine.task.task import Task
from tests.patience import PATIENCE_SECONDS


def test_withdrawn_work_is_not_done_and_its_data_are_freed():
    begun, gate = threading.Event(), threading.Event()
    reports = []
    writer = CheckpointWriter(reports.append)

    class Data:
        """A snapshot."""

    def hold():
        begun.set()
        gate.wait(PATIENCE_SECONDS)
        return "held"

    data = Data()
    freed = weakref.ref(data)
    writer.submit(Work(1, hold))
    begun.wait(PATIENCE_SECONDS)
    writer.submit(Work(2, lambda data=data: data))
    writer.submit(Work(3, lambda: "third"))
    del data
    assert [work.about for work in writer.withdraw(lambda about: about < 3)] == [2]
    assert freed() is None
    gate.set()
    writer.close()
    assert reports == ["held", "third"]


def test_error_of_work_is_raised_by_its_report():
    reports = []
    writer = CheckpointWriter(reports.append)
    writer.submit(Work(None, lambda: 1 / 0))
    writer.close()
    [report] = reports
    with pytest.raises(ZeroDivisionError):
        report()


class Run(LocalExecution):
    """A run over the job's storage that keeps the most uploads that ever waited."""

    most_waiting = 0

    def __init__(self, graph, probe):
        storage = open_job_storage(graph)
        super().__init__(graph, storage, recover(storage, graph.settings.num_retained), probe)
        self.aborts = []

    def make_writer(self, report):
        self.writer = super().make_writer(report)
        return self.writer

    def checkpoint_aborted(self, effect: CheckpointAborted):
        super().checkpoint_aborted(effect)
        self.aborts.append(effect.reason)
        self.most_waiting = max(self.most_waiting, len(self.writer.waiting))


def test_uploads_of_expired_checkpoints_do_not_queue_up(job, monkeypatch):
    run = None

    def slow_down(point, task, checkpoint_id):
        if point == ELEMENT:
            time.sleep(0.001)

    # Each write takes longer than a checkpoint may, until five have expired.
    def write(storage, path, data, sound=job.storage_class.write):
        if len(run.aborts) < 5:
            time.sleep(0.5)
        sound(storage, path, data)

    monkeypatch.setattr(job.storage_class, "write", write)
    options = {
        "execution__checkpointing__interval": "10 ms",
        "execution__checkpointing__timeout": "200 ms",
        "execution__checkpointing__tolerable_failed_checkpoints": 1000,
        "execution__checkpointing__interval_records": None,
    }
    run = Run(job.graph(2, **options), slow_down)
    run.run()
    assert job.rows() == job.counts
    assert len(run.aborts) >= 5
    assert run.most_waiting <= 4, "two tasks on each side, and one checkpoint under way"


class Tomorrow(KeyedProcessFunction):
    """Sets a timer for tomorrow at each record."""

    def process_element(self, value, ctx):
        now = ctx.timer_service().current_processing_time()
        ctx.timer_service().register_processing_time_timer(now + 86_400_000)
        yield value[0], 1

    def on_timer(self, timestamp, ctx):
        return ()


def test_dead_attempts_are_freed_although_their_timers_are_not_due(job):
    living = []

    def fail(point, task, checkpoint_id):
        if point == ELEMENT:
            fail.passed += 1
            if fail.passed in (50, 100, 150):
                raise RuntimeError(f"boom at {fail.passed}")
            if fail.passed == 160:
                gc.collect()
                living.extend({each.attempt for each in gc.get_objects() if isinstance(each, Task)})

    fail.passed = 0
    env = StreamExecutionEnvironment.get_execution_environment(
        job.configuration(execution__checkpointing__interval_records=10_000)
    )
    keyed = env.from_source(job.source, None, "words").key_by(lambda value: value[0], Types.STRING())
    job.into_files(keyed.process(Tomorrow()).name("tomorrow"))
    Run(env.get_job_graph("timers"), fail).run()
    assert living == ["1.4"]


def test_final_checkpoint_that_fails_is_repeated_with_growing_pauses(job, monkeypatch):
    writes = []

    # The pauses of 10, 20, 40, 80 and 160 ms leave room for six checkpoints in the time in which they fail.
    # On a busy machine the first one may take all of it.
    def write(storage, path, data, sound=job.storage_class.write):
        writes.append(time.monotonic())
        if writes[-1] - writes[0] < 0.3 or len(run.aborts) < 2:
            raise StorageError("no space left")
        sound(storage, path, data)

    monkeypatch.setattr(job.storage_class, "write", write)
    options = {
        "execution__checkpointing__interval": "10 s",
        "execution__checkpointing__tolerable_failed_checkpoints": 1000,
        "execution__checkpointing__interval_records": None,
    }
    run = Run(job.graph(1, **options), lambda point, task, checkpoint_id: None)
    run.run()
    assert job.rows() == job.counts
    assert 2 <= len(run.aborts) <= 6
