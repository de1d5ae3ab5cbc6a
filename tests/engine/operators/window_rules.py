"""A model of Flink's WindowOperator and EvictingWindowOperator that shares no code with the engine.

It keeps every record and every timer in plain lists and searches them. It follows Flink's source:

- processElement: each window that is not late gets the record, asks the trigger, fires, is purged, and gets
  its cleanup timer. Merging windows are merged first.
- onEventTime: asks the trigger, fires, is purged; at the cleanup time everything of the window goes.
- A firing without contents does nothing. An evictor removes records of the contents before or after the
  function, which is called even if none is left.

What a function makes of the numbers of a firing is left to the tests.

A window is (start, end), GLOBAL is the only one without an end. A record is (number, timestamp).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

Window: TypeAlias = tuple[int, int]
Held: TypeAlias = list[tuple[Any, int]]

NEVER: Final = (1 << 63) - 1
BEFORE_ALL: Final = -(1 << 63)
GLOBAL: Final[Window] = (BEFORE_ALL, NEVER + 1)

FIRE, PURGE = "fire", "purge"


# ---- assigners: a function of (number, timestamp)


def tumbling(size: int, offset: int = 0) -> Callable[[Any, int], list[Window]]:
    return sliding(size, size, offset)


def sliding(size: int, slide: int, offset: int = 0) -> Callable[[Any, int], list[Window]]:
    def assign(number: Any, timestamp: int) -> list[Window]:
        last = timestamp - (timestamp - offset) % slide
        return [(start, start + size) for start in range(last, timestamp - size, -slide)]

    return assign


def sessions(gap: Callable[[Any], int]) -> Callable[[Any, int], list[Window]]:
    return lambda number, timestamp: [(timestamp, timestamp + gap(number))]


def all_in_one(number: Any, timestamp: int) -> list[Window]:
    return [GLOBAL]


# ---- triggers: what a key and window remember is in ``memory``, and timers belong to both


@dataclass
class Scope:
    """What a trigger sees of a key and window."""

    model: WindowRules
    key: Any
    window: Window

    @property
    def memory(self) -> dict[str, Any]:
        return self.model.memory.setdefault((self.key, self.window), {})

    @property
    def end(self) -> int:
        return self.window[1] - 1

    @property
    def watermark(self) -> int:
        return self.model.watermark

    def register(self, time: int) -> None:
        self.model.timers.add((time, self.key, self.window))

    def delete(self, time: int) -> None:
        self.model.timers.discard((time, self.key, self.window))


class AtEnd:
    """EventTimeTrigger."""

    def on_element(self, number: Any, timestamp: int, scope: Scope) -> set[str]:
        if scope.end <= scope.watermark:
            return {FIRE}
        scope.register(scope.end)
        return set()

    def on_time(self, time: int, scope: Scope) -> set[str]:
        return {FIRE} if time == scope.end else set()

    def on_merge(self, scope: Scope, old: list[Scope]) -> None:
        if scope.end > scope.watermark:
            scope.register(scope.end)

    def clear(self, scope: Scope) -> None:
        scope.delete(scope.end)


class Silent:
    """NeverTrigger, and what triggers without timers have in common."""

    def on_element(self, number: Any, timestamp: int, scope: Scope) -> set[str]:
        return set()

    def on_time(self, time: int, scope: Scope) -> set[str]:
        return set()

    def on_merge(self, scope: Scope, old: list[Scope]) -> None:
        pass

    def clear(self, scope: Scope) -> None:
        pass


class Counting(Silent):
    """CountTrigger."""

    def __init__(self, size: int) -> None:
        self.size = size

    def on_element(self, number: Any, timestamp: int, scope: Scope) -> set[str]:
        count = scope.memory["count"] = scope.memory.get("count", 0) + 1
        if count < self.size:
            return set()
        del scope.memory["count"]
        return {FIRE}

    def on_merge(self, scope: Scope, old: list[Scope]) -> None:
        counts = [each.memory.pop("count", 0) for each in old]
        if total := sum(counts) + scope.memory.get("count", 0):
            scope.memory["count"] = total

    def clear(self, scope: Scope) -> None:
        scope.memory.pop("count", None)


class Continuous(Silent):
    """ContinuousEventTimeTrigger."""

    def __init__(self, interval: int) -> None:
        self.interval = interval

    def on_element(self, number: Any, timestamp: int, scope: Scope) -> set[str]:
        if scope.end <= scope.watermark:
            return {FIRE}
        scope.register(scope.end)
        if "next" not in scope.memory:
            # Java's remainder has the sign of the timestamp.
            rounded = int(timestamp / self.interval) * self.interval
            self._plan(rounded, scope)
        return set()

    def on_time(self, time: int, scope: Scope) -> set[str]:
        if time == scope.end:
            return {FIRE}
        if scope.memory.get("next") == time:
            self._plan(time, scope)
            return {FIRE}
        return set()

    def _plan(self, time: int, scope: Scope) -> None:
        scope.memory["next"] = min(time + self.interval, scope.end)
        scope.register(scope.memory["next"])

    def on_merge(self, scope: Scope, old: list[Scope]) -> None:
        planned = [each.memory.pop("next") for each in (scope, *old) if "next" in each.memory]
        if planned:
            scope.memory["next"] = min(planned)
            scope.register(scope.memory["next"])

    def clear(self, scope: Scope) -> None:
        if "next" in scope.memory:
            scope.delete(scope.memory.pop("next"))


class Purging:
    """PurgingTrigger."""

    def __init__(self, nested: Any) -> None:
        self.nested = nested
        self.on_merge, self.clear = nested.on_merge, nested.clear

    def on_element(self, number: Any, timestamp: int, scope: Scope) -> set[str]:
        return _purging(self.nested.on_element(number, timestamp, scope))

    def on_time(self, time: int, scope: Scope) -> set[str]:
        return _purging(self.nested.on_time(time, scope))


def _purging(result: set[str]) -> set[str]:
    return result | {PURGE} if FIRE in result else result


class ByNumber(AtEnd):
    """A trigger of the tests' own: multiples of 3 fire, those of 5 purge, others set a timer 2 ms later."""

    def on_element(self, number: Any, timestamp: int, scope: Scope) -> set[str]:
        scope.register(scope.end if scope.window != GLOBAL else timestamp + 4)
        scope.register(timestamp + 2)
        return ({FIRE} if number % 3 == 0 else set()) | ({PURGE} if number % 5 == 0 else set())

    def on_time(self, time: int, scope: Scope) -> set[str]:
        return {FIRE, PURGE} if time == scope.end else {FIRE}


