"""Barriers that overtake: what the handler decides, and what a task collects, holds, stores and sends."""

from __future__ import annotations

from collections import deque

import pytest
from msgspec.structs import replace

from onceproof.engine.configuration.alignment import ALIGNED, UNALIGNED, AlignmentKind, CheckpointOptions
from onceproof.engine.elements import (
    END_OF_DATA,
    END_OF_PARTITION,
    BarrierAnnouncement,
    CancelCheckpointMarker,
    CheckpointBarrier,
)
from onceproof.engine.graph import JobVertex, OperatorNode
from onceproof.engine.messages import (
    DECLINED_ON_CANCELLATION_BARRIER,
    DECLINED_SUBSUMED,
    SAVEPOINT,
    SYNC_SAVEPOINT,
    AcknowledgeCheckpoint,
    DeclineCheckpoint,
    NotifyCheckpointAborted,
    Send,
    TriggerCheckpoint,
)
from onceproof.engine.operators.base import Operator
from onceproof.engine.state.in_flight import INPUT, OUTPUT, ChannelId
from onceproof.engine.task.barriers.events import (
    AbortCheckpoint,
    AbortNotified,
    AlignmentTimeOut,
    BarrierAnnounced,
    BarrierArrived,
    ChannelEnded,
    InFlightComplete,
    StartAlignmentTimer,
    StartCheckpoint,
    TakeInFlight,
)
from onceproof.engine.task.barriers.unaligned import UnalignedBarrierHandler
from onceproof.engine.task.events import (
    Deliver,
    HoldSnapshot,
    Restore,
    SnapshotStored,
    StartTaskTimer,
    StoreSnapshot,
    TimerDue,
)
from onceproof.engine.task.outputs import HashOutput, ahead_of_all, behind_data, is_full, next_overtakes
from onceproof.engine.task.task import TaskSettings, TaskState
from onceproof.engine.task.unaligned_task import UnalignedTask

TIMED = CheckpointOptions(AlignmentKind.ALIGNED, 50)


def barrier(checkpoint_id, options=UNALIGNED, timestamp_ms=0):
    return CheckpointBarrier(checkpoint_id, timestamp_ms, options=options)


def buffer(*values):
    return [(value, None) for value in values]


# The handler.


def test_first_barrier_starts_the_snapshot_and_the_last_completes_in_flight():
    handler = UnalignedBarrierHandler(2)
    assert handler.handle(BarrierArrived(1, barrier(3)), 0) == [StartCheckpoint(barrier(3))]
    assert handler.blocked == [False, False]
    assert handler.undelivered == [0]
    assert handler.handle(BarrierArrived(0, barrier(3)), 0) == [InFlightComplete(3)]
    assert not handler.pending


def test_a_newer_barrier_subsumes_what_is_still_collected():
    handler = UnalignedBarrierHandler(2)
    handler.handle(BarrierArrived(1, barrier(3)), 0)
    assert handler.handle(BarrierArrived(1, barrier(4)), 0) == [
        AbortCheckpoint(3, DECLINED_SUBSUMED),
        StartCheckpoint(barrier(4)),
    ]
    assert handler.handle(BarrierArrived(0, barrier(3)), 0) == [], "out of order, and obsolete"


def test_a_barrier_with_a_timeout_goes_on_unaligned_when_its_time_is_over():
    handler = UnalignedBarrierHandler(3)
    first = barrier(1, TIMED, 100)
    assert handler.handle(BarrierArrived(0, first), 120) == [StartAlignmentTimer(150, 1)]
    assert handler.handle(BarrierAnnounced(1, first), 130) == []
    assert handler.blocked == [True, False, False]
    assert handler.handle(AlignmentTimeOut(1), 150) == [
        StartCheckpoint(first.overtaking()),
        TakeInFlight(1, (1,)),
    ]
    assert handler.blocked == [True, False, False], "who is blocked stays so until the last barrier"
    assert handler.handle(BarrierAnnounced(2, first), 151) == [TakeInFlight(1, (2,))]
    handler.handle(BarrierArrived(1, first.overtaking()), 152)
    assert handler.handle(BarrierArrived(2, first.overtaking()), 153) == [InFlightComplete(1)]
    assert handler.blocked == [False, False, False]
    handler.validate()


