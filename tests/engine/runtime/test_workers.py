"""Jobs whose tasks run in several processes: modes of barriers, requests of users, errors, refusals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from onceproof.engine import (
    Configuration,
    Encoder,
    FileSink,
    KeyedProcessFunction,
    MapFunction,
    StreamExecutionEnvironment,
    Types,
    ValueStateDescriptor,
)
from onceproof.engine.configuration.option import ConfigurationError
from onceproof.engine.connectors.source import Source, SplitReader
from onceproof.engine.graph import InvalidJob
from onceproof.engine.runtime.job_result import JobCancelled, JobExecutionFailed
from onceproof.engine.runtime.workers import protocol
from onceproof.engine.runtime.workers import worker_coordinator as workers
from onceproof.engine.runtime.workers.protocol import OPTION
from tests.patience import PATIENCE_SECONDS

MODES = {
    "aligned": {},
    "unaligned": {"execution__checkpointing__unaligned__enabled": True},
    "timed": {
        "execution__checkpointing__unaligned__enabled": True,
        "execution__checkpointing__aligned_checkpoint_timeout": "1 ms",
    },
    "counted": {"execution__checkpointing__mode": "AT_LEAST_ONCE"},
}
TWO = {"execution__local__workers": 2}


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_job_in_workers_leaves_every_row_once(job, mode):
    # One of the workers has two of three subtasks.
    result = workers.execute(job.graph(parallelism=3, **mode, **TWO))
    assert job.rows() == job.counts
    assert result.records_read == len(job.words)
    assert result.checkpoints > 1
    assert job.left_behind() == (["finished", "incarnation-1"], [])


def test_job_without_checkpoints_commits_its_output_at_the_end(job):
    without = {"execution__checkpointing__interval_records": None, "execution__checkpointing__dir": None}
    workers.execute(job.graph(**without, **TWO))
    assert job.rows() == job.counts


def test_job_has_no_more_workers_than_subtasks(job, caplog):
    workers.execute(job.graph(parallelism=2, execution__local__workers=5))
    assert "is to have 5 workers and gets 2" in caplog.text
    assert job.rows() == job.counts


# Requests of users, over a source without end.


class Numbers(SplitReader):
    """Numbers without end, a few at a time."""

    exhausted = False
    position = 0

    def __init__(self, position):
        self.position = position or 0

    def read(self, limit):
        begin = self.position
        self.position = begin + limit
        return [(number % 7, None) for number in range(begin, self.position)]


class Endless(Source):
    is_bounded = False

    def splits(self):
        return ["a", "b"]

    def open_split(self, split, position):
        return Numbers(position)


class Count(KeyedProcessFunction):
    """Counts each key, and takes its time."""

    def __init__(self, seconds):
        self.seconds = seconds

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        time.sleep(self.seconds)
        yield value, count


class Endlessly:
    """Endless counts into part files below a folder."""

    def __init__(self, folder):
        self.folder = folder
        self.output = folder / "out"

    def start(self, parallelism=2, number=2, seconds=0.001, function=None, **options):
        settings = {
            "execution.checkpointing.interval": "50 ms",
            "execution.checkpointing.dir": str(self.folder / "checkpoints"),
            "execution.checkpointing.savepoint-dir": str(self.folder / "savepoints"),
            "execution.local.workers": number,
            "restart-strategy.type": "disable",
            **{key.replace("__", ".").replace("_", "-"): value for key, value in options.items()},
        }
        env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_mapping(settings))
        env.set_parallelism(parallelism).set_max_parallelism(16)
        counted = (
            env.from_source(Endless(), None, "numbers")
            .key_by(lambda value: value, Types.LONG())
            .process(function or Count(seconds))
            .name("count")
        )
        counted.sink_to(FileSink.for_row_format(str(self.output), Encoder.csv_encoder()).build())
        return env.execute_async("endless")

    def rows(self):
        files = [path for path in self.output.glob("*") if not path.name.startswith(".")]
        return Counter(line for path in files for line in path.read_text().splitlines())

    def await_rows(self, before=0):
        """Wait for more rows than there were before: tasks run, and a checkpoint is complete."""
        given_up = time.monotonic() + PATIENCE_SECONDS
        while sum(self.rows().values()) <= before:
            assert time.monotonic() < given_up, "the job writes nothing"
            time.sleep(0.01)

    def check_exact(self):
        """Every key was counted from one on, each count once."""
        counts = Counter()
        for row, times in self.rows().items():
            assert times == 1, row
            counts[row.split(",")[0]] += 1
        for key, count in counts.items():
            assert {int(row.split(",")[1]) for row in self.rows() if row.startswith(f"{key},")} == set(
                range(1, count + 1)
            )
        assert len(counts) == 7


@pytest.fixture
def endlessly(tmp_path):
    return Endlessly(tmp_path)


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_stopped_job_goes_on_at_another_parallelism(endlessly, mode):
    for parallelism, number in ((2, 2), (3, 3), (2, 1)):
        before = sum(endlessly.rows().values()) if number != 2 else 0
        client = endlessly.start(parallelism, number, **mode)
        endlessly.await_rows(before)
        path = client.stop_with_savepoint(False).result(PATIENCE_SECONDS)
        assert Path(path, "_metadata").exists()
        result = client.get_job_execution_result().result(PATIENCE_SECONDS)
        assert result.stopped_with == path
        assert result.attempts == 1
    if "execution__checkpointing__mode" not in mode:
        endlessly.check_exact()


def test_barrier_is_there_before_the_place_of_its_savepoint(endlessly, monkeypatch):
    """The third worker has no split, and hears the coordinator late; barriers come from the other workers."""
    send = workers.WorkerHandle.send
    late = ThreadPoolExecutor(1)

    def send_late(handle, message):
        time.sleep(0.2)
        send(handle, message)

    def send_to(handle, message):
        if handle.process.number == 2:
            late.submit(send_late, handle, message)
        else:
            send(handle, message)

    client = endlessly.start(3, 3)
    endlessly.await_rows()
    monkeypatch.setattr(workers.WorkerHandle, "send", send_to)
    client.stop_with_savepoint(False).result(PATIENCE_SECONDS)
    client.get_job_execution_result().result(PATIENCE_SECONDS)
    monkeypatch.undo()
    late.shutdown()
    before = sum(endlessly.rows().values())
    client = endlessly.start()
    endlessly.await_rows(before)
    client.stop_with_savepoint(False).result(PATIENCE_SECONDS)
    client.get_job_execution_result().result(PATIENCE_SECONDS)
    endlessly.check_exact()


def test_drained_job_has_processed_all_it_has_read(endlessly):
    client = endlessly.start()
    endlessly.await_rows()
    client.stop_with_savepoint(True).result(PATIENCE_SECONDS)
    result = client.get_job_execution_result().result(PATIENCE_SECONDS)
    endlessly.check_exact()
    assert sum(endlessly.rows().values()) == result.records_read


def test_savepoint_of_a_slow_job_waits_for_few_records_only(endlessly):
    client = endlessly.start(seconds=0.02)
    endlessly.await_rows()
    begun = time.monotonic()
    client.trigger_savepoint().result(PATIENCE_SECONDS)
    # A full window of each channel and a full queue ahead of it are worth ten minutes.
    assert time.monotonic() - begun < PATIENCE_SECONDS / 2
    client.cancel()
    with pytest.raises(JobCancelled):
        client.get_job_execution_result().result(PATIENCE_SECONDS)


class Stuck(Count):
    """A function that never returns once the test's file is there."""

    def __init__(self, path):
        super().__init__(0.001)
        self.path = path

    def process_element(self, value, ctx):
        yield from super().process_element(value, ctx)
        if os.path.exists(self.path):
            Path(f"{self.path}-{os.getpid()}").touch()
            time.sleep(3600)


