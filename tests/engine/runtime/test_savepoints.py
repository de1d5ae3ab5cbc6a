"""Savepoints of a job in this process: taken, stopped with, gone on from, claimed, refused."""

from __future__ import annotations

import shutil
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from onceproof.engine import (
    Configuration,
    Encoder,
    FileSink,
    KeyedProcessFunction,
    StreamExecutionEnvironment,
    Types,
    ValueStateDescriptor,
)
from onceproof.engine.api.job_client import JobStatus, SavepointFailed
from onceproof.engine.api.submission import submitted
from onceproof.engine.checkpoint.events import CheckpointTriggered, RequestResolved
from onceproof.engine.checkpoint.redistribution import RestoreRefused
from onceproof.engine.connectors.collection import CollectionSource
from onceproof.engine.locations import parent_of
from onceproof.engine.messages import SAVEPOINT, SYNC_SAVEPOINT
from onceproof.engine.runtime.job_registry import REGISTRY
from onceproof.engine.runtime.job_requests import JobAnswer, JobRequest, OpenRequests
from onceproof.engine.runtime.job_result import JobCancelled, JobExecutionFailed
from onceproof.engine.runtime.local import REQUEST_LOOK_MS
from onceproof.engine.runtime.mounted_storage import open_storage
from onceproof.engine.runtime.request_folder import JobNotRunning, ask, is_running
from onceproof.engine.runtime.restore_point import NoRestorePoint, read_restore_point
from tests.patience import PATIENCE_SECONDS

RECORDS = 900
COUNTS = Counter(f"('w{number % 5}', {number // 5 + 1})" for number in range(RECORDS))


class Gate:
    """Holds the job up once, at a record, until the test has asked for something."""

    def __init__(self):
        self.reached = threading.Event()
        self.opened = threading.Event()

    def pass_by(self, count):
        if count == RECORDS // 5 // 2 and not self.reached.is_set():
            self.reached.set()
            assert self.opened.wait(PATIENCE_SECONDS), "the test never opened the gate"

    def __deepcopy__(self, memo):
        return self


class Count(KeyedProcessFunction):
    def __init__(self, gate):
        self.gate = gate

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        self.gate.pass_by(count)
        yield value, count


class Words:
    """A count of words; each run of it is another process, as far as the folders can tell."""

    def __init__(self, folder):
        self.folder = folder
        self.savepoints = folder / "savepoints"
        self.output = folder / "out"

    def environment(self, parallelism=2, **options):
        settings = {
            "execution.checkpointing.interval-records": 100,
            "execution.checkpointing.dir": str(self.folder / "checkpoints"),
            "execution.checkpointing.savepoint-dir": str(self.savepoints),
            "pipeline.buffer-records": 10,
            "pipeline.max-parallelism": 16,
            "parallelism.default": parallelism,
            "restart-strategy.type": "none",
        }
        settings.update({key.replace("__", ".").replace("_", "-"): value for key, value in options.items()})
        return StreamExecutionEnvironment.get_execution_environment(Configuration.from_mapping(settings))

    def describe(self, env, gate, uid="count"):
        words = [(f"w{number % 5}", None) for number in range(RECORDS)]
        stream = env.from_source(CollectionSource({"a": words}), None, "words").uid("words")
        counted = stream.key_by(lambda word: word, Types.STRING()).process(Count(gate)).name("count").uid(uid)
        sink = FileSink.for_row_format(str(self.output), Encoder.simple_string_encoder()).build()
        counted.sink_to(sink).name("sink").uid("sink")
        return env

    def held(self, **options):
        """Start, and wait until the job is in the middle."""
        gate = Gate()
        with submitted(Configuration(), lambda graph: None, "words.py"):
            client = self.describe(self.environment(**options), gate).execute_async("words")
        assert gate.reached.wait(PATIENCE_SECONDS)
        return client, gate

    def run(self, parallelism=2, uid="count", **options):
        gate = Gate()
        gate.reached.set()
        with submitted(Configuration(), lambda graph: None, "words.py"):
            return self.describe(self.environment(parallelism, **options), gate, uid).execute("words")

    def rows(self):
        files = [path for path in self.output.iterdir() if not path.name.startswith(".")]
        return Counter(line for path in files for line in path.read_text().splitlines())

    def listing(self):
        return sorted(path.name for path in self.job_folder.rglob("*") if "incarnation" not in path.name)

    @property
    def job_folder(self):
        [folder] = [each for each in (self.folder / "checkpoints").iterdir() if each.name != REGISTRY]
        return folder


@pytest.fixture
def words(tmp_path):
    return Words(tmp_path)


def stopped(words, drains=False, **options):
    client, gate = words.held(**options)
    future = client.stop_with_savepoint(drains)
    gate.opened.set()
    return Path(future.result(PATIENCE_SECONDS)), client


