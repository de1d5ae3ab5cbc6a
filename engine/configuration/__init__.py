"""Every option of the engine: its Flink key, its type, its default, and what it may be.

An option is checked when it is set, by name and by value, so that a mistake is told where it is made. The
spellings of older Flink versions are accepted with one warning. What Flink knows and this engine does not do
yet is refused by name rather than ignored, because an ignored option is a wrong guarantee.
"""

from engine.configuration.configuration import Configuration, ConfigurationError, find_option
from engine.configuration.option import ConfigOption
from engine.configuration.options import (
    ALLOW_PICKLED_STATE,
    AUTO_WATERMARK_INTERVAL,
    BUFFER_RECORDS,
    CHANNEL_BUFFERS,
    CHECKPOINT_DIRECTORY,
    CHECKPOINT_INTERVAL,
    CHECKPOINT_INTERVAL_RECORDS,
    CHECKPOINT_MAX_CONCURRENT,
    CHECKPOINT_MIN_PAUSE,
    CHECKPOINT_MODE,
    CHECKPOINT_NUM_RETAINED,
    CHECKPOINT_RETENTION,
    CHECKPOINT_TIMEOUT,
    CHECKPOINT_TOLERABLE_FAILURES,
    CHECKPOINT_UNALIGNED,
    DEFAULT_PARALLELISM,
    EXACTLY_ONCE,
    JOB_NAME,
    MAX_PARALLELISM,
    NOT_SUPPORTED_YET,
    OPERATOR_CHAINING,
    OPTIONS,
    STATE_BACKEND,
)
from engine.configuration.restart_options import RESTART_STRATEGY, UNLIMITED_RESTARTS
from engine.configuration.restarts import (
    ExponentialDelayRestarts,
    FailureRateRestarts,
    FixedDelayRestarts,
    NoRestarts,
    RestartSettings,
)
from engine.configuration.settings import CheckpointSettings, job_settings

__all__ = [
    "ALLOW_PICKLED_STATE",
    "AUTO_WATERMARK_INTERVAL",
    "BUFFER_RECORDS",
    "CHANNEL_BUFFERS",
    "CHECKPOINT_DIRECTORY",
    "CHECKPOINT_INTERVAL",
    "CHECKPOINT_INTERVAL_RECORDS",
    "CHECKPOINT_MAX_CONCURRENT",
    "CHECKPOINT_MIN_PAUSE",
    "CHECKPOINT_MODE",
    "CHECKPOINT_NUM_RETAINED",
    "CHECKPOINT_RETENTION",
    "CHECKPOINT_TIMEOUT",
    "CHECKPOINT_TOLERABLE_FAILURES",
    "CHECKPOINT_UNALIGNED",
    "DEFAULT_PARALLELISM",
    "EXACTLY_ONCE",
    "JOB_NAME",
    "MAX_PARALLELISM",
    "NOT_SUPPORTED_YET",
    "OPERATOR_CHAINING",
    "OPTIONS",
    "RESTART_STRATEGY",
    "STATE_BACKEND",
    "UNLIMITED_RESTARTS",
    "CheckpointSettings",
    "ConfigOption",
    "Configuration",
    "ConfigurationError",
    "ExponentialDelayRestarts",
    "FailureRateRestarts",
    "FixedDelayRestarts",
    "NoRestarts",
    "RestartSettings",
    "find_option",
    "job_settings",
]
