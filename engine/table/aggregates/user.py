"""The user's aggregate functions: objects with the methods of PyFlink's ``AggregateFunction``."""

from __future__ import annotations

from typing import Any

from onceproof.engine.table.aggregates.registry import Aggregate, AggregateCall, aggregate
from onceproof.engine.table.plans import UnsupportedPlan
from onceproof.engine.table.table_settings import TableSettings
from onceproof.engine.table.values import Row


class UserAggregate(Aggregate):
    """Calls ``create_accumulator``, ``accumulate``, ``retract``, ``merge`` and ``get_value``.

    The accumulator is the function's own; it must be plain data, such as a list.
    """

    def __init__(self, function: Any) -> None:
        self._function = function

    def create(self) -> Any:
        return self._function.create_accumulator()

    def add(self, accumulator: Any, values: Row) -> Any:
        self._function.accumulate(accumulator, *values)
        return accumulator

    def retract(self, accumulator: Any, values: Row) -> Any:
        self._function.retract(accumulator, *values)
        return accumulator

    def merge(self, accumulator: Any, other: Any) -> Any:
        self._function.merge(accumulator, [other])
        return accumulator

    def result(self, accumulator: Any) -> Any:
        return self._function.get_value(accumulator)


@aggregate("user")
def _user(call: AggregateCall, settings: TableSettings) -> Aggregate:
    function: Any = settings.functions.get(call.function)
    if function is None:
        raise UnsupportedPlan(f"user function {call.function}")
    if hasattr(function, "aggregate"):
        function = function.aggregate(call.argument_types, call.type)
    if isinstance(function, type):
        function = function()
    if not hasattr(function, "create_accumulator"):
        raise UnsupportedPlan(f"user function {call.function}, which has no create_accumulator,")
    return UserAggregate(function)
