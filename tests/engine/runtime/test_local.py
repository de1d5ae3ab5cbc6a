"""The local runtime: whole jobs in this process, their restarts, their checkpoint directory and its damages.

What a real SIGKILL does is tried in tests/harness/systems; here a process dies by an exception that nothing
catches, or goes on.
"""

from __future__ import annotations

import threading
from collections import Counter

import pytest

from engine import (
    Configuration,
    CsvSource,
    Encoder,
    FileSink,
    KeyedProcessFunction,
    StreamExecutionEnvironment,
    Types,
    ValueStateDescriptor,
)
from engine.connectors.collection import CollectionSource
from engine.protocol_points import COMMITTING, COMPLETED, ELEMENT, END_OF_DATA, RESTORING
from engine.runtime.local import JobExecutionFailed, LocalExecution, execute
from engine.runtime.recovery import FINISHED, recover
from engine.runtime.storage import LocalCheckpointStorage, MemoryCheckpointStorage, StorageError
from engine.state.files import DamagedFile

WORDS = [f"w{number % 7}" for number in range(600)]
COUNTS = Counter(f"('w{number % 7}', {number // 7 + 1})" for number in range(600))


class Count(KeyedProcessFunction):
    """A running count."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield value[0], count


class PowerCut(BaseException):
    """What no ``except Exception`` survives."""


class Job:
    """A word count from memory into part files, with a checkpoint directory beside them."""

    def __init__(self, folder):
        self.folder = folder
        self.checkpoints = folder / "checkpoints"
        self.output = folder / "out"
        self.splits = {
            "a": [(word, None) for word in WORDS[::2]],
            "b": [(word, None) for word in WORDS[1::2]],
        }
        self.source = CollectionSource(
            {name: [((word,), time) for word, time in split] for name, split in self.splits.items()}
        )

    def graph(self, parallelism=2, **options):
        settings = {
            "execution.checkpointing.interval-records": 100,
            "execution.checkpointing.dir": str(self.checkpoints),
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": 3,
            "restart-strategy.fixed-delay.delay": 0,
            "pipeline.buffer-records": 10,
        }
        settings.update({key.replace("__", ".").replace("_", "-"): value for key, value in options.items()})
        settings = {key: value for key, value in settings.items() if value is not None}
        env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_mapping(settings))
        env.set_parallelism(parallelism).set_max_parallelism(16)
        counted = env.from_source(self.source, None, "words").key_by(lambda value: value[0], Types.STRING())
        sink = FileSink.for_row_format(str(self.output), Encoder.simple_string_encoder()).build()
        counted.process(Count()).name("count").sink_to(sink).name("sink")
        return env.get_job_graph("words")

    @property
    def directory(self):
        [directory] = self.checkpoints.iterdir()
        return directory

    def rows(self):
        files = [path for path in self.output.iterdir() if not path.name.startswith(".")]
        return Counter(line for path in files for line in path.read_text().splitlines())

    def hidden(self):
        return [path.name for path in self.output.iterdir() if path.name.startswith(".")]

    def left_behind(self):
        """Names of checkpoint files, and of part files that nobody may read."""
        return sorted(path.name for path in self.directory.iterdir()), self.hidden()


@pytest.fixture
def job(tmp_path):
    return Job(tmp_path)


def raising(point, error, occurrence=1):
    """A probe that raises the n-th time that a point is passed."""
    passes = 0

    def probe(passed, task, checkpoint_id):
        nonlocal passes
        if passed == point:
            passes += 1
            if passes == occurrence:
                raise error

    return probe


def stopped(job, point, occurrence=1, **options):
    """Run a job into a power cut."""
    with pytest.raises(PowerCut):
        execute(job.graph(**options), raising(point, PowerCut(), occurrence))


def files_in(directory):
    """Names and contents, but for who came last."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and not path.name.startswith("incarnation-")
    }


def test_a_job_runs_to_its_end_and_leaves_its_rows_and_nothing_else(job):
    result = execute(job.graph())
    assert job.rows() == COUNTS
    assert result.records_read == 600
    assert result.attempts == 1
    assert result.get_job_id() == job.graph().job_id
    assert result.get_net_runtime() >= 0
    assert job.left_behind() == ([FINISHED, "incarnation-1"], [])


def test_a_job_that_has_finished_is_not_run_again(job):
    execute(job.graph())
    before = {path.name for path in job.output.iterdir()}
    result = execute(job.graph(parallelism=3))
    assert result.already_finished
    assert result.records_read == 0
    assert {path.name for path in job.output.iterdir()} == before


