"""What lies behind an operator of a chain: the operators after it and the outputs of the task.

An operator holds only what comes after it, never the task nor itself: a task is gone as soon as its driver
lets go of it, without the garbage collector.
"""

from __future__ import annotations

from collections.abc import Sequence

from onceproof.engine.elements import ACTIVE, IDLE, Record, Watermark
from onceproof.engine.operators.base import Emit, Operator
from onceproof.engine.task.in_hand import EventInHand
from onceproof.engine.task.outputs import Output


class ChainTail:
    """The operators from some place of a chain on, and the outputs."""

    __slots__ = ("_emits", "_operators", "_outputs", "wake_at")

    def __init__(
        self,
        operators: Sequence[Operator],
        emits: Sequence[Emit],
        outputs: Sequence[Output],
        event: EventInHand,
    ) -> None:
        self._operators = operators
        self._emits = emits
        self._outputs = outputs
        self.wake_at = event.wake_at

    def emit(self, records: list[Record]) -> None:
        """Take records down the chain."""
        self._emit(records, 0)

    def watermark(self, timestamp: int) -> None:
        """Take a watermark down the chain, each operator's records ahead of it."""
        for place, operator in enumerate(self._operators):
            records = operator.process_watermark(timestamp)
            if records:
                self._emit(records, place + 1)
            if not operator.passes_watermarks:
                return
        watermark = Watermark(timestamp)
        for output in self._outputs:
            output.broadcast(watermark)

    def status(self, is_idle: bool) -> None:
        """Tell the outputs, unless an operator makes its own watermarks on the way."""
        for operator in self._operators:
            if not operator.passes_watermarks:
                return
        status = IDLE if is_idle else ACTIVE
        for output in self._outputs:
            output.broadcast(status)

    def _emit(self, records: list[Record], place: int) -> None:
        for operator in self._operators[place:]:
            if not records:
                return
            records = operator.process_batch(records, 0)
        if records:
            for emit in self._emits:
                emit(records)