def test_announced_barrier_that_overtakes_starts_the_snapshot_and_overtakes():
    handler = UnalignedBarrierHandler(2)
    assert handler.handle(BarrierAnnounced(1, barrier(3)), 0) == [
        StartCheckpoint(barrier(3)),
        TakeInFlight(3, (1,)),
    ]
    assert handler.handle(BarrierAnnounced(0, barrier(3)), 0) == [TakeInFlight(3, (0,))]
    assert handler.undelivered == [0, 1]
    assert handler.handle(BarrierArrived(1, barrier(3)), 0) == []
    assert handler.handle(BarrierArrived(0, barrier(3)), 0) == [InFlightComplete(3)]
    handler.validate()


def test_a_late_barrier_notices_by_itself_that_the_time_is_over():
    handler = UnalignedBarrierHandler(2)
    late = barrier(1, TIMED, 100)
    assert handler.handle(BarrierArrived(0, late), 151) == [
        StartAlignmentTimer(151, 1),
        StartCheckpoint(late.overtaking()),
    ]


def test_the_last_barrier_completes_an_alignment_however_late_it_is():
    handler = UnalignedBarrierHandler(2)
    first = barrier(1, TIMED, 100)
    handler.handle(BarrierArrived(0, first), 110)
    assert handler.handle(BarrierArrived(1, first), 900) == [StartCheckpoint(first)]
    assert handler.handle(AlignmentTimeOut(1), 901) == [], "the timer is stale"


def test_only_announced_barriers_are_promoted_before_any_has_arrived():
    handler = UnalignedBarrierHandler(2)
    handler.handle(BarrierAnnounced(1, barrier(1, TIMED)), 0)
    assert handler.handle(AlignmentTimeOut(1), 50) == [TakeInFlight(1, (1,))]
    assert handler.handle(BarrierArrived(1, barrier(1)), 51) == [StartCheckpoint(barrier(1))]


def test_the_end_of_a_channel_is_its_barrier():
    handler = UnalignedBarrierHandler(2)
    handler.handle(BarrierArrived(0, barrier(1)), 0)
    assert handler.handle(ChannelEnded(1), 0) == [InFlightComplete(1)]


def aligned_barrier(checkpoint_id):
    return barrier(checkpoint_id, CheckpointOptions(AlignmentKind.FORCED_ALIGNED))


def test_a_barrier_behind_the_notice_of_its_abort_blocks_no_channel():
    handler = UnalignedBarrierHandler(2)
    assert handler.handle(AbortNotified(3), 0) == []
    assert handler.handle(BarrierArrived(1, aligned_barrier(3)), 0) == [
        AbortCheckpoint(3, DECLINED_ON_CANCELLATION_BARRIER)
    ]
    assert handler.blocked == [False, False]
    assert handler.handle(BarrierAnnounced(0, aligned_barrier(3)), 0) == [], "declined once"
    assert handler.handle(BarrierArrived(0, aligned_barrier(4)), 0) == []
    assert handler.blocked == [True, False], "the next one is under way"
    handler.validate()


def test_a_notice_of_an_abort_frees_the_channels_before_and_behind_the_snapshot():
    for first in (barrier(3), aligned_barrier(3)):
        handler = UnalignedBarrierHandler(3)
        handler.handle(BarrierArrived(0, first), 0)
        assert handler.handle(AbortNotified(3), 0) == [AbortCheckpoint(3, DECLINED_ON_CANCELLATION_BARRIER)]
        assert handler.handle(BarrierArrived(1, aligned_barrier(3)), 0) == []
        assert handler.blocked == [False, False, False]
        handler.validate()


def test_a_notice_for_a_younger_checkpoint_frees_the_channels_of_an_older_one():
    handler = UnalignedBarrierHandler(2)
    handler.handle(BarrierArrived(0, aligned_barrier(3)), 0)
    assert handler.handle(AbortNotified(2), 0) == [], "an older one"
    assert handler.handle(AbortNotified(4), 0) == [AbortCheckpoint(3, DECLINED_ON_CANCELLATION_BARRIER)]
    assert handler.blocked == [False, False]
    assert handler.handle(BarrierAnnounced(0, aligned_barrier(4)), 0) == [
        AbortCheckpoint(4, DECLINED_ON_CANCELLATION_BARRIER)
    ]


