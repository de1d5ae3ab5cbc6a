"""The store of completed checkpoints; what Flink's own classes answered is in the conformance vectors."""

import pytest

from onceproof.engine.checkpoint.completed_store import CompletedCheckpointStore, is_discardable
from onceproof.engine.checkpoint.metadata import CheckpointMetadata


def checkpoint(checkpoint_id, kind="checkpoint"):
    return CheckpointMetadata(checkpoint_id, "", "job", 0, kind, "1.1", ())


def filled(num_retained, *kinds):
    store = CompletedCheckpointStore(num_retained)
    for checkpoint_id, kind in enumerate(kinds, start=1):
        store.add(checkpoint(checkpoint_id, kind))
    return [item.checkpoint_id for item in store.retained]


def test_empty_store_has_nothing_to_restore():
    store = CompletedCheckpointStore(1)
    assert store.latest is None
    assert store.retained == ()


def test_latest_is_the_one_added_last():
    store = CompletedCheckpointStore(2)
    store.add(checkpoint(1))
    store.add(checkpoint(5))
    assert store.latest == checkpoint(5)


@pytest.mark.parametrize(
    ("num_retained", "kinds", "kept"),
    [
        (3, ["checkpoint"] * 5, [3, 4, 5]),
        (2, ["checkpoint", "savepoint", "savepoint", "savepoint"], [1, 4]),
        (2, ["savepoint", "checkpoint", "checkpoint"], [2, 3]),
        (2, ["checkpoint", "savepoint", "sync_savepoint"], [2, 3]),
        (1, ["savepoint", "savepoint"], [2]),
    ],
)
def test_oldest_go_first_but_never_the_latest_checkpoint_that_is_no_savepoint(num_retained, kinds, kept):
    assert filled(num_retained, *kinds) == kept


def test_id_that_does_not_rise_is_refused():
    store = CompletedCheckpointStore(2)
    store.add(checkpoint(3))
    with pytest.raises(ValueError, match="ids must rise"):
        store.add(checkpoint(3))


def test_store_that_would_keep_nothing_is_refused():
    with pytest.raises(ValueError, match="at least 1"):
        CompletedCheckpointStore(0)


def test_files_of_savepoints_are_the_users_to_delete():
    assert is_discardable(checkpoint(1))
    assert not is_discardable(checkpoint(1, "savepoint"))
    assert not is_discardable(checkpoint(1, "sync_savepoint"))
