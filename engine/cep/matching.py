"""Matches the events of keys: what streams and MATCH_RECOGNIZE share (Flink: CepOperator).

Rules:

- In event time an event waits for the watermark that reaches it. Events are matched by time, then by the
  order that is given, then by arrival. An event whose time is not after the watermark is late and left out.
- In processing time an event is matched at once or, with an order, with all of its millisecond.
- Before events of a time are matched, and after all that are due, the automaton learns the time, so that
  matches that have run out of time end there. A timer at the end of each match that starts sees to it.

State, of the current key: the events that wait by time, the matches under way, and the events of these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

from msgspec import Struct

from onceproof.engine.cep.automaton import Automaton, Match, MatchState
from onceproof.engine.timer_service import TimerService

Sort: TypeAlias = Callable[[Sequence[Any]], Sequence[Any]]
"""Orders events of the same time; it must be stable."""


class MatchStates(Struct, frozen=True):
    """The state of a key."""

    waiting: Any
    """MapState: time to events."""
    matches: Any
    """ValueState: the matches as the automaton stores them."""
    events: Any
    """MapState: the events of matches by id."""


class MatchListener(Protocol):
    """Hears of matches."""

    def matched(self, match: Match, timestamp: int) -> None:
        """Hear of a match that is complete at a time."""
        ...

    def timed_out(self, match: Match, timestamp: int) -> None:
        """Hear of a match that has run out of time."""
        ...


class Matching:
    """Matches the events of the current key.

    Args:
        automaton: the automaton.
        states: the state of the current key.
        timers: the timers of the current key, whose firing calls ``on_timer``.
        listener: hears of matches.
        is_event_time: whether time is that of events.
        sort: the order of events of the same time; None: that of arrival.
    """

    def __init__(
        self,
        automaton: Automaton,
        states: MatchStates,
        timers: TimerService,
        listener: MatchListener,
        is_event_time: bool,
        sort: Sort | None,
    ) -> None:
        self._automaton, self._states, self._timers = automaton, states, timers
        self._listener, self._sort = listener, sort
        self._is_event_time = is_event_time

    def add(self, event: Any, timestamp: int) -> bool:
        """Take an event, and return whether it is in time; in processing time ``timestamp`` is not used."""
        if self._is_event_time:
            if timestamp <= self._timers.current_watermark():
                return False
            self._wait(event, timestamp)
            return True
        now = self._timers.current_processing_time()
        if self._sort is None:
            state = self._load()
            self._match(state, now, [event])
            self._store(state)
        else:
            self._wait(event, now)
        return True

    def on_timer(self, timestamp: int) -> None:
        """Match what is due, and end the matches that have run out of time."""
        timers = self._timers
        # The clock may have been set back since the timer was due.
        now = timers.current_watermark() if self._is_event_time else timers.current_processing_time()
        now = max(now, timestamp)
        state, waiting = self._load(), self._states.waiting
        for time in sorted([each for each, _ in waiting.items() if each <= now]):
            events = waiting.get(time)
            self._match(state, time, events if self._sort is None else self._sort(events))
            waiting.remove(time)
        self._advance(state, now)
        self._store(state)

    def _wait(self, event: Any, time: int) -> None:
        waiting = self._states.waiting
        events = waiting.get(time)
        if events is None:
            events = []
            self._wake_at(time)
        events.append(event)
        waiting.put(time, events)

    def _wake_at(self, time: int) -> None:
        if self._is_event_time:
            self._timers.register_event_time_timer(time)
        else:
            self._timers.register_processing_time_timer(time)

    def _match(self, state: MatchState, time: int, events: Sequence[Any]) -> None:
        automaton, listener = self._automaton, self._listener
        self._advance(state, time)
        for event in events:
            state.has_started = False
            for match in automaton.process(state, event, time):
                listener.matched(match, time)
            if automaton.window_ms and state.has_started:
                self._wake_at(time + automaton.window_ms)

    def _advance(self, state: MatchState, time: int) -> None:
        matches, timed_out = self._automaton.advance_time(state, time)
        for match in matches:
            self._listener.matched(match, time)
        for match, at in timed_out:
            self._listener.timed_out(match, at)

    def _load(self) -> MatchState:
        return self._automaton.load(self._states.matches.value(), self._states.events)

    def _store(self, state: MatchState) -> None:
        data = state.store()
        if data is None:
            self._states.matches.clear()
        else:
            self._states.matches.update(data)
