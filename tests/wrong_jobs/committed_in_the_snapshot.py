"""The sink commits in its snapshot, before the checkpoint is complete."""

from __future__ import annotations

from typing import Any

from onceproof.scenarios._sink_around import SinkAround
from tests.wrong_jobs.family import WrongJob, held_back_rows, passed_on

NAMED = "should not be there"


class Buffering(SinkAround):
    """Commits early."""

    def invoke(self, value: Any, context: Any) -> None:
        self._sink.invoke(value, context)

    def snapshot_state(self, context: Any) -> None:
        super().snapshot_state(context)
        super().notify_checkpoint_complete(context.get_checkpoint_id())  # wrong


family = WrongJob("committed_in_the_snapshot", passed_on, held_back_rows, held_back=True, sink=Buffering)