def test_a_death_between_the_end_and_the_clearing_up_leaves_nothing_for_ever(job):
    stopped(job, COMPLETED, 3)
    (job.directory / FINISHED).touch()
    assert any(path.name.startswith("chk-") for path in job.directory.iterdir())
    assert execute(job.graph()).already_finished
    assert [path.name for path in job.directory.iterdir() if path.name.startswith("chk-")] == []


def test_a_folder_that_a_dead_process_left_empty_is_removed(job):
    stopped(job, COMMITTING, 5)
    (job.directory / "chk-27").mkdir()
    execute(job.graph())
    assert job.left_behind() == ([FINISHED, "incarnation-2"], [])
    (job.directory / "chk-28").mkdir()
    assert execute(job.graph()).already_finished
    assert job.left_behind() == ([FINISHED, "incarnation-3"], [])


@pytest.mark.parametrize("point", [ELEMENT, COMMITTING, COMPLETED, END_OF_DATA, RESTORING])
def test_a_task_that_fails_costs_one_attempt_and_no_row(job, point):
    if point == COMPLETED:
        # The job master passes it: what fails there is the process.
        stopped(job, point)
        result = execute(job.graph())
        assert result.attempts == 1
    else:
        result = execute(job.graph(), raising(point, RuntimeError("planned"), 3))
        assert result.attempts == 2
    assert job.rows() == COUNTS
    assert job.left_behind()[1] == []


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_another_process_goes_on_from_the_directory_at_any_parallelism(job, parallelism):
    stopped(job, COMPLETED, 3)
    assert job.rows() != COUNTS
    result = execute(job.graph(parallelism=parallelism))
    assert result.records_read < 400
    assert job.rows() == COUNTS
    assert job.left_behind() == ([FINISHED, "incarnation-2"], [])


def test_no_two_processes_share_an_incarnation(job):
    for number in (1, 2, 3):
        stopped(job, RESTORING)
        markers = [path.name for path in job.directory.iterdir() if path.name.startswith("incarnation-")]
        assert markers == [f"incarnation-{number}"]


def test_a_task_that_died_reads_nothing_more(job):
    passes = Counter()

    def probe(point, task, checkpoint_id):
        if point == ELEMENT and task.endswith("-0") and not task.startswith("words"):
            passes[execution.attempts] += 1
            if execution.attempts == 1 and passes[1] == 3:
                raise RuntimeError("planned")

    execution = execution_over(job.graph(), MemoryCheckpointStorage(), probe)
    assert execution.run().attempts == 2
    assert passes[1] == 3


def test_restarts_are_spent_and_then_the_job_fails_with_one_line(job):
    def probe(point, task, checkpoint_id):
        if point == ELEMENT and task.startswith("count"):
            raise RuntimeError("planned\nfor ever")

    with pytest.raises(JobExecutionFailed) as caught:
        execute(job.graph(), probe)
    assert str(caught.value).startswith("job 'words' failed: count")
    assert str(caught.value).endswith("RuntimeError: planned for ever")


def test_without_checkpoints_the_output_is_complete_and_a_failure_the_end(job):
    options = {
        "execution__checkpointing__interval_records": None,
        "execution__checkpointing__dir": None,
        "restart_strategy__type": None,
        "restart_strategy__fixed_delay__attempts": None,
        "restart_strategy__fixed_delay__delay": None,
    }
    with pytest.raises(JobExecutionFailed, match="planned"):
        execute(job.graph(**options), raising(ELEMENT, RuntimeError("planned"), 30))
    assert list(job.output.iterdir()) == []
    result = execute(job.graph(**options))
    assert job.rows() == COUNTS
    assert result.checkpoints == 0


def test_checkpoints_in_memory_survive_a_failed_task(job):
    graph = job.graph(execution__checkpointing__dir=None)
    result = execute(graph, raising(COMMITTING, RuntimeError("planned"), 4))
    assert result.attempts == 2
    assert result.records_read < 1100
    assert job.rows() == COUNTS
    assert not job.checkpoints.exists()


def test_the_last_checkpoint_comes_with_the_end_of_the_data(job):
    result = execute(job.graph(execution__checkpointing__interval_records=1_000_000))
    assert result.checkpoints == 1
    assert job.rows() == COUNTS


def test_between_two_checkpoints_by_records_lie_so_many_records_however_slow_the_storage_is(job):
    class Slow(MemoryCheckpointStorage):
        def write(self, path, data):
            threading.Event().wait(0.005)
            super().write(path, data)

    execution = execution_over(job.graph(), Slow())
    read = []
    trigger = execution.checkpoint_triggered
    execution.checkpoint_triggered = lambda effect: (read.append(execution._records_read()), trigger(effect))
    execution.run()
    # Two sources read a buffer of ten each before they are asked again.
    steps = [after - before for before, after in zip([0, *read], read, strict=False)]
    assert all(100 <= step <= 120 for step in steps[:5]), steps
    assert job.rows() == COUNTS


