"""Conditions on an event, which may look at the events matched so far (Flink: IterativeCondition)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, TypeAlias


class ConditionContext(Protocol):
    """What a condition may look at besides the event."""

    timestamp: int
    """Of the event, in milliseconds."""

    def events_for(self, name: str) -> Sequence[Any]:
        """Return the events that the match holds for a pattern, the event itself not among them."""
        ...


Condition: TypeAlias = Callable[[Any, ConditionContext], bool]


def always(event: Any, context: ConditionContext) -> bool:
    """Accept every event."""
    return True


ALWAYS: Final[Condition] = always


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
