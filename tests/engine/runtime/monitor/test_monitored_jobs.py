"""What is seen of known jobs: exact counts, checkpoints, commits, restarts over failures and kills."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import psutil
import pytest

from onceproof.engine import (
    Configuration,
    Encoder,
    FileSink,
    MapFunction,
    OutputTag,
    ProcessFunction,
    StreamExecutionEnvironment,
    TimestampAssigner,
    WatermarkStrategy,
)
from onceproof.engine.connectors.collection import CollectionReader, CollectionSource
from onceproof.engine.runtime.monitor.job_monitor import JobMonitor
from onceproof.engine.runtime.monitor.monitor_link import AddressInUse
from onceproof.engine.runtime.monitor.monitor_messages import encoded, to_monitor
from tests.engine.runtime.monitor.seen_views import Seen

COUNT = 3000
LATE = OutputTag("late")


@pytest.fixture
def seen(monkeypatch):
    return Seen(monkeypatch)


def environment(tmp_path, **others):
    options = {
        "execution.checkpointing.interval": "20 ms",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "metrics.reporter.seen.factory.class": "log",
        "metrics.fetcher.update-interval": "20 ms",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": 3,
        "restart-strategy.fixed-delay.delay": "10 ms",
        "parallelism.default": 2,
        **others,
    }
    return StreamExecutionEnvironment.get_execution_environment(Configuration.from_mapping(options))


def numbers(env, count=COUNT):
    halves = {str(half): [(number, number) for number in range(half, count, 2)] for half in range(2)}
    return env.from_source(CollectionSource(halves), None, "numbers")


def into_files(stream, tmp_path):
    stream.sink_to(FileSink.for_row_format(str(tmp_path / "rows"), Encoder.simple_string_encoder()).build())


def written(tmp_path):
    parts = [path.read_text() for path in (tmp_path / "rows").glob("part-*")]
    return sorted(int(line) for part in parts for line in part.splitlines())


class Tripled(ProcessFunction):
    """Emits each number three times, and every third one to a side output."""

    def process_element(self, value, ctx):
        if value % 3 == 0:
            yield LATE, value
        yield from (value, value, value)


def test_records_in_and_out_are_exact_on_a_known_job(tmp_path, seen):
    env = environment(tmp_path)
    tripled = numbers(env).key_by(lambda number: number % 5).process(Tripled()).name("tripled")
    tripled.get_side_output(LATE).map(str).name("sides").print()
    tripled.filter(lambda number: number % 2 == 0).name("even").disable_chaining().print()
    env.execute("counted")
    assert seen.totals("records_in") == {
        "numbers": COUNT,
        "tripled": COUNT,
        "sides -> Print to Std. Out": COUNT // 3,
        "even": 3 * COUNT,
        "Print to Std. Out": 3 * COUNT // 2,
    }
    out = seen.totals("records_out")
    assert (out["numbers"], out["tripled"], out["even"]) == (COUNT, 3 * COUNT + COUNT // 3, 3 * COUNT // 2)
    assert seen.last.state == "FINISHED"
    assert {each.state for each in seen.last.subtasks} == {"FINISHED"}
    assert sum(each.pending_records or 0 for each in seen.last.subtasks) == 0
    for each in seen.last.subtasks:
        assert min(each.idle_ms, each.backpressured_ms, each.busy_ms) >= 0


def test_checkpoints_and_commits_are_those_of_the_job(tmp_path, seen):
    env = environment(tmp_path)
    into_files(numbers(env).map(lambda number: number), tmp_path)
    result = env.execute("committed")
    checkpoints = seen.last.checkpoints
    assert checkpoints.completed == result.checkpoints
    # What the end of a task has aborted is no failure of the job, and is counted here all the same.
    assert checkpoints.failed >= result.failed_checkpoints
    latest = checkpoints.latest_completed
    assert latest is not None
    # A subtask that has ended takes no part in the last one.
    assert (latest.status, len(latest.subtasks)) == ("COMPLETED", latest.tasks)
    assert latest.tasks in (1, 2)
    assert latest.stored_bytes > 0
    assert latest.path == str(tmp_path / "checkpoints" / result.job_id / f"chk-{latest.checkpoint_id}")
    for part in latest.subtasks:
        assert None not in (part.start_delay_ms, part.alignment_ms, part.sync_ms, part.async_ms)
        assert part.acknowledged_ms >= latest.triggered_ms
    # Each part file is a transaction of its own; the job has ended, so none is open or waits.
    files = len(list((tmp_path / "rows").glob("part-*")))
    assert sum(each.commits for each in seen.last.subtasks) >= files > 0
    assert {each.pending_transactions for each in seen.last.subtasks} == {0}
    assert written(tmp_path) == list(range(COUNT))


class FailsOnce(MapFunction):
    """Fails at a number, unless a file is there; then it passes."""

    def __init__(self, mark, strike):
        self.mark = mark
        self.strike = strike

    def map(self, value):
        if value == COUNT // 2 and not os.path.exists(self.mark):
            Path(self.mark).touch()
            self.strike()
        return value


def fail():
    raise ValueError("no such shop")


def kill():
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_failed_attempt_is_shown_with_its_cause_and_the_next_counts_anew(tmp_path, seen):
    # No checkpoint comes before the end of the input, so the second attempt reads everything again.
    others = {"execution.checkpointing.interval": "1 h", "restart-strategy.fixed-delay.delay": "300 ms"}
    env = environment(tmp_path, **others)
    into_files(numbers(env).map(FailsOnce(str(tmp_path / "mark"), fail)).name("shop"), tmp_path)
    env.execute("restarted")
    now, before = seen.last.attempts
    assert (seen.last.restarts, now.attempt, before.attempt) == (1, "1.2", "1.1")
    assert "ValueError: no such shop" in before.cause
    assert before.task.startswith("numbers -> shop")
    assert None not in (before.ended_ms, now.ended_ms)
    second = [view.state_since_ms for view in seen.views if view.attempt == "1.2"]
    assert min(second) >= now.started_ms
    assert seen.last.restarting_ms > 0
    assert (seen.last.checkpoints.restored, now.restored_checkpoint) == (0, None)
    assert seen.totals("records_in") == {"numbers -> shop -> Sink": COUNT}
    assert written(tmp_path) == list(range(COUNT))


def test_a_job_that_fails_for_good_is_shown_as_failed(tmp_path, seen):
    env = environment(tmp_path, **{"restart-strategy.fixed-delay.attempts": 0})
    numbers(env).map(lambda number: 1 // (number - 7)).print()
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        env.execute("failed")
    [attempt] = seen.last.attempts
    assert (seen.last.state, seen.last.restarts) == ("FAILED", 0)
    assert "ZeroDivisionError" in attempt.cause


@pytest.mark.local_kill
def test_workers_report_exact_counts_and_a_killed_one_is_a_restart(tmp_path, seen):
    env = environment(tmp_path, **{"execution.local.workers": 2, "execution.checkpointing.interval": "1 h"})
    shuffled = (
        numbers(env).map(FailsOnce(str(tmp_path / "mark"), kill)).rebalance().map(lambda number: number)
    )
    into_files(shuffled.name("moved"), tmp_path)
    env.execute("killed")
    now, before = seen.last.attempts
    assert (seen.last.restarts, now.attempt) == (1, "1.2")
    assert "has died" in before.cause
    assert len({each.process for each in seen.last.subtasks}) == 2
    assert list(seen.totals("records_in").values()) == [COUNT, COUNT]
    sent, taken = sum(seen.totals("bytes_out").values()), sum(seen.totals("bytes_in").values())
    # Every other record goes to the other worker, which may end without the last marks of its channels.
    assert COUNT < taken <= sent < taken + 1000
    assert written(tmp_path) == list(range(COUNT))


class Stamped(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return 1_000_000 + value


def test_watermarks_are_those_that_the_records_give(tmp_path, seen, monkeypatch):
    env = environment(tmp_path, **{"pipeline.auto-watermark-interval": "1 ms"})
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Stamped())
    halves = {str(half): [(number, None) for number in range(half, COUNT, 2)] for half in range(2)}
    timed = env.from_source(CollectionSource(halves), strategy, "timed")
    timed.key_by(lambda number: number % 5).map(lambda number: number).name("keyed").print()
    env.execute("timed")
    marks = [each.input_watermark for view in seen.views for each in view.subtasks if each.input_watermark]
    assert all(1_000_000 - 1 <= mark < 1_000_000 + COUNT for mark in marks)
    assert seen.last.state == "FINISHED"


def test_a_port_that_is_taken_ends_the_job_and_its_workers(tmp_path, monkeypatch):
    monkeypatch.setattr("onceproof.engine.runtime.monitor.monitor_link.BIND_SECONDS", 0)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        options = {"execution.local.workers": 2, "rest.port": taken.getsockname()[1]}
        env = environment(tmp_path, **options)
        into_files(numbers(env).rebalance().map(lambda number: number), tmp_path)
        before = set(psutil.Process().children(recursive=True))
        with pytest.raises(AddressInUse, match=r"^rest\.port: .* cannot be opened"):
            env.execute("refused")
        assert set(psutil.Process().children(recursive=True)) <= before
    assert not (tmp_path / "rows").exists()


class Odd(MapFunction):
    """Has gauges that JSON does not hold, and one that fails."""

    def open(self, runtime_context):
        group = runtime_context.get_metrics_group()
        group.gauge("large", lambda: 1 << 80)
        group.gauge("broken", lambda: 1 // 0)
        group.gauge("torn", lambda: "a\udc80b")

    def map(self, value):
        return value


class Unsure(CollectionReader):
    @property
    def pending_records(self):
        raise OSError("the server is away")


def test_odd_gauges_and_a_reader_that_fails_to_count_are_seen_and_harm_nothing(tmp_path, seen, monkeypatch):
    monkeypatch.setattr(CollectionSource, "open_split", lambda self, split, _: Unsure(self._splits[split], 0))
    env = environment(tmp_path, **{"parallelism.default": 1})
    numbers(env, 10).map(Odd()).name("odd").print()
    env.execute("odd")
    assert {each.pending_records for each in seen.last.subtasks} == {None}
    received = to_monitor.decode(encoded(seen.last))
    assert received.name == "odd"
    values = {each.scope.name: each.value for each in received.user_metrics}
    assert values == {
        "large": str(1 << 80),
        "broken": "ZeroDivisionError: integer division or modulo by zero",
        "torn": "a\\udc80b",
    }


def test_a_job_that_cannot_be_shown_goes_on(tmp_path, seen, monkeypatch, caplog):
    def broken(self, *arguments):
        raise ZeroDivisionError("a sink that cannot count")

    monkeypatch.setattr(JobMonitor, "view", broken)
    env = environment(tmp_path)
    into_files(numbers(env).map(lambda number: number), tmp_path)
    env.execute("hidden")
    assert written(tmp_path) == list(range(COUNT))
    assert seen.views == []
    assert len([each for each in caplog.records if "can no longer be shown" in each.getMessage()]) == 1