def test_a_trigger_overtakes_what_finished_upstreams_have_left():
    handler = UnalignedBarrierHandler(2)
    handler.handle(ChannelEnded(0), 0)
    assert handler.trigger(barrier(1)) == [
        StartCheckpoint(barrier(1)),
        TakeInFlight(1, (1,)),
        InFlightComplete(1),
    ]
    assert handler.trigger(barrier(1)) == [], "once is enough"


# Queues.


def test_a_barrier_goes_ahead_of_records_and_behind_what_is_ahead_of_them_already():
    queue = deque([barrier(1), buffer(1), buffer(2)])
    ahead_of_all(queue, barrier(2))
    assert list(queue) == [barrier(1), barrier(2), buffer(1), buffer(2)]


def test_a_barrier_behind_the_data_comes_before_the_end_of_the_channel():
    queue = deque([buffer(1), END_OF_DATA, END_OF_PARTITION])
    behind_data(queue, barrier(1))
    assert list(queue) == [buffer(1), END_OF_DATA, barrier(1), END_OF_PARTITION]
    queue = deque([buffer(1), END_OF_PARTITION])
    behind_data(queue, barrier(1))
    assert list(queue) == [buffer(1), barrier(1), END_OF_PARTITION]


def test_barriers_take_no_room():
    queue = deque([barrier(1), CancelCheckpointMarker(1), BarrierAnnouncement(barrier(2)), buffer(1)])
    assert is_full(queue, 1)
    assert not is_full(queue, 2)


def test_only_a_barrier_that_overtakes_is_taken_without_room():
    aligned = barrier(1, CheckpointOptions(AlignmentKind.FORCED_ALIGNED))
    assert next_overtakes(deque([barrier(1), buffer(1)]))
    assert next_overtakes(deque([BarrierAnnouncement(aligned), buffer(1), aligned]))
    assert not next_overtakes(deque([aligned]))
    assert not next_overtakes(deque([buffer(1), barrier(1)]))
    assert not next_overtakes(deque([CancelCheckpointMarker(1)]))


# The task.

INPUTS = tuple([ChannelId(INPUT, "up", "work", 0, sender, 1) for sender in range(2)])
OUTPUTS = tuple([ChannelId(OUTPUT, "work", "down", 0, 1, receiver) for receiver in range(2)])


class Line:
    """A task with two input channels and a keyed output to two queues."""

    def __init__(self, bench, *, options=UNALIGNED, overtakes=True, stateful=True):
        self.bench = bench
        operator = bench.recorder("op", stateful=stateful)
        node = OperatorNode("0" * 32, None, "op", lambda: Operator())
        vertex = JobVertex(0, "work", (node,), 2, 8, True, (), ())
        settings = TaskSettings("3.2", 1, bench.probe, True, options=options)
        self.task = UnalignedTask(bench.aborted(0).task, vertex, settings, (0, 0), [operator])
        self.sent = [deque(), deque()]
        self.task.connect([HashOutput(self.sent, lambda value: value, None, 2)])
        self.task.name_channels(INPUTS, (OUTPUTS if overtakes else None,))
        self.task.handle(Restore(None, {}), 0)
        bench.calls.clear()

    def arrive(self, channel, *elements):
        for element in elements:
            if type(element) is CheckpointBarrier and element.options == UNALIGNED:
                ahead_of_all(self.task.queues[channel], element)
            else:
                self.task.queues[channel].append(element)

    def read(self, channel, times=1, now=0):
        effects = []
        for _ in range(times):
            effects += self.task.handle(Deliver(channel), now)
            self.task.validate()
        return effects

    def processed(self):
        return [
            value for call, _, *rest in self.bench.take_calls() if call == "process" for value in rest[1:]
        ]


@pytest.fixture
def line(bench):
    return Line(bench)


def stored(effects):
    return [effect for effect in effects if isinstance(effect, StoreSnapshot)]