def test_worker_that_does_not_end_is_killed(endlessly, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(workers, "SECONDS_TO_END", 0.2)
    client = endlessly.start(function=Stuck(str(tmp_path / "stuck")))
    endlessly.await_rows()
    (tmp_path / "stuck").touch()
    given_up = time.monotonic() + PATIENCE_SECONDS
    while not list(tmp_path.glob("stuck-*")):
        assert time.monotonic() < given_up, "no function is stuck"
        time.sleep(0.01)
    client.cancel().result(PATIENCE_SECONDS)
    with pytest.raises(JobCancelled):
        client.get_job_execution_result().result(PATIENCE_SECONDS)
    assert "it is killed" in caplog.text


# Errors.


def failing(value):
    raise ValueError("not this one")


def test_error_of_a_function_fails_the_job_with_its_task(job):
    def describe(env, parallelism=2):
        env.set_parallelism(parallelism)
        job.into_files(env.from_source(job.source, None, "words").rebalance().map(failing).name("check"))

    job.describe = describe
    with pytest.raises(JobExecutionFailed, match=r"check -> sink-\d: ValueError: not this one"):
        workers.execute(job.graph(**TWO))


class FailingLater(MapFunction):
    """Subtask 0 raises the same in the first five attempts, each time so many ``buffers`` further."""

    def __init__(self, tries, buffers):
        self.tries = tries
        self.buffers = buffers

    def open(self, runtime_context):
        self.fails = runtime_context.get_index_of_this_subtask() == 0
        self.left = 10 * self.buffers * len(list(self.tries.iterdir())) + 1

    def map(self, value):
        self.left -= 1
        tries = len(list(self.tries.iterdir())) if self.fails and not self.left else 5
        if tries < 5:
            (self.tries / str(tries)).touch()
            raise ValueError("no such currency")
        return value


@pytest.fixture
def fail_later(job, tmp_path):
    """Runs a job in two workers that fails so many buffers further each time; notes how often."""

    def run(buffers):
        tries = tmp_path / "tries"
        tries.mkdir()
        # Without checkpoints each attempt begins anew.
        none = {"execution__checkpointing__interval_records": None, "execution__checkpointing__dir": None}
        env = job.environment(restart_strategy__fixed_delay__attempts=20, **none, **TWO)
        job.describe(env, 2, lambda words: words.map(FailingLater(tries, buffers)))
        try:
            workers.execute(env.get_job_graph("words"))
        finally:
            run.tries = len(list(tries.iterdir()))

    return run


def test_equal_errors_at_one_place_in_a_worker_end_the_job(fail_later):
    with pytest.raises(
        JobExecutionFailed, match=r"no such currency \(test_workers\.py, line \d+\): 3 attempts have"
    ):
        fail_later(buffers=0)
    assert fail_later.tries == 3


def test_equal_errors_further_on_each_time_in_a_worker_are_retried(job, fail_later):
    fail_later(buffers=1)
    assert fail_later.tries == 5
    assert job.rows() == job.counts


def test_value_that_no_other_process_can_read_fails_with_the_mend(job):
    def describe(env, parallelism=2):
        env.set_parallelism(parallelism)
        locks = env.from_source(job.source, None, "words").map(lambda word: threading.Lock()).name("locks")
        job.into_files(locks.rebalance().map(str))

    job.describe = describe
    with pytest.raises(JobExecutionFailed, match=r"cannot pass to another process: .* set execution"):
        workers.execute(job.graph(**TWO))


def test_damaged_file_of_a_checkpoint_fails_the_job_by_its_name(endlessly):
    client = endlessly.start()
    endlessly.await_rows()
    client.stop_with_savepoint(False).result(PATIENCE_SECONDS)
    client.get_job_execution_result().result(PATIENCE_SECONDS)
    for path in endlessly.folder.glob("savepoints/*/*"):
        if path.name != "_metadata":
            path.write_bytes(path.read_bytes()[:-1] + b"x")
    client = endlessly.start(
        restart_strategy__type="fixed-delay", restart_strategy__fixed_delay__delay="0 ms"
    )
    with pytest.raises(JobExecutionFailed, match=r"savepoint.*damaged"):
        client.get_job_execution_result().result(PATIENCE_SECONDS)


PROGRAM = """
import os
from onceproof.engine import Encoder, FileSink, StreamExecutionEnvironment, Types

env = StreamExecutionEnvironment.get_execution_environment()
numbers = env.from_collection(list(range(100)), Types.INT()).rebalance()
sink = FileSink.for_row_format("out", Encoder.csv_encoder()).build()
numbers.map(lambda number: (number, os.getpid())).sink_to(sink)
env.execute("numbers")
"""

# Refusals.


def test_checkpoints_in_memory_are_refused(job):
    with pytest.raises(
        InvalidJob, match=r"2 workers are asked for .*, but checkpoints in memory .*: set execution.check"
    ):
        workers.execute(job.graph(execution__checkpointing__dir=None, **TWO))


def test_rows_collected_in_this_process_are_refused():
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_mapping({OPTION: 2}))
    with pytest.raises(InvalidJob, match="collects rows in this process, and sinks run in others: write to"):
        env.from_collection([1, 2]).execute_and_collect()


