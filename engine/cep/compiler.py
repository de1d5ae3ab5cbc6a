"""Compiles a pattern to the states of an automaton (Flink: NFACompiler).

Rules:

- The chain is followed from its end to its beginning, so every state knows what comes after it.
- A pattern that may occur several times becomes a state for each occurrence; a loop has a state that takes
  into itself.
- PROCEED goes on without an event. IGNORE skips an event; where a state can also proceed, it leads to a twin
  that cannot, so that each way is tried once.
- not_next and not_followed_by become ways to a Stop state, which discards the match.
- A greedy pattern forbids what follows it to take an event that it could take itself.
- Unlike Flink's, it refuses a group that repeats and may be empty: an event would be tried without end.
"""

from __future__ import annotations

from typing import Final

from onceproof.engine.cep.conditions import ALWAYS, Condition, both, negated
from onceproof.engine.cep.pattern import (
    NOT_FOLLOW,
    NOT_NEXT,
    SKIP_TILL_ANY,
    STRICT,
    MalformedPatternException,
    Pattern,
    Times,
    WithinType,
)

TAKE: Final = "TAKE"
IGNORE: Final = "IGNORE"
PROCEED: Final = "PROCEED"

NORMAL: Final = "NORMAL"
FINAL: Final = "FINAL"
STOP: Final = "STOP"
PENDING: Final = "PENDING"

ENDING: Final = "$endState$"


class Transition:
    """A way from a state to another, taken where the condition holds."""

    __slots__ = ("action", "condition", "source", "target")

    def __init__(self, source: State, action: str, target: State, condition: Condition) -> None:
        self.source, self.action, self.target, self.condition = source, action, target, condition


class State:
    """A state; ``pattern`` is the name of the pattern whose events it takes."""

    __slots__ = ("is_start", "kind", "name", "pattern", "transitions")

    def __init__(self, name: str, pattern: str, kind: str) -> None:
        self.name, self.pattern, self.kind = name, pattern, kind
        self.is_start = False
        self.transitions: list[Transition] = []

    def add(self, action: str, target: State, condition: Condition) -> None:
        """Add a way."""
        self.transitions.append(Transition(self, action, target, condition))


