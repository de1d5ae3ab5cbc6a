"""The functions that connect a stream with a broadcast stream, under PyFlink's names.

The rules this module lives by:

- Every subtask gets all records of the broadcast side, and keeps its own copy of the broadcast state.
- The copies must stay equal: only ``process_broadcast_element`` may change them, and its changes must not
  depend on the subtask or on the order of arrival.
- The other side reads broadcast state only.
- On the broadcast side there is no current key and no timer. ``apply_to_keyed_state`` visits all keys of the
  subtask.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from onceproof.engine.elements import MIN_WATERMARK
from onceproof.engine.functions import Function
from onceproof.engine.key_identity import value_of
from onceproof.engine.state.file_envelope import StateError
from onceproof.engine.state.tables import NO_KEY
from onceproof.engine.timer_service import TimeDomain, TimerService

if TYPE_CHECKING:
    from onceproof.engine.state.descriptors import MapStateDescriptor, StateDescriptor
    from onceproof.engine.state.interfaces import BroadcastState, ReadOnlyBroadcastState
    from onceproof.engine.state.keyed import KeyedStateBackend


class KeyedStateFunction(ABC):
    """Called by ``apply_to_keyed_state`` for each key (Flink: KeyedStateFunction)."""

    @abstractmethod
    def process(self, key: Any, state: Any) -> None:
        """Read or change the state of one key."""


class BaseBroadcastProcessFunction(Function, ABC):
    """Base of the broadcast process functions (PyFlink: BaseBroadcastProcessFunction)."""

    class BaseContext:
        """The context of the current record; one object serves all records of a side."""

        __slots__ = ("_states", "element_timestamp", "time_service")

        def __init__(self, service: TimerService, states: Mapping[str, Any]) -> None:
            self.element_timestamp: int | None = None
            self.time_service = service
            self._states = states

        def timestamp(self) -> int:
            """Return the event time of the record in milliseconds; MIN_WATERMARK if it has none."""
            timestamp = self.element_timestamp
            return MIN_WATERMARK if timestamp is None else timestamp

        def current_processing_time(self) -> int:
            """Return the wall clock in milliseconds since the epoch."""
            return self.time_service.current_processing_time()

        def current_watermark(self) -> int:
            """Return the current watermark: the lower of the watermarks of both sides."""
            return self.time_service.current_watermark()

        def _state(self, descriptor: MapStateDescriptor) -> Any:
            state = self._states.get(descriptor.name)
            if state is None:
                known = ", ".join(map(repr, self._states)) or "none"
                raise StateError(
                    f"there is no broadcast state {descriptor.name!r} here, but {known}:"
                    " name its descriptor in broadcast(...)"
                )
            return state

    class Context(BaseContext):
        """The context of the broadcast side, which may change broadcast state."""

        __slots__ = ()

        def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState:
            """Return the broadcast state whose descriptor was given to ``broadcast``.

            Raises:
                StateError: ``broadcast`` got no descriptor of that name.
            """
            state: BroadcastState = self._state(state_descriptor)
            return state

    class ReadOnlyContext(BaseContext):
        """The context of the side that is not broadcast, which may only read broadcast state."""

        __slots__ = ()

        def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState:
            """Return the read-only broadcast state whose descriptor was given to ``broadcast``.

            Raises:
                StateError: ``broadcast`` got no descriptor of that name.
            """
            state: ReadOnlyBroadcastState = self._state(state_descriptor)
            return state


class BroadcastProcessFunction(BaseBroadcastProcessFunction, ABC):
    """Processes a stream that is not keyed beside a broadcast one (PyFlink: BroadcastProcessFunction)."""

    @abstractmethod
    def process_element(self, value: Any, ctx: Any) -> Iterable[Any] | None:
        """Return or yield the values to emit for a value of the side that is not broadcast."""

    @abstractmethod
    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterable[Any] | None:
        """Return or yield the values to emit for a broadcast value. Every subtask emits them."""


class KeyedBroadcastProcessFunction(BaseBroadcastProcessFunction, ABC):
    """Processes a keyed stream beside a broadcast one, with keyed state and timers.

    PyFlink: KeyedBroadcastProcessFunction.
    """

    class Context(BaseBroadcastProcessFunction.Context):
        """The context of the broadcast side, where there is no current key."""

        __slots__ = ("_backend",)

        def __init__(
            self, service: TimerService, states: Mapping[str, Any], backend: KeyedStateBackend
        ) -> None:
            super().__init__(service, states)
            self._backend = backend

        def apply_to_keyed_state(
            self, state_descriptor: StateDescriptor, function: KeyedStateFunction | Callable[[Any, Any], None]
        ) -> None:
            """Call ``function(key, state)`` for each key of this subtask that has a value in the state.

            Flink: KeyedBroadcastProcessFunction.Context.applyToKeyedState of the Java API.

            Args:
                state_descriptor: the keyed state to visit.
                function: may read, change and clear the state of the key.
            """
            backend = self._backend
            state = backend.state(state_descriptor)
            apply = function.process if isinstance(function, KeyedStateFunction) else function
            try:
                # The backend returns a list of keys, because the function may remove some.
                for key in backend.keys(state_descriptor):
                    backend.current_key = key
                    apply(value_of(key), state)
            finally:
                backend.current_key = NO_KEY

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext):
        """The context of the keyed side, with its key and timers."""

        __slots__ = ("_backend",)

        def __init__(
            self, service: TimerService, states: Mapping[str, Any], backend: KeyedStateBackend
        ) -> None:
            super().__init__(service, states)
            self._backend = backend

        def timer_service(self) -> TimerService:
            """Return the service for the times and the timers of the current key."""
            return self.time_service

        def get_current_key(self) -> Any:
            """Return the key of the current record or timer."""
            return value_of(self._backend.current_key)

    class OnTimerContext(ReadOnlyContext):
        """The context of ``on_timer``; ``timestamp()`` returns that of the timer."""

        __slots__ = ("firing_domain",)

        firing_domain: TimeDomain

        def time_domain(self) -> TimeDomain:
            """Return the domain in which the timer was registered."""
            return self.firing_domain

    @abstractmethod
    def process_element(self, value: Any, ctx: Any) -> Iterable[Any] | None:
        """Return or yield the values to emit for a value of the side that is not broadcast."""

    @abstractmethod
    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterable[Any] | None:
        """Return or yield the values to emit for a broadcast value. Every subtask emits them."""

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[Any] | None:
        """Return or yield the values to emit when a timer of the current key fires; none by default."""
