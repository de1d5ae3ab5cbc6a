"""Monitored jobs on Spark: what epochs have counted, what their checkpoints took, commits, and REST."""

from __future__ import annotations

import http.client
import json
import time
from collections import Counter
from contextlib import closing
from urllib.parse import urlsplit

import pytest

from onceproof.engine import DataGeneratorSource, MapFunction, RateLimiterStrategy
from onceproof.engine.messages import TaskId
from onceproof.engine.protocol_points import SNAPSHOTTED
from onceproof.engine.runtime.job_requests import JobRequest
from onceproof.engine.runtime.monitor.monitor_messages import encoded, to_monitor
from onceproof.engine.runtime.monitor.rest_note import read_note
from onceproof.engine.runtime.spark.monitored_execution import MonitoredSparkExecution
from tests.engine.runtime.monitor.seen_views import Seen
from tests.patience import PATIENCE_SECONDS

EPOCHS = 6
WORDS = 600
MONITORED = {"metrics__reporter__seen__factory__class": "log", "metrics__fetcher__update_interval": "1 ms"}


@pytest.fixture
def seen(monkeypatch):
    return Seen(monkeypatch)


@pytest.fixture
def watched(here):
    """The driver of a monitored job, with its stages run here."""

    class Watched(MonitoredSparkExecution, here.execution):
        pass

    return Watched


def test_epochs_add_up_to_the_records_of_the_job(job, here, watched, seen):
    _, result = here(job.graph(**MONITORED), execution_class=watched)
    assert result.checkpoints == EPOCHS
    assert seen.last.state == "FINISHED"
    assert seen.of(0, "records_in") == seen.of(0, "records_out") == [300, 300]
    assert sum(seen.of(1, "records_in")) == WORDS
    assert {each.state for each in seen.last.subtasks} == {"FINISHED"}
    for each in seen.last.subtasks:
        assert each.busy_ms >= 0
        assert each.idle_ms >= 0
        assert each.backpressured_ms == 0
    assert to_monitor.decode(encoded(seen.last)) == seen.last
    assert job.rows() == job.counts


def test_checkpoints_and_commits_are_those_of_the_job(job, here, watched, seen):
    here(job.graph(**MONITORED), execution_class=watched)
    checkpoints = seen.last.checkpoints
    assert (checkpoints.completed, checkpoints.failed, checkpoints.in_progress) == (EPOCHS, 0, 0)
    latest = checkpoints.latest_completed
    assert (latest.status, len(latest.subtasks), latest.tasks) == ("COMPLETED", 4, 4)
    assert latest.path == str(job.directory / f"chk-{latest.checkpoint_id}")
    assert latest.stored_bytes > 0
    for part in latest.subtasks:
        assert None not in (part.start_delay_ms, part.alignment_ms, part.sync_ms, part.async_ms)
    # Each part file is a transaction of its own, which the driver has committed.
    files = [path for path in job.output.iterdir() if not path.name.startswith(".")]
    assert sum(seen.of(1, "commits")) >= len(files) > 0
    assert seen.of(1, "pending_transactions") == [0, 0]
    assert seen.of(0, "pending_transactions") == [None, None]


def test_an_epoch_that_is_repeated_counts_once(job, here, watched, seen):
    probe = here.dying(SNAPSHOTTED, checkpoint=2, times=3)

    def repeat(execution):
        execution.repeated = [(3, TaskId(0, 0)), (4, TaskId(1, 1))]

    here(job.graph(**MONITORED), probe, execution_class=watched, prepare=repeat)
    assert probe.struck == 3
    assert seen.of(0, "records_in") == [300, 300]
    assert sum(seen.of(1, "records_in")) == WORDS


def test_a_new_attempt_begins_new_counts_and_names_the_cause(job, here, watched, seen):
    class Odd(watched):
        def start_job(self, epoch):
            started = super().start_job(epoch)
            if epoch.checkpoint_id == 4:
                started.failure = here.epoch_failed("Spark has lost it", is_final=False)
            return started

    _, result = here(job.graph(**MONITORED), execution_class=Odd)
    assert result.attempts == 2
    assert seen.last.restarts == 1
    now, before = seen.last.attempts
    assert "Spark has lost it" in before.cause
    assert before.ended_ms is not None
    assert (now.cause, now.restored_checkpoint) == ("", 3)
    # Three of six epochs came before.
    assert seen.of(0, "records_in") == [150, 150]


