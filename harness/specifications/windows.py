"""Windows of a keyed stream: which panes are emitted for records, watermarks and timers (semantics 6).

Rules:

- A record joins each of its windows that is not late; then the trigger is asked, then the cleanup is due. A
  window of event time is late once the watermark has reached its last timestamp plus the lateness.
- A record that joins no window goes to the late ones if its own time plus the lateness is over.
- Windows of a session that touch are one. It has the contents and the trigger state of all; their timers go.
- A firing emits what the window holds, if it holds anything; an evictor may leave less, or nothing, of it.
- The cleanup takes contents and trigger state, and tells the function. A timer of a window that has been
  merged since, or cleared, does nothing.
- Contents, trigger state and timers are restored, the watermark is not.

Not specified: in which order windows fire at one watermark, and in which order merged windows' records stand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from onceproof.engine.elements import MAX_WATERMARK, MIN_WATERMARK

Element: TypeAlias = tuple[Any, int | None]
"""A value and its timestamp."""


class Window(NamedTuple):
    """The times from ``start`` to before ``end``; of a window of records ``start`` is its number."""

    start: int
    end: int


ENDLESS: Final = MAX_WATERMARK + 1
"""The end of the global window, and of windows of a number of records."""
GLOBAL: Final = Window(0, ENDLESS)


class Assigner(NamedTuple):
    """Which windows a record has. ``size`` is a gap for sessions, and a number of records for counts."""

    kind: Literal["tumbling", "sliding", "session", "global", "count"]
    size: int = 0
    slide: int = 0
    offset: int = 0
    by_event_time: bool = True

    def windows(self, time: int, gap: int, number: int) -> list[Window]:
        """Return the windows of a time, or of the record that is so many of its key."""
        match self.kind:
            case "global":
                return [GLOBAL]
            case "session":
                return [Window(time, time + gap)]
            case "count":
                numbers = range(number // self.slide, -1, -1)
                return [Window(each, ENDLESS) for each in numbers if number < each * self.slide + self.size]
        step = self.size if self.kind == "tumbling" else self.slide
        latest = time - (time - self.offset) % step
        return [Window(start, start + self.size) for start in range(latest, time - self.size, -step)]


class Trigger(NamedTuple):
    """When a window fires: at its end, at multiples of an interval too, at so many records, or never."""

    kind: Literal["end", "every", "count", "never"]
    amount: int = 0
    purges: bool = False
    by_event_time: bool = True


class Evictor(NamedTuple):
    """Which records a firing leaves out, before the function or after it."""

    kind: Literal["count", "time", "delta"]
    amount: float
    is_after: bool = False
    difference: Callable[[Any, Any], float] | None = None

    def left(self, elements: list[Element]) -> list[Element]:
        """Return the elements that stay."""
        match self.kind:
            case "count":
                return elements[max(0, len(elements) - int(self.amount)) :]
            case "time":
                times = [time for _, time in elements if time is not None]
                if len(times) < len(elements) or not times:
                    return elements
                return [each for each in elements if (each[1] or 0) > max(times) - self.amount]
            case "delta":
                assert self.difference is not None
                last = elements[-1][0] if elements else None
                return [each for each in elements if self.difference(each[0], last) < self.amount]


class WindowRules(NamedTuple):
    """What a stream says of its windows. ``fold`` makes one value of all; None: the function gets them."""

    assigner: Assigner
    trigger: Trigger
    evictor: Evictor | None = None
    lateness_ms: int = 0
    fold: Callable[[Sequence[Any]], Any] | None = None


class Pane(NamedTuple):
    """A firing: what the function gets. Not ``is_certain``: its value depends on the order of merging."""

    key: Any
    window: Window
    values: Sequence[Any]
    is_certain: bool = True


class Cleared(NamedTuple):
    """The end of a window."""

    key: Any
    window: Window


class Late(NamedTuple):
    """A record that joined no window, and is late."""

    value: Any


Outcome: TypeAlias = Pane | Cleared | Late


@dataclass(slots=True)
class KeyedWindows:
    """The windows of one key. Timers are (time, window)."""

    key: Any
    number: int = 0
    """How many records there have been, for windows of a number of records."""
    live: set[Window] = field(default_factory=set)
    """The sessions that are neither merged nor over."""
    contents: dict[Window, list[Element]] = field(default_factory=dict)
    counts: dict[Window, int] = field(default_factory=dict)
    next_fires: dict[Window, int] = field(default_factory=dict)
    event: set[tuple[int, Window]] = field(default_factory=set)
    processing: set[tuple[int, Window]] = field(default_factory=set)

    def copy(self) -> KeyedWindows:
        """Return a copy, as a snapshot has it."""
        contents = {window: list(elements) for window, elements in self.contents.items()}
        sets = set(self.live), contents, dict(self.counts), dict(self.next_fires)
        return KeyedWindows(self.key, self.number, *sets, set(self.event), set(self.processing))


class WindowSpecification:
    """The windows of a subtask, begun with what its keys had; they are by the text of the key."""

    def __init__(self, rules: WindowRules, keys: Mapping[str, KeyedWindows] | None = None) -> None:
        self._rules = rules
        self._merges = rules.assigner.kind == "session"
        self.keys = {name: each.copy() for name, each in (keys or {}).items()}
        self.watermark = MIN_WATERMARK
        self.is_settled = True
        """False once an evictor goes by the order of merged records, which is not specified."""

    def snapshot(self) -> dict[str, KeyedWindows]:
        """Return the windows of all keys, as a checkpoint has them."""
        return {name: each.copy() for name, each in self.keys.items()}

    def element(
        self, key: Any, value: Any, timestamp: int | None, now: int, gap: int = 0
    ) -> Iterator[Outcome]:
        """Yield what a record leads to; ``now`` is the processing time, ``gap`` that of its session."""
        assigner, trigger, _, lateness, _ = self._rules
        of = self.keys.setdefault(repr(key), KeyedWindows(key))
        time = (timestamp or 0) if assigner.by_event_time else now
        joined = False
        windows = assigner.windows(time, gap, of.number)
        of.number += assigner.kind == "count"
        for window in windows:
            actual = self._merged(of, window) if self._merges else window
            if assigner.by_event_time and self._cleanup_ms(actual) <= self.watermark:
                of.live.discard(actual)
                continue
            joined = True
            of.contents.setdefault(actual, []).append((value, timestamp))
            if self._asked_at_record(of, actual, (timestamp or 0) if trigger.by_event_time else now):
                yield from self._fire(of, actual)
            if self._cleanup_ms(actual) < MAX_WATERMARK:
                self._timers(of, self._rules.assigner).add((self._cleanup_ms(actual), actual))
        is_over = timestamp is not None and timestamp + lateness <= self.watermark
        if not joined and assigner.by_event_time and is_over:
            yield Late(value)

    def advance(self, watermark: int) -> Iterator[Outcome]:
        """Yield what a watermark leads to."""
        self.watermark = watermark
        for of in self.keys.values():
            yield from self._due(of, of.event, watermark, True)

    def wake(self, now: int) -> Iterator[Outcome]:
        """Yield what is due at a processing time."""
        for of in self.keys.values():
            yield from self._due(of, of.processing, now, False)

    def timers(self) -> tuple[int, int]:
        """Return how many timers there are in event time, and in processing time."""
        keys = self.keys.values()
        return sum(len(of.event) for of in keys), sum(len(of.processing) for of in keys)

    def _due(
        self, of: KeyedWindows, timers: set[tuple[int, Window]], limit: int, in_event_time: bool
    ) -> Iterator[Outcome]:
        while timers and min(timers)[0] <= limit:
            time, window = min(timers)
            timers.remove((time, window))
            if self._merges and window not in of.live:
                continue
            if self._asked_at_timer(of, window, time, in_event_time):
                yield from self._fire(of, window)
            cleans_up = self._rules.assigner.by_event_time is in_event_time
            if cleans_up and time == self._cleanup_ms(window):
                of.contents.pop(window, None)
                self._clear_trigger(of, window)
                of.live.discard(window)
                yield Cleared(of.key, window)

    def _cleanup_ms(self, window: Window) -> int:
        lateness = self._rules.lateness_ms if self._rules.assigner.by_event_time else 0
        return min(window.end - 1 + lateness, MAX_WATERMARK)

    def _timers(self, of: KeyedWindows, by: Assigner | Trigger) -> set[tuple[int, Window]]:
        return of.event if by.by_event_time else of.processing

    # Triggers.

    def _asked_at_record(self, of: KeyedWindows, window: Window, time: int) -> bool:
        kind, amount, _, by_event_time = self._rules.trigger
        last = window.end - 1
        if kind == "count":
            of.counts[window] = of.counts.get(window, 0) + 1
            return of.counts[window] >= amount and of.counts.pop(window) > 0
        if kind == "never" or (by_event_time and last <= self.watermark):
            return kind != "never"
        if kind == "end" or by_event_time:
            self._timers(of, self._rules.trigger).add((last, window))
        if kind == "every" and window not in of.next_fires:
            # The first multiple after it; Java's remainder has the sign of the time.
            passed = abs(time) % amount
            self._go_on(of, window, time - (passed if time >= 0 else -passed))
        return False

    def _go_on(self, of: KeyedWindows, window: Window, time: int) -> None:
        due = min(time + self._rules.trigger.amount, window.end - 1)
        of.next_fires[window] = due
        self._timers(of, self._rules.trigger).add((due, window))

    def _asked_at_timer(self, of: KeyedWindows, window: Window, time: int, in_event_time: bool) -> bool:
        kind, _, _, by_event_time = self._rules.trigger
        if by_event_time is not in_event_time or kind in ("count", "never"):
            return False
        at_end = time == window.end - 1
        if kind == "end" or (by_event_time and at_end):
            return at_end or not by_event_time
        if of.next_fires.get(window) != time:
            return False
        del of.next_fires[window]
        if time < window.end - 1:
            # Flink goes on behind the end, and never stops (engine/docs/flink.md).
            self._go_on(of, window, time)
        return True

    def _clear_trigger(self, of: KeyedWindows, window: Window) -> None:
        of.counts.pop(window, None)
        due = of.next_fires.pop(window, None)
        due = window.end - 1 if self._rules.trigger.kind == "end" else due
        if due is not None:
            self._timers(of, self._rules.trigger).discard((due, window))

    # Contents.

    def _fire(self, of: KeyedWindows, window: Window) -> Iterator[Pane]:
        elements, evictor = of.contents.get(window), self._rules.evictor
        if elements:
            if evictor is not None and not evictor.is_after:
                elements = evictor.left(elements)
            values, fold = [value for value, _ in elements], self._rules.fold
            if fold is None:
                yield Pane(of.key, window, values)
            else:
                value = fold(values)
                yield Pane(of.key, window, [value], not self._merges or fold(values[::-1]) == value)
            if evictor is not None:
                of.contents[window] = evictor.left(elements) if evictor.is_after else elements
        if self._rules.trigger.purges:
            of.contents.pop(window, None)

    def _merged(self, of: KeyedWindows, new: Window) -> Window:
        """Return the session that a new one is part of, merged with all that it touches."""
        old: set[Window] = set()
        merged = new
        # All of them were apart before, so one that touches the whole touches the new one or its cover.
        while touching := {
            each for each in of.live - old if each.start <= merged.end and merged.start <= each.end
        }:
            old |= touching
            whole = [merged, *old]
            merged = Window(min(each.start for each in whole), max(each.end for each in whole))
        of.live -= old
        of.live.add(merged)
        if not old or old == {merged}:
            return merged
        parts = [of.contents.pop(each) for each in sorted(old) if each in of.contents]
        evictor = self._rules.evictor
        if len(parts) > 1 and evictor is not None and evictor.kind != "time":
            self.is_settled = False
        if parts:
            of.contents[merged] = [element for part in parts for element in part]
        self._merge_trigger(of, merged, old)
        for each in old:
            self._timers(of, self._rules.assigner).discard((self._cleanup_ms(each), each))
        return merged

    def _merge_trigger(self, of: KeyedWindows, merged: Window, old: set[Window]) -> None:
        count = sum(of.counts.get(each, 0) for each in old)
        # As in Flink, merged state names no timer any more: that of an interval stays, and does nothing.
        due = min([of.next_fires.pop(each) for each in old if each in of.next_fires], default=None)
        for each in old:
            self._clear_trigger(of, each)
        if count:
            of.counts[merged] = count
        kind, _, _, by_event_time = self._rules.trigger
        if due is not None:
            of.next_fires[merged] = due
        if kind == "end" and not (by_event_time and merged.end - 1 <= self.watermark):
            due = merged.end - 1
        if due is not None:
            self._timers(of, self._rules.trigger).add((due, merged))
