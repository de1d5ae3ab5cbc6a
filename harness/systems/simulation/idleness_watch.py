"""Replays the watermark generators with a time-out through the specification of idleness, live.

Rules:

- An operator whose strategy has a time-out gets one that makes watched generators, which answer as its own.
- Not watched: generators of the job's own, which may say that a stream is idle themselves.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from onceproof.engine.elements import Watermark
from onceproof.engine.operators.base import Operator
from onceproof.engine.operators.event_time import TimestampedSourceOperator, TimestampsAndWatermarksOperator
from onceproof.engine.watermarks.generators import WatermarkGenerator, WatermarkOutput
from onceproof.engine.watermarks.strategy import WatermarkGeneratorContext, WatermarkStrategy
from onceproof.harness.specifications.valves import IdlenessSpecification
from onceproof.harness.systems.simulation.deviations import Deviations

_WITH_STRATEGY: Final = (TimestampedSourceOperator, TimestampsAndWatermarksOperator)


def watched_for_idleness(watch: Deviations, operator: Operator) -> Operator:
    """Return an operator whose generators are watched, if only a time-out makes their streams idle."""
    if not isinstance(operator, _WITH_STRATEGY):
        return operator
    sound = operator.strategy
    if sound.idle_timeout_ms is not None and sound.bound_ms is not None:
        watched = WatermarkStrategy.for_generator(partial(WatchedGenerator, watch, sound))
        assigner = sound.create_timestamp_assigner()
        operator.strategy = watched if assigner is None else watched.with_timestamp_assigner(assigner)
    return operator


class WatchedGenerator(WatermarkGenerator):
    """A generator that is watched."""

    def __init__(
        self, watch: Deviations, strategy: WatermarkStrategy, context: WatermarkGeneratorContext
    ) -> None:
        assert strategy.idle_timeout_ms is not None
        self._watch = watch
        self._generator = strategy.create_watermark_generator(context)
        self._specification = IdlenessSpecification(strategy.idle_timeout_ms)
        self._clock = context.get_input_activity_clock()

    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        """Answer as the engine does."""
        self._specification.record()
        self._generator.on_event(event, event_timestamp, output)

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Answer as the engine does."""
        now = self._clock()
        expected = self._specification.periodic(now)
        noted = _Noted(output)
        self._generator.on_periodic_emit(noted)
        if noted.turns_idle is not expected:
            said = ("it does not turn idle", "it turns idle")
            quiet = f"a periodic call at {now}, quiet since {self._specification.quiet_since}"
            self._watch.deviate("idleness of a stream", quiet, said[expected], said[noted.turns_idle])


class _Noted(WatermarkOutput):
    """An output that notes whether the stream turns idle."""

    __slots__ = ("_output", "turns_idle")

    def __init__(self, output: WatermarkOutput) -> None:
        self._output = output
        self.turns_idle = False

    def emit_watermark(self, watermark: Watermark) -> None:
        self._output.emit_watermark(watermark)

    def mark_idle(self) -> None:
        self.turns_idle = True
        self._output.mark_idle()

    def mark_active(self) -> None:
        self._output.mark_active()
