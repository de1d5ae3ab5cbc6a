"""Sources of numbers, and of records made of numbers, at full speed or at a rate.

Flink: NumberSequenceSource, DataGeneratorSource.

The rules this module lives by:

- Split i of n has every n-th number, from the i-th on. There are as many splits as the job has subtasks at
  its first start. A position is the next number, so the same records come again after a failure.
- Each split has its part of the rate. A record costs time; a position at a rate also says up to when the
  records have paid by the wall clock, so that a task that lives for one read only (on Spark) keeps the rate.
- Time that was not used is lost after a second: a slow job is not flooded when it has caught up.
- A reader that has used its time up says when to ask again, and asks at most fifty times a second: at high
  rates records come in small groups.
"""

from __future__ import annotations

import re
import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import Struct

from onceproof.engine.connectors.source import Source, SourceIdentity, SplitReader
from onceproof.engine.elements import Record
from onceproof.engine.errors import UnrecoverableError

LONGEST_CREDIT_MS: Final = 1000.0
SHORTEST_PAUSE_MS: Final = 20
_SPLIT: Final = re.compile(r"([0-9]+) of ([0-9]+)")


class WrongSequence(UnrecoverableError, ValueError):
    """A checkpoint lists a split or position that the sequence does not have. The message is one line."""


class RateLimiterStrategy(Struct, frozen=True):
    """How many records a source makes (Flink: RateLimiterStrategy)."""

    records_per_second: float | None = None

    @staticmethod
    def per_second(records_per_second: float) -> RateLimiterStrategy:
        """Return the strategy of at most so many records a second in all subtasks together.

        Raises:
            ValueError: the rate is not positive.
        """
        if not 0 < records_per_second < float("inf"):
            raise ValueError(f"{records_per_second!r} records per second: give a number above 0")
        return RateLimiterStrategy(float(records_per_second))

    @staticmethod
    def no_op() -> RateLimiterStrategy:
        """Return the strategy without a limit."""
        return RateLimiterStrategy()


class _SequenceSource(Source):
    """The numbers from ``begin`` on, up to and without ``end``; None: for ever."""

    def __init__(self, begin: int, end: int | None, rate: RateLimiterStrategy) -> None:
        self._begin = begin
        self._end = end
        self._rate = rate
        self.is_bounded = end is not None

    @abstractmethod
    def value_of(self, number: int) -> Any:
        """Return the value of the record of a number."""

    def splits(self) -> Sequence[str]:
        """Return the one split of a job with one subtask."""
        return self.splits_for(1)

    def splits_for(self, parallelism: int) -> Sequence[str]:
        """Return a split for each subtask."""
        return [f"{number:05d} of {parallelism:05d}" for number in range(parallelism)]

    def open_split(self, split: str, position: Any | None) -> SequenceReader:
        """Return a reader of every n-th number.

        Raises:
            WrongSequence: the source has no such split or position.
        """
        match = _SPLIT.fullmatch(split)
        if match is None:
            raise WrongSequence(
                f"split {split!r} is not a part of a sequence: restore with the source that the checkpoint"
                " was taken with"
            )
        number, splits = int(match[1]), int(match[2])
        following: Any = position
        paid_ms = None
        if isinstance(position, tuple | list) and len(position) == 2:
            following, paid_ms = position
        if following is None:
            following = self._begin + number
        is_number = type(following) is int and following >= self._begin
        if not is_number or (following - self._begin) % splits != number:
            raise WrongSequence(
                f"position {following!r} is not in split {split!r} of the numbers from {self._begin} on:"
                " restore with the source that the checkpoint was taken with"
            )
        rate = self._rate.records_per_second
        pacer = None if rate is None else Pacer(1000 * splits / rate, paid_ms)
        return SequenceReader(self.value_of, following, splits, self._end, pacer)


class NumberSequenceSource(_SequenceSource):
    """The whole numbers from ``start`` to ``end``, both included (PyFlink: NumberSequenceSource)."""

    def __init__(self, start: int, end: int) -> None:
        """Raise ValueError if ``start`` is above ``end``."""
        if start > end:
            raise ValueError(f"the sequence from {start} to {end} is empty: give an end of at least {start}")
        super().__init__(start, end + 1, RateLimiterStrategy())

    def value_of(self, number: int) -> int:
        """Return the number."""
        return number

    def identity(self) -> SourceIdentity:
        """Return where the sequence begins, and its end."""
        return SourceIdentity(f"the numbers from {self._begin} on", f"the numbers before {self._end}")


