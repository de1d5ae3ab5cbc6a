"""Restart strategies as objects (PyFlink: RestartStrategies), as Flink 1 has them, over the options of today.

A configuration of a strategy is a set of options. `StreamExecutionEnvironment.set_restart_strategy` sets
them, and removes those of any other strategy.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final, TypeAlias

from onceproof.engine.configuration import Configuration, ConfigurationError
from onceproof.engine.configuration.option import ConfigOption
from onceproof.engine.configuration.restart_options import (
    EXPONENTIAL_DELAY,
    EXPONENTIAL_DELAY_INITIAL_BACKOFF,
    EXPONENTIAL_DELAY_JITTER,
    EXPONENTIAL_DELAY_MAX_BACKOFF,
    EXPONENTIAL_DELAY_MULTIPLIER,
    EXPONENTIAL_DELAY_RESET_THRESHOLD,
    FAILURE_RATE,
    FAILURE_RATE_DELAY,
    FAILURE_RATE_INTERVAL,
    FAILURE_RATE_MAX_FAILURES,
    FIXED_DELAY,
    FIXED_DELAY_ATTEMPTS,
    FIXED_DELAY_DELAY,
    NO_RESTART,
    OPTIONS_OF_STRATEGY,
    RESTART_STRATEGY,
)
from onceproof.engine.durations import Duration, Time, milliseconds_of

Length: TypeAlias = int | timedelta | Duration | Time
MILLISECOND: Final = timedelta(milliseconds=1)


def _milliseconds(length: Length, what: str) -> int:
    """Return the milliseconds of a number of them, a timedelta, a Duration or a Time."""
    if isinstance(length, bool):
        raise ConfigurationError(f"{what} is {length!r}: give milliseconds or a timedelta")
    if isinstance(length, int):
        return length
    return length // MILLISECOND if isinstance(length, timedelta) else milliseconds_of(length, what)


class RestartStrategyConfiguration:
    """The options of a strategy; RestartStrategies makes them.

    Args:
        options: what the strategy sets; none at all leaves the choice to the default.
    """

    def __init__(self, options: Mapping[ConfigOption[Any], Any]) -> None:
        # Each is checked now, where the program says it.
        self._checked = Configuration()
        for option, value in options.items():
            self._checked.set(option, value)

    def get_description(self) -> str:
        """Return the options of the strategy in one line."""
        said = ", ".join(f"{key}: {value}" for key, value in self._checked.to_dict().items())
        return said or "the strategy of the cluster"

    def set_in(self, configuration: Configuration) -> None:
        """Make a configuration have this strategy and no option of another one."""
        for option in (
            RESTART_STRATEGY,
            *[each for heeded in OPTIONS_OF_STRATEGY.values() for each in heeded],
        ):
            configuration.remove_config(option.key)
        configuration.add_all(self._checked)

    def _of(self, option: ConfigOption[Any]) -> Any:
        return self._checked.get(option)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RestartStrategyConfiguration) and self._checked == other._checked

    def __hash__(self) -> int:
        return len(self._checked.key_set())


class RestartStrategies:
    """Makes the configurations of restart strategies. Lengths of time are milliseconds or timedeltas."""

    class NoRestartStrategyConfiguration(RestartStrategyConfiguration):
        """The first failure ends the job."""

        def __init__(self) -> None:
            super().__init__({RESTART_STRATEGY: NO_RESTART})

    class FallbackRestartStrategyConfiguration(RestartStrategyConfiguration):
        """What the program set before does not count; the default does."""

        def __init__(self) -> None:
            super().__init__({})

    class FixedDelayRestartStrategyConfiguration(RestartStrategyConfiguration):
        """So many restarts, each after the same time."""

        def __init__(self, restart_attempts: int, delay_between_attempts_interval: Length) -> None:
            super().__init__(
                {
                    RESTART_STRATEGY: FIXED_DELAY,
                    FIXED_DELAY_ATTEMPTS: restart_attempts,
                    FIXED_DELAY_DELAY: _milliseconds(delay_between_attempts_interval, "the delay"),
                }
            )

        def get_restart_attempts(self) -> int:
            """Return how many restarts the job may have."""
            return int(self._of(FIXED_DELAY_ATTEMPTS))

        def get_delay_between_attempts_interval(self) -> timedelta:
            """Return how long to wait before each restart."""
            return MILLISECOND * int(self._of(FIXED_DELAY_DELAY))

    class FailureRateRestartStrategyConfiguration(RestartStrategyConfiguration):
        """Restarts until there are too many failures within a time."""

        def __init__(
            self, max_failure_rate: int, failure_interval: Length, delay_between_attempts_interval: Length
        ) -> None:
            super().__init__(
                {
                    RESTART_STRATEGY: FAILURE_RATE,
                    FAILURE_RATE_MAX_FAILURES: max_failure_rate,
                    FAILURE_RATE_INTERVAL: _milliseconds(failure_interval, "the failure interval"),
                    FAILURE_RATE_DELAY: _milliseconds(delay_between_attempts_interval, "the delay"),
                }
            )

        def get_max_failure_rate(self) -> int:
            """Return how many failures within the interval the job survives."""
            return int(self._of(FAILURE_RATE_MAX_FAILURES))

        def get_failure_interval(self) -> timedelta:
            """Return over which time failures are counted."""
            return MILLISECOND * int(self._of(FAILURE_RATE_INTERVAL))

        def get_delay_between_attempts_interval(self) -> timedelta:
            """Return how long to wait before each restart."""
            return MILLISECOND * int(self._of(FAILURE_RATE_DELAY))

    @staticmethod
    def no_restart() -> RestartStrategies.NoRestartStrategyConfiguration:
        """Return the strategy that never restarts."""
        return RestartStrategies.NoRestartStrategyConfiguration()

    @staticmethod
    def fall_back_restart() -> RestartStrategies.FallbackRestartStrategyConfiguration:
        """Return what leaves the strategy to the default."""
        return RestartStrategies.FallbackRestartStrategyConfiguration()

    @staticmethod
    def fixed_delay_restart(
        restart_attempts: int, delay_between_attempts: Length
    ) -> RestartStrategies.FixedDelayRestartStrategyConfiguration:
        """Return the strategy of so many restarts, each after the same time."""
        return RestartStrategies.FixedDelayRestartStrategyConfiguration(
            restart_attempts, delay_between_attempts
        )

    @staticmethod
    def failure_rate_restart(
        failure_rate: int, failure_interval: Length, delay_interval: Length
    ) -> RestartStrategies.FailureRateRestartStrategyConfiguration:
        """Return the strategy that restarts unless there are more failures than this within the interval."""
        return RestartStrategies.FailureRateRestartStrategyConfiguration(
            failure_rate, failure_interval, delay_interval
        )

    @staticmethod
    def exponential_delay_restart(
        initial_backoff: Length,
        max_backoff: Length,
        backoff_multiplier: float,
        reset_backoff_threshold: Length,
        jitter_factor: float,
    ) -> RestartStrategyConfiguration:
        """Return the strategy of growing delays (Flink's Java API; the options of the same names).

        Args:
            initial_backoff: the delay before the first restart.
            max_backoff: the longest delay.
            backoff_multiplier: the factor by which each delay is longer than the one before.
            reset_backoff_threshold: the time without a failure after which the delay is the first one again.
            jitter_factor: the part of a delay that is randomly added or subtracted.
        """
        return RestartStrategyConfiguration(
            {
                RESTART_STRATEGY: EXPONENTIAL_DELAY,
                EXPONENTIAL_DELAY_INITIAL_BACKOFF: _milliseconds(initial_backoff, "the initial backoff"),
                EXPONENTIAL_DELAY_MAX_BACKOFF: _milliseconds(max_backoff, "the longest backoff"),
                EXPONENTIAL_DELAY_MULTIPLIER: backoff_multiplier,
                EXPONENTIAL_DELAY_RESET_THRESHOLD: _milliseconds(reset_backoff_threshold, "the threshold"),
                EXPONENTIAL_DELAY_JITTER: jitter_factor,
            }
        )