BACKENDS = [("hashmap", "hashmap"), ("hashmap", "rocksdb"), ("rocksdb", "hashmap")]


@pytest.mark.parametrize(("before", "after"), BACKENDS)
@pytest.mark.parametrize("parallelism", [1, 3])
def test_stopped_job_restores_its_savepoint_and_counts_everything_once(words, before, after, parallelism):
    savepoint, client = stopped(words, state__backend__type=before)
    result = client.get_job_execution_result().result(PATIENCE_SECONDS)
    assert result.stopped_with == str(savepoint)
    assert client.get_job_status().result() is JobStatus.FINISHED
    committed = words.rows()
    assert 0 < sum(committed.values()) < RECORDS
    assert committed <= COUNTS
    point = read_restore_point(str(savepoint))
    assert point.metadata.kind == SYNC_SAVEPOINT
    assert not [path for path in savepoint.iterdir() if path.suffix == ".sst"]
    words.run(parallelism, execution__state_recovery__path=str(savepoint), state__backend__type=after)
    assert words.rows() == COUNTS


def test_stopped_job_restores_its_savepoint_without_a_path(words):
    stopped(words)
    words.run()
    assert words.rows() == COUNTS
    assert words.run().already_finished


def test_drained_job_has_processed_all_records_read(words):
    savepoint, _ = stopped(words, drains=True)
    assert all(operator.is_finished for operator in read_restore_point(str(savepoint)).metadata.operators)


def test_savepoint_of_a_running_job_stays_when_the_job_has_finished(words, tmp_path):
    client, gate = words.held()
    future = client.trigger_savepoint(str(tmp_path / "elsewhere"))
    gate.opened.set()
    savepoint = Path(future.result(PATIENCE_SECONDS))
    assert savepoint.parent == tmp_path / "elsewhere"
    client.get_job_execution_result().result(PATIENCE_SECONDS)
    assert words.rows() == COUNTS
    assert read_restore_point(str(savepoint)).metadata.kind == SAVEPOINT
    # Moved, and in another job: it needs nothing but itself. What came after it is written once more.
    moved = tmp_path / "moved"
    shutil.move(savepoint, moved)
    other = Words(tmp_path / "other")
    shutil.copytree(words.output, other.output)
    other.run(3, execution__state_recovery__path=str(moved / "_metadata"))
    again = other.rows() - COUNTS
    assert again
    assert again < COUNTS


def test_a_job_that_is_cancelled_with_a_savepoint_loses_nothing(words):
    client, gate = words.held()
    future = client.cancel_with_savepoint()
    gate.opened.set()
    savepoint = future.result(PATIENCE_SECONDS)
    with pytest.raises(JobCancelled):
        client.get_job_execution_result().result(PATIENCE_SECONDS)
    assert client.get_job_status().result() is JobStatus.CANCELED
    words.run(1, execution__state_recovery__path=savepoint)
    assert words.rows() == COUNTS


@pytest.mark.parametrize(("retention", "stays"), [(None, False), ("RETAIN_ON_CANCELLATION", True)])
def test_checkpoints_outlive_a_cancelled_job_only_if_configured(words, retention, stays):
    options = {"execution__checkpointing__externalized_checkpoint_retention": retention} if retention else {}
    client, gate = words.held(**options)
    future = client.cancel()
    gate.opened.set()
    assert future.result(PATIENCE_SECONDS) is None
    with pytest.raises(JobCancelled):
        client.get_job_execution_result().result(PATIENCE_SECONDS)
    assert bool(list(words.job_folder.glob("chk-*"))) is stays
    if stays:
        words.run()
        assert words.rows() == COUNTS


def test_a_chosen_checkpoint_of_the_job_itself_is_gone_back_to(words):
    client, gate = words.held(
        execution__checkpointing__num_retained=3,
        execution__checkpointing__externalized_checkpoint_retention="RETAIN_ON_CANCELLATION",
    )
    client.cancel()
    gate.opened.set()
    client.get_job_execution_result().exception(PATIENCE_SECONDS)
    kept = sorted(words.job_folder.glob("chk-*"), key=lambda path: int(path.name[4:]))
    assert len(kept) == 3
    words.run(execution__state_recovery__path=str(kept[0]))
    assert set(words.rows()) == set(COUNTS)
    again = words.rows() - COUNTS
    assert set(again.values()) == {1}, "what the later checkpoints had committed is written once more"
    assert kept[0].exists(), "what is not claimed is never deleted"
    assert not kept[1].exists()


