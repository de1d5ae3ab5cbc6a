"""The interfaces for two inputs at once: connected streams under PyFlink's names, joins under Flink's.

The rules this module lives by:

- A function is called for one record of one input at a time, in the order in which a run brings them: between
  two inputs there is no order, so nothing may depend on it but what a job says of it.
- Over keyed inputs both sides share the state and the timers of a key: that is how they meet.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from onceproof.engine.functions import Function, KeyedProcessFunction, ProcessFunction


class CoMapFunction(Function, ABC):
    """One value out for each value of either input; None is left out (PyFlink: CoMapFunction)."""

    @abstractmethod
    def map1(self, value: Any) -> Any:
        """The value that replaces one of the first input."""

    @abstractmethod
    def map2(self, value: Any) -> Any:
        """The value that replaces one of the second input."""


class CoFlatMapFunction(Function, ABC):
    """Any number of values out for each value of either input (PyFlink: CoFlatMapFunction)."""

    @abstractmethod
    def flat_map1(self, value: Any) -> Iterable[Any] | None:
        """The values that replace one of the first input; a generator is the usual form."""

    @abstractmethod
    def flat_map2(self, value: Any) -> Iterable[Any] | None:
        """The values that replace one of the second input; a generator is the usual form."""


class CoProcessFunction(Function, ABC):
    """A ProcessFunction over two inputs (PyFlink: CoProcessFunction).

    Over keyed inputs its state is that of the record's key; who wants timers takes a KeyedCoProcessFunction.
    """

    class Context(ProcessFunction.Context):
        """As ProcessFunction.Context."""

        __slots__ = ()

    @abstractmethod
    def process_element1(self, value: Any, ctx: Any) -> Iterable[Any] | None:
        """The values to emit for one of the first input; a generator is the usual form."""

    @abstractmethod
    def process_element2(self, value: Any, ctx: Any) -> Iterable[Any] | None:
        """The values to emit for one of the second input; a generator is the usual form."""


class KeyedCoProcessFunction(Function, ABC):
    """A KeyedProcessFunction over two keyed inputs, which share state and timers.

    PyFlink: KeyedCoProcessFunction.
    """

    class Context(KeyedProcessFunction.Context):
        """As KeyedProcessFunction.Context."""

        __slots__ = ()

    class OnTimerContext(KeyedProcessFunction.OnTimerContext):
        """As KeyedProcessFunction.OnTimerContext."""

        __slots__ = ()

    @abstractmethod
    def process_element1(self, value: Any, ctx: Any) -> Iterable[Any] | None:
        """The values to emit for one of the first input; a generator is the usual form."""

    @abstractmethod
    def process_element2(self, value: Any, ctx: Any) -> Iterable[Any] | None:
        """The values to emit for one of the second input; a generator is the usual form."""

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[Any] | None:
        """The values to emit as a timer of the current key fires; none by default."""


class ProcessJoinFunction(Function, ABC):
    """Makes values of the pairs that an interval join finds (Flink: ProcessJoinFunction)."""

    class Context:
        """What is known of the pair in hand; one object serves all pairs."""

        __slots__ = ("_left_timestamp", "_right_timestamp")

        _left_timestamp: int
        _right_timestamp: int

        def get_left_timestamp(self) -> int:
            """Event time of the left value in milliseconds."""
            return self._left_timestamp

        def get_right_timestamp(self) -> int:
            """Event time of the right value in milliseconds."""
            return self._right_timestamp

        def get_timestamp(self) -> int:
            """The later of the two, which is that of what is emitted."""
            return max(self._left_timestamp, self._right_timestamp)

    @abstractmethod
    def process_element(self, left: Any, right: Any, ctx: Context) -> Iterable[Any] | None:
        """The values to emit for a pair; a generator is the usual form."""


class JoinFunction(Function, ABC):
    """Makes one value of each pair that a window join finds (Flink: JoinFunction)."""

    @abstractmethod
    def join(self, first: Any, second: Any) -> Any:
        """The value for a pair."""


class FlatJoinFunction(Function, ABC):
    """Makes any number of values of each pair that a window join finds (Flink: FlatJoinFunction)."""

    @abstractmethod
    def join(self, first: Any, second: Any) -> Iterable[Any] | None:
        """The values for a pair; a generator is the usual form."""


class CoGroupFunction(Function, ABC):
    """Works out what two streams have for a key and window (Flink: CoGroupFunction)."""

    @abstractmethod
    def co_group(self, first: Iterable[Any], second: Iterable[Any]) -> Iterable[Any] | None:
        """The values to emit; one of the two may be empty."""
