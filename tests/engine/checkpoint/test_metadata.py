"""Checkpoint metadata: what is written can be read, and nothing else can."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onceproof.engine.checkpoint.metadata import (
    CheckpointMetadata,
    OperatorMetadata,
    StateHandle,
    SubtaskState,
    decode_metadata,
    encode_metadata,
    handle_of,
)
from onceproof.engine.state.file_envelope import METADATA_MAGIC, DamagedFile, seal
from onceproof.engine.state.snapshot import TaskSnapshot, encode_task_snapshot
from onceproof.engine.state.stored import SnapshotIndex


def handle(path, *operators):
    return StateHandle(
        path, 10, "ab" * 32, {operator: SnapshotIndex({"count": {3: 1}}, {}) for operator in operators}
    )


def metadata():
    chain = (SubtaskState(handle("chk-7/chain-0", "head", "tail"), False), SubtaskState(None, True))
    return CheckpointMetadata(
        7,
        "f" * 32,
        "word count",
        1234,
        "checkpoint",
        "2.1",
        (
            OperatorMetadata("head", "uid", "Source", 2, 128, chain),
            OperatorMetadata("tail", None, "Sink", 2, 128, chain),
        ),
    )


ENCODED = encode_metadata(metadata())


def test_metadata_comes_back_as_it_was():
    assert decode_metadata(ENCODED, "_metadata") == metadata()


def test_same_checkpoint_gives_the_same_bytes():
    assert encode_metadata(metadata()) == ENCODED


def test_file_of_a_chain_is_described_once():
    assert ENCODED.count(b"chk-7/chain-0") == 1
    head, tail = decode_metadata(ENCODED, "_metadata").operators
    assert head.subtasks is tail.subtasks


@settings(max_examples=100, deadline=None)
@given(st.integers(0, len(ENCODED) - 1), st.integers(1, 255))
def test_any_changed_byte_is_noticed_and_reported_with_the_path(place, change):
    damaged = bytearray(ENCODED)
    damaged[place] ^= change
    with pytest.raises(DamagedFile, match=r"^jobs/1/chk-7/_metadata: "):
        decode_metadata(bytes(damaged), "jobs/1/chk-7/_metadata")


@pytest.mark.parametrize("body", [b"\x90", b"\xc1", b"\x93\x01\x02\x03"])
def test_sound_envelope_around_something_else_is_refused(body):
    with pytest.raises(DamagedFile, match="its content cannot be read"):
        decode_metadata(seal(METADATA_MAGIC, body)[0], "_metadata")


def test_operator_has_state_only_where_a_file_holds_some_of_its_own():
    head, _ = metadata().operators
    assert head.has_state
    assert not OperatorMetadata("other", None, "x", 1, 128, head.subtasks).has_state
    empty = StateHandle("p", 1, "", {"head": SnapshotIndex({"count": {}}, {"list": ("UNION", 0)})})
    assert not OperatorMetadata("head", None, "x", 1, 128, (SubtaskState(empty, False),)).has_state


def test_operator_is_finished_only_when_all_its_subtasks_are():
    ended, runs = SubtaskState(None, True), SubtaskState(None, False)
    assert not OperatorMetadata("head", None, "x", 2, 128, (runs, ended)).is_finished
    assert OperatorMetadata("head", None, "x", 2, 128, (ended, ended)).is_finished


def test_handle_describes_the_stored_file():
    encoded = encode_task_snapshot(TaskSnapshot({}))
    described = handle_of("chk-1/a", encoded)
    assert (described.path, described.length, described.sha256) == (
        "chk-1/a",
        len(encoded.data),
        encoded.sha256,
    )
