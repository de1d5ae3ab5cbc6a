"""Functions of the user's job as operators call them: adapters of plain functions, and operator factories.

Rules:

- Each subtask of each attempt gets its own copy of a function object, made when its operator is made. So
  subtasks and attempts never share what a function keeps in its attributes. A plain Python function is its
  own copy: what a closure captured is shared and must not change.
- An adapter adds no call: the user's callable becomes the method that the operator calls.
- A function object that cannot be copied (it holds an open file, a connection) is an InvalidJob error that
  names it: create such things in ``open``.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import lru_cache, partial
from types import FunctionType
from typing import Any
from warnings import warn

from onceproof.engine.connectors.committing import WriterSinkFunction
from onceproof.engine.connectors.sink import Sink
from onceproof.engine.functions import (
    AggregateFunction,
    FilterFunction,
    FlatMapFunction,
    KeySelector,
    MapFunction,
    ReduceFunction,
)
from onceproof.engine.graph import InvalidJob, PartitionerKind
from onceproof.engine.graph import Partitioner as EdgePartitioner
from onceproof.engine.operators.base import FunctionOperator, Operator
from onceproof.engine.operators.co_process import InputKeys, TwoInputOperator
from onceproof.engine.operators.sink import SinkOperator
from onceproof.engine.partitioner import Partitioner
from onceproof.engine.types.field_access import FieldSelector


def _copy_callable(function: Callable[..., Any]) -> Callable[..., Any]:
    return function if type(function) is FunctionType else copy.deepcopy(function)


class CallableMap(MapFunction):
    """A callable as a MapFunction."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.map = function  # type: ignore[method-assign,assignment]

    def __deepcopy__(self, memo: dict[int, Any]) -> CallableMap:
        return CallableMap(_copy_callable(self.map))

    def map(self, value: Any) -> Any:
        """Never called: the constructor puts the callable in its place."""
        raise NotImplementedError


class CallableFilter(FilterFunction):
    """A callable as a FilterFunction."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.filter = function  # type: ignore[method-assign,assignment]

    def __deepcopy__(self, memo: dict[int, Any]) -> CallableFilter:
        return CallableFilter(_copy_callable(self.filter))

    def filter(self, value: Any) -> bool:
        """Never called: the constructor puts the callable in its place."""
        raise NotImplementedError


class CallableFlatMap(FlatMapFunction):
    """A callable as a FlatMapFunction."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.flat_map = function  # type: ignore[method-assign,assignment]

    def __deepcopy__(self, memo: dict[int, Any]) -> CallableFlatMap:
        return CallableFlatMap(_copy_callable(self.flat_map))

    def flat_map(self, value: Any) -> Any:
        """Never called: the constructor puts the callable in its place."""
        raise NotImplementedError


class CallableReduce(ReduceFunction):
    """A callable as a ReduceFunction."""

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        self.reduce = function  # type: ignore[method-assign,assignment]

    def __deepcopy__(self, memo: dict[int, Any]) -> CallableReduce:
        return CallableReduce(_copy_callable(self.reduce))

    def reduce(self, value1: Any, value2: Any) -> Any:
        """Never called: the constructor puts the callable in its place."""
        raise NotImplementedError


def map_function_of(function: object) -> MapFunction:
    """Return the argument of ``map`` as a MapFunction; raises InvalidJob."""
    return (
        function
        if isinstance(function, MapFunction)
        else CallableMap(_callable(function, "map", MapFunction))
    )


def flat_map_function_of(function: object) -> FlatMapFunction:
    """Return the argument of ``flat_map`` as a FlatMapFunction; raises InvalidJob."""
    if isinstance(function, FlatMapFunction):
        return function
    return CallableFlatMap(_callable(function, "flat_map", FlatMapFunction))


def filter_function_of(function: object) -> FilterFunction:
    """Return the argument of ``filter`` as a FilterFunction; raises InvalidJob."""
    if isinstance(function, FilterFunction):
        return function
    return CallableFilter(_callable(function, "filter", FilterFunction))


def reduce_function_of(function: object) -> ReduceFunction:
    """Return the argument of ``reduce`` as a ReduceFunction; raises InvalidJob."""
    if isinstance(function, ReduceFunction):
        return function
    return CallableReduce(_callable(function, "reduce", ReduceFunction))


def _callable(function: object, method: str, interface: type) -> Callable[..., Any]:
    if callable(function):
        return function
    raise InvalidJob(f"{method} takes a function or a {interface.__name__}, not {function!r}")


def aggregate_function_of(function: object) -> AggregateFunction:
    """Return the argument of ``aggregate`` if it is an AggregateFunction: a plain function cannot merge."""
    if isinstance(function, AggregateFunction):
        return function
    raise InvalidJob(f"aggregate takes an AggregateFunction, not {function!r}")


