"""What becomes of other matches after a match (Flink: AfterMatchSkipStrategy)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from msgspec import Struct

NO_SKIP: Final = "NO_SKIP"
SKIP_TO_NEXT: Final = "SKIP_TO_NEXT"
SKIP_PAST_LAST_EVENT: Final = "SKIP_PAST_LAST_EVENT"
SKIP_TO_FIRST: Final = "SKIP_TO_FIRST"
SKIP_TO_LAST: Final = "SKIP_TO_LAST"

EventIds: TypeAlias = Mapping[str, Sequence[int]]
"""The ids of the events of a match by pattern; later events have greater ids."""


class SkipFailed(RuntimeError):
    """There is no place to skip to."""

    java_class = "org.apache.flink.util.FlinkRuntimeException"


class AfterMatchSkipStrategy(Struct, frozen=True):
    """A strategy; use the functions named as Flink's."""

    kind: str = NO_SKIP
    pattern: str = ""
    fails_on_miss: bool = False

    @staticmethod
    def no_skip() -> AfterMatchSkipStrategy:
        """Emit every match."""
        return AfterMatchSkipStrategy()

    @staticmethod
    def skip_to_next() -> AfterMatchSkipStrategy:
        """Discard other matches that start with the same event."""
        return AfterMatchSkipStrategy(SKIP_TO_NEXT)

    @staticmethod
    def skip_past_last_event() -> AfterMatchSkipStrategy:
        """Discard every match that has started before the end of the match."""
        return AfterMatchSkipStrategy(SKIP_PAST_LAST_EVENT)

    @staticmethod
    def skip_to_first(pattern: str) -> AfterMatchSkipStrategy:
        """Discard every match that has started before the first event of a pattern."""
        return AfterMatchSkipStrategy(SKIP_TO_FIRST, pattern)

    @staticmethod
    def skip_to_last(pattern: str) -> AfterMatchSkipStrategy:
        """Discard every match that has started before the last event of a pattern."""
        return AfterMatchSkipStrategy(SKIP_TO_LAST, pattern)

    def throw_exception_on_miss(self) -> AfterMatchSkipStrategy:
        """Fail where the pattern has no event, or where skipping would find the same match again."""
        return AfterMatchSkipStrategy(self.kind, self.pattern, fails_on_miss=True)

    @property
    def skips(self) -> bool:
        """Whether matches may be discarded."""
        return self.kind != NO_SKIP

    def prunes_before(self, match: EventIds) -> int | None:
        """Return the id such that matches with an earlier first event are discarded; None: none are.

        Raises:
            SkipFailed: the strategy fails on a miss.
        """
        first = min(each for events in match.values() for each in events)
        if self.kind == SKIP_TO_NEXT:
            return first + 1
        if self.kind == SKIP_PAST_LAST_EVENT:
            return max(each for events in match.values() for each in events) + 1
        events = match.get(self.pattern)
        if not events:
            if self.fails_on_miss:
                raise SkipFailed(
                    f"Could not skip to {self.pattern}. No such element in the found match {dict(match)}"
                )
            return None
        target = events[0] if self.kind == SKIP_TO_FIRST else events[-1]
        if self.fails_on_miss and target == first:
            raise SkipFailed("Could not skip to first element of a match.")
        return target
