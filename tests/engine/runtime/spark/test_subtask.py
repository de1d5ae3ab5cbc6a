"""One subtask in one epoch: what it reads and refuses, what it leaves, and that it does the same again."""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from dataclasses import dataclass
from threading import Lock
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from onceproof.engine import Types
from onceproof.engine.connectors.collection import CollectionSource
from onceproof.engine.elements import CheckpointBarrier, EndOfData
from onceproof.engine.job.channel_layout import layout_of
from onceproof.engine.job.deployment import AFRESH, plan_restores
from onceproof.engine.messages import AcknowledgeCheckpoint, DeclineCheckpoint, TaskFailed, TaskId
from onceproof.engine.protocol_points import SNAPSHOTTED, no_probe
from onceproof.engine.runtime.recovery import recover
from onceproof.engine.runtime.spark import epoch_job
from onceproof.engine.runtime.spark.epoch import (
    ChannelEnd,
    Epoch,
    GivenGraph,
    Packed,
    Shipment,
    shape_of,
    unpack,
)
from onceproof.engine.runtime.spark.stages import DRIVER
from onceproof.engine.runtime.spark.subtask import EpochIsOver, SubtaskRun
from onceproof.engine.runtime.spark.target import spark_storage
from onceproof.engine.types import NotDescribable, objects

SOURCE, SINK = TaskId(0, 0), TaskId(1, 0)


@pytest.fixture
def deployment_of(job):
    def deployment_of(graph=None, probe=no_probe):
        graph = graph or job.graph()
        storage = spark_storage(graph)
        shipment = Shipment(GivenGraph(graph), shape_of(graph), storage.root, 1, probe, SubtaskRun)
        return unpack(Packed(shipment)._data)

    return deployment_of


def epoch_of(deployment, quota, checkpoint_id=1, plans=None):
    tasks = deployment.layout.inputs
    return Epoch(checkpoint_id, 0, 1, dict.fromkeys(tasks, quota), plans or dict.fromkeys(tasks, AFRESH))


def run(deployment, epoch, task, attempt, inbox=()):
    *parcels, (stage, _, _, _, report) = SubtaskRun(deployment, epoch, task, attempt).run(inbox)
    assert stage == DRIVER
    return parcels, report


def values(parcels):
    return [value for parcel in parcels if type(parcel[4]) is list for (value,), _ in parcel[4]]


@pytest.mark.parametrize("quota", [1, 9, 10, 11, 37, 299])
def test_a_source_reads_its_share_to_the_record(deployment_of, quota):
    deployment = deployment_of()
    parcels, report = run(deployment, epoch_of(deployment, quota), SOURCE, 1)
    assert report.records_read == quota
    assert len(values(parcels)) == quota
    [acknowledged] = report.messages
    assert isinstance(acknowledged, AcknowledgeCheckpoint)
    assert not acknowledged.finished


@pytest.mark.parametrize("quota", [300, 301, 1000])
def test_source_reports_its_end_in_the_same_epoch(deployment_of, quota):
    deployment = deployment_of()
    parcels, report = run(deployment, epoch_of(deployment, quota), SOURCE, 1)
    assert report.records_read == 300
    assert report.messages[0].finished
    for channel_end in ([parcel[4] for parcel in parcels if parcel[1] == target][-3:] for target in (0, 1)):
        assert [type(element) for element in channel_end] == [EndOfData, CheckpointBarrier, ChannelEnd]


def large_records(job, size_bytes):
    """A graph whose sources send records of a size."""
    count = 300 if size_bytes <= 10_000 else 30
    splits = {"a": [(("x" * size_bytes, number), None) for number in range(count)], "b": []}
    env = job.environment(pipeline__buffer_records=500)
    env.set_parallelism(2).set_max_parallelism(16)
    stream = env.from_source(CollectionSource(splits), None, "words")
    job.into_files(stream.key_by(lambda value: value[1], Types.LONG()).map(lambda value: str(value[1])))
    return env.get_job_graph("words")


@pytest.mark.parametrize(("size_bytes", "read"), [(10, 300), (10_000, 100), (300_000, 16), (2_000_000, 16)])
def test_source_stops_when_it_has_sent_its_share_of_bytes(job, deployment_of, size_bytes, read):
    """A megabyte; before any record is seen, sixteen are read."""
    deployment = deployment_of(large_records(job, size_bytes))
    epoch = replace(epoch_of(deployment, 10_000), quota_bytes=1_000_000)
    parcels, report = run(deployment, epoch, SOURCE, 1)
    assert report.records_read == read
    sizes = [len(parcel[4]) for parcel in parcels if type(parcel[4]) is list]
    again, second = run(deployment, epoch, SOURCE, 2)
    assert second.records_read == read, "a task that Spark runs again reads the same"
    assert sizes == [len(parcel[4]) for parcel in again if type(parcel[4]) is list]


