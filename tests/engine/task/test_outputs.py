"""Where records go, edge by edge; control elements go everywhere."""

from __future__ import annotations

from collections import Counter, deque

import pytest

from onceproof.engine.elements import END_OF_DATA, CheckpointBarrier
from onceproof.engine.graph import (
    BROADCAST,
    FORWARD,
    GLOBAL,
    REBALANCE,
    RESCALE,
    SHUFFLE,
    JobEdge,
    Partitioner,
    PartitionerKind,
)
from onceproof.engine.java_hashes import InvalidKey
from onceproof.engine.key_groups import key_group_of, operator_index
from onceproof.engine.task import outputs
from onceproof.engine.task.outputs import (
    BroadcastOutput,
    HashOutput,
    RebalanceOutput,
    ShuffleOutput,
    SingleOutput,
    build_output,
)
from onceproof.engine.types import Types

BY_WORD = Partitioner(PartitionerKind.HASH, lambda value: value[0], Types.STRING())
WORDS = [f"word {number}" for number in range(50)]


def records_of(*values):
    return [(value, number) for number, value in enumerate(values)]


def values_in(queue):
    return [record[0] for buffer in queue for record in buffer]


def wired(partitioner, channels, subtask=0, max_parallelism=128):
    queues = [deque() for _ in range(channels)]
    edge = JobEdge(0, 1, partitioner, 0, 0)
    return build_output(edge, subtask, queues, max_parallelism), queues


def owner(word, channels, max_parallelism=128):
    group = key_group_of(word, max_parallelism, Types.STRING())
    return operator_index(max_parallelism, channels, group)


@pytest.mark.parametrize("channels", [2, 3, 4])
@pytest.mark.parametrize("max_parallelism", [8, 128])
@pytest.mark.parametrize("buffer", [1, 7, 200])
def test_a_hash_edge_takes_each_record_to_the_owner_of_its_key_group(channels, max_parallelism, buffer):
    output, queues = wired(BY_WORD, channels, max_parallelism=max_parallelism)
    sent = records_of(*[(word, turn) for turn in range(3) for word in WORDS])
    for start in range(0, len(sent), buffer):
        output.emit(sent[start : start + buffer])
    for channel, queue in enumerate(queues):
        assert values_in(queue) == [
            value for value, _ in sent if owner(value[0], channels, max_parallelism) == channel
        ]
        assert queue, "the words do not reach every channel: the test shows nothing"


def test_an_int_key_goes_where_its_declared_type_says():
    """A negative number hashes to another group as an int than as a long."""
    as_int = Partitioner(PartitionerKind.HASH, lambda value: value, Types.INT())
    as_long = Partitioner(PartitionerKind.HASH, lambda value: value, Types.LONG())
    numbers = records_of(*range(-40, 0))
    int_output, int_queues = wired(as_int, 2)
    long_output, long_queues = wired(as_long, 2)
    int_output.emit(numbers)
    long_output.emit(numbers)
    assert values_in(int_queues[0]) != values_in(long_queues[0])
    assert sorted(values_in(int_queues[0]) + values_in(int_queues[1])) == list(range(-40, 0))


@pytest.mark.parametrize("buffer", [[1, 2, 1 << 63, 3], [1 << 63]], ids=["several", "alone"])
def test_a_hash_edge_leaves_to_its_target_only_the_class_of_known_keys(buffer):
    queues = [deque(), deque()]
    output = HashOutput(queues, lambda value: value, Types.LONG(), 128, "sums", is_checked_behind=True)
    output.emit(records_of(1, 2))
    sent = [list(queue) for queue in queues]
    with pytest.raises(InvalidKey, match=r"on the way to sums: .* is no LONG"):
        output.emit(records_of(*buffer))
    assert [list(queue) for queue in queues] == sent
    with pytest.raises(InvalidKey, match=r"on the way to sums: .* is no LONG"):
        output.emit(records_of([1], 2))


def test_a_hash_edge_sends_no_empty_buffers():
    output, queues = wired(BY_WORD, 4)
    output.emit(records_of(("a", 1), ("a", 2)))
    assert [len(queue) for queue in queues].count(1) == 1
    assert sum(len(queue) for queue in queues) == 1


def test_the_cache_of_keys_is_bounded_and_its_loss_changes_nothing(monkeypatch):
    monkeypatch.setattr(outputs, "CACHED_KEYS", 5)
    output, queues = wired(BY_WORD, 3)
    sent = records_of(*[(word, turn) for turn in range(2) for word in WORDS])
    output.emit(sent)
    for record in sent:
        output.emit([record])
    assert isinstance(output, HashOutput)
    assert 0 < len(output._index_of_key) <= 5
    for channel, queue in enumerate(queues):
        assert set(values_in(queue)) == {value for value, _ in sent if owner(value[0], 3) == channel}
    assert sum(len(values_in(queue)) for queue in queues) == 2 * len(sent)


def test_a_key_is_located_once_while_it_is_cached(monkeypatch):
    located = []

    def locate(key, max_parallelism, key_type):
        located.append(key)
        return 0

    monkeypatch.setattr(outputs, "key_group_of", locate)
    output = HashOutput([deque(), deque()], lambda value: value, None, 128)
    output.emit(records_of("a", "b", "a"))
    output.emit(records_of("b"))
    output.emit(records_of("c"))
    assert located == ["a", "b", "c"]


