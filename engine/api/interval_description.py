"""What a job says of an interval join: its bounds, and where late values go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from onceproof.engine.api.adapters import OperatorFactory
from onceproof.engine.connected_functions import ProcessJoinFunction
from onceproof.engine.graph import InvalidJob
from onceproof.engine.operators.co_process import InputKeys
from onceproof.engine.operators.interval_join import IntervalJoinOperator, IntervalJoinSettings
from onceproof.engine.output_tag import OutputTag

if TYPE_CHECKING:
    from onceproof.engine.types import TypeInformation

_LEFT, _RIGHT = 0, 1


class IntervalDescription:
    """The settings of an interval join, in milliseconds of event time."""

    def __init__(self, lower_ms: int, upper_ms: int) -> None:
        self._lower_ms = lower_ms
        self._upper_ms = upper_ms
        self._late_tags: list[OutputTag | None] = [None, None]

    def lower_bound_exclusive(self) -> Self:
        """Leave the lower bound itself out of the interval."""
        self._lower_ms += 1
        return self

    def upper_bound_exclusive(self) -> Self:
        """Leave the upper bound itself out of the interval."""
        self._upper_ms -= 1
        return self

    def side_output_left_late_data(self, output_tag: OutputTag) -> Self:
        """Emit left values that come behind the watermark to a side output instead of dropping them."""
        return self._with_late_tag(_LEFT, output_tag)

    def side_output_right_late_data(self, output_tag: OutputTag) -> Self:
        """Emit right values that come behind the watermark to a side output instead of dropping them."""
        return self._with_late_tag(_RIGHT, output_tag)

    def _with_late_tag(self, side: int, output_tag: OutputTag) -> Self:
        if not isinstance(output_tag, OutputTag):
            raise InvalidJob(f"the late values of an interval join go to an OutputTag, not {output_tag!r}")
        self._late_tags[side] = output_tag
        return self

    def _check(self, function: object) -> None:
        if not isinstance(function, ProcessJoinFunction):
            raise InvalidJob(f"process of an interval join takes a ProcessJoinFunction, not {function!r}")
        if self._lower_ms > self._upper_ms:
            raise InvalidJob(
                f"an interval join from {self._lower_ms} ms to {self._upper_ms} ms pairs nothing:"
                " the lower bound must not be above the upper one"
            )

    def _operator(
        self,
        function: ProcessJoinFunction,
        keys: InputKeys | None,
        types: tuple[TypeInformation | None, TypeInformation | None],
    ) -> OperatorFactory:
        settings = IntervalJoinSettings(
            lower_ms=self._lower_ms,
            upper_ms=self._upper_ms,
            types=types,
            late_tags=(self._late_tags[_LEFT], self._late_tags[_RIGHT]),
        )
        return OperatorFactory(IntervalJoinOperator, function, keys, settings)
