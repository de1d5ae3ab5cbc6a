"""Window functions, under PyFlink's names.

A ``WindowFunction`` or ``ProcessWindowFunction`` gets all records of the window, or the one value to which a
ReduceFunction or AggregateFunction folded them. The functions for ``window_all`` are the same without a key.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from onceproof.engine.functions import Function, KeyedStateStore
from onceproof.engine.type_parameters import TypeParameters


class WindowFunction(Function, ABC):
    """Processes a window of a key (PyFlink: WindowFunction)."""

    @abstractmethod
    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any] | None:
        """Return or yield the values to emit for the window."""


class AllWindowFunction(Function, ABC):
    """Processes a window of all records (PyFlink: AllWindowFunction)."""

    @abstractmethod
    def apply(self, window: Any, inputs: Iterable[Any]) -> Iterable[Any] | None:
        """Return or yield the values to emit for the window."""


class WindowContext(TypeParameters, ABC):
    """The context of a process window function (PyFlink: ProcessWindowFunction.Context)."""

    @abstractmethod
    def window(self) -> Any:
        """Return the window that fires."""

    @abstractmethod
    def current_processing_time(self) -> int:
        """Return the wall clock in milliseconds since the epoch, read once for each event of the task."""

    @abstractmethod
    def current_watermark(self) -> int:
        """Return the current watermark."""

    @abstractmethod
    def window_state(self) -> KeyedStateStore:
        """Return the state of the current key and window; the function's ``clear`` must clear it.

        Raises:
            TypeError: the windows can merge.
        """

    @abstractmethod
    def global_state(self) -> KeyedStateStore:
        """Return the state of the current key, shared by all its windows."""


class ProcessWindowFunction(Function, ABC):
    """Processes a window of a key, with a context and state (PyFlink: ProcessWindowFunction)."""

    Context = WindowContext

    @abstractmethod
    def process(self, key: Any, context: WindowContext, elements: Iterable[Any]) -> Iterable[Any] | None:
        """Return or yield the values to emit for the window."""

    def clear(self, context: WindowContext) -> None:
        """Clear the ``window_state`` of a window whose cleanup time has come."""


class ProcessAllWindowFunction(Function, ABC):
    """Processes a window of all records, with a context and state (PyFlink: ProcessAllWindowFunction)."""

    Context = WindowContext

    @abstractmethod
    def process(self, context: WindowContext, elements: Iterable[Any]) -> Iterable[Any] | None:
        """Return or yield the values to emit for the window."""

    def clear(self, context: WindowContext) -> None:
        """Clear the ``window_state`` of a window whose cleanup time has come."""
