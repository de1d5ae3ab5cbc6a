"""What initialize_state has restored is emptied by open."""

from __future__ import annotations

from typing import Any

from onceproof.engine import ListStateDescriptor
from onceproof.scenarios._sink_around import SinkAround
from tests.wrong_jobs.family import ROW, WrongJob, held_back_rows, passed_on

NAMED = "should not be there"


class Buffering(SinkAround):
    """Writes rows three at a time."""

    def initialize_state(self, context: Any) -> None:
        super().initialize_state(context)
        self.state = context.get_list_state(ListStateDescriptor("buffer", ROW))
        self.buffer = list(self.state.get())

    def open(self, runtime_context: Any) -> None:
        super().open(runtime_context)
        self.buffer = []  # wrong

    def invoke(self, value: Any, context: Any) -> None:
        self.buffer.append(value)
        if len(self.buffer) >= 3:
            self.flush()

    def flush(self) -> None:
        for row in self.buffer:
            self._sink.invoke(row, None)
        self.buffer.clear()

    def snapshot_state(self, context: Any) -> None:
        self.state.update(self.buffer)
        super().snapshot_state(context)

    def finish(self) -> None:
        self.flush()
        super().finish()


family = WrongJob("emptied_in_open", passed_on, held_back_rows, held_back=True, sink=Buffering)
