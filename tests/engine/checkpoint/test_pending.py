"""A checkpoint under way, by itself."""

from __future__ import annotations

import pytest

from onceproof.engine.checkpoint.events import CheckpointPlan
from onceproof.engine.checkpoint.pending import Answer, PendingCheckpoint
from onceproof.engine.messages import AcknowledgeCheckpoint, AttemptId, TaskId

ONE, TWO = TaskId(0, 0), TaskId(0, 1)
ATTEMPT = AttemptId("1.1")


def acknowledgement(task, finished=False):
    return AcknowledgeCheckpoint(ATTEMPT, task, 3, None, finished)


@pytest.fixture
def pending():
    return PendingCheckpoint(3, 40, ATTEMPT, [ONE, TWO], [])


def test_everyone_is_missing_until_he_answers(pending):
    assert list(pending.missing) == [ONE, TWO]
    assert pending.acknowledge(acknowledgement(TWO)) is Answer.SUCCESS
    assert list(pending.missing) == [ONE]
    assert not pending.is_fully_acknowledged
    assert pending.acknowledge(acknowledgement(ONE)) is Answer.SUCCESS
    assert pending.is_fully_acknowledged


def test_a_second_answer_is_a_duplicate_and_the_first_one_counts(pending):
    pending.acknowledge(acknowledgement(ONE))
    assert pending.acknowledge(acknowledgement(ONE, finished=True)) is Answer.DUPLICATE
    assert not pending._answers[ONE].finished


def test_nobody_else_is_known(pending):
    assert pending.acknowledge(acknowledgement(TaskId(4, 0))) is Answer.UNKNOWN
    assert list(pending.missing) == [ONE, TWO]


def test_metadata_of_a_checkpoint_that_lacks_answers_is_a_mistake(pending):
    pending.acknowledge(acknowledgement(ONE))
    with pytest.raises(AssertionError, match="checkpoint 3 lacks 1 answers"):
        pending.metadata(CheckpointPlan(ATTEMPT, (), {}), "job", "words")


def test_a_subtask_that_neither_answered_nor_had_finished_is_a_mistake(desk):
    pending = PendingCheckpoint(3, 40, ATTEMPT, [], [ONE])
    with pytest.raises(AssertionError, match="checkpoint 3 has no state of TaskId"):
        pending.metadata(CheckpointPlan(ATTEMPT, desk.vertices, {}), "job", "words")
