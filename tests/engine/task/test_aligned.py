"""What the recorded vectors do not ask of alignment: the end of the task itself."""

from __future__ import annotations

from engine.elements import CheckpointBarrier
from engine.task.barriers.aligned import AlignedBarrierHandler
from engine.task.barriers.events import BarrierArrived


def test_a_task_that_finishes_while_it_aligns_holds_no_channel_back() -> None:
    handler = AlignedBarrierHandler(2)
    handler.handle(BarrierArrived(0, CheckpointBarrier(4, 0)), 0)
    assert handler.blocked == [True, False]
    handler.close()
    handler.validate()
    assert handler.blocked == [False, False]
    assert not handler.pending
