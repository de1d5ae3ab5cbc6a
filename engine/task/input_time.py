"""Event time as it arrives at a task: over the channels of each input, then over the inputs.

Made with the first watermark that arrives: most jobs have none, and their tasks shall not pay for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from onceproof.engine.elements import MAX_WATERMARK, MIN_WATERMARK, Watermark
from onceproof.engine.operators.base import Downstream
from onceproof.engine.watermarks.combined import CombinedInputs
from onceproof.engine.watermarks.valve import TimeElement, WatermarkValve


class TaskTime(Struct, frozen=True):
    """What a task knows of event time, for the task that goes on in its place within the attempt."""

    channels: tuple[list[WatermarkValve], CombinedInputs | None] | None
    """What has arrived, by input and over the inputs; None: no watermark yet."""
    operators: Mapping[str, Any]
    """By operator id, what ``Operator.event_time`` returned."""


class InputTime:
    """Combines watermarks and idleness of the inputs, and sends the result down the chain."""

    __slots__ = ("_chain", "_inputs", "_places", "_sent", "_valves", "has_changed")

    def __init__(
        self,
        queue_input: Sequence[int],
        ended_channels: Iterable[int],
        chain: Downstream,
        make_valve: Callable[[int], WatermarkValve] = WatermarkValve,
    ) -> None:
        channels = [0] * (max(queue_input) + 1)
        self._places: list[tuple[int, int]] = []
        """By channel: its input, and its place among the channels of that input."""
        for number in queue_input:
            self._places.append((number, channels[number]))
            channels[number] += 1
        self._valves = [make_valve(count) for count in channels]
        self._inputs = CombinedInputs(len(channels)) if len(channels) > 1 else None
        self._chain = chain
        self._sent = MIN_WATERMARK
        """The last watermark that went down the chain."""
        self.has_changed = False
        """Whether something has arrived since the last ``validate``."""
        for channel in ended_channels:
            self.ended(channel)

    def take(self, channel: int, element: TimeElement) -> None:
        """Process a watermark or a status that arrives on a channel."""
        self.has_changed = True
        number, place = self._places[channel]
        valve = self._valves[number]
        if isinstance(element, Watermark):
            self._send_on(number, valve.watermark(place, element.timestamp))
        else:
            self._send_on(number, valve.status(place, element.is_idle))

    def ended(self, channel: int) -> None:
        """Note the end of a channel's data; others may still bring some."""
        self.has_changed = True
        number, place = self._places[channel]
        self._send_on(number, self._valves[number].ended(place, MAX_WATERMARK))

    def state(self) -> tuple[list[WatermarkValve], CombinedInputs | None]:
        """Return all that has arrived, for ``resume``."""
        return self._valves, self._inputs

    def resume(self, state: tuple[list[WatermarkValve], CombinedInputs | None]) -> None:
        """Go on with what had arrived at the task that this one replaces; nothing is sent."""
        self._valves, self._inputs = state
        self._sent = self.watermark

    @property
    def input_watermarks(self) -> tuple[int, ...]:
        """Return the watermark of each input, MIN_WATERMARK where none has arrived."""
        return tuple([valve.emitted for valve in self._valves])

    @property
    def watermark(self) -> int:
        """Return the last watermark that the operators of the task have received."""
        return self._valves[0].emitted if self._inputs is None else self._inputs.watermark

    def validate(self, ended_channels: Sequence[int]) -> None:
        """Check that the operators have the event time that follows from what has arrived.

        That of the slowest input that is not idle; if all are idle, that of the furthest. It never goes back.
        No channel whose data has ended holds it back, unless all have: then the task ends event time itself.
        """
        self.has_changed = False
        valves = self._valves
        for channel in ended_channels if len(ended_channels) < len(self._places) else ():
            number, place = self._places[channel]
            assert valves[number].of_channel(place) == MAX_WATERMARK, (
                f"channel {channel} has ended, and holds event time at {valves[number].of_channel(place)}"
            )
        if len(valves) == 1:
            valves[0].validate()
            reached = valves[0].emitted
        else:
            for valve in valves:
                valve.validate()
            active = [valve.emitted for valve in valves if not valve.is_idle]
            reached = min(active) if active else max(self.input_watermarks)
        assert self._sent >= reached, (
            f"the operators have event time {self._sent} though the inputs have reached {reached}:"
            f" {self.input_watermarks}"
        )

    def _send_on(self, number: int, elements: Sequence[TimeElement]) -> None:
        if elements and self._inputs is not None:
            elements = self._inputs.take(number, elements)
        for element in elements:
            if isinstance(element, Watermark):
                self._sent = element.timestamp
                self._chain.watermark(element.timestamp)
            else:
                self._chain.status(element.is_idle)
