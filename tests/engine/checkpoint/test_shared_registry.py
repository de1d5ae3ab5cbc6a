"""Shared files: the registry by itself, and as the coordinator uses it over aborts and late answers."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceproof.engine.checkpoint.completed_store import CompletedCheckpointStore
from onceproof.engine.checkpoint.coordinator import CheckpointCoordinator
from onceproof.engine.checkpoint.events import (
    CheckpointAborted,
    DiscardHandle,
    DiscardSharedFiles,
    StoreMetadata,
)
from onceproof.engine.checkpoint.metadata import (
    CheckpointMetadata,
    OperatorMetadata,
    StateHandle,
    SubtaskState,
)
from onceproof.engine.checkpoint.shared_registry import SharedStateRegistry, UnknownSharedFile
from onceproof.engine.messages import TaskId
from onceproof.engine.state.stored import StateFile

FIRST, SECOND, SINK = TaskId(0, 0), TaskId(0, 1), TaskId(1, 0)


def uploaded(content, path=None):
    return StateFile("op", f"{content}.sst", f"shared/{path or content}", 10, content)


def known(content):
    return StateFile("op", f"{content}.sst", "", 10, content)


def deleted(effects):
    return [path for effect in effects if isinstance(effect, DiscardSharedFiles) for path in effect.paths]


def paths_in(effects):
    (stored,) = [effect.metadata for effect in effects if isinstance(effect, StoreMetadata)]
    return sorted(
        {
            file.path
            for operator in stored.operators
            for subtask in operator.subtasks
            if subtask.handle is not None
            for file in subtask.handle.files
        }
    )


class Shares:
    """A bench whose first task shares files."""

    def __init__(self, bench_with, **settings):
        self.bench = bench_with(**settings)
        self.bench.start()
        self.bench.elapse(100)

    def answered(self, checkpoint_id, *files):
        """All answer; the first with files."""
        effects = self.bench.acknowledge(FIRST, checkpoint_id, files=files)
        for task in (SECOND, SINK):
            effects += self.bench.acknowledge(task, checkpoint_id)
        return effects

    def completed(self, checkpoint_id, *files):
        """It completes, and the next one is triggered."""
        effects = self.answered(checkpoint_id, *files) + self.bench.stored(checkpoint_id)
        return effects + self.bench.elapse(100 * (checkpoint_id + 1))


@pytest.fixture
def shares(bench_with):
    return Shares(bench_with)


def test_a_file_goes_when_the_last_checkpoint_that_used_it_is_subsumed(shares):
    assert deleted(shares.completed(1, uploaded("a"), uploaded("b"))) == []
    assert deleted(shares.completed(2, known("a"), uploaded("c"))) == ["shared/b"]
    assert deleted(shares.completed(3, known("c"))) == ["shared/a"]


def test_metadata_name_a_known_file_by_its_path(shares):
    shares.completed(1, uploaded("a", "chk-1.x"))
    assert paths_in(shares.answered(2, known("a"), uploaded("b"))) == ["shared/b", "shared/chk-1.x"]


def test_an_aborted_checkpoint_leaves_what_the_one_before_uses(shares):
    shares.completed(1, uploaded("a"))
    effects = shares.bench.acknowledge(FIRST, 2, files=[known("a"), uploaded("b")])
    effects += shares.bench.decline(SINK, 2)
    assert any(isinstance(effect, CheckpointAborted) for effect in effects)
    assert deleted(effects) == []
    shares.bench.elapse(300)
    # What the aborted one has stored goes when a later one is complete; what others use stays.
    assert deleted(shares.completed(3, known("a"))) == ["shared/b"]


def test_of_two_uploads_of_a_content_the_later_counts_until_one_is_complete(shares):
    shares.bench.acknowledge(FIRST, 1, files=[uploaded("a", "chk-1.a")])
    shares.bench.decline(SINK, 1)
    shares.bench.elapse(200)
    effects = shares.answered(2, uploaded("a", "chk-2.a"))
    assert deleted(effects) == ["shared/chk-1.a"]
    assert paths_in(effects) == ["shared/chk-2.a"]


def test_what_is_stored_again_although_a_complete_checkpoint_has_it_is_deleted(shares):
    shares.completed(1, uploaded("a", "chk-1.a"))
    effects = shares.answered(2, uploaded("a", "chk-2.a"))
    assert deleted(effects) == ["shared/chk-2.a"]
    assert paths_in(effects) == ["shared/chk-1.a"]


def test_a_pending_checkpoint_outlives_the_upload_that_a_later_one_supersedes(bench_with):
    shares = Shares(bench_with, max_concurrent=2)
    shares.bench.acknowledge(FIRST, 1, files=[uploaded("a", "chk-1.a")])
    shares.bench.elapse(200)
    assert deleted(shares.bench.acknowledge(FIRST, 2, files=[uploaded("a", "chk-2.a")])) == ["shared/chk-1.a"]
    shares.bench.acknowledge(SECOND, 1)
    assert paths_in(shares.bench.acknowledge(SINK, 1)) == ["shared/chk-2.a"]


def test_file_of_a_complete_checkpoint_stays_though_a_pending_one_used_it_since(bench_with):
    shares = Shares(bench_with, max_concurrent=3)
    for checkpoint_id in (2, 3):
        shares.bench.elapse(100 * checkpoint_id)
    shares.bench.acknowledge(FIRST, 1, files=[uploaded("a", "chk-1.a")])
    shares.bench.acknowledge(FIRST, 2, files=[uploaded("a", "chk-2.a")])
    shares.bench.acknowledge(SECOND, 1)
    assert paths_in(shares.bench.acknowledge(SINK, 1)) == ["shared/chk-2.a"]
    shares.bench.stored(1)
    assert deleted(shares.bench.acknowledge(FIRST, 3, files=[uploaded("a", "chk-3.a")])) == ["shared/chk-3.a"]


def test_a_late_answer_gives_up_its_uploads_and_nothing_that_others_use(shares):
    shares.completed(1, uploaded("a"))
    shares.bench.expire(2)
    effects = shares.bench.acknowledge(FIRST, 2, files=[known("a"), uploaded("b")])
    (discarded,) = [effect.handle for effect in effects if isinstance(effect, DiscardHandle)]
    assert discarded.paths == (discarded.path, "shared/b")


def test_an_answer_that_comes_twice_does_not_bring_a_deleted_upload_back(shares):
    shares.bench.acknowledge(FIRST, 1, files=[uploaded("a", "chk-1.a")])
    shares.bench.decline(SINK, 1)
    shares.bench.elapse(200)
    shares.bench.acknowledge(FIRST, 2, files=[uploaded("a", "chk-2.a")])
    (discarded,) = [
        effect.handle
        for effect in shares.bench.acknowledge(FIRST, 1, files=[uploaded("a", "chk-1.a")])
        if isinstance(effect, DiscardHandle)
    ]
    assert "shared/chk-1.a" in discarded.paths
    shares.bench.acknowledge(SECOND, 2)
    assert paths_in(shares.bench.acknowledge(SINK, 2)) == ["shared/chk-2.a"]


def test_an_answer_that_comes_late_and_twice_leaves_what_it_has_registered(shares):
    shares.completed(1, uploaded("a"))
    shares.completed(2, known("a"), uploaded("b"))
    # Of the attempt, but for a checkpoint that is subsumed: its own file is deleted, the shared one is used.
    effects = shares.bench.acknowledge(FIRST, 1, files=[uploaded("a")])
    (discarded,) = [effect.handle for effect in effects if isinstance(effect, DiscardHandle)]
    assert discarded.paths == (discarded.path,)


def test_checkpoint_that_names_an_unstored_file_fails(shares):
    effects = shares.answered(1, known("nowhere"))
    (aborted,) = [effect for effect in effects if isinstance(effect, CheckpointAborted)]
    assert aborted.reason == "nowhere.sst, a file with the SHA-256 nowhere, is stored nowhere"


def test_a_process_that_recovers_counts_what_the_retained_checkpoints_share(bench_with):
    def metadata(checkpoint_id, *files):
        handle = StateHandle(f"chk-{checkpoint_id}/x", 1, "", {}, files)
        operator = OperatorMetadata("op", "op", "op", 1, 128, (SubtaskState(handle, False),))
        return CheckpointMetadata(checkpoint_id, "job", "job", 0, "checkpoint", "1.1", (operator,))

    bench = bench_with(num_retained=2)
    for checkpoint_id, files in ((3, [uploaded("a"), uploaded("b")]), (4, [uploaded("b")])):
        bench.store.add(metadata(checkpoint_id, *files))
    shares = Shares(bench_with, num_retained=2)
    shares.bench = bench
    bench.coordinator = CheckpointCoordinator("job", "words", bench.settings, bench.store)
    bench.start("2.1")
    bench.elapse(100)
    effects = shares.answered(5, known("b"), uploaded("c"))
    assert paths_in(effects) == ["shared/b", "shared/c"]
    assert deleted(bench.stored(5)) == ["shared/a"]


def test_unknown_content_cannot_be_named_without_a_path():
    with pytest.raises(UnknownSharedFile, match="SHA-256 x is named but not stored"):
        SharedStateRegistry().register(1, "x", "")


def test_metadata_without_shared_files_are_left_alone():
    handle = StateHandle("chk-1/x", 1, "", {}, (StateFile("op", "a.sst", "chk-1/x.a.sst", 1, "a"),))
    operator = OperatorMetadata("op", "op", "op", 1, 128, (SubtaskState(handle, False),))
    given_metadata = CheckpointMetadata(1, "job", "job", 0, "checkpoint", "1.1", (operator,))
    registry = SharedStateRegistry([given_metadata])
    assert len(registry) == 0
    assert registry.resolved(given_metadata) == given_metadata


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["complete", "abort", "restart"]),
        st.sets(st.sampled_from("abcdef"), max_size=4),
        st.integers(1, 3),
    ),
    max_size=12,
)


@given(STEPS, st.integers(1, 3))
def test_every_retained_checkpoint_finds_its_files_and_nothing_else_is_left(steps, num_retained):
    """A model of storage: uploads come and go, and what retained checkpoints name is always there."""
    store = CompletedCheckpointStore(num_retained)
    registry = SharedStateRegistry()
    disk: Counter[str] = Counter()
    live: dict[str, str] = {}
    for checkpoint_id, (outcome, contents, uploads) in enumerate(steps, start=1):
        if outcome == "restart":
            registry = SharedStateRegistry(store.retained)
            live = dict.fromkeys(
                {content for each in store.retained[-1:] for content in contents_of(each)}, ""
            )
            needed = {path for each in store.retained for path in paths_of(each)}
            for path in [path for path in disk if path not in needed]:
                del disk[path]
            continue
        handles = []
        for upload in range(uploads):
            files = [
                known(content)
                if content in live
                else uploaded(content, f"{checkpoint_id}.{upload}.{content}")
                for content in sorted(contents)
            ]
            disk.update(file.path for file in files if file.path)
            handle = StateHandle(f"chk-{checkpoint_id}/{upload}", 1, "", {}, tuple(files))
            for path in registry.register_all(checkpoint_id, handle):
                del disk[path]
            handles.append(handle)
        if outcome == "abort":
            continue
        subtasks = tuple(SubtaskState(handle, False) for handle in handles)
        operator = OperatorMetadata("op", "op", "op", uploads, 128, subtasks)
        metadata = registry.resolved(
            CheckpointMetadata(checkpoint_id, "job", "job", 0, "checkpoint", "1.1", (operator,))
        )
        registry.completed(metadata)
        store.add(metadata)
        live = dict.fromkeys(contents, "")
        for path in registry.unregister_unused(store.retained[0].checkpoint_id):
            del disk[path]
        for each in store.retained:
            assert paths_of(each) <= set(disk)
    # What aborted checkpoints have left or used goes with the last checkpoint that is older than those kept.
    for path in registry.unregister_unused(len(steps) + 1):
        del disk[path]
    assert not disk


def paths_of(metadata):
    return {
        file.path
        for operator in metadata.operators
        for subtask in operator.subtasks
        for file in subtask.handle.files
    }


def contents_of(metadata):
    return {
        file.sha256
        for operator in metadata.operators
        for subtask in operator.subtasks
        for file in subtask.handle.files
    }
