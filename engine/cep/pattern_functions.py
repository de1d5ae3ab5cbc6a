"""The functions that a program applies to matches (Flink: org.apache.flink.cep.functions)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

from onceproof.engine.cep.automaton import Match
from onceproof.engine.functions import Function


class PatternProcessFunction(Function, ABC):
    """Emits any number of values for each match (Flink: PatternProcessFunction).

    A side output gets what is yielded with its tag: ``yield tag, value``.
    """

    class Context:
        """The time of a match."""

        __slots__ = ("_clock", "match_timestamp")

        def __init__(self, clock: Callable[[], int]) -> None:
            self._clock = clock
            self.match_timestamp = 0

        def timestamp(self) -> int:
            """Return when the match was complete, or when it timed out, in milliseconds."""
            return self.match_timestamp

        def current_processing_time(self) -> int:
            """Return the wall clock in milliseconds since the epoch."""
            return self._clock()

    @abstractmethod
    def process_match(self, match: Match, ctx: Context) -> Iterable[Any] | None:
        """Return or yield the values to emit for a match: the events by the names of their patterns."""


class TimedOutPartialMatchHandler(ABC):
    """Beside PatternProcessFunction: hears of matches that run out of time (Flink: the same name)."""

    @abstractmethod
    def process_timed_out_match(
        self, match: Match, ctx: PatternProcessFunction.Context
    ) -> Iterable[Any] | None:
        """Return or yield pairs of a tag and a value for side outputs, from the events matched so far."""