@pytest.mark.parametrize(("mode", "stays"), [("NO_CLAIM", True), ("CLAIM", False), ("LEGACY", True)])
def test_claimed_savepoint_is_deleted_after_the_first_checkpoint(words, mode, stays):
    savepoint, _ = stopped(words)
    words.run(execution__state_recovery__path=str(savepoint), execution__state_recovery__claim_mode=mode)
    assert words.rows() == COUNTS
    assert (savepoint / "_metadata").exists() is stays
    assert savepoint.exists() is stays


def test_state_of_a_removed_operator_is_skipped_only_if_allowed(words):
    savepoint, _ = stopped(words)
    path = str(savepoint)
    with pytest.raises(JobExecutionFailed, match=r"operator 'count', which the job lacks.*ignore-unclaimed"):
        words.run(uid="other", execution__state_recovery__path=path)
    words.run(
        uid="other",
        execution__state_recovery__path=path,
        execution__state_recovery__ignore_unclaimed_state=True,
    )
    assert "('w0', 1)" in words.rows()


def test_a_refused_start_leaves_the_folder_as_it_was(words):
    savepoint, _ = stopped(words)
    before = words.listing()
    for path in (words.folder, words.folder / "nothing"):
        with pytest.raises(NoRestorePoint, match="no savepoint and no checkpoint here"):
            words.run(execution__state_recovery__path=str(path))
    copy = words.folder / "copy"
    shutil.copytree(savepoint, copy)
    with pytest.raises(RestoreRefused):
        words.run(uid="other", execution__state_recovery__path=str(copy))
    assert words.listing() == before
    words.run()
    assert words.rows() == COUNTS


def test_another_process_asks_by_a_file_and_is_answered(words, tmp_path):
    client, gate = words.held()
    assert is_running(words.job_folder)
    answers = []
    asking = threading.Thread(
        target=lambda: answers.append(
            ask(words.job_folder, JobRequest("stop", str(tmp_path / "asked")), PATIENCE_SECONDS)
        )
    )
    asking.start()
    while not list((words.job_folder / "requests").glob("*.request")):
        assert asking.is_alive()
    # By then the job will look for it as soon as it goes on: before it has read the rest.
    time.sleep(REQUEST_LOOK_MS / 1000)
    gate.opened.set()
    asking.join(PATIENCE_SECONDS)
    [answer] = answers
    assert not answer.error
    client.get_job_execution_result().result(PATIENCE_SECONDS)
    assert not list((words.job_folder / "requests").iterdir())
    with pytest.raises(JobNotRunning):
        ask(words.job_folder, JobRequest("cancel"), PATIENCE_SECONDS)
    words.run(3, execution__state_recovery__path=answer.savepoint)
    assert words.rows() == COUNTS


def test_impossible_requests_are_errors_of_one_line(words):
    client, gate = words.held()
    nowhere = words.folder / "file"  # Where a folder should be.
    nowhere.write_text("in the way")
    refused = client.trigger_savepoint(str(nowhere))
    gate.opened.set()
    with pytest.raises(SavepointFailed, match="cannot be made: Not a directory"):
        refused.result(PATIENCE_SECONDS)
    client.get_job_execution_result().result(PATIENCE_SECONDS)
    with pytest.raises(SavepointFailed, match="the job has ended"):
        client.trigger_savepoint().result(PATIENCE_SECONDS)
    assert words.rows() == COUNTS


@pytest.mark.parametrize("options", [{}, {"execution__checkpointing__dir": "memory://words/checkpoints"}])
def test_a_savepoint_at_an_address_is_gone_on_from(words, options):
    at = f"memory://words{words.folder}"
    client, gate = words.held(**options)
    future = client.stop_with_savepoint(False, at)
    gate.opened.set()
    savepoint = future.result(PATIENCE_SECONDS)
    assert parent_of(savepoint) == at
    assert read_restore_point(f"{savepoint}/_metadata").folder == savepoint
    words.run(3, execution__state_recovery__path=savepoint)
    assert words.rows() == COUNTS
    assert open_storage(savepoint).exists("_metadata")


def test_savepoint_that_is_tried_again_has_a_folder_of_its_own(tmp_path):
    """Its tasks may delete what they have written for the first try, under the same names."""
    requests, answers = OpenRequests("job", str(tmp_path)), []
    requests.take(JobRequest("stop"), answers.append)
    places = [requests.begun(CheckpointTriggered(each, SYNC_SAVEPOINT, 1)) for each in (5, 6)]
    assert [folder for folder, _ in places] == ["savepoint-5", "savepoint-6"]
    first, second = [place for _, place in places]
    assert first != second
    assert Path(first).parent == Path(second).parent == tmp_path
    requests.resolved(RequestResolved(1, 6))
    requests.ended()
    assert answers == [JobAnswer(second)]
    assert requests.stopped_with == second
