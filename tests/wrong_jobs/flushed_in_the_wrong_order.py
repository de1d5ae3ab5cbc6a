"""The snapshot of the inner sink is taken before the buffer is written into it."""

from __future__ import annotations

from typing import Any

from onceproof.scenarios._sink_around import SinkAround
from tests.wrong_jobs.family import WrongJob, held_back_rows, passed_on

NAMED = "comes too early"


class Buffering(SinkAround):
    """Writes rows three at a time."""

    def __init__(self, sink: Any) -> None:
        super().__init__(sink)
        self.buffer: list[Any] = []

    def invoke(self, value: Any, context: Any) -> None:
        self.buffer.append(value)
        if len(self.buffer) >= 3:
            self.flush()

    def flush(self) -> None:
        for row in self.buffer:
            self._sink.invoke(row, None)
        self.buffer.clear()

    def snapshot_state(self, context: Any) -> None:
        super().snapshot_state(context)  # wrong
        self.flush()

    def finish(self) -> None:
        self.flush()
        super().finish()


family = WrongJob("flushed_in_the_wrong_order", passed_on, held_back_rows, held_back=True, sink=Buffering)
