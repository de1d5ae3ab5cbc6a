"""Flink's Pattern API in snake_case (Flink: org.apache.flink.cep.pattern.Pattern, Quantifier).

A pattern is a chain: each knows the one before it. Methods that qualify a pattern change it and return it;
those that continue the chain return the new end. Which combinations are refused, and with which words, is
Flink's. ``or_where`` is Flink's ``or``, which is no name in Python.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Final, TypeAlias

from onceproof.engine.cep.conditions import (
    ALWAYS,
    Condition,
    IterativeCondition,
    both,
    condition_of,
    either,
)
from onceproof.engine.cep.skipping import AfterMatchSkipStrategy
from onceproof.engine.durations import Duration, Time, milliseconds_of

STRICT: Final = "STRICT"
SKIP_TILL_NEXT: Final = "SKIP_TILL_NEXT"
SKIP_TILL_ANY: Final = "SKIP_TILL_ANY"
NOT_FOLLOW: Final = "NOT_FOLLOW"
NOT_NEXT: Final = "NOT_NEXT"

GivenCondition: TypeAlias = Callable[[Any], bool] | IterativeCondition


class WithinType(Enum):
    """Between which two events ``within`` limits the time (Flink: WithinType)."""

    FIRST_AND_LAST = "FIRST_AND_LAST"
    PREVIOUS_AND_CURRENT = "PREVIOUS_AND_CURRENT"


class MalformedPatternException(ValueError):
    """A pattern that is refused."""

    java_class = "org.apache.flink.cep.pattern.MalformedPatternException"


class Times:
    """How often a pattern occurs; ``window_ms`` is the longest time between two of its events."""

    def __init__(self, least: int, most: int, window_ms: int | None = None) -> None:
        if least <= 0:
            raise ValueError("The from should be a positive number greater than 0.")
        if most < least:
            raise ValueError(f"The to should be a number greater than or equal to from: {least}.")
        self.least, self.most, self.window_ms = least, most, window_ms


class Pattern:
    """A pattern of one event, or of several under one name.

    Args:
        name: its name, None for a group.
        previous: the pattern before it.
        strategy: how it follows the one before it.
        skip_strategy: that of the chain.
        group: the end of the chain in a group.
    """

    def __init__(
        self,
        name: str | None,
        previous: Pattern | None = None,
        strategy: str = STRICT,
        skip_strategy: AfterMatchSkipStrategy | None = None,
        group: Pattern | None = None,
    ) -> None:
        self.name = name
        self.previous = previous
        self.strategy = strategy
        self.inner_strategy = SKIP_TILL_NEXT
        self.skip_strategy = skip_strategy or AfterMatchSkipStrategy()
        self.group = group
        self._clauses: list[tuple[Callable[[Condition, Condition], Condition], Condition]] = []
        self.until_condition: Condition | None = None
        self.repeats = ""
        """"" for once, LOOPING or TIMES."""
        self.is_optional = self.is_greedy = False
        self.quantity: Times | None = None
        self.windows_ms: dict[WithinType, int] = {}

    # ---- chains

    @staticmethod
    def begin(
        first: str | Pattern, after_match_skip_strategy: AfterMatchSkipStrategy | None = None
    ) -> Pattern:
        """Start a chain with a pattern of this name, or with a group."""
        if isinstance(first, Pattern):
            return Pattern(None, None, STRICT, after_match_skip_strategy, first)
        return Pattern(first, None, STRICT, after_match_skip_strategy)

    def _then(self, following: str | Pattern, strategy: str) -> Pattern:
        is_not = strategy in (NOT_FOLLOW, NOT_NEXT)
        if is_not and self.is_optional:
            raise MalformedPatternException(
                "Specifying a pattern with an optional path to NOT condition is not supported yet. "
                "You can simulate such pattern with two independent patterns, one with and the other without "
                "the optional part."
            )
        if isinstance(following, Pattern):
            return Pattern(None, self, strategy, self.skip_strategy, following)
        return Pattern(following, self, strategy, self.skip_strategy)

    def next(self, following: str | Pattern) -> Pattern:
        """Append a pattern whose event comes right behind."""
        return self._then(following, STRICT)

    def not_next(self, name: str) -> Pattern:
        """Append a pattern whose event must not come right behind."""
        return self._then(name, NOT_NEXT)

    def followed_by(self, following: str | Pattern) -> Pattern:
        """Append a pattern; events that do not match are skipped."""
        return self._then(following, SKIP_TILL_NEXT)

    def not_followed_by(self, name: str) -> Pattern:
        """Append a pattern whose event must not come before the one that is appended next."""
        return self._then(name, NOT_FOLLOW)

    def followed_by_any(self, following: str | Pattern) -> Pattern:
        """Append a pattern; events are skipped even if they match."""
        return self._then(following, SKIP_TILL_ANY)

    # ---- conditions

    @property
    def condition(self) -> Condition:
        """The condition on its events, put together from its clauses as they were given."""
        whole = ALWAYS
        for combine, condition in self._clauses:
            whole = condition if whole is ALWAYS else combine(whole, condition)
        return whole

    def _clause(
        self, combine: Callable[[Condition, Condition], Condition], condition: Condition, verb: str
    ) -> Pattern:
        if self.group is not None:
            raise MalformedPatternException(f"GroupPattern does not support {verb} clause.")
        self._clauses.append((combine, condition))
        return self

    def where(self, condition: GivenCondition) -> Pattern:
        """Require a condition besides those there are: a function of the event, or an IterativeCondition."""
        return self._clause(both, condition_of(condition), "where")

    def or_where(self, condition: GivenCondition) -> Pattern:
        """Accept another condition instead of those there are."""
        return self._clause(either, condition_of(condition), "or")

    def subtype(self, subtype_class: type) -> Pattern:
        """Require that the event is of a class, besides the conditions there are."""
        return self._clause(both, lambda event, context: isinstance(event, subtype_class), "subtype")

    def until(self, until_condition: GivenCondition) -> Pattern:
        """End a loop with the event that fulfils a condition; the event is not part of it."""
        if self.until_condition is not None:
            raise MalformedPatternException("Only one until condition can be applied.")
        if self.repeats != "LOOPING":
            raise MalformedPatternException("The until condition is only applicable to looping states.")
        self.until_condition = condition_of(until_condition)
        return self

    def within(
        self, window_time: Duration | Time, within_type: WithinType = WithinType.FIRST_AND_LAST
    ) -> Pattern:
        """Limit the time between two events to less than a duration."""
        self.windows_ms[within_type] = milliseconds_of(window_time, "the time within which events match")
        return self

    # ---- quantifiers

    def _quantify(self, repeats: str, quantity: Times) -> Pattern:
        if self.strategy in (NOT_FOLLOW, NOT_NEXT):
            raise MalformedPatternException("Option not applicable to NOT pattern")
        if self.repeats:
            raise MalformedPatternException("Already applied quantifier to this Pattern.")
        self.repeats, self.quantity = repeats, quantity
        # As in Flink, whose new quantifier knows nothing of the one before it.
        self.is_optional = False
        return self

    def optional(self) -> Pattern:
        """Let the pattern be absent."""
        if self.previous is not None and self.previous.is_greedy:
            raise MalformedPatternException("Optional pattern cannot be preceded by greedy pattern")
        if self.is_optional:
            raise MalformedPatternException("Optional already applied!")
        if self.strategy in (NOT_FOLLOW, NOT_NEXT):
            raise MalformedPatternException("NOT pattern cannot be optional")
        self.is_optional = True
        return self

    def one_or_more(self, window_time: Duration | Time | None = None) -> Pattern:
        """Let the pattern occur once or more often."""
        return self.times_or_more(1, window_time)

    def times_or_more(self, times: int, window_time: Duration | Time | None = None) -> Pattern:
        """Let the pattern occur so often or more often; ``window_time`` limits the time between two."""
        return self._quantify("LOOPING", Times(times, times, _window_ms(window_time)))

    def times(
        self, least: int, most: int | None = None, window_time: Duration | Time | None = None
    ) -> Pattern:
        """Let the pattern occur so often, or between so and so often; ``window_time`` as above."""
        is_optional = least == 0 and most is not None
        most = least if most is None else most
        self._quantify("TIMES", Times(1 if is_optional else least, most, _window_ms(window_time)))
        self.is_optional = is_optional
        return self

    def greedy(self) -> Pattern:
        """Repeat the pattern as often as possible."""
        if self.strategy in (NOT_FOLLOW, NOT_NEXT):
            raise MalformedPatternException("Option not applicable to NOT pattern")
        if self.group is not None:
            raise MalformedPatternException("Option not applicable to group pattern")
        if self.inner_strategy == SKIP_TILL_ANY:
            raise MalformedPatternException("Option not applicable to FollowedByAny pattern")
        if not self.repeats:
            raise MalformedPatternException("Option not applicable to singleton quantifier")
        self.is_greedy = True
        return self

    def _contiguous(self, strategy: str, option: str) -> Pattern:
        if not self.repeats:
            raise MalformedPatternException(f"{option} not applicable to a pattern that occurs once!")
        if self.inner_strategy == strategy:
            raise MalformedPatternException(f"{option} already applied!")
        if self.inner_strategy != SKIP_TILL_NEXT:
            raise MalformedPatternException("You can apply either combinations or consecutive, not both!")
        self.inner_strategy = strategy
        return self

    def allow_combinations(self) -> Pattern:
        """Let events of a loop be skipped even if they match."""
        return self._contiguous(SKIP_TILL_ANY, "Combinations")

    def consecutive(self) -> Pattern:
        """Let nothing come between the events of a loop."""
        return self._contiguous(STRICT, "Consecutive")


def _window_ms(window_time: Duration | Time | None) -> int | None:
    return None if window_time is None else milliseconds_of(window_time, "the time between two events")
