"""PyFlink's durations and watermark strategies, made when a stream takes them.

A family holds its strategy in its module. PyFlink's holds an object of Java, which cannot travel to workers
with the functions of that module. This one holds the calls.
"""

from pyflink.common.time import Duration as RealDuration
from pyflink.common.watermark_strategy import WatermarkStrategy as RealStrategy


class Duration:
    """The call that makes a duration."""

    def __init__(self, method, number):
        self._method = method
        self._number = number

    @staticmethod
    def of_days(days):
        return Duration("of_days", days)

    @staticmethod
    def of_hours(hours):
        return Duration("of_hours", hours)

    @staticmethod
    def of_minutes(minutes):
        return Duration("of_minutes", minutes)

    @staticmethod
    def of_seconds(seconds):
        return Duration("of_seconds", seconds)

    @staticmethod
    def of_millis(millis):
        return Duration("of_millis", millis)

    def real(self):
        """Return PyFlink's duration."""
        return getattr(RealDuration, self._method)(self._number)


class WatermarkStrategy:
    """The calls that make a strategy."""

    def __init__(self, calls):
        self._calls = calls

    @staticmethod
    def for_monotonous_timestamps():
        return WatermarkStrategy([("for_monotonous_timestamps", ())])

    @staticmethod
    def for_bounded_out_of_orderness(max_out_of_orderness):
        return WatermarkStrategy([("for_bounded_out_of_orderness", (max_out_of_orderness,))])

    @staticmethod
    def no_watermarks():
        return WatermarkStrategy([("no_watermarks", ())])

    def with_timestamp_assigner(self, assigner):
        return WatermarkStrategy([*self._calls, ("with_timestamp_assigner", (assigner,))])

    def with_idleness(self, timeout):
        return WatermarkStrategy([*self._calls, ("with_idleness", (timeout,))])

    def real(self):
        """Return PyFlink's strategy."""
        made = RealStrategy
        for method, arguments in self._calls:
            real = [each.real() if isinstance(each, Duration) else each for each in arguments]
            made = getattr(made, method)(*real)
        return made


def real_strategy(strategy):
    """Return PyFlink's strategy; that of a script is one already."""
    return strategy.real() if isinstance(strategy, WatermarkStrategy) else strategy
