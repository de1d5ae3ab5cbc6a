"""Records in flight: who takes them over after a rescale, who keeps which, and what is refused."""

from __future__ import annotations

import pytest

from onceproof.engine.checkpoint.in_flight_redistribution import (
    Edge,
    KeyFilter,
    SubtaskMapper,
    read_in_flight,
    redistribute_in_flight,
)
from onceproof.engine.checkpoint.metadata import (
    CheckpointMetadata,
    OperatorMetadata,
    StateHandle,
    SubtaskState,
    decode_metadata,
    encode_metadata,
)
from onceproof.engine.checkpoint.redistribution import RestoreRefused
from onceproof.engine.graph import FORWARD, GLOBAL, REBALANCE, SHUFFLE, Partitioner, PartitionerKind
from onceproof.engine.key_groups import key_group_of, operator_index
from onceproof.engine.state.file_envelope import DamagedFile
from onceproof.engine.state.in_flight import INPUT, OUTPUT, ChannelId
from onceproof.engine.state.snapshot import TaskSnapshot, decode_task_snapshot, encode_task_snapshot

MAX_PARALLELISM = 8
KEYED = Partitioner(PartitionerKind.HASH, lambda value: value, None)


def owner(value, parallelism):
    return operator_index(MAX_PARALLELISM, parallelism, key_group_of(value, MAX_PARALLELISM, None))


def records(*values):
    return [(value, None) for value in values]


class Stored:
    """A checkpoint of two operators with records in flight between them, and its files."""

    def __init__(self, senders, receivers, in_flight):
        self.files = {}
        subtasks = {"source": [], "target": []}
        for operator, parallelism, side in (("source", senders, OUTPUT), ("target", receivers, INPUT)):
            for subtask in range(parallelism):
                own = {
                    channel: [buffer]
                    for channel, buffer in in_flight.items()
                    if channel.side == side
                    and subtask == (channel.sender if side == OUTPUT else channel.receiver)
                }
                handle = None
                if own:
                    encoded = encode_task_snapshot(TaskSnapshot({}, own))
                    path = f"chk-1/{operator}-{subtask}"
                    self.files[path] = encoded.data
                    handle = StateHandle(
                        path, len(encoded.data), encoded.sha256, encoded.operators, (), encoded.channels
                    )
                subtasks[operator].append(SubtaskState(handle, False))
        operators = tuple(
            OperatorMetadata(name, name, name, len(states), MAX_PARALLELISM, tuple(states))
            for name, states in subtasks.items()
        )
        self.metadata = CheckpointMetadata(1, "id", "job", 0, "checkpoint", "1.1", operators)

    def deal(self, partitioner, senders, receivers):
        """By receiver, what is put into its channels in order: (sender, values)."""
        edge = Edge("source", "target", 0, partitioner, senders, receivers, MAX_PARALLELISM)
        dealt = {}
        for (_, receiver), shares in redistribute_in_flight(self.metadata, [edge]).items():
            dealt[receiver] = [
                (share.sender, [value for value, _ in self.read(share)])
                for share in shares
                if self.read(share)
            ]
        return {receiver: found for receiver, found in dealt.items() if found}

    def read(self, share):
        return read_in_flight(share, self.files.__getitem__, {}, allow_pickle=False)


def channel(side, sender, receiver):
    return ChannelId(side, "source", "target", 0, sender, receiver)


def test_nothing_rescaled_gives_every_channel_its_own_back_what_was_read_first():
    stored = Stored(
        2,
        2,
        {
            channel(OUTPUT, 0, 1): records("b", "c"),
            channel(INPUT, 0, 1): records("a"),
            channel(OUTPUT, 1, 0): records("d"),
        },
    )
    for partitioner in (KEYED, REBALANCE, GLOBAL, FORWARD):
        assert stored.deal(partitioner, 2, 2) == {1: [(0, ["a"]), (0, ["b", "c"])], 0: [(1, ["d"])]}


@pytest.mark.parametrize("receivers", [1, 2, 3, 4, 5])
def test_along_a_keyed_edge_each_record_comes_to_the_owner_of_its_key_once(receivers):
    values = list(range(40))
    in_flight = {
        channel(OUTPUT, sender, receiver): records(
            *[value for value in values if owner(value, 3) == receiver and value % 2 == sender]
        )
        for sender in range(2)
        for receiver in range(3)
    }
    dealt = Stored(2, 3, in_flight).deal(KEYED, 2, receivers)
    arrived = [
        (receiver, value) for receiver, channels in dealt.items() for _, found in channels for value in found
    ]
    assert sorted(arrived, key=lambda pair: pair[1]) == [(owner(value, receivers), value) for value in values]
    for channels in dealt.values():
        for sender, found in channels:
            assert all(value % 2 == sender for value in found)
            assert found == sorted(found)


def test_channels_of_senders_that_are_gone_go_to_those_that_there_are():
    in_flight = {channel(OUTPUT, sender, 0): records(sender) for sender in range(3)}
    assert Stored(3, 1, in_flight).deal(KEYED, 2, 1) == {0: [(0, [0]), (1, [1]), (0, [2])]}


