"""The functions with two inputs: those of connected streams under PyFlink's names, joins under Flink's.

The rules this module lives by:

- A function is called for one record of one input at a time, in the order of arrival. Between two inputs
  there is no defined order.
- Over keyed inputs both sides share the state and the timers of a key.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from onceproof.engine.functions import Function, KeyedProcessFunction, ProcessFunction


class CoMapFunction(Function, ABC):
    """Maps each value of either input to one value; None emits nothing (PyFlink: CoMapFunction)."""

    @abstractmethod
    def map1(self, value: Any) -> Any:
        """Return the value to emit for a value of the first input."""

    @abstractmethod
    def map2(self, value: Any) -> Any:
        """Return the value to emit for a value of the second input."""


class CoFlatMapFunction(Function, ABC):
    """Maps each value of either input to any number of values (PyFlink: CoFlatMapFunction)."""

    @abstractmethod
    def flat_map1(self, value: Any) -> Iterable[Any] | None:
        """Return or yield the values to emit for a value of the first input."""

    @abstractmethod
    def flat_map2(self, value: Any) -> Iterable[Any] | None:
        """Return or yield the values to emit for a value of the second input."""


class CoProcessFunction(Function, ABC):
    """A ProcessFunction over two inputs (PyFlink: CoProcessFunction).

    Over keyed inputs its state is that of the record's key. Timers need a KeyedCoProcessFunction.
    """

    class Context(ProcessFunction.Context):
        """The context of the current record of either input."""

        __slots__ = ()

    @abstractmethod
    def process_element1(self, value: Any, ctx: Any) -> Iterable[Any] | None:
        """Return or yield the values to emit for a value of the first input."""

    @abstractmethod
    def process_element2(self, value: Any, ctx: Any) -> Iterable[Any] | None:
        """Return or yield the values to emit for a value of the second input."""


class KeyedCoProcessFunction(Function, ABC):
    """A KeyedProcessFunction over two keyed inputs, which share state and timers.

    PyFlink: KeyedCoProcessFunction.
    """

    class Context(KeyedProcessFunction.Context):
        """The context of the current record of either input, with its key."""

        __slots__ = ()

    class OnTimerContext(KeyedProcessFunction.OnTimerContext):
        """The context of ``on_timer``."""

        __slots__ = ()

    @abstractmethod
    def process_element1(self, value: Any, ctx: Any) -> Iterable[Any] | None:
        """Return or yield the values to emit for a value of the first input."""

    @abstractmethod
    def process_element2(self, value: Any, ctx: Any) -> Iterable[Any] | None:
        """Return or yield the values to emit for a value of the second input."""

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[Any] | None:
        """Return or yield the values to emit when a timer of the current key fires; none by default."""


class ProcessJoinFunction(Function, ABC):
    """Processes each pair that an interval join finds (Flink: ProcessJoinFunction)."""

    class Context:
        """The context of the current pair; one object serves all pairs."""

        __slots__ = ("left_element_timestamp", "right_element_timestamp")

        left_element_timestamp: int
        right_element_timestamp: int

        def get_left_timestamp(self) -> int:
            """Return the event time of the left value in milliseconds."""
            return self.left_element_timestamp

        def get_right_timestamp(self) -> int:
            """Return the event time of the right value in milliseconds."""
            return self.right_element_timestamp

        def get_timestamp(self) -> int:
            """Return the later of the two, which is the timestamp of the emitted values."""
            return max(self.left_element_timestamp, self.right_element_timestamp)

    @abstractmethod
    def process_element(self, left: Any, right: Any, ctx: Context) -> Iterable[Any] | None:
        """Return or yield the values to emit for a pair."""


class JoinFunction(Function, ABC):
    """Maps each pair that a window join finds to one value (Flink: JoinFunction)."""

    @abstractmethod
    def join(self, first: Any, second: Any) -> Any:
        """Return the value to emit for a pair."""


class FlatJoinFunction(Function, ABC):
    """Maps each pair that a window join finds to any number of values (Flink: FlatJoinFunction)."""

    @abstractmethod
    def join(self, first: Any, second: Any) -> Iterable[Any] | None:
        """Return or yield the values to emit for a pair."""


class CoGroupFunction(Function, ABC):
    """Processes the values of two streams for one key and window (Flink: CoGroupFunction)."""

    @abstractmethod
    def co_group(self, first: Iterable[Any], second: Iterable[Any]) -> Iterable[Any] | None:
        """Return or yield the values to emit; either of the two inputs may be empty."""