def test_a_snapshot_is_held_until_the_last_barrier_and_has_what_was_read_between(line):
    line.arrive(0, buffer("early"))
    line.read(0)
    line.arrive(0, barrier(1))
    assert [type(effect) for effect in line.read(0)] == [HoldSnapshot]
    line.arrive(1, buffer("in flight"))
    line.arrive(0, buffer("behind"))
    assert line.read(1) == []
    assert line.read(0) == []
    line.arrive(1, barrier(1))
    (store,) = line.read(1)
    assert store.snapshot.channels[INPUTS[1]] == [buffer("in flight")]
    assert INPUTS[0] not in store.snapshot.channels
    assert line.processed() == ["early", "in flight", "behind"], "all of it is processed nevertheless"


def test_what_the_barrier_overtakes_in_the_outputs_is_stored_by_the_sender(line):
    line.arrive(0, buffer(1), buffer(2), buffer(3))
    line.read(0, 3)
    queued = [list(queue) for queue in line.sent]
    assert any(queued)
    line.arrive(0, barrier(1))
    line.arrive(1, barrier(1))
    (store,) = stored(line.read(0) + line.read(1))
    for name, queue, before in zip(OUTPUTS, line.sent, queued, strict=True):
        assert list(queue) == [barrier(1), *before]
        assert store.snapshot.channels.get(name, []) == before


def test_a_task_without_state_stores_what_is_in_flight(bench):
    line = Line(bench, stateful=False)
    line.arrive(0, barrier(1))
    line.read(0)
    line.arrive(1, buffer("x"), barrier(1))
    assert line.task.queues[1][0] == barrier(1)
    effects = line.read(1)
    # The sender has stored what the barrier overtook there; nothing was in flight for this task.
    assert effects == [Send(AcknowledgeCheckpoint("3.2", line.task.id, 1, None, False))]
    line.read(1)
    line.arrive(0, barrier(2))
    line.read(0)
    line.arrive(1, buffer("y"))
    line.read(1)
    line.arrive(1, barrier(2))
    (store,) = stored(line.read(1))
    assert store.snapshot.operators == {}
    assert store.snapshot.channels[INPUTS[1]] == [buffer("y")]


def test_an_abort_drops_what_is_held(line):
    line.arrive(0, barrier(1))
    line.read(0)
    line.task.handle(NotifyCheckpointAborted("3.2", line.task.id, 1), 0)
    line.arrive(1, barrier(1))
    assert line.read(1) == []


def test_an_abort_frees_the_channel_that_a_forced_barrier_has_blocked(line):
    line.arrive(0, barrier(1, CheckpointOptions(AlignmentKind.FORCED_ALIGNED)))
    line.read(0)
    assert list(line.task.barriers.blocked) == [True, False]
    line.task.handle(NotifyCheckpointAborted("3.2", line.task.id, 1), 0)
    assert list(line.task.barriers.blocked) == [False, False]
    assert line.sent[0][-1] == CancelCheckpointMarker(1)


def test_a_cancellation_marker_drops_what_is_held_and_goes_on(line):
    line.arrive(0, barrier(1))
    line.read(0)
    line.arrive(1, CancelCheckpointMarker(1))
    (declined,) = line.read(1)
    assert declined == Send(DeclineCheckpoint("3.2", line.task.id, 1, DECLINED_ON_CANCELLATION_BARRIER))
    assert line.sent[0][-1] == CancelCheckpointMarker(1)


def test_an_edge_without_support_carries_the_barrier_behind_the_records(bench):
    line = Line(bench, overtakes=False)
    line.arrive(0, buffer(1))
    line.read(0)
    line.arrive(0, barrier(1))
    line.read(0)
    for queue in line.sent:
        assert queue[-1].options.alignment is AlignmentKind.FORCED_ALIGNED


def test_behind_a_forced_alignment_the_barrier_overtakes_again(line):
    forced = barrier(1, CheckpointOptions(AlignmentKind.FORCED_ALIGNED))
    line.arrive(0, buffer(1))
    line.read(0)
    line.arrive(0, forced)
    assert line.read(0) == []
    assert line.task.barriers.blocked == [True, False]
    line.arrive(1, forced)
    (store,) = line.read(1)
    assert line.sent[0][0].options == UNALIGNED
    assert list(store.snapshot.channels.values()) == [[buffer(1)]]