def test_checkpoints_by_time_are_taken_while_the_job_runs(job):
    options = {"execution__checkpointing__interval_records": None, "execution__checkpointing__interval": 10}

    def probe(point, task, checkpoint_id):
        if point == ELEMENT and task.startswith("words"):
            threading.Event().wait(0.001)

    assert execute(job.graph(**options), probe).checkpoints >= 2
    assert job.rows() == COUNTS


def test_a_malformed_row_ends_the_job_at_once_and_a_mended_one_goes_on(job, tmp_path):
    lines = [f"{word}\n" for word in WORDS]
    lines[450] = "a,b\n"
    path = tmp_path / "words.csv"
    path.write_text("".join(lines))
    job.source = CsvSource(path, [("word", Types.STRING())], header=False, block_bytes=100)
    with pytest.raises(JobExecutionFailed, match=r"words\.csv, line 451: ") as caught:
        execute(job.graph())
    assert "\n" not in str(caught.value)
    committed = job.rows()
    assert sum(committed.values()) >= 300
    assert not committed - COUNTS
    path.write_text("".join(f"{word}\n" for word in WORDS))
    result = execute(job.graph())
    assert result.records_read <= 300
    assert job.rows() == COUNTS


def test_state_of_the_wrong_type_ends_the_job_at_once_and_keeps_the_checkpoints(job, monkeypatch):
    stopped(job, COMMITTING, 5)
    kept = files_in(job.directory)
    monkeypatch.setattr(Count, "process_element", wrong_count)
    with pytest.raises(JobExecutionFailed, match="state 'count'") as caught:
        execute(job.graph())
    assert "\n" not in str(caught.value)
    assert kept.items() <= files_in(job.directory).items()
    monkeypatch.undo()
    execute(job.graph())
    assert job.rows() == COUNTS


def wrong_count(self, value, ctx):
    self.count.update("many")
    yield value[0], 0


def flipped(data):
    return data[:-3] + bytes([data[-3] ^ 1]) + data[-2:]


