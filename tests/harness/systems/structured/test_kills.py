"""The fault board of a query: rescales that a kill requests, and kills at points that the driver passes."""

from __future__ import annotations

import os

import msgspec
import pytest

from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.process.job_specification import Spec
from onceproof.harness.systems.recording.event_log import EventLog, read_all_events
from onceproof.harness.systems.structured.kills import (
    QueryKilled,
    QueryRescaled,
    begin_query,
    end_to_rescale,
    query_board,
    wanted_partitions,
)


@pytest.fixture
def spec(tmp_path):
    return Spec(
        family="word_count",
        job_name="word_count",
        checkpoints="",
        output="",
        events=str(tmp_path / "events"),
        parallelism=2,
        board=str(tmp_path / "board"),
    )


def board_with(spec, *faults):
    return query_board(msgspec.structs.replace(spec, faults=faults), os.getpid(), EventLog(spec.events))


def test_a_kill_at_a_point_of_the_driver_fails_the_query(spec, tmp_path):
    board = board_with(spec, Fault("kill_task", "triggered", rescale_to=3))
    with pytest.raises(QueryKilled, match="kill_task at triggered"):
        board("triggered", "source", 0)
    board("triggered", "source", 0)
    assert board.state().struck == 1
    kinds = [event["kind"] for event in read_all_events(tmp_path / "events")]
    assert kinds == ["fault_struck", "task_failed"], "the strike is logged before the death"


def test_query_stops_between_batches_to_rescale_after_a_kill(spec):
    board = board_with(spec, Fault("kill_all", "triggered", rescale_to=3))
    begin_query(board, 2)
    end_to_rescale(board)
    assert wanted_partitions(board, spec) == 2
    with pytest.raises(QueryKilled):
        board("triggered", "source", 0)
    assert wanted_partitions(board, spec) == 3
    with pytest.raises(QueryRescaled, match="from 2 to 3 partitions"):
        end_to_rescale(board)
    begin_query(board, 3)
    end_to_rescale(board)


def test_refused_rescale_is_not_requested_again(spec):
    board = board_with(spec, Fault("kill_all", "triggered", rescale_to=3))
    with pytest.raises(QueryKilled):
        board("triggered", "source", 0)
    begin_query(board, 2, refused=True)
    end_to_rescale(board)
    assert wanted_partitions(board, spec) == 2


@pytest.mark.parametrize("kind", ["fail_commit", "commit_error_after_success"])
def test_a_commit_fault_strikes_once_and_kills_nothing(spec, kind):
    board = board_with(spec, Fault(kind, "committing"))
    fault = board.commit_fault("sink", 1)
    assert fault is not None
    assert fault.kind == kind
    assert board.commit_fault("sink", 2) is None
    assert board.state().struck == 1
