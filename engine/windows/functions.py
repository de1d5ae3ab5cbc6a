"""What a user makes of a window's contents, under PyFlink's names.

A ``WindowFunction`` or ``ProcessWindowFunction`` sees all records of the window, or the one value that they
were reduced or aggregated to on their way in. The functions for ``window_all`` are the same without a key.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from onceproof.engine.functions import Function, KeyedStateStore


class WindowFunction(Function, ABC):
    """Works a window of a key out (PyFlink: WindowFunction)."""

    @abstractmethod
    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any] | None:
        """The values to emit for the window."""


class AllWindowFunction(Function, ABC):
    """Works a window of all records out (PyFlink: AllWindowFunction)."""

    @abstractmethod
    def apply(self, window: Any, inputs: Iterable[Any]) -> Iterable[Any] | None:
        """The values to emit for the window."""


class WindowContext(ABC):
    """What a process window function may know and keep."""

    @abstractmethod
    def window(self) -> Any:
        """The window that is worked out."""

    @abstractmethod
    def current_processing_time(self) -> int:
        """Milliseconds since the epoch, as of the event in hand."""

    @abstractmethod
    def current_watermark(self) -> int:
        """The event time that was reached."""

    @abstractmethod
    def window_state(self) -> KeyedStateStore:
        """State for each key and window; ``clear`` is where the function clears it.

        Not with windows that merge: there it raises TypeError.
        """

    @abstractmethod
    def global_state(self) -> KeyedStateStore:
        """State for each key, over all windows."""


class ProcessWindowFunction(Function, ABC):
    """Works a window of a key out, and may keep state (PyFlink: ProcessWindowFunction)."""

    Context = WindowContext

    @abstractmethod
    def process(self, key: Any, context: WindowContext, elements: Iterable[Any]) -> Iterable[Any] | None:
        """The values to emit for the window."""

    def clear(self, context: WindowContext) -> None:
        """The window is over: clear what was kept for it in ``window_state``."""


class ProcessAllWindowFunction(Function, ABC):
    """Works a window of all records out, and may keep state (PyFlink: ProcessAllWindowFunction)."""

    Context = WindowContext

    @abstractmethod
    def process(self, context: WindowContext, elements: Iterable[Any]) -> Iterable[Any] | None:
        """The values to emit for the window."""

    def clear(self, context: WindowContext) -> None:
        """The window is over: clear what was kept for it in ``window_state``."""
