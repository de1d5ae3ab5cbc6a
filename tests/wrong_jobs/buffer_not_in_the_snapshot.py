"""Rows that wait in the sink are in no snapshot."""

from __future__ import annotations

from typing import Any

from onceproof.scenarios._sink_around import SinkAround
from tests.wrong_jobs.family import WrongJob, held_back_rows, passed_on

NAMED = "`self.buffer`"


class Buffering(SinkAround):
    """Writes rows three at a time."""

    def __init__(self, sink: Any) -> None:
        super().__init__(sink)
        self.buffer: list[Any] = []

    def invoke(self, value: Any, context: Any) -> None:
        self.buffer.append(value)  # wrong
        if len(self.buffer) >= 3:
            self.flush()

    def flush(self) -> None:
        for row in self.buffer:
            self._sink.invoke(row, None)
        self.buffer.clear()

    def finish(self) -> None:
        self.flush()
        super().finish()


family = WrongJob("buffer_not_in_the_snapshot", passed_on, held_back_rows, held_back=True, sink=Buffering)