def test_buffers_of_large_records_shrink_to_one(job, deployment_of):
    deployment = deployment_of(large_records(job, 5_000_000))
    parcels, report = run(deployment, replace(epoch_of(deployment, 22), quota_bytes=10**9), SOURCE, 1)
    assert report.records_read == 22
    assert [len(parcel[4]) for parcel in parcels if type(parcel[4]) is list][-5:] == [1] * 5


def test_the_same_attempt_again_sends_the_same_again(deployment_of):
    deployment = deployment_of()
    epoch = epoch_of(deployment, 37)
    first, _ = run(deployment, epoch, SOURCE, 1)
    second, _ = run(deployment, epoch, SOURCE, 2)
    assert first[-1][4] == ChannelEnd("1.1", False)
    assert [parcel for parcel in first if type(parcel[4]) is not ChannelEnd] == [
        parcel for parcel in second if type(parcel[4]) is not ChannelEnd
    ]


def test_all_splits_of_a_subtask_get_their_turn(job, deployment_of):
    graph = job.graph(1)
    deployment = deployment_of(graph)
    parcels, _ = run(deployment, epoch_of(deployment, 20), SOURCE, 1)
    read = values(parcels)
    assert read[:10] == [word for word, _ in job.splits["b"][:10]], "split 1 in epoch 1"
    assert read[10:] == [word for word, _ in job.splits["a"][:10]]
    parcels, _ = run(deployment, epoch_of(deployment, 1, checkpoint_id=2), SOURCE, 2)
    assert values(parcels) == [job.splits["a"][0][0]], "one record: from another split in the next epoch"


@pytest.fixture
def sources_run(deployment_of):
    """The parcels of two sources for the first of two sinks."""
    deployment = deployment_of()
    epoch = epoch_of(deployment, 50)
    parcels = [
        parcel for subtask in (0, 1) for parcel in run(deployment, epoch, TaskId(0, subtask), subtask)[0]
    ]
    return deployment, epoch, [parcel for parcel in parcels if parcel[1] == 0]


def test_buffers_are_taken_in_order_however_they_arrive(job, sources_run):
    deployment, epoch, inbox = sources_run
    job.output.mkdir()
    lines = []
    for attempt, arrival in enumerate((inbox, inbox[::-1], inbox[::2] + inbox[1::2])):
        _, report = run(deployment, epoch, SINK, attempt, arrival)
        assert report.upstreams == {TaskId(0, 0): "1.0", TaskId(0, 1): "1.1"}
        [part] = job.output.glob(f".part-*-0-0-1.{attempt}.inprogress")
        lines.append(part.read_text())
    assert lines[0] == lines[1] == lines[2]
    assert len(lines[0].splitlines()) > 20


@pytest.mark.parametrize("lost", ["a buffer", "a barrier", "an end", "a whole channel"])
def test_missing_channel_data_is_an_error(sources_run, lost):
    deployment, epoch, inbox = sources_run
    first = [parcel for parcel in inbox if parcel[2] == 0]
    missing = {
        "a buffer": first[:1],
        "a barrier": first[-2:-1],
        "an end": first[-1:],
        "a whole channel": first,
    }
    arrived = [parcel for parcel in inbox if parcel not in missing[lost]]
    _, report = run(deployment, epoch, SINK, 7, arrived)
    [failure] = report.messages
    assert isinstance(failure, TaskFailed)
    assert failure.cause.startswith("count -> sink-0: BrokenChannel: ")


def test_those_behind_a_failed_subtask_do_nothing(job, deployment_of, here):
    deployment = deployment_of(probe=here.dying(SNAPSHOTTED, task="words-1", death=ValueError("no luck")))
    epoch = epoch_of(deployment, 50)
    good, _ = run(deployment, epoch, TaskId(0, 0), 1)
    bad, report = run(deployment, epoch, TaskId(0, 1), 2)
    [failure] = report.messages
    assert isinstance(failure, TaskFailed)
    cause, _, line = failure.cause.partition(" (")
    assert line.startswith("conftest.py, line ")
    assert replace(failure, cause=cause) == TaskFailed(
        "1.2", TaskId(0, 1), "words-1: ValueError: no luck", False, "ValueError: no luck", 5
    )
    parcels, report = run(deployment, epoch, SINK, 3, [parcel for parcel in good + bad if parcel[1] == 0])
    assert parcels == []
    assert report.messages == ()
    assert not job.output.exists()


