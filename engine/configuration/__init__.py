"""Every option of the engine: its Flink key, type, default and allowed values.

The rules this package lives by:

- An option is checked when it is set, by name and by value, so that an error names the line that is wrong.
- The spellings of older Flink versions are accepted with one warning.
- An option or value of Flink that this engine lacks is refused by name, because an option that is silently
  ignored would be a wrong guarantee.
"""

from onceproof.engine.configuration.alignment import AlignmentKind, CheckpointOptions, checkpoint_options
from onceproof.engine.configuration.backend_options import (
    CHECKPOINT_STORAGE,
    HASHMAP,
    ROCKSDB,
    ROCKSDB_LOCAL_DIRECTORY,
    STATE_BACKEND,
)
from onceproof.engine.configuration.backends import StateBackendSettings
from onceproof.engine.configuration.configuration import Configuration, find_option
from onceproof.engine.configuration.option import ConfigOption, ConfigurationError
from onceproof.engine.configuration.options import (
    ALLOW_PICKLED_STATE,
    AT_LEAST_ONCE,
    AUTO_WATERMARK_INTERVAL,
    BUFFER_RECORDS,
    CHANNEL_BUFFERS,
    CHECKPOINT_ALIGNED_TIMEOUT,
    CHECKPOINT_DIRECTORY,
    CHECKPOINT_FORCE_UNALIGNED,
    CHECKPOINT_INCREMENTAL,
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
    CHECKPOINTS_AFTER_TASKS_FINISH,
    DEFAULT_PARALLELISM,
    DELETE_ON_CANCELLATION,
    EXACTLY_ONCE,
    EXECUTION_TARGET,
    JOB_NAME,
    LOCAL_TARGET,
    MAX_PARALLELISM,
    NO_EXTERNALIZED,
    OPERATOR_CHAINING,
    OPTIONS,
    RETAIN_ON_CANCELLATION,
    SPARK_MASTER,
    SPARK_TARGET,
)
from onceproof.engine.configuration.recovery_options import (
    CLAIM,
    NO_CLAIM,
    RECOVERY_CLAIM_MODE,
    RECOVERY_IGNORE_UNCLAIMED,
    RECOVERY_PATH,
    SAVEPOINT_DIRECTORY,
    RecoverySettings,
)
from onceproof.engine.configuration.restart_options import RESTART_STRATEGY, UNLIMITED_RESTARTS
from onceproof.engine.configuration.restarts import (
    ExponentialDelayRestarts,
    FailureRateRestarts,
    FixedDelayRestarts,
    NoRestarts,
    RestartSettings,
)
from onceproof.engine.configuration.settings import CheckpointSettings, job_settings

__all__ = [
    "ALLOW_PICKLED_STATE",
    "AT_LEAST_ONCE",
    "AUTO_WATERMARK_INTERVAL",
    "BUFFER_RECORDS",
    "CHANNEL_BUFFERS",
    "CHECKPOINTS_AFTER_TASKS_FINISH",
    "CHECKPOINT_ALIGNED_TIMEOUT",
    "CHECKPOINT_DIRECTORY",
    "CHECKPOINT_FORCE_UNALIGNED",
    "CHECKPOINT_INCREMENTAL",
    "CHECKPOINT_INTERVAL",
    "CHECKPOINT_INTERVAL_RECORDS",
    "CHECKPOINT_MAX_CONCURRENT",
    "CHECKPOINT_MIN_PAUSE",
    "CHECKPOINT_MODE",
    "CHECKPOINT_NUM_RETAINED",
    "CHECKPOINT_RETENTION",
    "CHECKPOINT_STORAGE",
    "CHECKPOINT_TIMEOUT",
    "CHECKPOINT_TOLERABLE_FAILURES",
    "CHECKPOINT_UNALIGNED",
    "CLAIM",
    "DEFAULT_PARALLELISM",
    "DELETE_ON_CANCELLATION",
    "EXACTLY_ONCE",
    "EXECUTION_TARGET",
    "HASHMAP",
    "JOB_NAME",
    "LOCAL_TARGET",
    "MAX_PARALLELISM",
    "NO_CLAIM",
    "NO_EXTERNALIZED",
    "OPERATOR_CHAINING",
    "OPTIONS",
    "RECOVERY_CLAIM_MODE",
    "RECOVERY_IGNORE_UNCLAIMED",
    "RECOVERY_PATH",
    "RESTART_STRATEGY",
    "RETAIN_ON_CANCELLATION",
    "ROCKSDB",
    "ROCKSDB_LOCAL_DIRECTORY",
    "SAVEPOINT_DIRECTORY",
    "SPARK_MASTER",
    "SPARK_TARGET",
    "STATE_BACKEND",
    "UNLIMITED_RESTARTS",
    "AlignmentKind",
    "CheckpointOptions",
    "CheckpointSettings",
    "ConfigOption",
    "Configuration",
    "ConfigurationError",
    "ExponentialDelayRestarts",
    "FailureRateRestarts",
    "FixedDelayRestarts",
    "NoRestarts",
    "RecoverySettings",
    "RestartSettings",
    "StateBackendSettings",
    "checkpoint_options",
    "find_option",
    "job_settings",
]
