"""AsyncDataStream: requests for the values of a stream (PyFlink: AsyncDataStream)."""

from __future__ import annotations

import inspect

from onceproof.engine.api.adapters import OperatorFactory
from onceproof.engine.api.datastream import DataStream
from onceproof.engine.async_functions import NO_RETRY_STRATEGY, AsyncFunction, AsyncRetryStrategy
from onceproof.engine.durations import Duration, Time, milliseconds_of
from onceproof.engine.graph import InvalidJob
from onceproof.engine.operators.async_wait import AsyncWaitOperator
from onceproof.engine.types import TypeInformation

DEFAULT_CAPACITY = 100


class AsyncDataStream:
    """Applies an AsyncFunction to a stream. All methods take the same arguments.

    ``timeout`` covers all tries of a value; 0: none. ``capacity`` is how many values of a subtask have
    requests at a time, or results that wait to be emitted; beyond it, input waits. All raise InvalidJob for
    what cannot run.
    """

    @staticmethod
    def ordered_wait(
        data_stream: DataStream,
        async_function: AsyncFunction,
        timeout: Time | Duration,
        capacity: int = DEFAULT_CAPACITY,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Return the results in the order of the values."""
        return AsyncDataStream.ordered_wait_with_retry(
            data_stream, async_function, timeout, NO_RETRY_STRATEGY, capacity, output_type
        )

    @staticmethod
    def ordered_wait_with_retry(
        data_stream: DataStream,
        async_function: AsyncFunction,
        timeout: Time | Duration,
        async_retry_strategy: AsyncRetryStrategy,
        capacity: int = DEFAULT_CAPACITY,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Return the results in the order of the values; the strategy says when to try again."""
        return _waiting(
            data_stream, async_function, timeout, async_retry_strategy, capacity, output_type, is_ordered=True
        )

    @staticmethod
    def unordered_wait(
        data_stream: DataStream,
        async_function: AsyncFunction,
        timeout: Time | Duration,
        capacity: int = DEFAULT_CAPACITY,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Return the results as they come; none passes a watermark."""
        return AsyncDataStream.unordered_wait_with_retry(
            data_stream, async_function, timeout, NO_RETRY_STRATEGY, capacity, output_type
        )

    @staticmethod
    def unordered_wait_with_retry(
        data_stream: DataStream,
        async_function: AsyncFunction,
        timeout: Time | Duration,
        async_retry_strategy: AsyncRetryStrategy,
        capacity: int = DEFAULT_CAPACITY,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Return the results as they come; the strategy says when to try again."""
        return _waiting(
            data_stream,
            async_function,
            timeout,
            async_retry_strategy,
            capacity,
            output_type,
            is_ordered=False,
        )


def _waiting(
    stream: DataStream,
    function: AsyncFunction,
    timeout: Time | Duration,
    strategy: AsyncRetryStrategy,
    capacity: int,
    output_type: TypeInformation | None,
    *,
    is_ordered: bool,
) -> DataStream:
    timeout_ms = milliseconds_of(timeout, "timeout")
    _check(stream, function, timeout_ms, strategy, capacity)
    create = OperatorFactory(
        AsyncWaitOperator, function, timeout_ms, capacity, strategy, is_ordered, stream.get_type()
    )
    waiting = stream.transform("Async Wait", output_type, create)
    # The head of its chain: only channels can hold input back.
    return waiting.start_new_chain()


def _check(
    stream: DataStream, function: AsyncFunction, timeout_ms: int, strategy: AsyncRetryStrategy, capacity: int
) -> None:
    if not isinstance(stream, DataStream):
        raise InvalidJob(f"AsyncDataStream takes a DataStream, not {stream!r}")
    if not isinstance(function, AsyncFunction):
        raise InvalidJob(f"AsyncDataStream takes an AsyncFunction, not {function!r}")
    name = type(function).__name__
    if not inspect.iscoroutinefunction(function.async_invoke):
        raise InvalidJob(f"async_invoke of {name} is not a coroutine: declare it with async def")
    if not isinstance(strategy, AsyncRetryStrategy):
        raise InvalidJob(
            f"{strategy!r} is not an AsyncRetryStrategy: such as AsyncRetryStrategy.fixed_delay()"
        )
    if type(capacity) is not int or capacity < 1:
        raise InvalidJob(f"capacity of {name} is {capacity!r}: give a whole number of at least 1")
    if timeout_ms < 0:
        raise InvalidJob(f"timeout of {name} is {timeout_ms} ms: give 0 for none, or more")
    if strategy is not NO_RETRY_STRATEGY and timeout_ms == 0:
        raise InvalidJob(f"{name} is tried again without a timeout: give one, which ends the tries")