def test_an_attempt_that_lives_on_after_its_epoch_writes_no_snapshot(job, here):
    with pytest.raises(job.power_cut):
        here(job.graph(), here.dying("triggered", checkpoint=3, death=job.power_cut))
    graph = job.graph()
    storage = spark_storage(graph)
    [latest] = recover(storage, 1).checkpoints
    assert latest.checkpoint_id == 2
    shipment = Shipment(GivenGraph(graph), shape_of(graph), storage.root, 1, no_probe, SubtaskRun)
    deployment = unpack(Packed(shipment)._data)
    before = job.files()
    zombie = epoch_of(deployment, 50, 2, plan_restores(graph, layout_of(graph), latest))
    with pytest.raises(EpochIsOver, match=r"checkpoint 2 is complete without 1\.9"):
        run(deployment, zombie, SOURCE, 9)
    assert job.files() == before


def test_classes_of_the_program_travel_with_the_job_and_are_found_by_name(deployment_of, monkeypatch):
    @dataclass
    class Sent:
        n: int

    @dataclass
    class Left:
        n: int

        lock = Lock()

    for kind in (Sent, Left):
        kind.__module__, kind.__qualname__ = "__main__", kind.__name__
    main = sys.modules["__main__"]
    monkeypatch.setattr(objects, "_GIVEN", {})
    monkeypatch.setattr(main, "Sent", Sent, raising=False)
    monkeypatch.setattr(main, "Left", Left, raising=False)
    deployment_of()
    monkeypatch.delattr(main, "Sent")
    monkeypatch.delattr(main, "Left")
    anything = Types.PICKLED_BYTE_ARRAY()
    assert anything.decode(anything.encode(Sent(1))) == Sent(1)
    with pytest.raises(NotDescribable, match="module __main__ has no class Left"):
        anything.encode(Left(1))


def test_subtask_reads_on_from_its_checkpoint(job, here):
    with pytest.raises(job.power_cut):
        here(job.graph(), here.dying("triggered", checkpoint=3, death=job.power_cut))
    graph = job.graph(1)
    storage = spark_storage(graph)
    [latest] = recover(storage, 1).checkpoints
    shipment = Shipment(GivenGraph(graph), shape_of(graph), storage.root, 2, no_probe, SubtaskRun)
    deployment = unpack(Packed(shipment)._data)
    epoch = epoch_of(deployment, 1000, 3, plan_restores(graph, layout_of(graph), latest))
    parcels, report = run(deployment, epoch, SOURCE, 1)
    assert report.records_read == 400
    left = Counter(word for split in job.splits.values() for word, _ in split[100:])
    assert Counter(values(parcels)) == left


@pytest.fixture
def task_of_two(job, deployment_of, monkeypatch):
    """Run the two subtasks of a Spark task whose first files the disk may refuse; give their reports."""

    def run_task(refused=None):
        spark_task = SimpleNamespace(taskAttemptId=lambda: 7)
        monkeypatch.setattr(epoch_job, "TaskContext", SimpleNamespace(get=lambda: spark_task))
        synced = []

        def fsync(descriptor):
            synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
            if refused is not None and refused in synced[-1]:
                raise OSError(28, "No space left on device")

        deployment = deployment_of(job.graph(4))
        epoch = epoch_of(deployment, 37)
        monkeypatch.setattr(os, "fsync", fsync)
        run = epoch_job.StageRun(SOURCE.vertex, [2, 2], SimpleNamespace(value=deployment), epoch)
        parcels = list(run._run(1, {}))
        reports = [parcel[-1] for parcel in parcels if parcel[0] == DRIVER]
        assert parcels[-2:] == [(DRIVER, 0, 0, 0, report) for report in reports]
        assert [report.task.subtask for report in reports] == [1, 3]
        return reports, synced

    return run_task


def test_subtasks_of_a_spark_task_sync_their_common_folder_once(task_of_two):
    reports, synced = task_of_two()
    assert all(isinstance(*report.messages, AcknowledgeCheckpoint) for report in reports)
    assert len([path for path in synced if path.endswith("/chk-1")]) == 1
    assert len([path for path in synced if "/chk-1/" in path]) == 2


def test_all_subtasks_of_a_spark_task_decline_what_is_not_durable(task_of_two):
    for report in task_of_two("/chk-1/")[0]:
        [declined] = report.messages
        assert isinstance(declined, DeclineCheckpoint)
        assert (declined.task, declined.checkpoint_id) == (report.task, 1)
        assert re.fullmatch(r"/.*/chk-1/.*: cannot be written: No space left on device", declined.reason)
