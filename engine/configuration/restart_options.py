"""The options of restart strategies, with Flink's keys and defaults."""

from __future__ import annotations

from typing import Final

from onceproof.engine.configuration.option import ConfigOption
from onceproof.engine.configuration.parsing import (
    above,
    at_least,
    between,
    one_of,
    parse_duration_ms,
    parse_positive_duration_ms,
)

NO_RESTART: Final = "none"
FIXED_DELAY: Final = "fixed-delay"
FAILURE_RATE: Final = "failure-rate"
EXPONENTIAL_DELAY: Final = "exponential-delay"

UNLIMITED_RESTARTS: Final = 2147483647

RESTART_STRATEGY: Final[ConfigOption[str | None]] = ConfigOption(
    "restart-strategy.type",
    None,
    one_of(
        {
            "none": NO_RESTART,
            "off": NO_RESTART,
            "disable": NO_RESTART,
            "fixed-delay": FIXED_DELAY,
            "failure-rate": FAILURE_RATE,
            "exponential-delay": EXPONENTIAL_DELAY,
        }
    ),
    "How a failed job restarts; unset: exponential-delay with checkpoints, else none.",
    ("restart-strategy",),
)
FIXED_DELAY_ATTEMPTS: Final[ConfigOption[int]] = ConfigOption(
    "restart-strategy.fixed-delay.attempts",
    1,
    at_least(0),
    "Maximum number of restarts.",
)
FIXED_DELAY_DELAY: Final[ConfigOption[int]] = ConfigOption(
    "restart-strategy.fixed-delay.delay",
    1000,
    parse_duration_ms,
    "Delay before each restart.",
)
FAILURE_RATE_MAX_FAILURES: Final[ConfigOption[int]] = ConfigOption(
    "restart-strategy.failure-rate.max-failures-per-interval",
    1,
    at_least(1),
    "Maximum number of failures within the interval.",
)
FAILURE_RATE_INTERVAL: Final[ConfigOption[int]] = ConfigOption(
    "restart-strategy.failure-rate.failure-rate-interval",
    60_000,
    parse_positive_duration_ms,
    "Interval over which failures are counted.",
)
FAILURE_RATE_DELAY: Final[ConfigOption[int]] = ConfigOption(
    "restart-strategy.failure-rate.delay",
    1000,
    parse_duration_ms,
    "Delay before each restart.",
)
EXPONENTIAL_DELAY_INITIAL_BACKOFF: Final[ConfigOption[int]] = ConfigOption(
    "restart-strategy.exponential-delay.initial-backoff",
    1000,
    parse_positive_duration_ms,
    "Delay before the first restart and after a reset.",
)
EXPONENTIAL_DELAY_MAX_BACKOFF: Final[ConfigOption[int]] = ConfigOption(
    "restart-strategy.exponential-delay.max-backoff",
    60_000,
    parse_positive_duration_ms,
    "Maximum delay before a restart.",
)
EXPONENTIAL_DELAY_MULTIPLIER: Final[ConfigOption[float]] = ConfigOption(
    "restart-strategy.exponential-delay.backoff-multiplier",
    1.5,
    above(1),
    "Factor between consecutive delays.",
)
EXPONENTIAL_DELAY_RESET_THRESHOLD: Final[ConfigOption[int]] = ConfigOption(
    "restart-strategy.exponential-delay.reset-backoff-threshold",
    3_600_000,
    parse_positive_duration_ms,
    "Time without a failure that resets the delay and the number of restarts.",
)
EXPONENTIAL_DELAY_JITTER: Final[ConfigOption[float]] = ConfigOption(
    "restart-strategy.exponential-delay.jitter-factor",
    0.1,
    between(0, 1),
    "Fraction of a delay that is randomly added or subtracted.",
)
EXPONENTIAL_DELAY_ATTEMPTS: Final[ConfigOption[int]] = ConfigOption(
    "restart-strategy.exponential-delay.attempts-before-reset-backoff",
    UNLIMITED_RESTARTS,
    at_least(1),
    "Maximum number of restarts without a reset.",
)

MAX_EQUAL_ERRORS: Final[ConfigOption[int]] = ConfigOption(
    "restart-strategy.max-equal-errors",
    3,
    at_least(0),
    "Ours: number of equal user errors at one place, without a checkpoint in between, that end the job; "
    "0: unlimited, as in Flink.",
)

OPTIONS_OF_STRATEGY: Final = {
    NO_RESTART: (),
    FIXED_DELAY: (FIXED_DELAY_ATTEMPTS, FIXED_DELAY_DELAY),
    FAILURE_RATE: (FAILURE_RATE_MAX_FAILURES, FAILURE_RATE_INTERVAL, FAILURE_RATE_DELAY),
    EXPONENTIAL_DELAY: (
        EXPONENTIAL_DELAY_INITIAL_BACKOFF,
        EXPONENTIAL_DELAY_MAX_BACKOFF,
        EXPONENTIAL_DELAY_MULTIPLIER,
        EXPONENTIAL_DELAY_RESET_THRESHOLD,
        EXPONENTIAL_DELAY_JITTER,
        EXPONENTIAL_DELAY_ATTEMPTS,
    ),
}
"""The options that each strategy reads."""

RESTART_OPTIONS: Final = (
    RESTART_STRATEGY,
    MAX_EQUAL_ERRORS,
    *[option for heeded in OPTIONS_OF_STRATEGY.values() for option in heeded],
)
