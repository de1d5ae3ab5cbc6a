"""What the machines need to know of a configuration, decided once when a job graph is built."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from engine.configuration import options
from engine.configuration.configuration import Configuration, ConfigurationError
from engine.configuration.options import EXACTLY_ONCE, FIXED_DELAY

UNLIMITED_RESTARTS: Final = 2147483647


class CheckpointSettings(Struct, frozen=True):
    """What the machines need to know, decided once when the job graph is built.

    ``restart_attempts`` is None where a failed job is not tried again.
    """

    interval_ms: int | None = None
    interval_records: int | None = None
    timeout_ms: int = 600_000
    min_pause_ms: int = 0
    max_concurrent: int = 1
    tolerable_failures: int = 0
    num_retained: int = 1
    directory: str | None = None
    retention: str = "NO_EXTERNALIZED_CHECKPOINTS"
    mode: str = EXACTLY_ONCE
    restart_attempts: int | None = None
    restart_delay_ms: int = 1000
    buffer_records: int = 1000
    channel_buffers: int = 8
    allow_pickled_state: bool = False

    @property
    def enabled(self) -> bool:
        """Whether checkpoints are taken."""
        return self.interval_ms is not None or self.interval_records is not None


def job_settings(configuration: Configuration) -> CheckpointSettings:
    """Decide the settings of a job.

    Raises ConfigurationError where options contradict each other.
    """
    get = configuration.get
    interval_ms = get(options.CHECKPOINT_INTERVAL)
    interval_records = get(options.CHECKPOINT_INTERVAL_RECORDS)
    min_pause_ms = get(options.CHECKPOINT_MIN_PAUSE)
    if interval_ms is not None:
        interval_ms = max(interval_ms, min_pause_ms)
    attempts, delay_ms = _restarts(configuration, interval_ms is not None or interval_records is not None)
    return CheckpointSettings(
        interval_ms=interval_ms,
        interval_records=interval_records,
        timeout_ms=get(options.CHECKPOINT_TIMEOUT),
        min_pause_ms=min_pause_ms,
        max_concurrent=get(options.CHECKPOINT_MAX_CONCURRENT),
        tolerable_failures=get(options.CHECKPOINT_TOLERABLE_FAILURES),
        num_retained=get(options.CHECKPOINT_NUM_RETAINED),
        directory=get(options.CHECKPOINT_DIRECTORY),
        retention=get(options.CHECKPOINT_RETENTION),
        mode=get(options.CHECKPOINT_MODE),
        restart_attempts=attempts,
        restart_delay_ms=delay_ms,
        buffer_records=get(options.BUFFER_RECORDS),
        channel_buffers=get(options.CHANNEL_BUFFERS),
        allow_pickled_state=get(options.ALLOW_PICKLED_STATE),
    )


def _restarts(configuration: Configuration, checkpointing: bool) -> tuple[int | None, int]:
    """Decide how often a failed job is tried again (None: never), and after how long."""
    strategy = configuration.get(options.RESTART_STRATEGY)
    if strategy != FIXED_DELAY:
        for option in (options.RESTART_ATTEMPTS, options.RESTART_DELAY):
            if configuration.is_set(option):
                is_now = "is not set" if strategy is None else f"is {strategy}"
                raise ConfigurationError(
                    f"option {option.key!r} is set but {options.RESTART_STRATEGY.key!r} {is_now}: "
                    f"set it to {FIXED_DELAY}, or remove the former"
                )
    delay_ms = configuration.get(options.RESTART_DELAY)
    if strategy == FIXED_DELAY:
        return configuration.get(options.RESTART_ATTEMPTS), delay_ms
    if strategy is None and checkpointing:
        return UNLIMITED_RESTARTS, delay_ms
    return None, delay_ms