def test_rocksdb_is_refused_where_its_threads_would_be_lost(job, monkeypatch):
    monkeypatch.setattr(protocol, "has_opened", lambda: True)
    with pytest.raises(InvalidJob, match=r"this process has used rocksdb before, .*: start the job in a"):
        workers.execute(job.graph(state__backend__type="rocksdb", **TWO))


def test_workers_of_the_local_runtime_are_refused_on_spark(job):
    with pytest.raises(ConfigurationError, match=r"'execution.local.workers' is for the local runtime, but"):
        job.graph(execution__target="spark", **TWO)


def test_slots_are_workers_unless_their_number_is_set_or_spark_has_its_own(job):
    slots = {"taskmanager__numberOfTaskSlots": 4}
    assert job.graph(**slots).settings.workers == 4
    assert job.graph(execution__local__workers=1, **slots).settings.workers == 1
    assert job.graph(execution__target="spark", **slots).settings.workers == 1


@pytest.mark.parametrize("option", [["--workers", "2"], ["-D", "taskmanager.numberOfTaskSlots=2"]])
def test_program_is_run_in_workers_from_the_command_line(tmp_path, option):
    program = tmp_path / "program.py"
    # A worker that is collected before its process ends warns of its sockets.
    strict = "import gc, warnings; warnings.simplefilter('error'); gc.set_threshold(1, 1, 1)"
    program.write_text(f"{strict}\n{PROGRAM}")
    main = "from onceproof.harness.commands.cli import main; main()"
    command = [sys.executable, "-c", main, "job", "run", str(program)]
    ran = subprocess.run(
        [*command, *option, "-p", "2"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert "ResourceWarning" not in ran.stderr
    parts = [path.read_text() for path in tmp_path.glob("out/part*")]
    processes = [line.split(",") for part in parts for line in part.splitlines()]
    assert sorted(int(number) for number, _ in processes) == list(range(100))
    assert len({process for _, process in processes}) == 2


def test_too_many_workers_are_refused():
    with pytest.raises(ValueError, match=r"execution.local.workers.*at most 64"):
        Configuration.from_mapping({OPTION: 65})


# Ctrl-C.


@pytest.mark.parametrize(("record_seconds", "times"), [("0.02", 1), ("3", 2)])
def test_interrupt_ends_the_program_and_its_workers(tmp_path, record_seconds, times):
    program = Path(__file__).with_name("interrupted_job.py")
    process = subprocess.Popen(
        [sys.executable, str(program), str(tmp_path), record_seconds, "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stdout.readline().startswith("working")
    for _ in range(times):
        os.killpg(process.pid, signal.SIGINT)
        time.sleep(0.2)
    # The pipes close when the last process that holds them has ended.
    _, said = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == -signal.SIGINT
    assert "is interrupted: its tasks close, and its checkpoints stay" in said