def truncated(data):
    return data[: len(data) // 2]


def newer(data):
    return data[:8] + b"\0\2" + data[10:]


def foreign(data):
    return b"PK\3\4" + data


@pytest.mark.parametrize(
    ("damage", "said"),
    [(flipped, "damaged"), (truncated, "truncated"), (newer, "newer than 1"), (foreign, "no ")],
)
@pytest.mark.parametrize("kind", ["metadata", "state"])
def test_a_damaged_checkpoint_is_one_clear_line_and_nothing_is_touched(job, kind, damage, said):
    stopped(job, COMMITTING, 5)
    [checkpoint] = [path for path in job.directory.iterdir() if path.name.startswith("chk-")]
    names = sorted(path.name for path in checkpoint.iterdir() if path.name != "_metadata")
    path = checkpoint / ("_metadata" if kind == "metadata" else names[0])
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    before, rows = files_in(job.directory), files_in(job.output)
    expected = DamagedFile if kind == "metadata" else JobExecutionFailed
    with pytest.raises(expected) as caught:
        execute(job.graph())
    line = str(caught.value)
    assert "\n" not in line
    assert str(path) in line
    assert said in line or "overlong: " in line
    assert files_in(job.directory) == before
    assert files_in(job.output) == rows
    path.write_bytes(whole)
    execute(job.graph())
    assert job.rows() == COUNTS


def test_a_state_file_that_is_gone_is_one_clear_line(job):
    stopped(job, COMMITTING, 5)
    [checkpoint] = [path for path in job.directory.iterdir() if path.name.startswith("chk-")]
    path = next(path for path in checkpoint.iterdir() if path.name != "_metadata")
    path.unlink()
    with pytest.raises(JobExecutionFailed, match=rf"{path.name} cannot be read: No such file") as caught:
        execute(job.graph())
    assert "\n" not in str(caught.value)


def test_a_parallelism_beyond_the_key_groups_is_refused_and_the_checkpoint_stays(job):
    stopped(job, COMPLETED, 3)
    before = files_in(job.directory)
    env_graph = job.graph
    with pytest.raises(Exception, match=r"parallelism") as caught:
        execute(env_graph(parallelism=17))
    assert "\n" not in str(caught.value)
    assert files_in(job.directory) == before


# A storage that fails


class FailingStorage(MemoryCheckpointStorage):
    """Refuses writes: those whose number is in ``writes``, publications in ``publications``."""

    def __init__(self, writes=(), publications=()):
        super().__init__()
        self.refused = {"write": writes, "publish": publications}
        self.calls = {"write": 0, "publish": 0}
        self.torn = []
        self.deleted = []

    def write(self, path, data):
        self._maybe_refuse("write", path, data)
        super().write(path, data)

    def publish(self, path, data):
        self._maybe_refuse("publish", path, data)
        super().publish(path, data)

    def delete(self, path):
        if path in self.torn:
            self.deleted.append((path, threading.current_thread().name.startswith("checkpoint-writer")))
        super().delete(path)

    def _maybe_refuse(self, call, path, data):
        self.calls[call] += 1
        if self.calls[call] in self.refused[call]:
            super().write(path, data[: len(data) // 2])
            self.torn.append(path)
            raise StorageError(
                f"checkpoint file {path} cannot be written: No space left on device: free some"
            )


def execution_over(graph, storage, probe=lambda point, task, checkpoint_id: None):
    return LocalExecution(graph, storage, recover(storage, graph.settings.num_retained), probe)


@pytest.mark.parametrize("storage", [FailingStorage(writes={8}), FailingStorage(publications={2})])
@pytest.mark.parametrize("tolerated", [0, 2])
def test_a_write_that_fails_fails_its_checkpoint_and_leaves_nothing(job, storage, tolerated):
    storage.__init__(storage.refused["write"], storage.refused["publish"])
    graph = job.graph(execution__checkpointing__tolerable_failed_checkpoints=tolerated)
    result = execution_over(graph, storage).run()
    # At once, by whoever wrote: the checkpoint may have been given up before, and nobody would ask again.
    assert [(path, True) for path in storage.torn] == storage.deleted[: len(storage.torn)]
    assert result.attempts == (1 if tolerated else 2)
    assert job.rows() == COUNTS
    assert storage.list("") == [FINISHED, "incarnation-1"]
    assert job.hidden() == []


def test_a_full_storage_ends_the_job_with_its_reason_and_the_last_checkpoint_stays(job):
    storage = FailingStorage(writes=range(20, 10_000))
    with pytest.raises(JobExecutionFailed, match="No space left on device") as caught:
        execution_over(job.graph(), storage).run()
    assert "\n" not in str(caught.value)
    storage.refused = {"write": (), "publish": ()}
    result = execution_over(job.graph(), storage).run()
    assert result.records_read < 600
    assert job.rows() == COUNTS
    assert storage.list("") == [FINISHED, "incarnation-2"]


def test_a_snapshot_that_becomes_durable_after_its_task_died_is_deleted(job):
    class Held(MemoryCheckpointStorage):
        """Holds the first snapshot back until the attempt it belongs to is over."""

        held = threading.Event()

        def write(self, path, data):
            if path.endswith("-1.1"):
                self.held.wait(10)
            super().write(path, data)

    storage = Held()
    deaths = raising(ELEMENT, RuntimeError("planned"), 60)

    def probe(point, task, checkpoint_id):
        if point == RESTORING and execution.attempts == 2:
            storage.held.set()
        deaths(point, task, checkpoint_id)

    execution = execution_over(job.graph(execution__checkpointing__interval_records=300), storage, probe)
    assert execution.run().attempts == 2
    assert job.rows() == COUNTS
    assert storage.list("") == [FINISHED, "incarnation-1"]


def test_a_job_that_runs_already_is_refused_and_nothing_is_touched(job):
    stopped(job, COMMITTING, 5)
    before = files_in(job.directory)
    refused = []

    def probe(point, task, checkpoint_id):
        # In the middle of the job, the same job is started once more.
        if point == RESTORING and not refused:
            with pytest.raises(StorageError, match="the job runs in another process") as caught:
                execute(job.graph())
            refused.append(str(caught.value))
            assert files_in(job.directory) == before

    execute(job.graph(), probe)
    assert len(refused) == 1
    assert "\n" not in refused[0]
    assert job.rows() == COUNTS


def test_the_directory_of_another_user_is_one_clear_line(job):
    job.checkpoints.write_text("a file where a folder should be")
    with pytest.raises(StorageError, match=r"checkpoints") as caught:
        execute(job.graph())
    assert "\n" not in str(caught.value)


def test_local_storage_and_memory_leave_the_same_files(job, tmp_path):
    local, memory = LocalCheckpointStorage(tmp_path / "local"), MemoryCheckpointStorage()
    for storage in (local, memory):
        with pytest.raises(PowerCut):
            execution_over(job.graph(), storage, raising(COMPLETED, PowerCut(), 2)).run()
        for path in job.output.iterdir():
            path.unlink()
    assert local.list("") == memory.list("")