def check_function(method: str, value: object, expected: type, other: type, mend: str) -> None:
    """Raise InvalidJob unless ``value`` is of the expected class; for ``other`` it names ``mend``."""
    if not isinstance(value, expected):
        use = f": call {mend}" if isinstance(value, other) else ""
        raise InvalidJob(f"{method} takes a {expected.__name__}, not {value!r}{use}")


def key_of(key_selector: object, asking: str = "key_by") -> Callable[[Any], Any]:
    """Return the function that extracts a key for the method ``asking``.

    Raises InvalidJob for what cannot be called.
    """
    if type(key_selector) is FunctionType:
        # The usual case; isinstance of an abstract class costs more than the rest of ``key_by``.
        return key_selector
    if isinstance(key_selector, KeySelector):
        return key_selector.get_key
    if callable(key_selector):
        return key_selector
    if type(key_selector) is int or type(key_selector) is str:
        warn(
            f"{asking}({key_selector!r}) is deprecated: give a function,"
            f" lambda value: value[{key_selector!r}], or of the field of a dataclass",
            DeprecationWarning,
            stacklevel=3,
        )
        return FieldSelector(key_selector)
    raise InvalidJob(
        f"{asking} needs a key selector, not {key_selector!r}: give a function of the value or a KeySelector"
    )


def custom_partitioner(partitioner: object, key_selector: object) -> EdgePartitioner:
    """Return the rule of ``partition_custom``; raises InvalidJob for what cannot be called."""
    choose: Any = partitioner.partition if isinstance(partitioner, Partitioner) else partitioner
    if not callable(choose):
        raise InvalidJob(
            f"partition_custom needs a partitioner, not {partitioner!r}: give a function of the key and the"
            " number of partitions, or a Partitioner"
        )
    key = key_of(key_selector, "partition_custom")
    return EdgePartitioner(PartitionerKind.CUSTOM, key, choose=partial(_chosen, choose))


def _chosen(choose: Callable[[Any, int], Any], key: Any, partitions: int) -> int:
    """Return the partition of a key. Raises ValueError where there is no such partition."""
    chosen = choose(key, partitions)
    if type(chosen) is not int or not 0 <= chosen < partitions:
        raise ValueError(
            f"the partitioner of partition_custom chose {chosen!r} for key {key!r}: it must return a whole"
            f" number from 0 to {partitions - 1}"
        )
    return chosen


_ATOMIC = frozenset((type(None), bool, int, float, str, bytes, FunctionType, type))
"""Classes whose objects a deep copy returns unchanged."""


@lru_cache(maxsize=256)
def _is_plain(kind: Any) -> bool:
    """Return whether copying the ``__dict__`` of an object of this class copies the object."""
    bases = kind.__mro__[:-1]
    return (
        kind.__reduce_ex__ is object.__reduce_ex__
        and kind.__reduce__ is object.__reduce__
        and not hasattr(kind, "__deepcopy__")
        and not hasattr(kind, "__setstate__")
        and not any(base.__dict__.get("__slots__") or "__getstate__" in base.__dict__ for base in bases)
    )


def copy_function(function: Any) -> Any:
    """Return a deep copy; for the usual function object many times faster than ``copy.deepcopy``."""
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

    @property
    def function(self) -> Any:
        """The function, of which each operator has a copy."""
        return self._function

    @property
    def operator_class(self) -> Any:
        """The class of the operators."""
        return self._operator_class

    @property
    def arguments(self) -> tuple[Any, ...]:
        """What each operator gets besides the function."""
        return self._arguments

    @property
    def function_name(self) -> str:
        """The name of the function's class."""
        return type(self._function).__name__

    @property
    def takes_keys(self) -> bool:
        """Whether the operators look at the key of each record, and refuse what cannot be one.

        Sinks may take whole buffers, and operators with two inputs have no keys if one input has none.
        """
        kind: Any = self._operator_class
        create_backend = getattr(kind, "create_backend", None)
        if create_backend in (None, FunctionOperator.create_backend) or issubclass(kind, SinkOperator):
            return False
        has_keys = any(isinstance(argument, InputKeys) for argument in self._arguments)
        return has_keys or not issubclass(kind, TwoInputOperator)

    def __call__(self) -> Operator:
        """Return a new operator; raises InvalidJob if the function cannot be copied."""
        try:
            function = copy_function(self._function)
        except Exception as error:
            raise InvalidJob(
                f"function {type(self._function).__name__} cannot be copied for a subtask ({error}):"
                " create files, locks and connections in its open(), not in its constructor"
            ) from error
        return self._operator_class(function, *self._arguments)


def create_sink_operator(sink: Sink, committer_retries: int) -> SinkOperator:
    """Return the operator of a sink whose committer tries a commit at most so many times again."""
    function = sink.create_function()
    if isinstance(function, WriterSinkFunction):
        function.max_retries = committer_retries
    return SinkOperator(function)
