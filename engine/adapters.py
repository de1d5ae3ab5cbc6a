"""From what the user hands over (a lambda, a function object, a field's position) to what an operator calls.

The rules this module lives by:

- Each subtask of each attempt gets its own copy of a function object, made when its operator is made; so no
  two subtasks, and no two attempts, ever share what a function keeps in its attributes. A plain Python
  function is its own copy: what a closure captured is shared, and must not be changed.
- An adapter adds no call of its own: the user's callable becomes the method that the operator calls.
- What cannot be copied (an open file, a connection) is an error that names the operator: it belongs into
  ``open``.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from types import FunctionType
from typing import Any

from engine.functions import (
    FilterFunction,
    FlatMapFunction,
    KeySelector,
    MapFunction,
    ReduceFunction,
)
from engine.graph import InvalidJob
from engine.operators.base import Operator


def _copy_callable(function: Callable[..., Any]) -> Callable[..., Any]:
    return function if type(function) is FunctionType else copy.deepcopy(function)


class CallableMap(MapFunction):
    """A callable as a MapFunction."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.map = function  # type: ignore[method-assign,assignment]

    def __deepcopy__(self, memo: dict[int, Any]) -> CallableMap:
        return CallableMap(_copy_callable(self.map))

    def map(self, value: Any) -> Any:
        """Replaced by the callable itself."""
        raise NotImplementedError


class CallableFilter(FilterFunction):
    """A callable as a FilterFunction."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.filter = function  # type: ignore[method-assign,assignment]

    def __deepcopy__(self, memo: dict[int, Any]) -> CallableFilter:
        return CallableFilter(_copy_callable(self.filter))

    def filter(self, value: Any) -> bool:
        """Replaced by the callable itself."""
        raise NotImplementedError


class CallableFlatMap(FlatMapFunction):
    """A callable as a FlatMapFunction."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.flat_map = function  # type: ignore[method-assign,assignment]

    def __deepcopy__(self, memo: dict[int, Any]) -> CallableFlatMap:
        return CallableFlatMap(_copy_callable(self.flat_map))

    def flat_map(self, value: Any) -> Any:
        """Replaced by the callable itself."""
        raise NotImplementedError


class CallableReduce(ReduceFunction):
    """A callable as a ReduceFunction."""

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        self.reduce = function  # type: ignore[method-assign,assignment]

    def __deepcopy__(self, memo: dict[int, Any]) -> CallableReduce:
        return CallableReduce(_copy_callable(self.reduce))

    def reduce(self, value1: Any, value2: Any) -> Any:
        """Replaced by the callable itself."""
        raise NotImplementedError


def key_of(key_selector: object) -> Callable[[Any], Any]:
    """The callable that extracts a key."""
    if isinstance(key_selector, KeySelector):
        return key_selector.get_key
    if callable(key_selector):
        return key_selector
    raise InvalidJob(
        f"key_by needs a key selector, not {key_selector!r}: give a function of the value or a KeySelector"
    )


def _is_bare(function: object) -> bool:
    """Whether an object consists of its class alone, so that a new one is a copy."""
    kind = type(function)
    return (
        kind.__init__ is object.__init__
        and kind.__new__ is object.__new__
        and not hasattr(kind, "__deepcopy__")
        and getattr(function, "__dict__", None) == {}
    )


class OperatorFactory:
    """Makes operators of one class, each around its own copy of the function."""

    __slots__ = ("_arguments", "_function", "_operator_class")

    def __init__(self, operator_class: Callable[..., Operator], function: Any, *arguments: Any) -> None:
        self._operator_class = operator_class
        self._function = function
        self._arguments = arguments

    def _copy(self) -> Any:
        function = self._function
        return type(function)() if _is_bare(function) else copy.deepcopy(function)

    def __call__(self) -> Operator:
        """A new operator."""
        try:
            function = self._copy()
        except Exception as error:
            raise InvalidJob(
                f"function {type(self._function).__name__} cannot be copied for a subtask ({error}):"
                " create files, locks and connections in its open(), not in its constructor"
            ) from error
        return self._operator_class(function, *self._arguments)