def test_a_savepoint_between_two_epochs_is_seen_with_its_place(job, here, watched, seen, tmp_path):
    answers = []

    class Asked(watched):
        def checkpoint_completed(self, effect):
            super().checkpoint_completed(effect)
            if effect.checkpoint_id == 2:
                self.submit(JobRequest("savepoint", str(tmp_path / "savepoints")), answers.append)

    here(job.graph(**MONITORED), execution_class=Asked)
    [answer] = answers
    savepoint = seen.last.checkpoints.latest_savepoint
    assert (savepoint.checkpoint_id, savepoint.status) == (2, "COMPLETED")
    assert savepoint.path == answer.savepoint


def test_the_plain_driver_measures_nothing(job, here):
    class Kept(here.execution):
        reports = ()

        def take_results(self, epoch_job):
            self.reports = (*self.reports, *epoch_job.reports())
            super().take_results(epoch_job)

    execution, _ = here(job.graph(), execution_class=Kept)
    assert execution.reports
    assert {(each.reading, len(each.scopes)) for each in execution.reports} == {(None, 0)}
    measured = [message.measures for each in execution.reports for message in each.messages]
    assert set(measured) == {None}


class Counted(MapFunction):
    """Counts its words."""

    def open(self, runtime_context):
        group = runtime_context.get_metrics_group().add_group("mine")
        self.words = group.counter("words")
        group.gauge("latest", lambda: "w")

    def map(self, value):
        self.words.inc()
        return value


def test_metrics_of_functions_keep_their_scopes_on_their_way(job, here, watched, seen):
    env = job.environment(**MONITORED)
    job.describe(env, before=lambda words: words.map(Counted()).name("counted"))
    here(env.get_job_graph("words"), execution_class=watched)
    found = {(each.scope.name, each.scope.subtask): each for each in seen.last.user_metrics}
    assert {place: (each.kind, each.value) for place, each in found.items()} == {
        ("words", 0): ("counter", 300),
        ("words", 1): ("counter", 300),
        ("latest", 0): ("gauge", "w"),
        ("latest", 1): ("gauge", "w"),
    }
    assert {(each.scope.operator, each.scope.groups) for each in found.values()} == {("counted", ("mine",))}


def word_of(number):
    return (f"w{number % 7}",)


@pytest.mark.spark
def test_a_job_on_spark_is_seen_and_stopped_over_rest(job, spark, tmp_path):
    job.source = DataGeneratorSource(word_of, None, RateLimiterStrategy.per_second(500))
    env = job.environment(execution__target="spark", rest__port=0, metrics__fetcher__update_interval="20 ms")
    job.describe(env)
    client = env.execute_async("words")
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (note := read_note(job.directory)) is None:
        assert time.monotonic() < deadline
        time.sleep(0.02)

    def asked(method, path, body=None):
        address = urlsplit(note.url).netloc
        with closing(http.client.HTTPConnection(address, timeout=PATIENCE_SECONDS)) as connection:
            connection.request(method, path, body, {"Authorization": f"Bearer {note.token}"})
            return json.loads(connection.getresponse().read())

    path = f"/jobs/{client.get_job_id()}"
    while asked("GET", f"{path}/checkpoints").get("counts", {}).get("completed", 0) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    source, count = asked("GET", path)["vertices"]
    assert source["metrics"]["read-records"] >= count["metrics"]["read-records"] > 0
    stopped = asked("POST", f"{path}/stop", json.dumps({"targetDirectory": str(tmp_path / "savepoints")}))
    result = client.get_job_execution_result().result(PATIENCE_SECONDS)
    assert "request-id" in stopped
    assert result.stopped_with.startswith(str(tmp_path / "savepoints"))
    # Each word is counted from 1 without a gap; how far its reader has come is its own.
    rows = job.rows()
    assert rows.total() == result.records_read
    words = Counter(row.partition(",")[0] for row in rows)
    assert rows == Counter(
        f"{word}, {count})" for word, size in words.items() for count in range(1, size + 1)
    )
