"""Metrics of user functions: counters, gauges, meters and distributions (PyFlink: pyflink.metrics).

Rules:

- A metric belongs to one subtask of one operator, in one attempt: a restart begins it anew, as in Flink.
- Its full name is that of the operator, the index of the subtask, the groups and its own, joined by dots.
- Nothing here knows a clock or a file: a meter gets the clock of its task, and the driver reads the registry.
- On Spark a function begins with fresh metrics in each epoch. The driver goes on with what an epoch has
  counted once its checkpoint is complete, so an epoch that is repeated counts once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from onceproof.engine.errors import Ending, text_of

MILLIS: Final = 1000


class Metric:
    """What can be read off at any time (PyFlink: Metric)."""

    def value(self) -> Any:
        """Return what the result of the job shows."""
        raise NotImplementedError(f"{type(self).__name__} must implement value()")

    def closed(self) -> Metric:
        """Return what it has come to, in a form that goes to another process."""
        return self

    def go_on(self, later: Any) -> None:
        """Add what a later epoch has counted; ``later`` is a closed metric of the same kind."""
        raise NotImplementedError(f"{type(self).__name__} must implement go_on()")


MetricKind = TypeVar("MetricKind", bound=Metric)


class Counter(Metric):
    """A number that a function raises and lowers (PyFlink: Counter)."""

    def __init__(self) -> None:
        self._count = 0

    def inc(self, n: int = 1) -> None:
        """Raise the count by ``n``."""
        self._count += n

    def dec(self, n: int = 1) -> None:
        """Lower the count by ``n``."""
        self._count -= n

    def get_count(self) -> int:
        """Return the count."""
        return self._count

    def value(self) -> int:
        """Return the count."""
        return self._count

    def go_on(self, later: Counter) -> None:
        """Add the later count."""
        self._count += later.get_count()


class Gauge(Metric):
    """A value that is computed when it is read (Flink: Gauge).

    Args:
        read: returns the value. What it raises is shown in its place.
    """

    def __init__(self, read: Callable[[], Any]) -> None:
        self._read = read

    def value(self) -> Any:
        """Return the value now."""
        try:
            value = self._read()
        except Ending:
            raise
        except BaseException as error:
            # A gauge is read when the function has been closed, and must not fail a job that has succeeded.
            return f"{type(error).__name__}: {text_of(error)}"
        # Only what goes from process to process: others are shown as texts.
        return value if isinstance(value, bool | int | float | str) or value is None else str(value)

    def closed(self) -> Metric:
        """Return the value now."""
        return Counted(self.value())


class Meter(Metric):
    """Counts events, and how many there are in a second (PyFlink: Meter).

    Args:
        time_span_in_seconds: over how long the rate is measured.
        clock: returns the wall clock in milliseconds.
    """

    def __init__(self, time_span_in_seconds: int, clock: Callable[[], int]) -> None:
        if type(time_span_in_seconds) is not int or time_span_in_seconds < 1:
            raise ValueError(f"time_span_in_seconds is {time_span_in_seconds!r}: give whole seconds")
        self._span_ms = time_span_in_seconds * MILLIS
        self._clock = clock
        self._count = 0
        self._recent: deque[tuple[int, int]] = deque()
        """The second and how many events it had, for the seconds of the span."""

    def mark_event(self, value: int = 1) -> None:
        """Count ``value`` events that happen now."""
        self._count += value
        second = self._clock() // MILLIS
        if self._recent and self._recent[-1][0] == second:
            self._recent[-1] = (second, self._recent[-1][1] + value)
        else:
            self._recent.append((second, value))
            self._forget(second)

    def get_count(self) -> int:
        """Return how many events there were."""
        return self._count

    def get_rate(self) -> float:
        """Return the events in a second, over the span that ends now (Flink: Meter)."""
        self._forget(self._clock() // MILLIS)
        return sum(count for _, count in self._recent) * MILLIS / self._span_ms

    def value(self) -> dict[str, float]:
        """Return count and rate by name."""
        return {"count": self._count, "rate": self.get_rate()}

    def closed(self) -> Meter:
        """Return a copy whose clock stands still."""
        copied = Meter(self._span_ms // MILLIS, StoppedClock(self._clock()))
        copied._count, copied._recent = self._count, self._recent.copy()
        return copied

    def go_on(self, later: Meter) -> None:
        """Add the later events; the rate is that over the span that ends with them."""
        self._count += later._count
        self._recent.extend(later._recent)
        self._clock = later._clock

    def _forget(self, now: int) -> None:
        while self._recent and (now - self._recent[0][0]) * MILLIS >= self._span_ms:
            self._recent.popleft()


class Distribution(Metric):
    """Statistics of numbers (PyFlink: Distribution)."""

    def __init__(self) -> None:
        self._count = 0
        self._sum: float = 0
        self._least: float = 0
        self._greatest: float = 0

    def update(self, value: float) -> None:
        """Take in a number."""
        self._least = min(self._least, value) if self._count else value
        self._greatest = max(self._greatest, value) if self._count else value
        self._count += 1
        self._sum += value

    def value(self) -> dict[str, float]:
        """Return count, sum, least, greatest and mean by name; only the count where there is no number."""
        if not self._count:
            return {"count": 0}
        return {
            "count": self._count,
            "sum": self._sum,
            "min": self._least,
            "max": self._greatest,
            "mean": self._sum / self._count,
        }

    def go_on(self, later: Distribution) -> None:
        """Take in the later numbers."""
        if later._count:
            self._least = min(self._least, later._least) if self._count else later._least
            self._greatest = max(self._greatest, later._greatest) if self._count else later._greatest
            self._count += later._count
            self._sum += later._sum


class Counted(Metric):
    """What a metric of another process has come to."""

    def __init__(self, counted: Any) -> None:
        self._counted = counted

    def value(self) -> Any:
        """Return what it has come to."""
        return self._counted

    def go_on(self, later: Counted) -> None:
        """Show the later value."""
        self._counted = later.value()


class StoppedClock:
    """A clock that always shows the same time, in milliseconds."""

    def __init__(self, now: int) -> None:
        self._now = now

    def __call__(self) -> int:
        return self._now


class MetricScope(Struct, frozen=True):
    """Where a metric belongs, for reporters that keep operator, subtask and groups apart."""

    operator: str
    subtask: int
    groups: tuple[str, ...]
    variables: tuple[tuple[str, str], ...]
    """The groups with a key and a value (Flink: addGroup(key, value))."""
    name: str
    operator_id: str = ""


class MetricReading(Struct, frozen=True):
    """A metric of a user function as it is now."""

    scope: MetricScope
    kind: str
    """``counter``, ``gauge``, ``meter`` or ``distribution``."""
    value: Any


class MetricGroup:
    """The metrics of a subtask, or a group of them (PyFlink: MetricGroup).

    Args:
        names: what the full names of its metrics begin with.
        metrics: the metrics of all groups of the job by full name; the group adds its own.
        clock: returns the wall clock in milliseconds.
        scopes: where the metrics belong, by full name; the group adds its own.
        within: where the group itself belongs.
    """

    def __init__(
        self,
        names: tuple[str, ...],
        metrics: dict[str, Metric],
        clock: Callable[[], int],
        scopes: dict[str, MetricScope] | None = None,
        within: MetricScope | None = None,
    ) -> None:
        self._names = names
        self._metrics = metrics
        self._clock = clock
        self._scopes = {} if scopes is None else scopes
        self._within = within or MetricScope(names[0] if names else "", 0, names[2:], (), "")

    def add_group(self, name: str, extra: str | None = None) -> MetricGroup:
        """Return a group within this one; with ``extra`` a group of that name within it."""
        inner = (name,) if extra is None else (name, extra)
        outer = self._within
        within = MetricScope(
            outer.operator,
            outer.subtask,
            (*outer.groups, name),
            outer.variables if extra is None else (*outer.variables, (name, extra)),
            "",
            outer.operator_id,
        )
        return MetricGroup((*self._names, *inner), self._metrics, self._clock, self._scopes, within)

    def counter(self, name: str) -> Counter:
        """Return the counter of this name; it begins with 0."""
        return self._metric(name, Counter, Counter)

    def gauge(self, name: str, obj: Callable[[], Any]) -> None:
        """Show what ``obj`` returns; a second gauge of a name replaces the first."""
        if not callable(obj):
            raise TypeError(f"gauge {name!r} is {obj!r}: give a function without parameters")
        self._metric(name, Gauge, lambda: Gauge(obj))
        self._metrics[self._full(name)] = Gauge(obj)

    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter:
        """Return the meter of this name, which measures its rate over ``time_span_in_seconds``."""
        return self._metric(name, Meter, lambda: Meter(time_span_in_seconds, self._clock))

    def distribution(self, name: str) -> Distribution:
        """Return the distribution of this name."""
        return self._metric(name, Distribution, Distribution)

    def _full(self, name: str) -> str:
        return ".".join((*self._names, name))

    def _metric(self, name: str, kind: type[MetricKind], create: Callable[[], MetricKind]) -> MetricKind:
        """Return the metric of a name, made where there is none; ValueError if it is of another kind."""
        full = self._full(name)
        found = self._metrics.setdefault(full, create())
        if full not in self._scopes:
            self._scopes[full] = replace(self._within, name=name)
        if not isinstance(found, kind):
            raise ValueError(
                f"metric {self._full(name)!r} is a {type(found).__name__.lower()} already, and cannot be a"
                f" {kind.__name__.lower()}: give it another name"
            )
        return found


def _kind_of(metric: Metric) -> str:
    """Return the kind of a metric; a gauge comes from another process as the value that it had."""
    return "gauge" if isinstance(metric, Counted) else type(metric).__name__.lower()


class MetricRegistry:
    """All metrics of an attempt that are counted in this process."""

    def __init__(self) -> None:
        self._metrics: dict[str, Metric] = {}
        self._scopes: dict[str, MetricScope] = {}
        self._operators: dict[str, str] = {}
        """The id of an operator by the name under which its metrics stand."""

    def group(
        self, operator_id: str, operator_name: str, subtask: int, clock: Callable[[], int]
    ) -> MetricGroup:
        """Return the group of a subtask of an operator."""
        name = self.name_of(operator_id, operator_name)
        within = MetricScope(name, subtask, (), (), "", operator_id)
        return MetricGroup((name, str(subtask)), self._metrics, clock, self._scopes, within)

    def name_of(self, operator_id: str, operator_name: str) -> str:
        """Return the name under which the metrics of an operator stand.

        A second operator of a name gets a number, in the order in which they ask.
        """
        name, number = operator_name, 1
        while self._operators.setdefault(name, operator_id) != operator_id:
            number += 1
            name = f"{operator_name} ({number})"
        return name

    def take_over(self, values: Mapping[str, Any]) -> None:
        """Show values by full name that were counted in another process."""
        for name, value in values.items():
            self._metrics[name] = Counted(value)

    def closed(self) -> dict[str, Metric]:
        """Return by full name what the metrics have come to, in a form that goes to another process."""
        return {name: metric.closed() for name, metric in self._metrics.items()}

    def go_on(self, later: Mapping[str, Metric]) -> None:
        """Add by full name what a later epoch has counted."""
        for name, metric in later.items():
            so_far = self._metrics.setdefault(name, metric)
            if so_far is not metric:
                so_far.go_on(metric)

    def scopes(self) -> dict[str, MetricScope]:
        """Return by full name where the metrics of this process belong."""
        return dict(self._scopes)

    def know_scopes(self, scopes: Mapping[str, MetricScope]) -> None:
        """Note by full name where metrics belong that come from other processes."""
        self._scopes.update(scopes)

    def readings(self) -> list[MetricReading]:
        """Return what the metrics that are counted in this process are now, with where they belong."""
        return [
            MetricReading(self._scopes[name], _kind_of(metric), metric.value())
            for name, metric in sorted(self._metrics.items())
            if name in self._scopes
        ]

    def values(self) -> dict[str, Any]:
        """Return the value of each metric by its full name, in the order of the names."""
        return {name: metric.value() for name, metric in sorted(self._metrics.items())}
