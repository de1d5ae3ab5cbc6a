"""A stream beside a broadcast one: process functions with broadcast state.

The rules this module lives by:

- Input 0 is the stream, input 1 the broadcast one. Broadcast state is operator state: it is there before the
  function is initialised, is in the snapshot of every subtask as a whole, and after a restore each subtask
  has one of the old copies, which are equal.
- Only the broadcast side is given a context that writes. It has no current key: whoever uses keyed state
  there outside of ``apply_to_keyed_state`` is told so.
- One context object serves every record of a side; results take the timestamp of their input.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onceproof.engine.broadcast_functions import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from onceproof.engine.operators.base import OperatorContext
from onceproof.engine.operators.co_process import ContextualOperator, InputKeys
from onceproof.engine.operators.firing import TimedOperator
from onceproof.engine.state.descriptors import MapStateDescriptor
from onceproof.engine.state.operator import ReadOnlyView


class BroadcastOperator(ContextualOperator):
    """Applies a broadcast process function without timers.

    Flink: CoBroadcastWithNonKeyedOperator, CoBroadcastWithKeyedOperator.
    """

    function: BroadcastProcessFunction | KeyedBroadcastProcessFunction

    def __init__(
        self,
        function: BroadcastProcessFunction | KeyedBroadcastProcessFunction,
        descriptors: Sequence[MapStateDescriptor],
        keys: InputKeys | None = None,
    ) -> None:
        super().__init__(function, keys)
        self._descriptors = descriptors

    def open(self, context: OperatorContext) -> None:
        """Broadcast state, then as every function operator, then the contexts of both sides."""
        self._store = store = context.operator_store()
        states = {each.name: store.get_broadcast_state(each) for each in self._descriptors}
        self._views = {name: ReadOnlyView(state) for name, state in states.items()}
        super().open(context)
        service = self.create_service(context)
        reading: Any
        writing: Any
        if self._backend is None:
            reading = BroadcastProcessFunction.ReadOnlyContext(service, self._views)
            writing = BroadcastProcessFunction.Context(service, states)
        else:
            reading = KeyedBroadcastProcessFunction.ReadOnlyContext(service, self._views, self._backend)
            writing = KeyedBroadcastProcessFunction.Context(service, states, self._backend)
        self._sides = (
            (self.function.process_element, reading),
            (self.function.process_broadcast_element, writing),
        )
        self._reading = reading
        self._side_outputs = context.side_outputs


class TimedBroadcastOperator(TimedOperator, BroadcastOperator):
    """Applies a KeyedBroadcastProcessFunction with ``on_timer`` (Flink: CoBroadcastWithKeyedOperator)."""

    def timer_context(self) -> KeyedBroadcastProcessFunction.OnTimerContext:
        """As that of records, with the kind of time."""
        assert self._backend is not None
        return KeyedBroadcastProcessFunction.OnTimerContext(
            self._reading._service, self._views, self._backend
        )
