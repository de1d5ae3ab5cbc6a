"""Jobs over files, folders, sockets and sequences: exact rows through failures, kills and rescaling."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from onceproof.engine import (
    DataGeneratorSource,
    Duration,
    FileSource,
    InvalidJob,
    NumberSequenceSource,
    RateLimiterStrategy,
    StreamFormat,
    TimestampAssigner,
    TumblingEventTimeWindows,
    Types,
    WatermarkStrategy,
)
from onceproof.engine.protocol_points import ELEMENT, SNAPSHOTTED
from onceproof.engine.runtime.job_result import JobExecutionFailed
from onceproof.engine.runtime.local import execute
from tests.patience import PATIENCE_SECONDS

PROGRAM = Path(__file__).with_name("folder_job.py")


def wait_for(job, rows):
    """Wait until the job has made so many rows visible."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while sum(job.rows().values()) != rows:
        assert time.monotonic() < deadline, job.rows()
        time.sleep(0.01)


def numbers(job, tmp_path):
    return NumberSequenceSource(0, 599), lambda number: (f"w{number % 7}",)


def generated(job, tmp_path):
    rate = RateLimiterStrategy.per_second(5000)
    return DataGeneratorSource(lambda number: (f"w{number % 7}",), 600, rate), None


def files(job, tmp_path):
    folder = tmp_path / "in"
    for place in range(10):
        (folder / f"{place % 2}").mkdir(parents=True, exist_ok=True)
        (folder / f"{place % 2}" / f"{place}.txt").write_text("\n".join(job.words[place::10]) + "\n")
    text = StreamFormat.text_line_format()
    return FileSource.for_record_stream_format(text, str(folder)).build(), lambda line: (line,)


@pytest.mark.parametrize("make", [numbers, generated, files])
@pytest.mark.parametrize(("first", "second", "third"), [(1, 3, 2), (3, 1, 4)])
def test_bounded_source_is_read_once_through_failures_and_rescaling(
    job, tmp_path, make, first, second, third
):
    job.source, change = make(job, tmp_path)
    if change is not None:
        job.describe = partial(job.describe, before=lambda stream: stream.map(change))
    for parallelism in (first, second):
        with pytest.raises(job.power_cut):
            execute(job.graph(parallelism), job.raising(SNAPSHOTTED, job.power_cut(), 3 * parallelism))
    assert sum(job.rows().values()) < 600
    result = execute(job.graph(third), job.raising(ELEMENT, RuntimeError("boom"), 7))
    assert result.restarts == 1
    assert job.rows() == job.counts