def test_records_dealt_out_in_turn_are_taken_over_by_whole_channels():
    in_flight = {channel(OUTPUT, 0, receiver): records(receiver) for receiver in range(3)}
    stored = Stored(1, 3, in_flight)
    assert stored.deal(REBALANCE, 1, 2) == {0: [(0, [0]), (0, [2])], 1: [(0, [1])]}
    assert stored.deal(GLOBAL, 1, 2) == {0: [(0, [0]), (0, [1]), (0, [2])]}


@pytest.mark.parametrize("receivers", [1, 2, 3, 4])
def test_a_custom_partitioner_is_asked_again_where_each_record_belongs(receivers):
    custom = Partitioner(
        PartitionerKind.CUSTOM, lambda value: 3 * value, choose=lambda key, channels: key % channels
    )
    in_flight = {
        channel(OUTPUT, 0, receiver): records(*[value for value in range(12) if 3 * value % 3 == receiver])
        for receiver in range(3)
    }
    dealt = Stored(1, 3, in_flight).deal(custom, 1, receivers)
    arrived = {
        value: receiver for receiver, channels in dealt.items() for _, found in channels for value in found
    }
    assert arrived == {value: 3 * value % receivers for value in range(12)}
    assert sum(len(found) for channels in dealt.values() for _, found in channels) == 12


def test_random_edges_are_taken_over_by_whole_channels():
    stored = Stored(1, 3, {channel(OUTPUT, 0, receiver): records(receiver) for receiver in range(3)})
    assert stored.deal(SHUFFLE, 1, 2) == {0: [(0, [0]), (0, [2])], 1: [(0, [1])]}


def test_an_edge_that_gives_no_rule_is_refused_once_it_is_rescaled():
    stored = Stored(2, 2, {channel(OUTPUT, 0, 0): records("a")})
    with pytest.raises(RestoreRefused, match="which a forward edge cannot rescale: restore it at the para"):
        stored.deal(FORWARD, 3, 3)


def test_an_edge_that_is_gone_is_refused_by_the_names_of_its_operators():
    stored = Stored(1, 1, {channel(INPUT, 0, 0): records("a")})
    with pytest.raises(RestoreRefused, match="in flight from 'source' to 'target', and the job no such edge"):
        redistribute_in_flight(stored.metadata, [])
    other = Edge("source", "elsewhere", 0, KEYED, 1, 1, 8)
    with pytest.raises(RestoreRefused, match="change the job with a savepoint"):
        redistribute_in_flight(stored.metadata, [other])


def test_a_filter_keeps_its_key_groups():
    low = KeyFilter(lambda value: value, None, 8, 0, 3)
    high = KeyFilter(lambda value: value, None, 8, 4, 7)
    given = records(*range(20))
    assert sorted(low.keep(given) + high.keep(given)) == given
    assert low.keep(given)
    assert high.keep(given)


def test_a_mapper_without_a_rule_says_so():
    with pytest.raises(RestoreRefused, match="keep its parallelism"):
        SubtaskMapper.UNSUPPORTED.old_subtasks(0, 2, 3)
    assert [list(SubtaskMapper.FIRST.old_subtasks(each, 3, 2)) for each in range(2)] == [[0, 1, 2], []]


def test_metadata_lists_how_many_records_are_in_flight():
    stored = Stored(1, 1, {channel(INPUT, 0, 0): records("a", "b"), channel(OUTPUT, 0, 0): records("c")})
    read_back = decode_metadata(encode_metadata(stored.metadata), "_metadata")
    assert read_back == stored.metadata
    assert read_back.records_in_flight == 3


# The file.


@pytest.mark.parametrize("change", ["flip", "cut", "grow"])
def test_damaged_records_in_flight_are_found_and_the_state_is_still_read(change):
    stored = Stored(1, 1, {channel(INPUT, 0, 0): records("a")})
    (share,) = redistribute_in_flight(
        stored.metadata, [Edge("source", "target", 0, KEYED, 1, 1, MAX_PARALLELISM)]
    )[0, 0]
    path = share.handle.path
    data = stored.files[path]
    assert decode_task_snapshot(data, path, share.handle.sha256) == {}
    damages = {"flip": data[:-1] + bytes([data[-1] ^ 1]), "cut": data[:-1], "grow": data + b"x"}
    stored.files[path] = damages[change]
    with pytest.raises(DamagedFile, match=path):
        stored.read(share)


def test_the_records_of_another_file_are_found():
    stored = Stored(1, 2, {channel(INPUT, 0, 0): records("a"), channel(INPUT, 0, 1): records("b")})
    shares = redistribute_in_flight(
        stored.metadata, [Edge("source", "target", 0, KEYED, 1, 2, MAX_PARALLELISM)]
    )
    one, other = shares[0, 0][0], shares[0, 1][0]
    stored.files[one.handle.path] = stored.files[other.handle.path]
    with pytest.raises(DamagedFile, match="are others than those that the metadata lists"):
        stored.read(one)