class Compiler:
    """Compiles one chain.

    Raises:
        MalformedPatternException: the chain is refused.
    """

    def __init__(self, pattern: Pattern) -> None:
        self.states: list[State] = []
        self.window_ms = 0
        """The longest time of a match; 0: it has no end."""
        self.windows_ms: dict[str, int] = {}
        """By state, the longest time since the event before."""
        self._names: set[str] = set()
        self._stops: dict[str, State] = {}
        self._copies: dict[str, State] = {}
        self._group: Pattern | None = None
        self._first_of_loop: dict[int, bool] = {}
        self._current = pattern
        self._following: Pattern | None = None
        _check_names(pattern)
        _check_skip(pattern)
        end = self._state(ENDING, FINAL)
        self.window_ms = pattern.windows_ms.get(WithinType.FIRST_AND_LAST, 0)
        start = self._convert(self._middle(end))
        start.is_start = True
        self.start = start
        self._check_windows(pattern)
        for state in self.states:
            _check_ends(state, [])

    def _check_windows(self, last: Pattern) -> None:
        if self.window_ms and any(each > self.window_ms for each in self.windows_ms.values()):
            raise MalformedPatternException(
                "The window length between the previous and current event cannot be larger than the window "
                "length between the first and last event for a Pattern."
            )
        if last.strategy == NOT_FOLLOW and not self.window_ms and not self.windows_ms.get(last.name or ""):
            raise MalformedPatternException(
                "NotFollowedBy is not supported without windowTime as a last part of a Pattern!"
            )

    # ---- states

    def _state(self, pattern: str | None, kind: str = NORMAL, takes: bool = False) -> State:
        base = name = pattern or "group"
        number = 0
        while name in self._names:
            name = f"{base}:{number}"
            number += 1
        self._names.add(name)
        state = State(name, base, kind)
        self.states.append(state)
        if takes:
            times = self._current.quantity
            window = self._current.windows_ms.get(WithinType.PREVIOUS_AND_CURRENT)
            if times is not None:
                window = times.window_ms if name != base else None
            if window is not None:
                self.windows_ms[name] = window
        return state

    def _stop(self, condition: Condition, name: str | None) -> State:
        stop = self._stops.get(name or "")
        if stop is None:
            stop = self._stops[name or ""] = self._state(name, STOP)
            stop.add(TAKE, stop, condition)
        return stop

    def _copy(self, state: State) -> State:
        copy = self._state(state.pattern, state.kind)
        for each in state.transitions:
            copy.add(each.action, copy if each.target is state else each.target, each.condition)
        return copy

    def _middle(self, sink: State) -> State:
        """Create the states of all patterns but the first."""
        while (previous := self._current.previous) is not None:
            current = self._current
            if current.strategy == NOT_FOLLOW:
                limited = self.window_ms > 0 or WithinType.PREVIOUS_AND_CURRENT in current.windows_ms
                if sink.kind == FINAL and limited:
                    sink = self._not_followed()
            elif current.strategy == NOT_NEXT:
                sink = self._not_next(sink)
            else:
                sink = self._convert(sink)
            self._following, self._current = current, previous
            window = self._current.windows_ms.get(WithinType.FIRST_AND_LAST)
            if window is not None and (not self.window_ms or window < self.window_ms):
                self.window_ms = window
        return sink

    def _not_followed(self) -> State:
        state, condition = self._state(self._current.name, PENDING, takes=True), self._take()
        state.add(PROCEED, self._stop(condition, self._current.name), condition)
        state.add(IGNORE, state, negated(condition))
        return state

    def _not_next(self, sink: State) -> State:
        state, condition = self._state(self._current.name, takes=True), self._take()
        stop = self._stop(condition, self._current.name)
        state.add(IGNORE if sink.kind == FINAL else PROCEED, sink, negated(condition))
        state.add(PROCEED, stop, condition)
        return state

    def _convert(self, sink: State) -> State:
        current = self._current
        if current.repeats == "LOOPING":
            self._set_first_of_loop(False)
            looping = self._loop(self._without_nots(sink))
            self._set_first_of_loop(True)
            assert current.quantity is not None
            state = self._times(looping, sink, current.quantity)
        elif current.repeats == "TIMES":
            assert current.quantity is not None
            state = self._times(sink, sink, current.quantity)
        else:
            state = self._single(sink, sink, self._take(), self._ignore(), current.is_optional)
        self._add_stops(state)
        return state

    def _times(self, sink: State, proceed: State, times: Times) -> State:
        self._set_first_of_loop(False)
        current, until = self._current, self._current.until_condition
        ignore = _until(self._inner_ignore(), until, is_take=False)
        take = _until(self._take(), until, is_take=True)
        assert take is not None
        if current.is_greedy and times.least != times.most:
            if until is not None:
                self._copies[sink.name] = self._copy(sink)
            _forbid(sink, take)
        for _ in range(times.least, times.most):
            sink = self._single(sink, proceed, take, ignore, True)
            self._add_stop_of_following(sink)
        for _ in range(times.least - 1):
            sink = self._single(sink, None, take, ignore, False)
            self._add_stop_of_following(sink)
        self._set_first_of_loop(True)
        return self._single(sink, proceed, take, self._ignore(), self._current.is_optional)

    def _single(
        self,
        sink: State,
        proceed: State | None,
        take: Condition,
        ignore: Condition | None,
        is_optional: bool,
    ) -> State:
        current = self._current
        if current.group is not None:
            return self._grouped(current, sink, proceed, is_optional)
        state = self._state(current.name, takes=True)
        after = self._without_nots(sink)
        state.add(TAKE, after, take)
        if is_optional:
            assert proceed is not None
            until = current.until_condition if current.is_greedy else None
            go_on = self._true()
            if until is not None:
                state.add(PROCEED, self._copies[proceed.name], both(go_on, until))
                go_on = both(go_on, negated(until))
            state.add(PROCEED, proceed, go_on)
        if ignore is not None:
            twin = state
            if is_optional or self._heads_optional_group():
                twin = self._state(current.name)
                twin.add(TAKE, after, take)
                twin.add(IGNORE, twin, ignore)
                self._add_stops(twin)
            state.add(IGNORE, twin, ignore)
        return state

    def _loop(self, sink: State) -> State:
        current = self._current
        if current.group is not None:
            return self._looping_group(current, sink)
        until = current.until_condition
        ignore = _until(self._inner_ignore(), until, is_take=False)
        take = _until(self._take(), until, is_take=True)
        assert take is not None
        go_on = self._true()
        state = self._state(current.name, takes=True)
        if current.is_greedy:
            if until is not None:
                copy = self._copies[sink.name] = self._copy(sink)
                state.add(PROCEED, copy, both(go_on, until))
                go_on = both(go_on, negated(until))
            state.add(PROCEED, sink, go_on)
            _forbid(sink, self._take())
        else:
            state.add(PROCEED, sink, go_on)
        state.add(TAKE, state, take)
        self._add_stop_of_following(state)
        if ignore is not None:
            twin = self._state(current.name)
            twin.add(TAKE, state, take)
            twin.add(IGNORE, twin, ignore)
            state.add(IGNORE, twin, ignore)
            self._add_stop_of_following(twin)
        return state

    # ---- groups

    def _grouped(self, group: Pattern, sink: State, proceed: State | None, is_optional: bool) -> State:
        go_on = self._true()
        state = self._inside(group, sink)
        if is_optional:
            assert proceed is not None
            state.add(PROCEED, proceed, go_on)
        return state

    def _looping_group(self, group: Pattern, sink: State) -> State:
        go_on = self._true()
        hub = self._state(group.name)
        state = self._inside(group, hub)
        state.add(PROCEED, sink, go_on)
        hub.add(PROCEED, state, go_on)
        return state

    def _inside(self, group: Pattern, sink: State) -> State:
        outside = self._current, self._following, self._group
        assert group.group is not None
        self._group, self._current = group, group.group
        state = self._convert(self._middle(sink))
        self._current, self._following, self._group = outside
        return state

    def _set_first_of_loop(self, is_first: bool) -> None:
        if self._current.group is not None:
            self._first_of_loop[id(self._current)] = is_first

    def _is_first_of_loop(self) -> bool:
        return self._first_of_loop.get(id(self._group), True)

    def _heads_group(self, pattern: Pattern) -> bool:
        return self._group is not None and pattern.previous is None

    def _heads_optional_group(self) -> bool:
        if not self._heads_group(self._current):
            return False
        assert self._group is not None
        return self._is_first_of_loop() and self._group.is_optional

    # ---- conditions

    def _group_until(self) -> Condition | None:
        return None if self._group is None else self._group.until_condition

    def _true(self) -> Condition:
        condition = _until(ALWAYS, self._group_until(), is_take=True)
        assert condition is not None
        return condition

    def _take(self, pattern: Pattern | None = None) -> Condition:
        condition = _until((pattern or self._current).condition, self._group_until(), is_take=True)
        assert condition is not None
        return condition

    def _inner_ignore(self) -> Condition | None:
        strategy = self._current.inner_strategy
        if self._heads_group(self._current):
            assert self._group is not None
            strategy = self._group.inner_strategy
        return self._ignore_by(strategy)

    def _ignore(self) -> Condition | None:
        strategy = self._current.strategy
        if self._heads_group(self._current):
            assert self._group is not None
            strategy = self._group.strategy if self._is_first_of_loop() else self._group.inner_strategy
        return self._ignore_by(strategy)

    def _ignore_by(self, strategy: str) -> Condition | None:
        if strategy == STRICT:
            return None
        condition = ALWAYS if strategy == SKIP_TILL_ANY else negated(self._current.condition)
        return _until(condition, self._group_until(), is_take=False)

    # ---- patterns that must not occur

    def _nots(self) -> list[tuple[Condition, str | None]]:
        """Return the conditions that stop the match before the current pattern has taken an event."""
        found: list[tuple[Condition, str | None]] = []
        previous = self._current.previous
        while previous is not None and (previous.is_optional or previous.strategy == NOT_FOLLOW):
            if previous.strategy == NOT_FOLLOW:
                found.append((self._take(previous), previous.name))
            previous = previous.previous
        return found

    def _add_stops(self, state: State) -> None:
        for condition, name in self._nots():
            state.add(PROCEED, self._stop(condition, name), condition)

    def _add_stop_of_following(self, state: State) -> None:
        following = self._following
        if following is not None and following.strategy == NOT_FOLLOW:
            condition = self._take(following)
            state.add(PROCEED, self._stop(condition, following.name), condition)

    def _without_nots(self, sink: State) -> State:
        """Return what follows an event of an optional pattern: the patterns before it no longer stop."""
        nots = self._nots()
        if not nots or not self._current.is_optional:
            return sink
        names = {name for _, name in nots}
        copy = self._state(sink.pattern, sink.kind)
        for each in sink.transitions:
            if each.action == PROCEED:
                if each.target.kind == STOP:
                    if each.target.name not in names:
                        copy.add(PROCEED, each.target, each.condition)
                else:
                    copy.add(PROCEED, self._without_nots(each.target), each.condition)
            else:
                copy.add(each.action, copy if each.target is sink else each.target, each.condition)
        return copy