class DataGeneratorSource(_SequenceSource):
    """Records that a function makes of the numbers from 0 on (Flink: DataGeneratorSource)."""

    def __init__(
        self,
        generator_function: Callable[[int], Any],
        count: int | None = None,
        rate_limiter_strategy: RateLimiterStrategy | None = None,
    ) -> None:
        """Describe the records.

        Args:
            generator_function: returns the value of a number. The job is exactly-once if the function returns
                the same value each time: a random one takes the number as its seed.
            count: how many records; None: without end.
            rate_limiter_strategy: None: as many as the job takes.

        Raises:
            TypeError: ``generator_function`` is not callable.
            ValueError: ``count`` is negative.
        """
        if not callable(generator_function):
            raise TypeError(f"generator_function must be a function of a number, not {generator_function!r}")
        if count is not None and count < 0:
            raise ValueError(f"count is {count}: give at least 0, or None for records without end")
        super().__init__(0, count, rate_limiter_strategy or RateLimiterStrategy())
        self._make = generator_function

    def value_of(self, number: int) -> Any:
        """Return what the function makes of a number."""
        return self._make(number)

    def identity(self) -> SourceIdentity:
        """Return the name of the function, and how many records it makes."""
        name = getattr(self._make, "__qualname__", type(self._make).__qualname__)
        return SourceIdentity(f"records that {name} makes", f"{self._end} records")


class Pacer:
    """Hands out records at a rate: each costs time, and time that is not used is kept for a second."""

    __slots__ = ("_cost_ms", "_credit_ms", "paid_ms")

    def __init__(self, cost_ms: float, paid_ms: float | None) -> None:
        """Go on where an earlier pacer was; None: the first record comes at once.

        Args:
            cost_ms: the time from one record to the next, in milliseconds.
            paid_ms: ``paid_ms`` of the earlier one.
        """
        self._cost_ms = cost_ms
        self._credit_ms = max(LONGEST_CREDIT_MS, cost_ms)
        self.paid_ms = _wall_ms() - cost_ms if paid_ms is None else paid_ms
        """Up to when the records that were handed out have paid, by the wall clock."""

    def take(self, most: int) -> int:
        """Return how many records may come now, ``most`` at most; they have paid then."""
        now_ms = _wall_ms()
        if self.paid_ms > now_ms:
            # The clock was set back.
            self.paid_ms = now_ms
        self.paid_ms = max(self.paid_ms, now_ms - self._credit_ms)
        taken = min(most, int((now_ms - self.paid_ms) / self._cost_ms))
        self.paid_ms += taken * self._cost_ms
        return taken

    @property
    def retry_ms(self) -> int:
        """After how many milliseconds to ask again."""
        return max(SHORTEST_PAUSE_MS, int(self.paid_ms + self._cost_ms - _wall_ms()) + 1)


class SequenceReader(SplitReader):
    """Reads every n-th number."""

    def __init__(
        self, value_of: Callable[[int], Any], following: int, step: int, end: int | None, pacer: Pacer | None
    ) -> None:
        self._value_of = value_of
        self._following = following
        self._step = step
        self._end = end
        self._pacer = pacer

    def read(self, limit: int) -> list[Record]:
        count = limit
        if self._end is not None:
            count = min(limit, len(range(self._following, self._end, self._step)))
        if self._pacer is not None and count:
            count = self._pacer.take(count)
        begin = self._following
        self._following += count * self._step
        value_of = self._value_of
        return [(value_of(number), None) for number in range(begin, self._following, self._step)]

    @property
    def position(self) -> Any:
        """The next number; at a rate, also up to when the records have paid."""
        return self._following if self._pacer is None else (self._following, self._pacer.paid_ms)

    @property
    def exhausted(self) -> bool:
        """Whether the end is reached."""
        return self._end is not None and self._following >= self._end

    @property
    def pending_records(self) -> int | None:
        """The number of records that are left; None where there is no end."""
        return None if self._end is None else len(range(self._following, self._end, self._step))

    @property
    def retry_ms(self) -> int:
        """When the next record has paid."""
        return super().retry_ms if self._pacer is None else self._pacer.retry_ms


def _wall_ms() -> float:
    return time.time() * 1000
