"""Channels between two processes: how much is under way, and what barriers overtake."""

from __future__ import annotations

import socket
from collections import deque

import pytest

from onceproof.engine.configuration.alignment import UNALIGNED, checkpoint_options
from onceproof.engine.elements import (
    END_OF_DATA,
    BarrierAnnouncement,
    CheckpointBarrier,
    Watermark,
)
from onceproof.engine.runtime.task_turns import Pace
from onceproof.engine.runtime.workers.channels import IncomingChannel, OutgoingChannel
from onceproof.engine.runtime.workers.link import CREDIT, ELEMENT, Link
from onceproof.engine.task.outputs import SingleOutput
from onceproof.engine.task.task_counters import TaskCounters
from onceproof.engine.types.exchange import NotExchangeable, decode, encode

WINDOW = 10
TIMED = checkpoint_options(is_savepoint=False, exactly_once=True, unaligned=True, aligned_timeout_ms=1000)


class Both:
    """Both ends of a channel, with a slow or a fast receiver."""

    def __init__(self, *, is_slow=False):
        ours, theirs = socket.socketpair()
        self.sent, self.read = deque(), deque()
        self.links = Link(ours), Link(theirs)
        self.pace = Pace(100, 1, 0 if is_slow else -1)
        self.outgoing = OutgoingChannel(
            3, self.sent, self.links[0], WINDOW, is_slow=is_slow, counters=TaskCounters()
        )
        self.incoming = IncomingChannel(3, self.read, self.links[1], WINDOW, self.pace, TaskCounters())

    def exchange(self):
        """Let each end send what it has to send, and take what has arrived."""
        self.outgoing.transfer()
        self.links[0].flush()
        for kind, number, content in self.links[1].receive():
            assert (kind, number) == (ELEMENT, 3)
            self.incoming.take(content)
        self.incoming.report()
        self.links[1].flush()
        for kind, number, content in self.links[0].receive():
            assert (kind, number) == (CREDIT, 3)
            self.outgoing.credit(content)

    def close(self):
        for link in self.links:
            link.close()


@pytest.fixture
def channel():
    both = Both()
    yield both
    both.close()


@pytest.fixture
def slow_channel():
    both = Both(is_slow=True)
    yield both
    both.close()


def records(count):
    return [(number, None) for number in range(count)]


def barrier(options, checkpoint_id=1):
    return CheckpointBarrier(checkpoint_id, 0, options=options)


def test_no_more_than_the_window_is_under_way(channel):
    channel.sent.extend([records(4) for _ in range(9)])
    for _ in range(5):
        channel.exchange()
    assert [len(buffer) for buffer in channel.read] == [4, 4, 4]
    assert len(channel.sent) == 6
    channel.read.popleft()
    channel.exchange()
    channel.exchange()
    assert sum(map(len, channel.read)) == 12
    assert len(channel.sent) == 5


def test_slow_receiver_gets_what_it_works_off_soon(slow_channel):
    slow_channel.sent.append(records(3))
    read = []
    while slow_channel.sent:
        slow_channel.exchange()
        assert len(slow_channel.read) == 1
        read += slow_channel.read.popleft()
        slow_channel.exchange()
    read += slow_channel.read.popleft() if slow_channel.read else []
    assert read == records(3)


def test_watermarks_take_room_and_barriers_take_none(channel):
    aligned = barrier(TIMED.on_edge_without_unaligned_support())
    channel.sent.extend([*map(Watermark, range(WINDOW + 2)), aligned])
    channel.exchange()
    assert len(channel.read) == WINDOW
    channel.read.clear()
    channel.sent.rotate(1)
    channel.exchange()
    channel.exchange()
    assert list(channel.read) == [aligned, Watermark(WINDOW), Watermark(WINDOW + 1)]


def test_barrier_that_overtakes_is_announced_ahead_of_what_was_sent(channel):
    channel.sent.extend([records(WINDOW), records(2), END_OF_DATA])
    channel.exchange()
    overtaken = SingleOutput([channel.sent]).overtake(barrier(UNALIGNED))
    assert overtaken == [[records(2)]]
    channel.exchange()
    announced = barrier(UNALIGNED)
    assert list(channel.read) == [BarrierAnnouncement(announced), records(WINDOW), announced]
    assert list(channel.sent) == [records(2), END_OF_DATA]


def test_barrier_that_may_overtake_brings_all_ahead_of_it_along(channel):
    channel.sent.extend([records(WINDOW), records(2), records(3)])
    channel.exchange()
    SingleOutput([channel.sent]).send_announced(barrier(TIMED))
    channel.sent.append(records(1))
    channel.exchange()
    timed = barrier(TIMED)
    assert list(channel.read) == [BarrierAnnouncement(timed), records(WINDOW), records(2), records(3), timed]
    assert list(channel.sent) == [records(1)]


def test_barrier_behind_no_records_is_not_announced(channel):
    SingleOutput([channel.sent]).overtake(barrier(UNALIGNED))
    channel.exchange()
    assert list(channel.read) == [barrier(UNALIGNED)]


def test_frames_that_arrive_in_parts_are_put_together(channel):
    large = [("x" * 1_000_000, None)]
    channel.sent.append(large)
    while not channel.read:
        channel.exchange()
    assert list(channel.read) == [large]


def test_link_of_a_dead_process_takes_everything_and_gives_nothing(channel):
    channel.links[1].close()
    channel.sent.extend([records(1), records(1)])
    for _ in range(2):
        channel.outgoing.transfer()
        channel.links[0].flush()
        assert list(channel.links[0].receive()) == []
    assert channel.links[0].is_closed
    assert not channel.links[0].waits_to_write


def test_values_keep_their_types_between_processes():
    values = [((1, "a"), None), ([b"x", {1: None}], 2**70), (bytearray(b"y"), -1)]
    assert decode(encode(values)) == values
    assert type(decode(encode(values))[2][0]) is bytearray


def test_value_without_a_form_is_refused_with_the_mend():
    with pytest.raises(NotExchangeable, match=r"cannot pass to another process: .* or set execution\.local"):
        encode([(lambda: None, None)])
