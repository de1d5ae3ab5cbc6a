"""Functions that ask something outside for each value, and the strategies by which they ask again.

The rules this module lives by:

- A request is a coroutine. It runs beside the task and touches no state: only its result comes back.
- Requests that have no result when a snapshot is taken are in it, and are made again after a restore. So what
  is asked outside must bear being asked twice.
- A strategy is asked with the number of tries so far, and decides by that alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

from onceproof.engine.functions import Function
from onceproof.engine.type_parameters import TypeParameters

ResultPredicate: TypeAlias = Callable[[Any], bool]
ExceptionPredicate: TypeAlias = Callable[[Exception], bool]


class AsyncFunction(Function, ABC):
    """Asks something outside for each value, many values at a time (PyFlink: AsyncFunction)."""

    @abstractmethod
    async def async_invoke(self, value: Any) -> Iterable[Any]:
        """Return the list of results for ``value``. An error that no strategy tries again fails the task."""

    def timeout(self, value: Any) -> Iterable[Any]:
        """Return the list of results for a value that has taken too long; by default, raise TimeoutError."""
        raise TimeoutError(f"the request for {value!r} has timed out")


class AsyncRetryPredicate(TypeParameters, ABC):
    """Says after which results and errors a request is made again (PyFlink: AsyncRetryPredicate)."""

    @abstractmethod
    def result_predicate(self) -> ResultPredicate | None:
        """Return what decides for a list of results; None: no result is tried again."""

    @abstractmethod
    def exception_predicate(self) -> ExceptionPredicate | None:
        """Return what decides for an error; None: every error fails the task."""


class AsyncRetryStrategy(TypeParameters, ABC):
    """Says whether and when a request is made again (PyFlink: AsyncRetryStrategy)."""

    @abstractmethod
    def can_retry(self, current_attempts: int) -> bool:
        """Return whether there may be another try after so many."""

    @abstractmethod
    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """Return how many milliseconds to wait after so many tries."""

    @abstractmethod
    def get_retry_predicate(self) -> AsyncRetryPredicate:
        """Return what decides for a result or an error."""

    @staticmethod
    def no_restart() -> AsyncRetryStrategy:
        """Return the strategy that tries once."""
        return NO_RETRY_STRATEGY

    @staticmethod
    def fixed_delay(
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: ResultPredicate | None = None,
        exception_predicate: ExceptionPredicate | None = None,
    ) -> AsyncRetryStrategy:
        """Return a strategy with one delay; ``max_attempts`` tries follow the first one at most."""
        return FixedDelayRetryStrategy(
            max_attempts, backoff_time_millis, result_predicate, exception_predicate
        )

    @staticmethod
    def exponential_backoff(
        max_attempts: int,
        initial_delay: int,
        max_retry_delay: int,
        multiplier: float,
        result_predicate: ResultPredicate | None = None,
        exception_predicate: ExceptionPredicate | None = None,
    ) -> AsyncRetryStrategy:
        """Return a strategy whose delay grows by ``multiplier``, up to ``max_retry_delay`` milliseconds."""
        return ExponentialBackoffDelayRetryStrategy(
            max_attempts, initial_delay, max_retry_delay, multiplier, result_predicate, exception_predicate
        )


class RetryPredicate(AsyncRetryPredicate):
    """Two functions that decide (PyFlink: RetryPredicate)."""

    def __init__(
        self, result_predicate: ResultPredicate | None, exception_predicate: ExceptionPredicate | None
    ) -> None:
        for name, given in (
            ("result_predicate", result_predicate),
            ("exception_predicate", exception_predicate),
        ):
            if given is not None and not callable(given):
                raise ValueError(f"{name} is {given!r}: give a function, as in async_retry_predicates")
        self._result_predicate = result_predicate
        self._exception_predicate = exception_predicate

    def result_predicate(self) -> ResultPredicate | None:
        return self._result_predicate

    def exception_predicate(self) -> ExceptionPredicate | None:
        return self._exception_predicate


class NoRetryStrategy(AsyncRetryStrategy):
    """Tries once (PyFlink: NoRetryStrategy)."""

    def can_retry(self, current_attempts: int) -> bool:
        return False

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        return -1

    def get_retry_predicate(self) -> AsyncRetryPredicate:
        return RetryPredicate(None, None)


class FixedDelayRetryStrategy(AsyncRetryStrategy):
    """Tries again after the same delay each time (PyFlink: FixedDelayRetryStrategy)."""

    def __init__(
        self,
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: ResultPredicate | None = None,
        exception_predicate: ExceptionPredicate | None = None,
    ) -> None:
        self._max_attempts = _positive("max_attempts", max_attempts)
        self._backoff_ms = _positive("backoff_time_millis", backoff_time_millis)
        self._predicate = RetryPredicate(result_predicate, exception_predicate)

    def can_retry(self, current_attempts: int) -> bool:
        return current_attempts <= self._max_attempts

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        return self._backoff_ms

    def get_retry_predicate(self) -> AsyncRetryPredicate:
        return self._predicate


class ExponentialBackoffDelayRetryStrategy(AsyncRetryStrategy):
    """Tries again after a growing delay (PyFlink: ExponentialBackoffDelayRetryStrategy)."""

    def __init__(
        self,
        max_attempts: int,
        initial_delay: int,
        max_retry_delay: int,
        multiplier: float,
        result_predicate: ResultPredicate | None = None,
        exception_predicate: ExceptionPredicate | None = None,
    ) -> None:
        self._max_attempts = _positive("max_attempts", max_attempts)
        self._initial_ms = _positive("initial_delay", initial_delay)
        self._longest_ms = _positive("max_retry_delay", max_retry_delay)
        if not multiplier > 0:
            raise ValueError(f"multiplier is {multiplier!r}: give a number above 0")
        self._multiplier = multiplier
        self._predicate = RetryPredicate(result_predicate, exception_predicate)

    def can_retry(self, current_attempts: int) -> bool:
        return current_attempts <= self._max_attempts

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        delay_ms: float = self._initial_ms
        for _ in range(1, current_attempts):
            delay_ms = min(delay_ms * self._multiplier, self._longest_ms)
        return int(min(delay_ms, self._longest_ms))

    def get_retry_predicate(self) -> AsyncRetryPredicate:
        return self._predicate


def _positive(name: str, given: int) -> int:
    if type(given) is not int or given < 1:
        raise ValueError(f"{name} is {given!r}: give a whole number of at least 1")
    return given


NO_RETRY_STRATEGY: Final[AsyncRetryStrategy] = NoRetryStrategy()
