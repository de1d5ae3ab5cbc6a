"""Sources without end: the task waits without spinning, is woken, and the job ends by a request."""

import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from onceproof.engine import Configuration, SinkFunction, StreamExecutionEnvironment, Types
from onceproof.engine.connectors.source import ForwardingReader, Source, SplitReader
from onceproof.engine.runtime.job_registry import SUSPENDED, JobRegistry
from tests.patience import PATIENCE_SECONDS

NEVER_MS = 3_600_000


class Feed:
    """What the test has given to a split so far; readers look at it and leave it."""

    def __init__(self):
        self.values = []
        self.reads = 0
        self.wake_ups = []

    def give(self, *values):
        self.values.extend(values)

    def wake(self):
        for wake_up in list(self.wake_ups):
            wake_up()


FEEDS = {}
"""By split; not part of the source, because each subtask has a copy of that."""


class FeedReader(SplitReader):
    """Reads what the feed has, and waits for more."""

    position = 0
    exhausted = False

    def __init__(self, split, position, retry_ms):
        self.feed = FEEDS[split]
        self.position = position
        self._retry_ms = retry_ms

    def read(self, limit):
        self.feed.reads += 1
        values = self.feed.values[self.position : self.position + limit]
        self.position += len(values)
        return [(value, None) for value in values]

    @property
    def retry_ms(self):
        return self._retry_ms

    def when_available(self, wake_up):
        self.feed.wake_ups.append(wake_up)


class FeedSource(Source):
    """Splits that the test feeds."""

    is_bounded = False

    def __init__(self, splits, retry_ms):
        self._splits = splits
        self._retry_ms = retry_ms

    def splits(self):
        return self._splits

    def open_split(self, split, position):
        return AroundAnother(FeedReader(split, position or 0, self._retry_ms))


class AroundAnother(ForwardingReader):
    """A reader around another one, as users write them."""

    def read(self, limit):
        return self._reader.read(limit)


ROWS = []
CLIENTS = []


class Collect(SinkFunction):
    """Appends to a list of the test."""

    def invoke(self, value, context):
        ROWS.append(value)


@pytest.fixture
def feeds():
    FEEDS.clear()
    ROWS.clear()
    FEEDS.update({"a": Feed(), "b": Feed()})
    CLIENTS.clear()
    yield FEEDS
    # The job of a test that has failed must not run on beside the next test.
    for client in CLIENTS:
        if not client.get_job_status().result().is_globally_terminal_state():
            client.cancel().result(PATIENCE_SECONDS)
    CLIENTS.clear()


def started(tmp_path, splits=("a", "b"), retry_ms=10, **options):
    settings = {
        "execution.checkpointing.interval": "20 ms",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "pipeline.max-parallelism": 16,
        **{key.replace("__", ".").replace("_", "-"): value for key, value in options.items()},
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_mapping(settings))
    env.set_parallelism(2)
    stream = env.from_source(FeedSource(splits, retry_ms), None, "feed")
    stream.key_by(lambda value: value % 3, Types.LONG()).map(lambda value: value).add_sink(Collect())
    CLIENTS.append(env.execute_async("fed"))
    return CLIENTS[-1]


def wait_for(condition):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.005)


def latest_checkpoint(tmp_path):
    complete = (tmp_path / "checkpoints").glob("*/chk-*/_metadata")
    return max((int(path.parent.name.removeprefix("chk-")) for path in complete), default=0)


def test_records_that_come_later_are_read(feeds, tmp_path):
    client = started(tmp_path)
    for begin in range(0, 40, 10):
        feeds["a"].give(*range(begin, begin + 5))
        feeds["b"].give(*range(begin + 5, begin + 10))
        wait_for(lambda end=begin + 10: sorted(ROWS) == list(range(end)))
    client.cancel().result(PATIENCE_SECONDS)


def test_source_with_nothing_to_read_is_not_asked_all_the_time(feeds, tmp_path):
    client = started(tmp_path, retry_ms=50)
    wait_for(lambda: feeds["a"].reads and feeds["b"].reads)
    begun, before = time.monotonic(), feeds["a"].reads
    time.sleep(0.5)
    assert feeds["a"].reads - before <= 2 + (time.monotonic() - begun) * 1000 / 50
    client.cancel().result(PATIENCE_SECONDS)


def test_source_is_woken_from_another_thread(feeds, tmp_path):
    client = started(tmp_path, retry_ms=NEVER_MS)
    wait_for(lambda: feeds["a"].reads and feeds["b"].reads)
    feeds["a"].give(1, 2, 3)
    time.sleep(0.1)
    assert ROWS == []
    thread = threading.Thread(target=feeds["a"].wake)
    thread.start()
    thread.join()
    wait_for(lambda: sorted(ROWS) == [1, 2, 3])
    client.cancel().result(PATIENCE_SECONDS)


def test_checkpoints_complete_while_there_is_nothing_to_read(feeds, tmp_path):
    client = started(tmp_path, retry_ms=NEVER_MS)
    wait_for(lambda: latest_checkpoint(tmp_path) > 3)
    feeds["a"].give(1)
    client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result(PATIENCE_SECONDS)
    result = client.get_job_execution_result().result(PATIENCE_SECONDS)
    assert result.checkpoints > 3
    assert ROWS == []


def test_stopped_job_goes_on_where_it_was_stopped(feeds, tmp_path):
    client = started(tmp_path)
    feeds["a"].give(*range(10))
    wait_for(lambda: len(ROWS) == 10)
    client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result(PATIENCE_SECONDS)
    client.get_job_execution_result().result(PATIENCE_SECONDS)
    feeds["a"].give(*range(10, 20))
    feeds["b"].give(*range(20, 30))
    client = started(tmp_path)
    wait_for(lambda: len(ROWS) == 30)
    client.cancel().result(PATIENCE_SECONDS)
    assert Counter(ROWS) == Counter(range(30))


def test_drained_job_ends_although_its_source_does_not(feeds, tmp_path):
    client = started(tmp_path)
    feeds["b"].give(*range(10))
    wait_for(lambda: len(ROWS) == 10)
    client.stop_with_savepoint(True, str(tmp_path / "savepoints")).result(PATIENCE_SECONDS)
    assert client.get_job_execution_result().result(PATIENCE_SECONDS).stopped_with


def interrupted(folder, record_seconds, times):
    """Run the job, press Ctrl-C ``times`` times once it works; return its exit code and what it says."""
    program = Path(__file__).with_name("interrupted_job.py")
    process = subprocess.Popen(
        [sys.executable, str(program), str(folder), record_seconds],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stdout.readline() == "working\n"
    for number in range(times):
        if number:
            # A signal that comes before the process has seen the last one is lost.
            time.sleep(2)
        process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=PATIENCE_SECONDS)
    return process.returncode, said


def test_interrupt_ends_the_job_between_two_steps_and_keeps_its_checkpoints(tmp_path):
    code, said = interrupted(tmp_path, "0.02", 1)
    assert code == -signal.SIGINT
    assert "job 'endless' is interrupted: its tasks close, and its checkpoints stay" in said
    assert "in slowly" not in said
    [job] = JobRegistry(str(tmp_path / "checkpoints")).jobs()
    assert job.state == SUSPENDED


def test_second_interrupt_ends_the_program_within_a_record(tmp_path):
    code, said = interrupted(tmp_path, "30", 2)
    assert code == -signal.SIGINT
    assert "in slowly" in said
