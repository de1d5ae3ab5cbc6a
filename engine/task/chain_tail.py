"""The tail of a chain: the operators behind one operator, and the outputs of the task.

An operator holds only what comes after it, never the task nor itself. So a task is freed as soon as its
driver drops it, without the garbage collector.
"""

from __future__ import annotations

from collections.abc import Sequence

from onceproof.engine.elements import ACTIVE, IDLE, Record, Watermark
from onceproof.engine.operators.base import Emit, Operator, ProcessBatch
from onceproof.engine.task.event_context import EventContext
from onceproof.engine.task.outputs import Output


class ChainTail:
    """Where an operator emits records, watermarks and status on its own initiative (Flink: Output)."""

    __slots__ = ("_counters", "_emits", "_operators", "_outputs", "_processes", "wake_at", "wake_at_steady")

    def __init__(
        self,
        operators: Sequence[Operator],
        processes: Sequence[ProcessBatch],
        emits: Sequence[Emit],
        outputs: Sequence[Output],
        context: EventContext,
    ) -> None:
        self._operators = operators
        self._processes = processes
        self._emits = emits
        self._outputs = outputs
        self._counters = context.counters
        self.wake_at = context.wake_at
        self.wake_at_steady = context.wake_at_steady

    def emit(self, records: list[Record]) -> None:
        """Send records through the operators to the outputs."""
        self._emit(records, 0)

    def watermark(self, timestamp: int) -> None:
        """Send a watermark through the operators, behind the records that each emits because of it."""
        for place, operator in enumerate(self._operators):
            records = operator.process_watermark(timestamp)
            if records:
                self._emit(records, place + 1)
            if not operator.passes_watermarks:
                return
        self._counters.watermark = timestamp
        watermark = Watermark(timestamp)
        for output in self._outputs:
            output.broadcast(watermark)

    def status(self, is_idle: bool) -> None:
        """Send idle or active to the outputs, unless an operator on the way makes its own watermarks."""
        for operator in self._operators:
            if not operator.passes_status:
                return
        status = IDLE if is_idle else ACTIVE
        for output in self._outputs:
            output.broadcast(status)

    def _emit(self, records: list[Record], place: int) -> None:
        for process in self._processes[place:]:
            if not records:
                return
            records = process(records, 0)
        if records:
            self._counters.records_out += len(records)
            for emit in self._emits:
                emit(records)
