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
from functools import lru_cache
from types import FunctionType
from typing import Any

from onceproof.engine.functions import (
    AggregateFunction,
    FilterFunction,
    FlatMapFunction,
    KeySelector,
    MapFunction,
    ReduceFunction,
)
from onceproof.engine.graph import InvalidJob
from onceproof.engine.operators.base import Operator


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


def reduce_function_of(function: object) -> ReduceFunction:
    """What ``reduce`` was given, as a ReduceFunction."""
    if isinstance(function, ReduceFunction):
        return function
    if callable(function):
        return CallableReduce(function)
    raise InvalidJob(f"reduce takes a function or a ReduceFunction, not {function!r}")


def aggregate_function_of(function: object) -> AggregateFunction:
    """What ``aggregate`` was given, if it is an AggregateFunction: a callable alone cannot merge."""
    if isinstance(function, AggregateFunction):
        return function
    raise InvalidJob(f"aggregate takes an AggregateFunction, not {function!r}")


def key_of(key_selector: object) -> Callable[[Any], Any]:
    """The callable that extracts a key."""
    if type(key_selector) is FunctionType:
        # Nearly always; asking an abstract class costs more than the rest of ``key_by``.
        return key_selector
    if isinstance(key_selector, KeySelector):
        return key_selector.get_key
    if callable(key_selector):
        return key_selector
    raise InvalidJob(
        f"key_by needs a key selector, not {key_selector!r}: give a function of the value or a KeySelector"
    )


_ATOMIC = frozenset((type(None), bool, int, float, str, bytes, FunctionType, type))
"""What a deep copy leaves as it is."""


@lru_cache(maxsize=256)
def _is_plain(kind: Any) -> bool:
    """Whether objects of a class are their ``__dict__``, so that copying it copies them."""
    bases = kind.__mro__[:-1]
    return (
        kind.__reduce_ex__ is object.__reduce_ex__
        and kind.__reduce__ is object.__reduce__
        and not hasattr(kind, "__deepcopy__")
        and not hasattr(kind, "__setstate__")
        and not any(base.__dict__.get("__slots__") or "__getstate__" in base.__dict__ for base in bases)
    )


def copy_function(function: Any) -> Any:
    """A deep copy; many times faster than ``copy.deepcopy`` for the usual function object."""
    kind: Any = type(function)
    if not _is_plain(kind):
        own_way = getattr(function, "__deepcopy__", None)
        return copy.deepcopy(function) if own_way is None else own_way({})
    clone = kind.__new__(kind)
    memo = {id(function): clone}
    attributes = clone.__dict__
    for name, value in function.__dict__.items():
        attributes[name] = value if type(value) in _ATOMIC else copy.deepcopy(value, memo)
    return clone


class OperatorFactory:
    """Makes operators of one class, each around its own copy of the function."""

    __slots__ = ("_arguments", "_function", "_operator_class")

    def __init__(self, operator_class: Callable[..., Operator], function: Any, *arguments: Any) -> None:
        self._operator_class = operator_class
        self._function = function
        self._arguments = arguments

    def __call__(self) -> Operator:
        """A new operator."""
        try:
            function = copy_function(self._function)
        except Exception as error:
            raise InvalidJob(
                f"function {type(self._function).__name__} cannot be copied for a subtask ({error}):"
                " create files, locks and connections in its open(), not in its constructor"
            ) from error
        return self._operator_class(function, *self._arguments)