def test_a_savepoint_is_aligned_and_waits_behind_what_finished_upstreams_have_left(line):
    line.arrive(0, buffer(1), END_OF_DATA, END_OF_PARTITION)
    line.arrive(1, END_OF_DATA, END_OF_PARTITION)
    line.task.handle(TriggerCheckpoint("3.2", line.task.id, 1, 0, SAVEPOINT), 0)
    aligned = CheckpointBarrier(1, 0, SAVEPOINT, ALIGNED)
    assert list(line.task.queues[0]) == [buffer(1), END_OF_DATA, aligned, END_OF_PARTITION]
    assert not stored([*line.read(0, 3), *line.read(1)])
    (store,) = stored(line.read(1))
    assert not store.snapshot.channels


def test_a_task_that_stops_with_a_savepoint_has_ended_its_data_if_all_upstreams_had(line):
    line.arrive(0, END_OF_DATA, END_OF_PARTITION)
    line.arrive(1, END_OF_DATA, END_OF_PARTITION)
    line.task.handle(TriggerCheckpoint("3.2", line.task.id, 1, 0, SYNC_SAVEPOINT), 0)
    (store,) = stored([*line.read(0, 2), *line.read(1, 2)])
    assert line.task.state is TaskState.ENDED_DATA
    [answer] = line.task.handle(SnapshotStored(store.checkpoint_id, None), 0)
    assert answer.message.finished


def test_when_the_time_is_over_an_announced_barrier_overtakes_in_the_queue(bench):
    line = Line(bench, options=TIMED)
    timed = barrier(1, TIMED, 0)
    line.task.queues[0].extend([BarrierAnnouncement(timed), buffer("a"), timed])
    (timer,) = line.read(0, now=10)
    assert timer == StartTaskTimer(50)
    line.task.handle(TimerDue(50), 50)
    assert list(line.task.queues[0]) == [timed.overtaking(), buffer("a")]
    assert [type(effect) for effect in line.read(0, now=51)] == [HoldSnapshot]
    line.arrive(1, timed)
    (store,) = stored(line.read(1, now=52))
    assert store.snapshot.channels[INPUTS[0]] == [buffer("a")]
    answer = line.task.handle(SnapshotStored(1, "handle"), 53)
    assert answer == (Send(AcknowledgeCheckpoint("3.2", line.task.id, 1, "handle", False)),)


def test_an_announcement_is_sent_only_where_records_are_ahead(bench):
    line = Line(bench, options=TIMED)
    line.arrive(0, buffer(1))
    line.read(0)
    timed = barrier(1, TIMED, 0)
    line.arrive(0, timed)
    line.arrive(1, timed)
    line.read(0)
    line.read(1)
    with_records, empty = sorted(line.sent, key=len, reverse=True)
    assert list(with_records) == [BarrierAnnouncement(timed), buffer(1), timed]
    assert list(empty) == [timed]


def test_restored_records_are_processed_before_the_task_says_that_it_runs(bench):
    line = Line(bench)
    task = UnalignedTask(line.task.id, line.task.vertex, line.task.settings, (0, 1), line.task.operators)
    task.connect(line.task.outputs)
    task.queues[0].append(buffer("new"))
    restored = Restore(1, {}, [(1, buffer("old 1", "old 2")), (0, buffer("old 3"))])
    task.handle(restored, 0)
    processed = [call for call in bench.take_calls() if call[0] == "process"]
    assert processed == [("process", "op", 1, "old 1", "old 2"), ("process", "op", 0, "old 3")]
    assert task.queues[0] == deque([buffer("new")])


def test_a_held_snapshot_of_another_checkpoint_is_found(line):
    line.arrive(0, barrier(1))
    line.read(0)
    line.task._held = replace(line.task._held, checkpoint_id=7)
    with pytest.raises(AssertionError, match="holds a snapshot of checkpoint 7 though barriers of 1"):
        line.task.validate()
