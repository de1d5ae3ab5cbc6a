"""When the state of a query is repartitioned, and when this waits, is repeated, or is refused."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from onceproof.harness.systems.recording.event_log import EventLog, read_events
from onceproof.harness.systems.structured.output import batch_ends
from onceproof.harness.systems.structured.rescale import (
    RESCALE_REFUSED,
    RescaleResult,
    is_repartition,
    rescale_query,
)


class Location:
    """A checkpoint location, and a stand-in for Spark that records the repartitions requested of it."""

    def __init__(self, folder):
        self.folder = folder / "checkpoints"
        self.events = folder / "events"
        for name in ("offsets", "commits"):
            (self.folder / name).mkdir(parents=True)
        self.requested = []

    def planned(self, batch, records, partitions, is_over=True):
        conf = {"conf": {"spark.sql.shuffle.partitions": str(partitions)}}
        lines = ["v1", json.dumps(conf), json.dumps({"split": records})]
        (self.folder / "offsets" / str(batch)).write_text("\n".join(lines))
        if is_over:
            (self.folder / "commits" / str(batch)).write_text("")

    def keeps(self, operator, name):
        note = self.folder / "state" / str(operator) / "_metadata" / "v2" / "0"
        note.parent.mkdir(parents=True)
        info = {"operatorInfo": {"operatorId": operator, "operatorName": name}}
        note.write_text(f"v2\n{json.dumps(info)}")
        note.with_name(".0.crc").write_bytes(b"crc\xff")

    def repartition(self, path, partitions):
        assert path == str(self.folder)
        self.requested.append(partitions)

    def rescale_query(self, wanted):
        session = SimpleNamespace(_streamingCheckpointManager=self)
        return rescale_query(session, self.folder, wanted, EventLog(str(self.events)))


@pytest.fixture
def location(tmp_path):
    location = Location(tmp_path)
    location.keeps(0, "stateStoreSave")
    return location


def test_unstarted_query_gets_any_number_of_partitions(location):
    assert location.rescale_query(3) == RescaleResult(3)
    assert location.requested == []


def test_query_with_the_wanted_partitions_is_not_repartitioned(location):
    location.planned(0, 5, partitions=2)
    assert location.rescale_query(2) == RescaleResult(2)
    assert location.requested == []


def test_query_with_all_batches_finished_is_repartitioned(location):
    location.planned(0, 5, partitions=2)
    assert location.rescale_query(3) == RescaleResult(3)
    assert location.requested == [3]


def test_unfinished_batch_delays_the_repartition(location):
    location.planned(0, 5, partitions=2)
    location.planned(1, 9, partitions=2, is_over=False)
    assert location.rescale_query(3) == RescaleResult(2)
    assert location.requested == []


@pytest.mark.parametrize(("wanted", "asked"), [(3, [3]), (1, [3, 1])])
def test_interrupted_repartition_is_repeated_before_another_one(location, wanted, asked):
    location.planned(0, 5, partitions=2)
    location.planned(1, 5, partitions=3, is_over=False)
    assert is_repartition(batch_ends(location.folder), 1)
    assert location.rescale_query(wanted) == RescaleResult(wanted)
    assert location.requested == asked


def test_state_that_spark_cannot_repartition_is_kept_and_logged(location):
    location.planned(0, 5, partitions=2)
    location.keeps(1, "globalLimit")
    assert location.rescale_query(3) == RescaleResult(2, is_refused=True)
    assert location.requested == [], "Spark would leave a query that cannot start"
    [event] = read_events(location.events)
    assert (event["kind"], event["operators"]) == (RESCALE_REFUSED, ["globalLimit"])


def test_query_without_state_is_not_repartitioned(tmp_path):
    location = Location(tmp_path)
    location.planned(0, 5, partitions=2)
    assert location.rescale_query(3) == RescaleResult(2, is_refused=True)
    assert location.requested == []
    [event] = read_events(location.events)
    assert (event["kind"], event["operators"]) == (RESCALE_REFUSED, [])
