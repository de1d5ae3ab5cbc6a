"""What a program says of tables, kept as calls for the planner to repeat.

Rules:

- A ``Recorded`` is a value that only the planner has: an expression, a table, a window, a schema. It knows
  how it is made: a call, and the values that the call takes. Making one asks nothing of the planner, so what
  is wrong with it shows when a plan is asked for.
- ``Steps`` writes values as a list of JSON, each after those that it needs, each once. The planner
  (``planner/client/calls.py``) repeats the calls on PyFlink and compiles what comes of the last one.
- Only public names of PyFlink's modules of tables are called there, with data as arguments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Final

from onceproof.engine.graph import InvalidJob
from onceproof.engine.table.api.types import DataType
from onceproof.engine.types.row import Row

_PLAIN: Final = (bool, int, float, str, type(None))


class Recorded:
    """A value that only the planner has.

    Args:
        step: how the planner makes it: ``function``, ``class`` and ``name``, ``environment``, ``constant``,
            ``operator`` or ``user``; or ``on``, another such value, and the ``name`` of a method or a
            ``property`` of it.
        arguments: what the call takes, by place.
        named: what it takes by name.
    """

    def __init__(
        self, step: Mapping[str, Any], arguments: Sequence[Any] = (), named: Mapping[str, Any] | None = None
    ) -> None:
        self._step = step
        self._arguments = tuple(arguments)
        self._named = dict(named or {})


def first_argument(value: Recorded) -> Any:
    """Return the first argument of the call: for a column its name."""
    return value._arguments[0]


def table_path(value: Recorded) -> str:
    """Return the path of a declared table; "" for a query."""
    return str(first_argument(value)) if value._step == {"environment": "from_path"} else ""


class Steps:
    """Writes recorded values as steps."""

    def __init__(self) -> None:
        self.steps: list[dict[str, Any]] = []
        self.functions: dict[str, Any] = {}
        """The program's functions among them, as the job calls them, by name."""
        self._places: dict[int, int] = {}
        self._kept: list[Recorded] = []

    def add(self, value: Recorded) -> int:
        """Return the place of the step that makes a value."""
        place = self._places.get(id(value))
        if place is not None:
            return place
        step = {name: self.form(part) if name == "on" else part for name, part in value._step.items()}
        if value._arguments:
            step["arguments"] = [self.form(each) for each in value._arguments]
        if "declare" in step:
            step["name"] = self._name_of(step["name"], value)
        if value._named:
            step["named"] = {name: self.form(each) for name, each in value._named.items()}
        self.steps.append(step)
        # Kept, so that no other value gets its id.
        self._kept.append(value)
        self._places[id(value)] = len(self.steps) - 1
        return len(self.steps) - 1

    def _name_of(self, name: str, function: Any) -> str:
        """Return a name for a function that no other one has."""
        found, number = name, 1
        while self.functions.get(found, function.python) != function.python:
            number += 1
            found = f"{name}_{number}"
        self.functions[found] = function.python
        return found

    def target(self, value: Any) -> Any:
        """Return what is asked for: data in which values are the places of their steps."""
        match value:
            case Recorded():
                return self.add(value)
            case list() | tuple():
                return [self.target(each) for each in value]
            case dict():
                return {name: self.target(item) for name, item in value.items()}
        return value

    def form(self, value: Any) -> Any:
        """Return a value as an argument in JSON."""
        match value:
            case Recorded():
                return {"step": self.add(value)}
            case Enum():
                return {"enum": type(value).__name__, "member": value.name}
            case _ if isinstance(value, _PLAIN):
                return value
            case DataType():
                return {"type": str(value)}
            case Row() | list() | tuple():
                return {"list": [self.form(each) for each in value]}
            case dict():
                return {"pairs": [[self.form(key), self.form(item)] for key, item in value.items()]}
            case bytes():
                return {"bytes": value.hex()}
            case Decimal():
                return {"decimal": str(value)}
            case datetime() | date() | time():
                return {type(value).__name__: value.isoformat()}
            case timedelta():
                return {"timedelta": value // timedelta(microseconds=1)}
        raise InvalidJob(f"{value!r} of type {type(value).__qualname__} cannot stand in an expression")