@pytest.mark.local_kill
def test_files_of_a_monitored_folder_are_read_once_under_kills(tmp_path):
    kills = 8
    finished = subprocess.run(
        [sys.executable, str(PROGRAM), str(tmp_path), str(kills), "5"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
        cwd=Path(__file__).parents[3],
    )
    assert finished.returncode == 0, finished.stderr
    report = json.loads(finished.stdout)
    assert sum(map(bool, report["rows"])) >= kills // 4, "too few kills struck a job that had written"
    words = Counter(
        line.split()[0] for path in (tmp_path / "in").rglob("*.txt") for line in path.read_text().splitlines()
    )
    expected = Counter(f"{word},{n}" for word, count in words.items() for n in range(1, count + 1))
    rows = Counter(
        line for path in (tmp_path / "rows").glob("part-*") for line in path.read_text().splitlines()
    )
    assert rows == expected
    assert sum(rows.values()) == report["files"] * 60


def test_monitored_folder_goes_on_from_a_savepoint_at_another_parallelism(job, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    job.output.mkdir()
    words = iter(job.words)
    text = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(folder))
    job.source = text.monitor_continuously(Duration.of_millis(10)).build()

    def move_in(name, count):
        (folder / f"_{name}").write_text("".join(f"{next(words)}\n" for _ in range(count)))
        (folder / f"_{name}").rename(folder / name)

    savepoint = None
    for part, parallelism in enumerate((2, 4, 1)):
        env = job.environment(
            execution__checkpointing__interval="20 ms", execution__state_recovery__path=savepoint
        )
        job.describe(env, parallelism, before=lambda lines: lines.map(lambda line: (line,)))
        client = env.execute_async("words")
        for number in range(4):
            move_in(f"{part}-{number}", 50)
            wait_for(job, 200 * part + 50 * (number + 1))
        savepoint = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result(PATIENCE_SECONDS)
        client.get_job_execution_result().result(PATIENCE_SECONDS)
    assert job.rows() == job.counts


class SecondField(TimestampAssigner):
    """The timestamp is the number behind the word."""

    def extract_timestamp(self, value, record_timestamp):
        return int(value.split()[1])


def test_bucket_without_files_does_not_hold_back_event_time_once_it_is_idle(job, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    job.output.mkdir()
    (folder / "a").write_text("w 1\nw 2\nw 11\nw 25\n")
    text = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(folder))
    source = text.monitor_continuously(Duration.of_millis(20)).build()
    in_order = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
    env = job.environment(execution__checkpointing__interval="20 ms", parallelism__default=2)
    lines = env.from_source(source, in_order.with_idleness(Duration.of_millis(100)), "lines")
    counts = lines.map(lambda line: (line.split()[0], 1)).key_by(lambda pair: pair[0], Types.STRING())
    windows = counts.window(TumblingEventTimeWindows.of(Duration.of_millis(10)))
    job.into_files(windows.reduce(lambda a, b: (a[0], a[1] + b[1])))
    client = env.execute_async("words")
    wait_for(job, 2)
    assert job.rows() == {"('w', 2)": 1, "('w', 1)": 1}
    client.stop_with_savepoint(True, str(tmp_path / "savepoints")).result(PATIENCE_SECONDS)
    client.get_job_execution_result().result(PATIENCE_SECONDS)
    assert job.rows() == {"('w', 2)": 1, "('w', 1)": 2}


def test_sources_go_on_where_checkpoints_take_longer_than_their_interval(job, monkeypatch):
    sound = job.storage_class.write

    def slow(storage, path, data):
        time.sleep(0.03)
        sound(storage, path, data)

    monkeypatch.setattr(job.storage_class, "write", slow)
    env = job.environment(execution__checkpointing__interval="10 ms")
    job.describe(env, 1)
    client = env.execute_async("words")
    try:
        client.get_job_execution_result().result(PATIENCE_SECONDS)
    finally:
        client.cancel()
    assert job.rows() == job.counts


class FailsOnce:
    """Raises at a value, the first time that it comes."""

    failed = False

    def __init__(self, value):
        self.value = value

    def __call__(self, value):
        if value == self.value and not FailsOnce.failed:
            FailsOnce.failed = True
            raise RuntimeError("boom")
        return (value,)


def test_failure_loses_what_a_socket_sent_since_the_checkpoint_and_repeats_none(
    job, tmp_path, monkeypatch, caplog
):
    monkeypatch.setattr(FailsOnce, "failed", False)
    listening = socket.create_server(("127.0.0.1", 0))
    before = [f"a{number}" for number in range(20)]
    behind = [f"b{number}" for number in range(20)]

    def serve():
        connection, _ = listening.accept()
        with connection:
            connection.sendall("".join(f"{word}\n" for word in before).encode())
            wait_for(job, 20)
            connection.sendall(b"lost\nfatal\n")
            connection, _ = listening.accept()
        with connection:
            connection.sendall("".join(f"{word}\n" for word in behind).encode())

    serving = threading.Thread(target=serve, daemon=True)
    serving.start()
    env = job.environment(execution__checkpointing__interval="20 ms")
    words = env.socket_text_stream("127.0.0.1", listening.getsockname()[1]).map(FailsOnce("fatal"))
    job.into_files(words.map(lambda value: value[0]))
    job.output.mkdir()
    result = env.execute("words")
    serving.join(PATIENCE_SECONDS)
    listening.close()
    assert result.restarts == 1
    rows = job.rows()
    assert set(rows.values()) == {1}
    assert set(rows) - {"lost"} == {*before, *behind}
    assert [record.getMessage() for record in caplog.records if "replayed" in record.getMessage()] == [
        "job 'words': source 'Socket Stream' cannot be replayed: a failure loses what it has read since the"
        " last complete checkpoint; sink 'sink' writes all other records exactly once; see"
        " docs/troubleshooting.md#cannot-be-replayed-a-failure-loses"
    ]


def test_server_that_is_gone_fails_the_job_with_one_line(job):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    env = job.environment(restart_strategy__type="none", **NO_ATTEMPTS)
    env.socket_text_stream("127.0.0.1", port).print()
    with pytest.raises(JobExecutionFailed) as caught:
        env.execute("words")
    assert str(caught.value).startswith(
        "job 'words' failed: Socket Stream -> Print to Std. Out-0: SocketBroken:"
        f" the socket 127.0.0.1:{port} cannot be read: Connection refused: "
    )


NO_ATTEMPTS = {"restart_strategy__fixed_delay__attempts": None, "restart_strategy__fixed_delay__delay": None}


def test_elements_are_a_stream_of_one_subtask(job):
    env = job.environment()
    assert list(env.from_elements("a", "b", "a").execute_and_collect("elements")) == ["a", "b", "a"]
    with pytest.raises(InvalidJob, match="from_elements has no value"):
        env.from_elements()


@pytest.mark.parametrize("what", ["file", "folder"])
def test_text_file_is_read_by_lines(job, tmp_path, what):
    (tmp_path / "in").mkdir()
    path = tmp_path / "in" / "a.txt"
    path.write_text("früh\nspät\n", "latin-1")
    lines = job.environment().read_text_file(str(path if what == "file" else path.parent), "latin-1")
    assert list(lines.execute_and_collect("lines")) == ["früh", "spät"]
