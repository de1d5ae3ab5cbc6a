"""Two streams as the inputs of one operator (PyFlink: ConnectedStreams, BroadcastConnectedStream).

The rules this module lives by:

- Connecting adds no node. It keeps the two streams apart, and a method that transforms makes one operator
  with two inputs of them; the edges say to which input they lead.
- The operator is keyed where both streams are; with keys on one side there is nothing that the sides could
  share, so that side's keys only say where its records go, as in Flink. Keys of the two sides have one type,
  for a key is placed by its type: equal keys of different types would be in different subtasks.
- Names and parameter order are PyFlink's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from onceproof.engine.api.adapters import OperatorFactory
from onceproof.engine.broadcast_functions import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from onceproof.engine.connected_functions import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
)
from onceproof.engine.functions import Function, KeySelector
from onceproof.engine.graph import BROADCAST, InvalidJob
from onceproof.engine.operators.broadcast import BroadcastOperator, TimedBroadcastOperator
from onceproof.engine.operators.co_process import (
    CoFlatMapOperator,
    CoMapOperator,
    CoProcessOperator,
    InputKeys,
    TimedCoProcessOperator,
    TwoInputOperator,
)
from onceproof.engine.operators.firing import overrides_on_timer
from onceproof.engine.state.descriptors import MapStateDescriptor

if TYPE_CHECKING:
    from onceproof.engine.api.datastream import DataStream, KeyedStream
    from onceproof.engine.types import TypeInformation


class ConnectedStreams:
    """Two streams, each with its type, side by side (PyFlink: ConnectedStreams)."""

    def __init__(self, data_stream1: DataStream, data_stream2: DataStream) -> None:
        check_one_environment("connect", data_stream1, data_stream2)
        self._first = data_stream1
        self._second = data_stream2

    def key_by(
        self,
        key_selector1: Callable[[Any], Any] | KeySelector,
        key_selector2: Callable[[Any], Any] | KeySelector,
        key_type: TypeInformation | None = None,
    ) -> ConnectedStreams:
        """Equal keys of both streams to the same subtask; state and timers then belong to a key."""
        return ConnectedStreams(
            self._first.key_by(key_selector1, key_type), self._second.key_by(key_selector2, key_type)
        )

    def map(self, func: CoMapFunction, output_type: TypeInformation | None = None) -> DataStream:
        """One value out at the most for each value of either stream."""
        _check("map", func, CoMapFunction)
        return self._transform("Co-Map", CoMapOperator, func, output_type)

    def flat_map(self, func: CoFlatMapFunction, output_type: TypeInformation | None = None) -> DataStream:
        """Any number of values out for each value of either stream."""
        _check("flat_map", func, CoFlatMapFunction)
        return self._transform("Co-Flat Map", CoFlatMapOperator, func, output_type)

    def process(
        self, func: CoProcessFunction | KeyedCoProcessFunction, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Any number of values out for each value of either stream, with access to time."""
        operator: type[TwoInputOperator] = CoProcessOperator
        if isinstance(func, KeyedCoProcessFunction):
            if shared_keys(self._first, self._second) is None:
                raise InvalidJob(
                    f"process takes {type(func).__name__}, a KeyedCoProcessFunction, on keyed streams only:"
                    " call key_by on both first"
                )
            if overrides_on_timer(func, KeyedCoProcessFunction):
                operator = TimedCoProcessOperator
        else:
            _check("process", func, CoProcessFunction)
        return self._transform("Co-Process", operator, func, output_type)

    def _transform(
        self,
        name: str,
        operator: type[TwoInputOperator],
        function: Function,
        output_type: TypeInformation | None,
    ) -> DataStream:
        factory = OperatorFactory(operator, function, shared_keys(self._first, self._second))
        return transform_two(self._first, self._second, name, factory, output_type)


class BroadcastStream:
    """A stream of which every subtask gets all, and the state it is kept in (PyFlink: BroadcastStream)."""

    def __init__(self, input_stream: DataStream, descriptors: tuple[MapStateDescriptor, ...]) -> None:
        names: set[str] = set()
        for descriptor in descriptors:
            if not isinstance(descriptor, MapStateDescriptor):
                raise InvalidJob(f"broadcast takes MapStateDescriptors, not {descriptor!r}")
            if descriptor.name in names:
                raise InvalidJob(
                    f"broadcast has two descriptors of the name {descriptor.name!r}: a name is one state"
                )
            names.add(descriptor.name)
        self._stream = input_stream._partitioned(BROADCAST)
        self._descriptors = descriptors


class BroadcastConnectedStream:
    """A stream, keyed or not, beside a broadcast one (PyFlink: BroadcastConnectedStream)."""

    def __init__(self, non_broadcast_stream: DataStream, broadcast_stream: BroadcastStream) -> None:
        check_one_environment("connect", non_broadcast_stream, broadcast_stream._stream)
        self._first = non_broadcast_stream
        self._broadcast = broadcast_stream

    def process(
        self,
        func: BroadcastProcessFunction | KeyedBroadcastProcessFunction,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Any number of values out for each value of either stream, with broadcast state."""
        key = _key_of(self._first)
        operator = BroadcastOperator
        if key is None:
            _check("process beside a broadcast stream", func, BroadcastProcessFunction)
            keys, name = None, "Co-Process-Broadcast"
        else:
            _check("process on a keyed stream beside a broadcast one", func, KeyedBroadcastProcessFunction)
            keys, name = InputKeys((key[0], None), key[1]), "Co-Process-Broadcast-Keyed"
            if overrides_on_timer(func, KeyedBroadcastProcessFunction):
                operator = TimedBroadcastOperator
        factory = OperatorFactory(operator, func, self._broadcast._descriptors, keys)
        return transform_two(self._first, self._broadcast._stream, name, factory, output_type)


def shared_keys(first: DataStream, second: DataStream) -> InputKeys | None:
    """How two streams are keyed; None unless both are.

    Raises InvalidJob where equal keys would not meet.
    """
    one, other = _key_of(first), _key_of(second)
    if one is None or other is None:
        return None
    if one[1] is not other[1]:
        raise InvalidJob(
            f"the keys of connected streams are {_type_name(one[1])} and {_type_name(other[1])}:"
            " equal keys would be in different subtasks, so give both key_by the same key_type"
        )
    return InputKeys((one[0], other[0]), one[1])


def transform_two(
    first: DataStream,
    second: DataStream,
    name: str,
    factory: OperatorFactory,
    output_type: TypeInformation | None,
) -> DataStream:
    """The stream that comes out of one operator with two inputs."""
    from_second = [upstream._replace(input_number=1) for upstream in second._upstreams]
    return first._transform(name, factory, output_type, (*first._upstreams, *from_second))


def check_one_environment(method: str, first: DataStream, second: DataStream) -> None:
    """Raise InvalidJob unless two streams belong to one environment."""
    if first.get_execution_environment() is not second.get_execution_environment():
        raise InvalidJob(f"{method} of streams of two environments: build both in the same one")


def _key_of(stream: DataStream) -> tuple[Callable[[Any], Any], TypeInformation | None] | None:
    selector = getattr(stream, "_key_selector", None)
    if selector is None:
        return None
    keyed: KeyedStream = stream  # type: ignore[assignment]
    return keyed._key_selector, keyed._key_type


def _type_name(key_type: TypeInformation | None) -> str:
    return "of no declared type" if key_type is None else key_type.name


def _check(method: str, function: object, expected: type) -> None:
    if not isinstance(function, expected):
        raise InvalidJob(f"{method} takes a {expected.__name__}, not {function!r}")
