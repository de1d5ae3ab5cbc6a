"""The operators of process functions, on plain and on keyed streams.

The rules this module lives by:

- One context object serves every record of a subtask; it holds the current record's timestamp.
- A function is called for one record or one timer at a time, with its key as the current key.
"""

from __future__ import annotations

from onceproof.engine.elements import Record
from onceproof.engine.functions import KeyedProcessFunction, ProcessFunction
from onceproof.engine.operators.base import FunctionOperator, OperatorContext
from onceproof.engine.operators.firing import TimedOperator, overrides_on_timer
from onceproof.engine.operators.rich import KeyedFunctionOperator
from onceproof.engine.operators.side_outputs import emit_side_outputs
from onceproof.engine.operators.time_services import NoTimers, UnheardTimers
from onceproof.engine.output_tag import OutputTag
from onceproof.engine.owned import HASHED, PLAIN
from onceproof.engine.timer_service import TimerService
from onceproof.engine.types.row import ROW_HASHED


class ProcessOperator(FunctionOperator):
    """Applies a ProcessFunction (Flink: ProcessOperator)."""

    function: ProcessFunction

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._process = self.function.process_element
        self._service = NoTimers(context.clock)
        self.event_clock = self._service
        self._context = ProcessFunction.Context(self._service)
        self._side_outputs = context.side_outputs

    def process_batch(self, records: list[Record], input_index: int) -> list[Record]:
        process = self._process
        context = self._context
        own = self._own
        settled = self.settled_kind()
        results: list[Record] = []
        for value, timestamp in records:
            context.element_timestamp = timestamp
            emitted = process(value, context)
            if emitted is not None:
                for result in emitted:
                    kind = result.__class__
                    if kind is not settled:
                        try:
                            if (result in HASHED or ROW_HASHED) if kind is tuple else kind not in PLAIN:
                                result = own(result)
                        except TypeError:
                            result = own(result)
                    results.append((result, timestamp))
        return emit_side_outputs(results, self._side_outputs) if OutputTag.exist else results

    def process_watermark(self, timestamp: int) -> list[Record]:
        self._service.watermark = timestamp
        return []


class KeyedProcessOperator(KeyedFunctionOperator):
    """Applies a process function without timers under the record's key (Flink: KeyedProcessOperator).

    A plain ProcessFunction gets what a KeyedProcessFunction gets (Flink: LegacyKeyedProcessOperator).
    """

    function: KeyedProcessFunction | ProcessFunction

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._process = self.function.process_element
        self._context = KeyedProcessFunction.Context(self.create_service(context), self._keyed)
        self._side_outputs = context.side_outputs

    def create_service(self, context: OperatorContext) -> TimerService:
        """Return the timer service for the function's contexts."""
        self._service = UnheardTimers(context.clock)
        self.event_clock = self._service
        return self._service

    def process_batch(self, records: list[Record], input_index: int) -> list[Record]:
        process = self._process
        select_key = self._key_selector
        context = self._context
        backend = self.begin_buffer(records)
        plain, identify = backend.common_kind(), backend.identify
        own = self._own
        settled = self.settled_kind()
        results: list[Record] = []
        for value, timestamp in records:
            key = select_key(value)
            backend.current_key = key if key.__class__ is plain else identify(key)
            context.element_timestamp = timestamp
            emitted = process(value, context)
            if emitted is not None:
                for result in emitted:
                    kind = result.__class__
                    if kind is not settled:
                        try:
                            if (result in HASHED or ROW_HASHED) if kind is tuple else kind not in PLAIN:
                                result = own(result)
                        except TypeError:
                            result = own(result)
                    results.append((result, timestamp))
        return emit_side_outputs(results, self._side_outputs) if OutputTag.exist else results

    def process_watermark(self, timestamp: int) -> list[Record]:
        self._service.watermark = timestamp
        return []


class TimedProcessOperator(TimedOperator, KeyedProcessOperator):
    """Applies a process function with ``on_timer`` (Flink: KeyedProcessOperator)."""

    def timer_context(self) -> KeyedProcessFunction.OnTimerContext:
        return KeyedProcessFunction.OnTimerContext(self._context.time_service, self._keyed)


def has_timers(function: KeyedProcessFunction | ProcessFunction) -> bool:
    """Return whether a function overrides ``on_timer``."""
    is_keyed = isinstance(function, KeyedProcessFunction)
    return overrides_on_timer(function, KeyedProcessFunction if is_keyed else ProcessFunction)
