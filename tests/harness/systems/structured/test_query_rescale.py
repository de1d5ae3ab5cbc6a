"""When the state of a query is dealt out anew, and when it must wait, be done again, or be left as it is."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from onceproof.harness.systems.recording.event_log import EventLog, read_events
from onceproof.harness.systems.structured.query_output import batch_ends
from onceproof.harness.systems.structured.query_rescale import (
    RESCALE_REFUSED,
    RescaleResult,
    is_repartition,
    rescale_query,
)


class Location:
    """A checkpoint location, and a Spark that does what is asked with it."""

    def __init__(self, folder):
        self.folder = folder / "checkpoints"
        self.told = folder / "events"
        for name in ("offsets", "commits"):
            (self.folder / name).mkdir(parents=True)
        self.asked = []

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
        self.asked.append(partitions)

    def rescale_query(self, wanted):
        session = SimpleNamespace(_streamingCheckpointManager=self)
        return rescale_query(session, self.folder, wanted, EventLog(str(self.told)))


@pytest.fixture
def location(tmp_path):
    location = Location(tmp_path)
    location.keeps(0, "stateStoreSave")
    return location


def test_a_query_that_has_not_begun_may_have_any_number(location):
    assert location.rescale_query(3) == RescaleResult(3)
    assert location.asked == []


def test_a_query_that_has_the_number_is_left_alone(location):
    location.planned(0, 5, partitions=2)
    assert location.rescale_query(2) == RescaleResult(2)
    assert location.asked == []


def test_a_query_whose_batches_are_over_gets_the_number(location):
    location.planned(0, 5, partitions=2)
    assert location.rescale_query(3) == RescaleResult(3)
    assert location.asked == [3]


def test_a_batch_that_is_under_way_comes_first(location):
    location.planned(0, 5, partitions=2)
    location.planned(1, 9, partitions=2, is_over=False)
    assert location.rescale_query(3) == RescaleResult(2)
    assert location.asked == []


@pytest.mark.parametrize(("wanted", "asked"), [(3, [3]), (1, [3, 1])])
def test_a_repartition_that_was_cut_off_is_done_again_before_another_one(location, wanted, asked):
    location.planned(0, 5, partitions=2)
    location.planned(1, 5, partitions=3, is_over=False)
    assert is_repartition(batch_ends(location.folder), 1)
    assert location.rescale_query(wanted) == RescaleResult(wanted)
    assert location.asked == asked


def test_what_spark_cannot_deal_out_stays_as_it_is_and_that_is_told(location):
    location.planned(0, 5, partitions=2)
    location.keeps(1, "globalLimit")
    assert location.rescale_query(3) == RescaleResult(2, is_refused=True)
    assert location.asked == [], "Spark would leave a query that cannot start"
    [event] = read_events(location.told)
    assert (event["kind"], event["operators"]) == (RESCALE_REFUSED, ["globalLimit"])


def test_a_query_without_state_has_nothing_to_deal_out(tmp_path):
    location = Location(tmp_path)
    location.planned(0, 5, partitions=2)
    assert location.rescale_query(3) == RescaleResult(2, is_refused=True)
    assert location.asked == []
    [event] = read_events(location.told)
    assert (event["kind"], event["operators"]) == (RESCALE_REFUSED, [])
