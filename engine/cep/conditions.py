"""Conditions on an event, which may look at the events matched so far (Flink: IterativeCondition)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, TypeAlias


class ConditionContext(Protocol):
    """What a condition may look at besides the event (Flink: IterativeCondition.Context)."""

    def timestamp(self) -> int:
        """Return the time of the event in milliseconds."""
        ...

    def current_processing_time(self) -> int:
        """Return the wall clock in milliseconds since the epoch."""
        ...

    def get_events_for_pattern(self, name: str) -> Sequence[Any]:
        """Return the events that the match holds for a pattern, the event itself not among them."""
        ...


class IterativeCondition(ABC):
    """A condition that looks at the match so far (Flink: IterativeCondition).

    Each subtask has a copy. A condition must not change the event, and keeps nothing in attributes: an event
    is judged once for each match that is under way.
    """

    @abstractmethod
    def filter(self, value: Any, ctx: ConditionContext) -> bool:
        """Return whether an event is accepted."""


Condition: TypeAlias = Callable[[Any, ConditionContext], bool]
"""A condition as the automaton calls it."""


class SimpleCondition:
    """A condition on the event alone, as the automaton calls it (Flink: SimpleCondition)."""

    __slots__ = ("_accepts",)

    def __init__(self, accepts: Callable[[Any], bool]) -> None:
        self._accepts = accepts

    def __call__(self, event: Any, context: ConditionContext) -> bool:
        return self._accepts(event)


def always(event: Any, context: ConditionContext) -> bool:
    """Accept every event."""
    return True


ALWAYS: Final[Condition] = always


def condition_of(given: object) -> Condition:
    """Return the condition that a program has given.

    Raises:
        TypeError: it is neither an IterativeCondition nor a function.
    """
    if isinstance(given, IterativeCondition):
        return given.filter
    if callable(given):
        return SimpleCondition(given)
    raise TypeError(f"a condition is a function of the event or an IterativeCondition, not {given!r}")


def both(first: Condition, second: Condition) -> Condition:
    """Return the conjunction."""
    if first is ALWAYS:
        return second
    if second is ALWAYS:
        return first
    return lambda event, context: first(event, context) and second(event, context)


def either(first: Condition, second: Condition) -> Condition:
    """Return the disjunction."""
    return lambda event, context: first(event, context) or second(event, context)


def negated(condition: Condition) -> Condition:
    """Return the negation."""
    return lambda event, context: not condition(event, context)
