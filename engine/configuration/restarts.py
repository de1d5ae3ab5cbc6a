"""Chooses the restart strategy of a job and its settings, once, when its job graph is built.

The default is Flink's: exponential-delay with checkpointing, none without it. An option of a strategy that is
not chosen would have no effect, and is refused.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from onceproof.engine.configuration.configuration import Configuration
from onceproof.engine.configuration.restart_options import (
    EXPONENTIAL_DELAY,
    EXPONENTIAL_DELAY_ATTEMPTS,
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
    UNLIMITED_RESTARTS,
)


class NoRestarts(Struct, frozen=True):
    """The first failure ends the job (Flink: NoRestartBackoffTimeStrategy)."""


class FixedDelayRestarts(Struct, frozen=True):
    """At most ``attempts`` restarts in the life of the job, each after the same delay."""

    attempts: int = 1
    delay_ms: int = 1000


class FailureRateRestarts(Struct, frozen=True):
    """Restarts unless more than ``max_failures_per_interval`` failures happen within the interval."""

    max_failures_per_interval: int = 1
    interval_ms: int = 60_000
    delay_ms: int = 1000


class ExponentialDelayRestarts(Struct, frozen=True):
    """Restarts after growing delays; ``reset_threshold_ms`` without a failure resets the delay."""

    initial_backoff_ms: int = 1000
    max_backoff_ms: int = 60_000
    backoff_multiplier: float = 1.5
    reset_threshold_ms: int = 3_600_000
    jitter_factor: float = 0.1
    attempts: int = UNLIMITED_RESTARTS


RestartSettings: TypeAlias = NoRestarts | FixedDelayRestarts | FailureRateRestarts | ExponentialDelayRestarts


def restart_settings(configuration: Configuration, checkpointing: bool) -> RestartSettings:
    """Decide the restart strategy of a job.

    Raises ConfigurationError if options contradict each other.
    """
    named = configuration.get(RESTART_STRATEGY)
    strategy = named or (EXPONENTIAL_DELAY if checkpointing else NO_RESTART)
    for other, heeded in OPTIONS_OF_STRATEGY.items():
        if other == strategy:
            continue
        for option in heeded:
            if configuration.is_set(option):
                is_now = f"is not set, which means {strategy}" if named is None else f"is {strategy}"
                raise configuration.contradiction(
                    option,
                    f"option {option.key!r} is set but {RESTART_STRATEGY.key!r} {is_now}: "
                    f"set it to {other}, or remove the former",
                )
    get = configuration.get
    if strategy == FIXED_DELAY:
        return FixedDelayRestarts(get(FIXED_DELAY_ATTEMPTS), get(FIXED_DELAY_DELAY))
    if strategy == FAILURE_RATE:
        return FailureRateRestarts(
            get(FAILURE_RATE_MAX_FAILURES), get(FAILURE_RATE_INTERVAL), get(FAILURE_RATE_DELAY)
        )
    if strategy == EXPONENTIAL_DELAY:
        return _exponential_delay(configuration)
    return NoRestarts()


def _exponential_delay(configuration: Configuration) -> ExponentialDelayRestarts:
    get = configuration.get
    initial_ms, longest_ms = get(EXPONENTIAL_DELAY_INITIAL_BACKOFF), get(EXPONENTIAL_DELAY_MAX_BACKOFF)
    if initial_ms > longest_ms:
        # The error names the place of the option that is set; both may be.
        set_one = EXPONENTIAL_DELAY_INITIAL_BACKOFF
        if not configuration.is_set(set_one):
            set_one = EXPONENTIAL_DELAY_MAX_BACKOFF
        raise configuration.contradiction(
            set_one,
            f"option {EXPONENTIAL_DELAY_INITIAL_BACKOFF.key!r} is {initial_ms} ms and"
            f" {EXPONENTIAL_DELAY_MAX_BACKOFF.key!r} is {longest_ms} ms: the former cannot be the longer one",
        )
    return ExponentialDelayRestarts(
        initial_backoff_ms=initial_ms,
        max_backoff_ms=longest_ms,
        backoff_multiplier=get(EXPONENTIAL_DELAY_MULTIPLIER),
        reset_threshold_ms=get(EXPONENTIAL_DELAY_RESET_THRESHOLD),
        jitter_factor=get(EXPONENTIAL_DELAY_JITTER),
        attempts=get(EXPONENTIAL_DELAY_ATTEMPTS),
    )