@pytest.mark.parametrize("buffers", [[1] * 12, [5, 1, 6], [12], [2, 10]])
@pytest.mark.parametrize("subtask", [0, 1, 4])
def test_rebalance_deals_records_out_in_turn_whatever_the_buffers(buffers, subtask):
    output, queues = wired(REBALANCE, 3, subtask)
    numbers = iter(range(12))
    for size in buffers:
        output.emit(records_of(*[next(numbers) for _ in range(size)]))
    for channel, queue in enumerate(queues):
        assert values_in(queue) == [number for number in range(12) if (number + subtask) % 3 == channel]


def test_rebalance_of_fewer_records_than_channels_sends_no_empty_buffers():
    output, queues = wired(REBALANCE, 4)
    output.emit(records_of("a", "b"))
    assert [len(queue) for queue in queues] == [1, 1, 0, 0]


def test_two_senders_begin_with_different_channels():
    """Else the first channel gets the odd record of every sender."""
    totals = Counter()
    for subtask in range(3):
        output, queues = wired(REBALANCE, 3, subtask)
        output.emit(records_of("only"))
        totals.update(channel for channel, queue in enumerate(queues) if queue)
    assert totals == {0: 1, 1: 1, 2: 1}


def test_shuffle_sends_each_record_to_one_channel_and_to_none_too_often():
    output, queues = wired(SHUFFLE, 3)
    for start in range(0, 3000, 7):
        output.emit(records_of(*range(start, min(start + 7, 3000))))
    found = [values_in(queue) for queue in queues]
    assert sorted(value for values in found for value in values) == list(range(3000))
    assert all(800 < len(values) < 1200 for values in found)
    assert all(values == sorted(values) for values in found)


def test_shuffle_draws_the_same_again_for_a_sender_and_otherwise_for_another():
    def drawn(subtask):
        output, queues = wired(SHUFFLE, 4, subtask)
        output.emit(records_of(*range(50)))
        return [values_in(queue) for queue in queues]

    assert drawn(1) == drawn(1) != drawn(2)


@pytest.mark.parametrize("buffer", [1, 7, 200])
def test_partitioner_of_the_user_decides_by_key_and_number_of_channels(buffer):
    by_length = Partitioner(PartitionerKind.CUSTOM, len, choose=lambda length, channels: length % channels)
    output, queues = wired(by_length, 4)
    for start in range(0, len(WORDS), buffer):
        output.emit(records_of(*WORDS[start : start + buffer]))
    for channel, queue in enumerate(queues):
        assert values_in(queue) == [word for word in WORDS if len(word) % 4 == channel]
        assert all(queue)


def test_broadcast_gives_each_channel_every_record_in_a_list_of_its_own():
    output, queues = wired(BROADCAST, 3)
    sent = records_of("a", "b")
    output.emit(sent)
    assert [list(queue) for queue in queues] == [[sent], [sent], [sent]]
    assert len({id(queue[0]) for queue in queues}) == 3


def test_global_uses_the_first_channel_only():
    output, queues = wired(GLOBAL, 3, subtask=2)
    output.emit(records_of("a", "b"))
    assert [values_in(queue) for queue in queues] == [["a", "b"], [], []]


@pytest.mark.parametrize("partitioner", [FORWARD, BY_WORD, REBALANCE, RESCALE, BROADCAST, GLOBAL])
def test_a_single_channel_gets_the_buffer_as_it_is(partitioner):
    output, queues = wired(partitioner, 1, subtask=1)
    sent = records_of(("a", 1), ("b", 2))
    output.emit(sent)
    assert isinstance(output, SingleOutput)
    assert queues[0][0] is sent


@pytest.mark.parametrize(
    ("partitioner", "kind"),
    [
        (BY_WORD, HashOutput),
        (REBALANCE, RebalanceOutput),
        (RESCALE, RebalanceOutput),
        (BROADCAST, BroadcastOutput),
        (GLOBAL, SingleOutput),
        (SHUFFLE, ShuffleOutput),
    ],
)
def test_control_elements_go_to_every_channel_behind_what_was_sent(partitioner, kind):
    output, queues = wired(partitioner, 3)
    assert type(output) is kind
    barrier = CheckpointBarrier(7, 0)
    output.emit(records_of(*[(word, 1) for word in WORDS]))
    output.broadcast(barrier)
    output.emit(records_of(*[(word, 2) for word in WORDS]))
    output.broadcast(END_OF_DATA)
    for queue in queues:
        elements = list(queue)
        assert elements[-1] is END_OF_DATA
        place = elements.index(barrier)
        assert all(value[1] == 1 for value in values_in(elements[:place]))
        assert all(value[1] == 2 for value in values_in(elements[place + 1 : -1]))


def test_equal_keys_of_different_types_have_one_owner():
    """1, 1.0 and True are one key of a dict, so two senders must not send them apart."""
    partitioner = Partitioner(PartitionerKind.HASH, lambda value: value)
    owners = set()
    for key in (1, 1.0, True):
        output, queues = wired(partitioner, 8)
        output.emit(records_of(key))
        owners.update(channel for channel, queue in enumerate(queues) if queue)
    assert len(owners) == 1
