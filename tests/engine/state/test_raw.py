"""Raw state: bytes are redistributed with their key group or partition, and misuse is an error."""

import pytest

from onceproof.engine.state.file_envelope import StateError
from onceproof.engine.state.raw import (
    KeyedStateOutput,
    KeyGroupStatePartition,
    OperatorStateOutput,
    StatePartition,
    partitions_of,
    without_raw,
)
from onceproof.engine.state.snapshot import (
    OperatorSnapshot,
    TaskSnapshot,
    decode_task_snapshot,
    encode_task_snapshot,
)


def test_partitions_are_written_in_pieces_and_kept_apart():
    output = OperatorStateOutput()
    output.write(b"a")
    output.write(b"b")
    output.start_new_partition()
    output.start_new_partition()
    output.write(b"c")
    assert output.get_number_of_partitions() == 3
    assert output.partitions() == [b"ab", b"", b"c"]


def test_key_groups_are_written_in_pieces_and_kept_apart():
    output = KeyedStateOutput((2, 5))
    assert list(output.get_key_group_list()) == [2, 3, 4, 5]
    output.start_new_key_group(4)
    output.write(b"a")
    output.write(b"b")
    output.start_new_key_group(2)
    assert output.is_key_group_already_started(4)
    assert not output.is_key_group_already_started(3)
    assert output.streams() == {2: b"", 4: b"ab"}
    assert list(output.streams()) == [2, 4]


@pytest.mark.parametrize(
    ("use", "words"),
    [
        (lambda output: output.start_new_key_group(6), "key group 6: this subtask owns 2 to 5"),
        (lambda output: output.start_new_key_group(1), "key group 1: this subtask owns 2 to 5"),
        (lambda output: output.write(b"a"), "before a key group"),
        (lambda output: [output.start_new_key_group(2) for _ in "ab"], "key group 2 was begun before"),
    ],
    ids=["above", "below", "none begun", "begun twice"],
)
def test_misuse_of_key_groups_is_refused(use, words):
    with pytest.raises(StateError, match=words):
        use(KeyedStateOutput((2, 5)))


def test_raw_state_is_stored_apart_from_managed_state():
    snapshot = OperatorSnapshot(raw_keyed={3: b"three", 5: b""}, raw_operator=[b"x", b"y"])
    encoded = encode_task_snapshot(TaskSnapshot({"op": snapshot}))
    assert encoded.has_state
    stored = decode_task_snapshot(encoded.data, "file", encoded.sha256)["op"]
    (keyed,) = stored.keyed.values()
    (partitions,) = stored.operator.values()
    assert partitions_of(keyed) == [KeyGroupStatePartition(3, b"three"), KeyGroupStatePartition(5, b"")]
    assert partitions_of(keyed.within(4, 6)) == [KeyGroupStatePartition(5, b"")]
    assert partitions.elements == [b"x", b"y"]
    assert without_raw(stored.keyed) == without_raw(stored.operator) == {}


def test_written_bytes_are_read_as_a_stream():
    assert StatePartition(b"abc").get_stream().read(2) == b"ab"
    group = KeyGroupStatePartition(7, b"abc")
    assert (group.get_key_group_id(), group.get_stream().read()) == (7, b"abc")
