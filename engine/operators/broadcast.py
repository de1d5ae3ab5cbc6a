"""The operators of broadcast process functions.

The rules this module lives by:

- Input 0 is the stream, input 1 the broadcast one.
- Broadcast state is operator state. It is restored before the function is initialised, the snapshot of every
  subtask holds all of it, and after a restore each subtask gets one of the old copies, which are equal.
- Only the context of the broadcast side can write. It has no current key: keyed state used there outside of
  ``apply_to_keyed_state`` raises StateError.
- One context object serves every record of a side. Results take the timestamp of their input.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onceproof.engine.broadcast_functions import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from onceproof.engine.operators.base import IN_TURN, InputOrder, OperatorContext
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

    def input_order(self) -> InputOrder:
        """Return that the broadcast input comes first."""
        return super().input_order() or InputOrder((IN_TURN, None))

    def open(self, context: OperatorContext) -> None:
        """Restore broadcast state, open the function, and make the contexts of both sides."""
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
        assert self._backend is not None
        return KeyedBroadcastProcessFunction.OnTimerContext(
            self._reading.time_service, self._views, self._backend
        )