# ---- evictors: they change the list


def keep_last(count: int) -> Callable[[Held], None]:
    def evict(held: Held) -> None:
        held[:] = held[max(0, len(held) - count) :]

    return evict


def keep_recent(length: int) -> Callable[[Held], None]:
    def evict(held: Held) -> None:
        if held:
            newest = max(timestamp for _, timestamp in held)
            held[:] = [each for each in held if each[1] > newest - length]

    return evict


def keep_odd(held: Held) -> None:
    held[:] = [each for each in held if each[0] % 2]


# ---- the operator


class Hashed:
    """A window as it stands in PyFlink's set of merged windows, which has no order but that of its hashes."""

    def __init__(self, window: Window) -> None:
        self.window = window

    def __hash__(self) -> int:
        start, end = self.window
        odd = 2 * end + 1
        inverse = odd**3
        for _ in range(3):
            inverse = inverse * (2 - odd * inverse)
        return start + inverse

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Hashed) and self.window == other.window


@dataclass
class WindowRules:
    """The state of all keys, and what came out: results (key, window, numbers), late ones (key, number)."""

    assign: Callable[[Any, int], list[Window]]
    trigger: Any
    merges: bool = False
    lateness: int = 0
    evict_before: Callable[[Held], None] | None = None
    evict_after: Callable[[Held], None] | None = None
    watermark: int = BEFORE_ALL
    held: dict[tuple[Any, Window], Held] = field(default_factory=dict)
    memory: dict[tuple[Any, Window], dict[str, Any]] = field(default_factory=dict)
    timers: set[tuple[int, Any, Window]] = field(default_factory=set)
    in_flight: dict[Any, list[Window]] = field(default_factory=dict)
    """The merging windows of each key."""
    results: list[tuple[Any, Window, tuple[Any, ...]]] = field(default_factory=list)
    late: list[tuple[Any, Any]] = field(default_factory=list)

    def add(self, key: Any, number: Any, timestamp: int) -> None:
        """Process a record."""
        was_added = False
        for assigned in self.assign(number, timestamp):
            window = self._merged(key, assigned) if self.merges else assigned
            if self._cleanup(window) <= self.watermark:
                if self.merges:
                    self.in_flight[key].remove(window)
                continue
            was_added = True
            self.held.setdefault((key, window), []).append((number, timestamp))
            scope = Scope(self, key, window)
            self._act(self.trigger.on_element(number, timestamp, scope), scope)
            if self._cleanup(window) != NEVER:
                scope.register(self._cleanup(window))
        if not was_added and timestamp + self.lateness <= self.watermark:
            self.late.append((key, number))

    def advance(self, watermark: int) -> None:
        """Process a watermark: timers that are due fire in their order, those that are set meanwhile too."""
        self.watermark = watermark
        while due := [timer for timer in self.timers if timer[0] <= watermark]:
            time, key, window = timer = min(due, key=lambda each: each[0])
            self.timers.discard(timer)
            if self.merges and window not in self.in_flight.get(key, ()):
                continue
            scope = Scope(self, key, window)
            self._act(self.trigger.on_time(time, scope), scope)
            if time == self._cleanup(window):
                self.held.pop((key, window), None)
                self.trigger.clear(scope)
                if self.merges:
                    self.in_flight[key].remove(window)

    def _cleanup(self, window: Window) -> int:
        return min(window[1] - 1 + self.lateness, NEVER)

    def _merged(self, key: Any, new: Window) -> Window:
        windows = self.in_flight.setdefault(key, [])
        if new in windows:
            return new
        group = [new]
        cover = new
        for window in sorted(windows):
            # Windows in flight do not touch each other, so the new one joins all that are merged.
            if window[0] <= new[1] and window[1] >= new[0]:
                group.append(window)
                cover = (min(cover[0], window[0]), max(cover[1], window[1]))
        in_set = {Hashed(window) for window in sorted(group)}
        in_set.discard(Hashed(new))
        old = [each.window for each in in_set]
        for window in old:
            windows.remove(window)
        windows.append(cover)
        if old and old != [cover]:
            self._move(key, cover, old)
        return cover

    def _move(self, key: Any, cover: Window, old: list[Window]) -> None:
        merged = Scope(self, key, cover)
        scopes = [Scope(self, key, window) for window in old]
        held = [each for window in old for each in self.held.pop((key, window), [])]
        others = [each for each in scopes if each.window != cover]
        self.trigger.on_merge(merged, others)
        for each in scopes:
            self.trigger.clear(each)
            each.delete(self._cleanup(each.window))
        if held:
            self.held[key, cover] = held

    def _act(self, result: set[str], scope: Scope) -> None:
        place = scope.key, scope.window
        held = self.held.get(place, [])
        if FIRE in result and held:
            kept = list(held)
            if self.evict_before is not None:
                self.evict_before(kept)
            self.results.append((scope.key, scope.window, tuple(number for number, _ in kept)))
            if self.evict_after is not None:
                self.evict_after(kept)
            self.held[place] = kept
        if PURGE in result:
            self.held.pop(place, None)


# ---- all pairs


def all_pairs(choices: dict[str, list[str]]) -> Iterator[dict[str, str]]:
    """Give rows of one choice each, so that any two choices of different columns stand in one row."""
    columns = list(choices)
    missing = {
        frozenset([(one, first), (other, second)])
        for place, one in enumerate(columns)
        for other in columns[place + 1 :]
        for first in choices[one]
        for second in choices[other]
    }
    while missing:
        row = dict(min(missing, key=sorted))
        for column in columns:
            if column in row:
                continue
            row[column] = max(
                choices[column],
                key=lambda choice: sum(
                    frozenset([(column, choice), each]) in missing for each in row.items()
                ),
            )
        missing -= {frozenset([one, other]) for one in row.items() for other in row.items()}
        yield {column: row[column] for column in columns}
