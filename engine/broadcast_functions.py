"""The interfaces for a stream beside a broadcast one, under PyFlink's names.

The rules this module lives by:

- Every subtask gets all records of the broadcast side, and keeps what it learns of them in broadcast state.
  The copies of that state are one state only as long as each subtask makes the same changes: so they may be
  made on the broadcast side alone, and must not depend on the subtask nor on the order of arrival.
- The other side only reads it. On the broadcast side there is no current key and no timer: a record there
  belongs to all keys. ``apply_to_keyed_state`` goes through those of the subtask.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from onceproof.engine.functions import Function
from onceproof.engine.state.files import StateError
from onceproof.engine.state.tables import NO_KEY
from onceproof.engine.timer_service import TimeDomain, TimerService

if TYPE_CHECKING:
    from onceproof.engine.state.descriptors import MapStateDescriptor, StateDescriptor
    from onceproof.engine.state.interfaces import BroadcastState, ReadOnlyBroadcastState
    from onceproof.engine.state.keyed import KeyedStateBackend


class KeyedStateFunction(ABC):
    """What is done with the state of each key (Flink: KeyedStateFunction)."""

    @abstractmethod
    def process(self, key: Any, state: Any) -> None:
        """Read or change the state of one key."""


class BaseBroadcastProcessFunction(Function, ABC):
    """What broadcast process functions have in common (PyFlink: BaseBroadcastProcessFunction)."""

    class BaseContext:
        """What is known of the record in hand; one object serves all records of a side."""

        __slots__ = ("_service", "_states", "_timestamp")

        def __init__(self, service: TimerService, states: Mapping[str, Any]) -> None:
            self._timestamp: int | None = None
            self._service = service
            self._states = states

        def timestamp(self) -> int | None:
            """Event time of the record in milliseconds, or None."""
            return self._timestamp

        def current_processing_time(self) -> int:
            """Milliseconds since the epoch."""
            return self._service.current_processing_time()

        def current_watermark(self) -> int:
            """The event time that both sides have reached."""
            return self._service.current_watermark()

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
        """That of the broadcast side: state can be changed."""

        __slots__ = ()

        def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState:
            """The state that was named to ``broadcast`` by a descriptor of that name."""
            state: BroadcastState = self._state(state_descriptor)
            return state

    class ReadOnlyContext(BaseContext):
        """That of the other side: state can be read."""

        __slots__ = ()

        def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState:
            """The state that was named to ``broadcast`` by a descriptor of that name, to be read."""
            state: ReadOnlyBroadcastState = self._state(state_descriptor)
            return state


class BroadcastProcessFunction(BaseBroadcastProcessFunction, ABC):
    """For a stream that is not keyed (PyFlink: BroadcastProcessFunction)."""

    @abstractmethod
    def process_element(self, value: Any, ctx: Any) -> Iterable[Any] | None:
        """The values to emit for one of the stream that is not broadcast; a generator is the usual form."""

    @abstractmethod
    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterable[Any] | None:
        """The values to emit for a broadcast one: in every subtask, so as a rule none."""


class KeyedBroadcastProcessFunction(BaseBroadcastProcessFunction, ABC):
    """For a keyed stream, with state and timers of the key (PyFlink: KeyedBroadcastProcessFunction)."""

    class Context(BaseBroadcastProcessFunction.Context):
        """That of the broadcast side, where no key is current."""

        __slots__ = ("_backend",)

        def __init__(
            self, service: TimerService, states: Mapping[str, Any], backend: KeyedStateBackend
        ) -> None:
            super().__init__(service, states)
            self._backend = backend

        def apply_to_keyed_state(
            self, state_descriptor: StateDescriptor, function: KeyedStateFunction | Callable[[Any, Any], None]
        ) -> None:
            """Call ``function(key, state)`` for each key of this subtask that has such a state.

            Flink's Java API has it: KeyedBroadcastProcessFunction.Context.applyToKeyedState.
            """
            backend = self._backend
            state = backend.state(state_descriptor)
            apply = function.process if isinstance(function, KeyedStateFunction) else function
            try:
                # Of the keys a list: what is applied may remove some.
                for key in backend.keys(state_descriptor):
                    backend.current_key = key
                    apply(key, state)
            finally:
                backend.current_key = NO_KEY

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext):
        """That of the keyed side, and its timers."""

        __slots__ = ("_backend",)

        def __init__(
            self, service: TimerService, states: Mapping[str, Any], backend: KeyedStateBackend
        ) -> None:
            super().__init__(service, states)
            self._backend = backend

        def timer_service(self) -> TimerService:
            """The times, and the timers of the current key."""
            return self._service

        def get_current_key(self) -> Any:
            """Key of the record or timer in hand."""
            return self._backend.current_key

    class OnTimerContext(ReadOnlyContext):
        """As ReadOnlyContext; ``timestamp`` is that of the timer."""

        __slots__ = ("_domain",)

        _domain: TimeDomain

        def time_domain(self) -> TimeDomain:
            """The kind of time in which the timer was registered."""
            return self._domain

    @abstractmethod
    def process_element(self, value: Any, ctx: Any) -> Iterable[Any] | None:
        """The values to emit for one of the stream that is not broadcast; a generator is the usual form."""

    @abstractmethod
    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterable[Any] | None:
        """The values to emit for a broadcast one: in every subtask, so as a rule none."""

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[Any] | None:
        """The values to emit as a timer of the current key fires; none by default."""
