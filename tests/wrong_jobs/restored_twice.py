"""What waits is taken from the state twice: by initialize_state and by open."""

from __future__ import annotations

from typing import Any

from onceproof.engine import ListStateDescriptor
from onceproof.scenarios._sink_around import SinkAround
from tests.wrong_jobs.family import ROW, WrongJob, held_back_rows, passed_on

NAMED = ""


class Buffering(SinkAround):
    """Writes rows three at a time."""

    def __init__(self, sink: Any) -> None:
        super().__init__(sink)
        self.buffer: list[Any] = []

    def initialize_state(self, context: Any) -> None:
        super().initialize_state(context)
        self.state = context.get_list_state(ListStateDescriptor("buffer", ROW))
        self.buffer = list(self.state.get())

    def open(self, runtime_context: Any) -> None:
        super().open(runtime_context)
        self.buffer += self.state.get()  # wrong

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


family = WrongJob("restored_twice", passed_on, held_back_rows, held_back=True, sink=Buffering)