def _until(condition: Condition | None, until: Condition | None, *, is_take: bool) -> Condition | None:
    """Return a condition that holds only as long as a loop is not ended."""
    if until is None or (condition is None and not is_take):
        return condition
    return both(negated(until), condition or ALWAYS)


def _forbid(state: State, condition: Condition) -> None:
    """Forbid every way of a state for events of which a condition holds."""
    for each in state.transitions:
        each.condition = both(each.condition, negated(condition))


def _chain(pattern: Pattern | None) -> list[Pattern]:
    chain = []
    while pattern is not None:
        chain.append(pattern)
        pattern = pattern.previous
    return chain


def _check_ends(state: State, before: list[State]) -> None:
    """Refuse a loop that takes no event; Flink follows it until its memory ends."""
    if state in before:
        raise MalformedPatternException(
            "A group that repeats may be empty, because all of its patterns are optional"
        )
    for each in state.transitions:
        if each.action == PROCEED:
            _check_ends(each.target, [*before, state])


def _check_skip(pattern: Pattern) -> None:
    name = pattern.skip_strategy.pattern
    if name and all(each.name != name for each in _chain(pattern)):
        raise MalformedPatternException(
            "The pattern name specified in AfterMatchSkipStrategy can not be found in the given Pattern"
        )


def _check_names(pattern: Pattern) -> None:
    seen = {ENDING}
    for each in _chain(pattern):
        for inner in [each] if each.group is None else _chain(each.group):
            if inner.name is None:
                continue
            if inner.name in seen:
                raise MalformedPatternException(
                    f"Duplicate pattern name: {inner.name}. Names must be unique."
                )
            seen.add(inner.name)
