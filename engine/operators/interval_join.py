"""The interval join of two keyed streams (Flink: IntervalJoinOperator).

The rules this module lives by, all of them Flink's:

- A left record at ``t`` and a right record of the same key are a pair if the timestamp of the right one is
  from ``t + lower`` to ``t + upper``, both inclusive.
- Both sides keep their records by timestamp in a map of the key. Each record joins the records of the other
  side that have arrived before it, so a pair is found once.
- An event-time timer removes a record when the watermark has passed all its possible partners.
- A record whose timestamp is less than the watermark is late, because its partners may be gone. It goes to
  the side output of its side, or is dropped and counted.
- The results of a pair carry the later of its two timestamps.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from onceproof.engine.connected_functions import ProcessJoinFunction
from onceproof.engine.elements import Record
from onceproof.engine.operators.base import OperatorContext
from onceproof.engine.operators.co_process import InputKeys, TwoInputOperator
from onceproof.engine.operators.side_outputs import emit_side_outputs
from onceproof.engine.output_tag import OutputTag
from onceproof.engine.owned import HASHED, PLAIN
from onceproof.engine.state.descriptors import MapStateDescriptor
from onceproof.engine.state.interfaces import MapState
from onceproof.engine.state.timers import Timers
from onceproof.engine.types import TypeInformation, Types
from onceproof.engine.types.composite import list_type
from onceproof.engine.types.row import ROW_HASHED
from onceproof.engine.types.wrapped import nullable

BUFFERS: Final = ("LEFT_BUFFER", "RIGHT_BUFFER")
CLEANUP_TIMERS: Final = "CLEANUP_TIMER"
"""The names of Flink's states and timers."""

LEFT: Final = 0
RIGHT: Final = 1


class IntervalJoinSettings(Struct, frozen=True, kw_only=True):
    """The bounds of an interval join in milliseconds and, by side, its value types and late tags."""

    lower_ms: int
    upper_ms: int
    """Both bounds are inclusive."""
    types: tuple[TypeInformation | None, TypeInformation | None]
    late_tags: tuple[OutputTag | None, OutputTag | None]


class IntervalJoinOperator(TwoInputOperator):
    """Applies a ProcessJoinFunction to each pair."""

    uses_time = True
    timers: Timers
    function: ProcessJoinFunction

    def __init__(
        self, function: ProcessJoinFunction, keys: InputKeys, settings: IntervalJoinSettings
    ) -> None:
        super().__init__(function, keys)
        self._settings = settings
        lower, upper = settings.lower_ms, settings.upper_ms
        self._ranges = ((lower, upper), (-upper, -lower))
        """By side, the range of its partners' timestamps, relative to its own."""
        self._waits = (max(upper, 0), max(-lower, 0))
        """By side, for how long after its own timestamp a record is kept, in milliseconds."""
        self.late_records_dropped = 0
        """The count of this subtask in this attempt."""
        self.late_records = 0
        """The count with those that went to a side output."""

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        assert self._backend is not None
        assert context.downstream is not None
        self._keyed = backend = self._backend
        self._buffers: list[MapState] = [
            backend.live_state(MapStateDescriptor(name, Types.LONG(), _list_of(value_type)))
            for name, value_type in zip(BUFFERS, self._settings.types, strict=True)
        ]
        self.timers = Timers(backend, CLEANUP_TIMERS, context.downstream.wake_at, Types.BYTE())
        self.event_clock = self.timers
        self._context = ProcessJoinFunction.Context()
        self._side_outputs = context.side_outputs

    def process_batch(self, records: list[Record], input_index: int) -> list[Record]:
        """Return the results of all pairs that these records complete."""
        results: list[Record] = []
        timers, wait, late_tag = self.timers, self._waits[input_index], self._settings.late_tags[input_index]
        for value, timestamp in self.with_current_key(records, input_index):
            if timestamp is None:
                raise TypeError(
                    "an interval join needs records with timestamps: give both of its streams a watermark"
                    " strategy"
                )
            if timestamp < timers.watermark:
                self.late_records += 1
                if late_tag is None:
                    self.late_records_dropped += 1
                else:
                    results.append(((late_tag, value), timestamp))
                continue
            _append(self._buffers[input_index], timestamp, value)
            timers.event.register(self._keyed.current_key, (timestamp + wait, input_index))
            self.join(value, timestamp, input_index, results)
        return emit_side_outputs(results, self._side_outputs) if OutputTag.exist else results

    def process_watermark(self, timestamp: int) -> list[Record]:
        """Remove the records that can have no partner any more."""
        self.timers.watermark = timestamp
        backend, pop_due = self._keyed, self.timers.event.pop_due
        while (due := pop_due(timestamp)) is not None:
            backend.current_key, (due_ms, side) = due
            self._buffers[side].remove(due_ms - self._waits[side])
        return []

    def join(self, value: Any, timestamp: int, side: int, results: list[Record]) -> None:
        """Join a record with those of the other side within its interval."""
        lower, upper = self._ranges[side]
        lower, upper = timestamp + lower, timestamp + upper
        partners = self._buffers[RIGHT - side]
        process, context, own = self.function.process_element, self._context, self._own
        settled = self.settled_kind()
        # Sorted by time, because the order of a map depends on the backend.
        for other in sorted([each for each in partners if lower <= each <= upper]):
            left_at, right_at = (timestamp, other) if side == LEFT else (other, timestamp)
            context.left_element_timestamp, context.right_element_timestamp = left_at, right_at
            for partner in partners.get(other):
                pair = (value, partner) if side == LEFT else (partner, value)
                for result in process(*pair, context) or ():
                    kind = result.__class__
                    if kind is not settled:
                        try:
                            if (result in HASHED or ROW_HASHED) if kind is tuple else kind not in PLAIN:
                                result = own(result)
                        except TypeError:
                            result = own(result)
                    results.append((result, max(left_at, right_at)))


def _list_of(value_type: TypeInformation | None) -> TypeInformation:
    return list_type("LIST", nullable(Types.DYNAMIC() if value_type is None else value_type))


def _append(buffer: MapState, timestamp: int, value: Any) -> None:
    """Append a value to the values of its timestamp."""
    kept = buffer.get(timestamp) or []
    kept.append(value)
    buffer.put(timestamp, kept)
