"""The description of an interval join (Flink: KeyedStream.IntervalJoin, IntervalJoined).

PyFlink lacks it, so the names are Flink's Java API in snake_case::

    clicks.key_by(user).interval_join(orders.key_by(buyer)).between(Time.minutes(-5), Time.minutes(0))
        .process(PairUp())
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onceproof.engine.api.adapters import OperatorFactory
from onceproof.engine.api.connected_streams import shared_keys, transform_two
from onceproof.engine.connected_functions import ProcessJoinFunction
from onceproof.engine.durations import Duration, Time, milliseconds_of
from onceproof.engine.graph import InvalidJob
from onceproof.engine.operators.interval_join import IntervalJoinOperator, IntervalJoinSettings
from onceproof.engine.output_tag import OutputTag

if TYPE_CHECKING:
    from onceproof.engine.api.datastream import DataStream, KeyedStream
    from onceproof.engine.types import TypeInformation


class IntervalJoin:
    """Two keyed streams that are to be joined (Flink: KeyedStream.IntervalJoin)."""

    def __init__(self, stream_one: KeyedStream, stream_two: KeyedStream) -> None:
        if not hasattr(stream_two, "_key_selector"):
            raise InvalidJob(f"interval_join takes a KeyedStream, not {stream_two!r}: call key_by first")
        self._left = stream_one
        self._right = stream_two

    def between(self, lower_bound: Time | Duration, upper_bound: Time | Duration) -> IntervalJoined:
        """Pair a left value at t with right ones from ``t + lower_bound`` to ``t + upper_bound``."""
        lower_ms = milliseconds_of(lower_bound, "the lower bound of an interval join")
        upper_ms = milliseconds_of(upper_bound, "the upper bound of an interval join")
        return IntervalJoined(self._left, self._right, lower_ms, upper_ms)


class IntervalJoined:
    """Two keyed streams and the interval between their times (Flink: KeyedStream.IntervalJoined)."""

    def __init__(self, left: KeyedStream, right: KeyedStream, lower_ms: int, upper_ms: int) -> None:
        self._left = left
        self._right = right
        self._lower_ms = lower_ms
        self._upper_ms = upper_ms
        self._late_tags: list[OutputTag | None] = [None, None]

    def lower_bound_exclusive(self) -> IntervalJoined:
        """Leave the lower bound itself out."""
        self._lower_ms += 1
        return self

    def upper_bound_exclusive(self) -> IntervalJoined:
        """Leave the upper bound itself out."""
        self._upper_ms -= 1
        return self

    def side_output_left_late_data(self, output_tag: OutputTag) -> IntervalJoined:
        """Give left values that come behind the watermark to a side output instead of dropping them."""
        return self._with_late_tag(0, output_tag)

    def side_output_right_late_data(self, output_tag: OutputTag) -> IntervalJoined:
        """Give right values that come behind the watermark to a side output instead of dropping them."""
        return self._with_late_tag(1, output_tag)

    def process(
        self, process_join_function: ProcessJoinFunction, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Make values of the pairs."""
        if not isinstance(process_join_function, ProcessJoinFunction):
            raise InvalidJob(
                f"process of an interval join takes a ProcessJoinFunction, not {process_join_function!r}"
            )
        if self._lower_ms > self._upper_ms:
            raise InvalidJob(
                f"an interval join from {self._lower_ms} ms to {self._upper_ms} ms pairs nothing:"
                " the lower bound must not be above the upper one"
            )
        keys = shared_keys(self._left, self._right)
        settings = IntervalJoinSettings(
            lower_ms=self._lower_ms,
            upper_ms=self._upper_ms,
            types=(self._left.get_type(), self._right.get_type()),
            late_tags=(self._late_tags[0], self._late_tags[1]),
        )
        factory = OperatorFactory(IntervalJoinOperator, process_join_function, keys, settings)
        return transform_two(self._left, self._right, "Interval Join", factory, output_type)

    def _with_late_tag(self, side: int, output_tag: OutputTag) -> IntervalJoined:
        if not isinstance(output_tag, OutputTag):
            raise InvalidJob(f"the late values of an interval join go to an OutputTag, not {output_tag!r}")
        self._late_tags[side] = output_tag
        return self
