"""The operator that matches the events of a stream (Flink: CepOperator).

Rules:

- Results carry the time of their match: that of its last event or, for one that times out, of its end. In
  processing time they carry none.
- Each subtask has a copy of the conditions, as of the function.
- Late events go to the side output, or are dropped and counted.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from functools import cmp_to_key, partial
from typing import Any, Final, TypeAlias

from msgspec import Struct

from onceproof.engine.cep.automaton import Automaton, Match
from onceproof.engine.cep.matching import Matching, MatchStates
from onceproof.engine.cep.pattern import Pattern
from onceproof.engine.cep.pattern_functions import PatternProcessFunction, TimedOutPartialMatchHandler
from onceproof.engine.elements import Record
from onceproof.engine.operators.base import OperatorContext
from onceproof.engine.operators.rich import KeyedFunctionOperator
from onceproof.engine.operators.side_outputs import emit_side_outputs
from onceproof.engine.operators.time_services import USER_TIMERS, KeyTimers
from onceproof.engine.output_tag import OutputTag
from onceproof.engine.owned import PLAIN
from onceproof.engine.state.descriptors import MapStateDescriptor, ValueStateDescriptor
from onceproof.engine.state.timers import TimerQueue, Timers
from onceproof.engine.types import TypeInformation, Types
from onceproof.engine.types.composite import list_type
from onceproof.engine.types.wrapped import nullable

EventComparator: TypeAlias = Callable[[Any, Any], int]
"""Compares two events of the same time: negative, zero or positive, as Java's Comparator."""

NFA_STATE: Final = "nfaStateName"
EVENT_QUEUE_STATE: Final = "eventQueuesStateName"
EVENTS_STATE: Final = "sharedBuffer-events"
"""Flink's names."""


class PatternSettings(Struct, frozen=True):
    """What a job says of a pattern on a stream."""

    pattern: Pattern
    comparator: EventComparator | None = None
    is_event_time: bool = True
    late_tag: OutputTag | None = None
    event_type: TypeInformation | None = None


class CepOperator(KeyedFunctionOperator):
    """Calls a PatternProcessFunction for each match."""

    uses_time = True
    timers: Timers
    function: PatternProcessFunction

    def __init__(
        self,
        function: PatternProcessFunction,
        settings: PatternSettings,
        key_selector: Callable[[Any], Any],
        key_type: TypeInformation | None,
    ) -> None:
        super().__init__(function, key_selector, key_type)
        self._settings = settings
        self._pattern = copy.deepcopy(settings.pattern)
        self.late_records_dropped = 0
        """The count of this subtask in this attempt."""
        self.late_records = 0
        """The count with those that went to a side output."""

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        assert context.downstream is not None
        backend, settings = self._keyed, self._settings
        self.timers = self.event_clock = Timers(backend, USER_TIMERS, context.downstream.wake_at)
        self._side_outputs = context.side_outputs
        self._context = PatternProcessFunction.Context(context.clock)
        self._results: list[Record] = []
        event_type = nullable(Types.DYNAMIC() if settings.event_type is None else settings.event_type)
        waiting = MapStateDescriptor(EVENT_QUEUE_STATE, Types.LONG(), list_type("LIST", event_type))
        states = MatchStates(
            backend.live_state(waiting),
            backend.live_state(ValueStateDescriptor(NFA_STATE)),
            backend.live_state(MapStateDescriptor(EVENTS_STATE, Types.LONG(), event_type)),
        )
        comparator = settings.comparator
        self._matching = Matching(
            Automaton(self._pattern, context.clock),
            states,
            KeyTimers(backend, self.timers, context.clock),
            self,
            settings.is_event_time,
            None if comparator is None else partial(sorted, key=cmp_to_key(comparator)),
        )

    def process_batch(self, records: list[Record], input_index: int) -> list[Record]:
        add, results, settings = self._matching.add, self._results, self._settings
        select_key = self._key_selector
        backend = self.begin_buffer(records)
        plain, identify = backend.common_kind(), backend.identify
        for value, timestamp in records:
            key = select_key(value)
            backend.current_key = key if key.__class__ is plain else identify(key)
            if timestamp is None:
                if settings.is_event_time:
                    raise TypeError(
                        "a pattern in event time needs records with timestamps: give the stream a watermark"
                        " strategy, or call in_processing_time()"
                    )
                timestamp = 0
            if not add(value, timestamp):
                self.late_records += 1
                if settings.late_tag is None:
                    self.late_records_dropped += 1
                else:
                    results.append(((settings.late_tag, value), timestamp))
        return self._emitted()

    def process_watermark(self, timestamp: int) -> list[Record]:
        self.timers.watermark = timestamp
        self._fire(self.timers.event, timestamp)
        return self._emitted()

    def process_time(self, now: int) -> list[Record]:
        self._fire(self.timers.processing, now)
        self.timers.request_wakeup()
        return self._emitted()

    def _fire(self, queue: TimerQueue, limit: int) -> None:
        while (due := queue.pop_due(limit)) is not None:
            self._keyed.current_key, timestamp = due
            self._matching.on_timer(timestamp)

    def matched(self, match: Match, timestamp: int) -> None:
        """Call the function for a match."""
        self._context.match_timestamp = timestamp
        self._collect(self.function.process_match(match, self._context), timestamp)

    def timed_out(self, match: Match, timestamp: int) -> None:
        """Call the function for a match that has run out of time, if it asks for these."""
        function: Any = self.function
        if isinstance(function, TimedOutPartialMatchHandler):
            self._context.match_timestamp = timestamp
            self._collect(_tagged(function.process_timed_out_match(match, self._context)), timestamp)

    def _collect(self, emitted: Iterable[Any] | None, timestamp: int) -> None:
        own = self._own
        at = timestamp if self._settings.is_event_time else None
        for result in emitted or ():
            self._results.append((result if type(result) in PLAIN else own(result), at))

    def _emitted(self) -> list[Record]:
        results, self._results = self._results, []
        return emit_side_outputs(results, self._side_outputs) if OutputTag.exist else results


def _tagged(emitted: Iterable[Any] | None) -> Sequence[Any]:
    results = [] if emitted is None else list(emitted)
    for each in results:
        if type(each) is not tuple or len(each) != 2 or type(each[0]) is not OutputTag:
            raise TypeError(
                f"process_timed_out_match yields {each!r}: yield a tag and a value, for a side output"
            )
    return results
