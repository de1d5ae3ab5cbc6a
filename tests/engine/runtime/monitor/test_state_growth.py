"""Which states count as growing: those that never shrink over ten checkpoints."""

from __future__ import annotations

import pytest

from onceproof.engine.checkpoint.metadata import (
    CheckpointMetadata,
    OperatorMetadata,
    StateFile,
    StateHandle,
    SubtaskState,
)
from onceproof.engine.messages import AttemptId
from onceproof.engine.runtime.monitor.checkpoint_statistics import StateGrowth
from onceproof.engine.runtime.monitor.job_view import GrowingState
from onceproof.engine.state.stored import SnapshotIndex


def checkpoint(number, sizes, *, operator_state=0, files=None):
    """Return the metadata of a checkpoint; ``sizes``: by subtask, the entries of state 'seen'."""
    subtasks = []
    for size in sizes:
        index = SnapshotIndex({"seen": {0: size, 1: 1}}, {"offsets": ("split", operator_state)})
        tables = ()
        if files is not None:
            index = SnapshotIndex({"seen": {}}, {}, is_native=True)
            tables = (StateFile(operator_id="id", name="f", path="f", length=files, sha256="0" * 64),)
        subtasks.append(SubtaskState(StateHandle("path", 9, "0" * 64, {"id": index}, tables), False))
    operator = OperatorMetadata("id", None, "count", len(sizes), 128, tuple(subtasks))
    return CheckpointMetadata(number, "job", "words", 0, "checkpoint", AttemptId("1.1"), (operator,))


def growing(checkpoints):
    growth = StateGrowth()
    for each in checkpoints:
        growth.completed(each)
    return growth.growing()


def test_state_that_grows_with_each_of_ten_checkpoints_is_named_over_all_subtasks():
    found = growing(checkpoint(number, [number, 10 * number]) for number in range(1, 11))
    assert found == (GrowingState("count", "seen", "entries", 13, 112, 10),)


@pytest.mark.parametrize(
    "sizes",
    [
        [1, 2, 3, 4, 5, 6, 7, 8, 9],
        [1, 2, 3, 4, 5, 6, 7, 8, 9, 8],
        [5, 5, 5, 5, 5, 5, 5, 5, 5, 5],
        [1, 2, 3, 4, 5, 5, 5, 5, 5, 5],
    ],
    ids=["nine checkpoints", "shrinks once", "stays", "fills up"],
)
def test_state_that_shrinks_or_stays_does_not_count_as_growing(sizes):
    assert growing(checkpoint(number, [size]) for number, size in enumerate(sizes)) == ()


def test_state_that_pauses_between_checkpoints_still_grows():
    sizes = [1, 1, 2, 2, 3, 3, 4, 4, 5, 6]
    [found] = growing(checkpoint(number, [size]) for number, size in enumerate(sizes))
    assert (found.first, found.last) == (2, 7)


def test_elements_of_operator_state_and_bytes_of_a_database_are_seen_too():
    found = growing(checkpoint(number, [1], operator_state=number) for number in range(10))
    assert found == (GrowingState("count", "offsets", "entries", 0, 9, 10),)
    found = growing(checkpoint(number, [1], files=100 * number) for number in range(10))
    assert found == (GrowingState("count", "all states", "bytes", 0, 900, 10),)
