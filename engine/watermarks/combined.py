"""Combines the watermarks of several parts: the inputs of an operator, or the splits of a source.

The rules are those of Flink's CombinedWatermarkStatus:

- A watermark makes an idle part active again.
- The combined watermark is the least of the active parts; if all are idle, the highest of all parts.
- The combined watermark never goes back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from onceproof.engine.elements import ACTIVE, IDLE, MIN_WATERMARK, Watermark
from onceproof.engine.watermarks.valve import NOTHING, TimeElement


class CombinedWatermark:
    """The combined ``watermark`` of numbered parts; ``is_idle`` if all parts are idle."""

    __slots__ = ("_idle", "_watermarks", "is_idle", "watermark")

    def __init__(self, parts: Iterable[int]) -> None:
        self._watermarks = dict.fromkeys(parts, MIN_WATERMARK)
        self._idle = dict.fromkeys(self._watermarks, False)
        self.watermark = MIN_WATERMARK
        self.is_idle = False

    def update(self, part: int, timestamp: int) -> bool:
        """Update the watermark of a part; return whether the combined watermark has advanced."""
        self._idle[part] = False
        if timestamp > self._watermarks[part]:
            self._watermarks[part] = timestamp
        return self.combine()

    def update_status(self, part: int, is_idle: bool) -> bool:
        """Set whether a part is idle; return whether the combined watermark has advanced."""
        if self._idle[part] is is_idle:
            return False
        self._idle[part] = is_idle
        return self.combine()

    def remove(self, part: int) -> bool:
        """Remove a part that has ended; return whether the combined watermark has advanced."""
        self._watermarks.pop(part, None)
        self._idle.pop(part, None)
        return self.combine()

    def renumbered(self, parts: Mapping[int, int]) -> CombinedWatermark:
        """Return this for parts with other numbers; parts that are not listed are left out."""
        renumbered = CombinedWatermark(())
        renumbered._watermarks = {
            parts[part]: mark for part, mark in self._watermarks.items() if part in parts
        }
        renumbered._idle = {parts[part]: is_idle for part, is_idle in self._idle.items() if part in parts}
        renumbered.watermark = self.watermark
        renumbered.is_idle = self.is_idle
        return renumbered

    def active_watermarks(self) -> dict[int, int]:
        """Return the watermarks of the parts that are not idle."""
        return {part: mark for part, mark in self._watermarks.items() if not self._idle[part]}

    @property
    def has_active_part(self) -> bool:
        """Return whether some part is not idle; unlike ``is_idle`` it looks at the parts themselves."""
        return False in self._idle.values()

    def combine(self) -> bool:
        """Advance to the lowest mark of the active parts; return whether the event time has advanced."""
        if not self._watermarks:
            return False
        active = [timestamp for part, timestamp in self._watermarks.items() if not self._idle[part]]
        self.is_idle = not active
        reached = min(active) if active else max(self._watermarks.values())
        if reached <= self.watermark:
            return False
        self.watermark = reached
        return True


class CombinedInputs:
    """Combines the watermarks and statuses that the valves of an operator's inputs emit."""

    __slots__ = ("_combined",)

    def __init__(self, inputs: int) -> None:
        self._combined = CombinedWatermark(range(inputs))

    @property
    def watermark(self) -> int:
        """Return the watermark of all inputs together."""
        return self._combined.watermark

    def take(self, number: int, elements: Iterable[TimeElement]) -> Sequence[TimeElement]:
        """Process elements that the valve of input ``number`` has emitted; return those for the operator."""
        results: list[TimeElement] = []
        combined = self._combined
        for element in elements:
            was_idle = combined.is_idle
            if isinstance(element, Watermark):
                advanced = combined.update(number, element.timestamp)
            else:
                advanced = combined.update_status(number, element.is_idle)
            # The receiver ignores watermarks of an idle channel: send ACTIVE before one, IDLE after one.
            if was_idle and not combined.is_idle:
                results.append(ACTIVE)
            if advanced:
                results.append(Watermark(combined.watermark))
            if combined.is_idle and not was_idle:
                results.append(IDLE)
        return results or NOTHING
