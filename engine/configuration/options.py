"""The options, each with its key, default, check and a line of documentation.

Keys, defaults and deprecated spellings are Flink's, except where the line begins with "Ours".
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from onceproof.engine.configuration.backend_options import STATE_OPTIONS
from onceproof.engine.configuration.monitor_options import MONITOR_OPTIONS
from onceproof.engine.configuration.option import ConfigOption
from onceproof.engine.configuration.parsing import (
    at_least,
    one_of,
    parse_boolean,
    parse_checkpoint_time_ms,
    parse_duration_ms,
    parse_max_parallelism,
    parse_memory_bytes,
    parse_on_for_now,
    parse_positive_duration_ms,
    parse_text,
    parse_texts_by_name,
    whole_between,
)
from onceproof.engine.configuration.restart_options import RESTART_OPTIONS

NO_CLAIM: Final = "NO_CLAIM"
CLAIM: Final = "CLAIM"
LEGACY: Final = "LEGACY"

SAVEPOINT_DIRECTORY: Final[ConfigOption[str | None]] = ConfigOption(
    "execution.checkpointing.savepoint-dir",
    None,
    parse_text,
    "Default folder of savepoints.",
    ("state.savepoints.dir", "savepoints.state.backend.fs.dir"),
)
RECOVERY_PATH: Final[ConfigOption[str | None]] = ConfigOption(
    "execution.state-recovery.path",
    None,
    parse_text,
    "Savepoint or retained checkpoint to restore.",
    ("execution.savepoint.path",),
)
RECOVERY_CLAIM_MODE: Final[ConfigOption[str]] = ConfigOption(
    "execution.state-recovery.claim-mode",
    NO_CLAIM,
    one_of({mode: mode for mode in (NO_CLAIM, CLAIM, LEGACY)}),
    "NO_CLAIM leaves the restored checkpoint to its user; CLAIM lets the job delete it once newer ones "
    "have subsumed it; LEGACY (deprecated) means NO_CLAIM.",
    ("execution.savepoint-restore-mode",),
)
RECOVERY_IGNORE_UNCLAIMED: Final[ConfigOption[bool]] = ConfigOption(
    "execution.state-recovery.ignore-unclaimed-state",
    False,
    parse_boolean,
    "Whether a restore skips state of operators that no longer exist.",
    ("execution.savepoint.ignore-unclaimed-state",),
)
RECOVERY_SKIP_DAMAGED: Final[ConfigOption[bool]] = ConfigOption(
    "execution.state-recovery.skip-damaged-checkpoints",
    False,
    parse_boolean,
    "Ours: whether a restarted job may restore an older retained checkpoint if the last one is damaged; "
    "output committed since may be committed again.",
)

RECOVERY_OPTIONS: Final[tuple[ConfigOption[Any], ...]] = (
    SAVEPOINT_DIRECTORY,
    RECOVERY_PATH,
    RECOVERY_CLAIM_MODE,
    RECOVERY_IGNORE_UNCLAIMED,
    RECOVERY_SKIP_DAMAGED,
)


class RecoverySettings(Struct, frozen=True):
    """The checkpoint that a job restores at its first start, and how."""

    path: str | None = None
    claim_mode: str = NO_CLAIM
    ignore_unclaimed_state: bool = False
    skip_damaged: bool = False


LOCAL_TARGET: Final = "local"
MOST_LOCAL_WORKERS: Final = 64
SPARK_TARGET: Final = "spark"
STREAMING: Final = "STREAMING"
BATCH: Final = "BATCH"
AUTOMATIC: Final = "AUTOMATIC"
EXACTLY_ONCE: Final = "EXACTLY_ONCE"
AT_LEAST_ONCE: Final = "AT_LEAST_ONCE"

FAIL: Final = "fail"
FROM_START: Final = "from-start"
SKIP: Final = "skip"

NO_EXTERNALIZED: Final = "NO_EXTERNALIZED_CHECKPOINTS"
DELETE_ON_CANCELLATION: Final = "DELETE_ON_CANCELLATION"
RETAIN_ON_CANCELLATION: Final = "RETAIN_ON_CANCELLATION"

CHECKPOINT_INTERVAL: Final[ConfigOption[int | None]] = ConfigOption(
    "execution.checkpointing.interval",
    None,
    parse_checkpoint_time_ms,
    "Time between checkpoints; unset: no periodic checkpoints.",
)
CHECKPOINT_INTERVAL_RECORDS: Final[ConfigOption[int | None]] = ConfigOption(
    "execution.checkpointing.interval-records",
    None,
    at_least(1),
    "Ours: take a checkpoint each time the sources together have read this many records.",
)
CHECKPOINT_MODE: Final[ConfigOption[str]] = ConfigOption(
    "execution.checkpointing.mode",
    EXACTLY_ONCE,
    one_of({"EXACTLY_ONCE": EXACTLY_ONCE, "AT_LEAST_ONCE": AT_LEAST_ONCE}),
    "How often each record affects state.",
)
CHECKPOINT_TIMEOUT: Final[ConfigOption[int]] = ConfigOption(
    "execution.checkpointing.timeout",
    600_000,
    parse_checkpoint_time_ms,
    "Time after which a checkpoint is aborted.",
)
CHECKPOINT_MIN_PAUSE: Final[ConfigOption[int]] = ConfigOption(
    "execution.checkpointing.min-pause",
    0,
    parse_duration_ms,
    "Minimum time between the completion of a checkpoint and the next periodic one.",
)
CHECKPOINT_MAX_CONCURRENT: Final[ConfigOption[int]] = ConfigOption(
    "execution.checkpointing.max-concurrent-checkpoints",
    1,
    at_least(1),
    "Maximum number of pending checkpoints.",
)
CHECKPOINT_TOLERABLE_FAILURES: Final[ConfigOption[int]] = ConfigOption(
    "execution.checkpointing.tolerable-failed-checkpoints",
    0,
    at_least(0),
    "Number of consecutive checkpoint failures that the job tolerates.",
)
CHECKPOINT_NUM_RETAINED: Final[ConfigOption[int]] = ConfigOption(
    "execution.checkpointing.num-retained",
    1,
    at_least(1),
    "Number of completed checkpoints to retain.",
    ("state.checkpoints.num-retained",),
)
CHECKPOINT_DIRECTORY: Final[ConfigOption[str | None]] = ConfigOption(
    "execution.checkpointing.dir",
    None,
    parse_text,
    "Where checkpoints are stored; each job has its own folder there.",
    ("state.checkpoints.dir", "state.backend.fs.checkpointdir"),
)
CHECKPOINT_RETENTION: Final[ConfigOption[str | None]] = ConfigOption(
    "execution.checkpointing.externalized-checkpoint-retention",
    None,
    one_of({word: word for word in (NO_EXTERNALIZED, DELETE_ON_CANCELLATION, RETAIN_ON_CANCELLATION)}),
    "Whether checkpoints are kept when the job is cancelled or fails; unset: only when it fails.",
)
CHECKPOINT_UNALIGNED: Final[ConfigOption[bool]] = ConfigOption(
    "execution.checkpointing.unaligned.enabled",
    False,
    parse_boolean,
    "Whether barriers overtake buffered records, which become part of the checkpoint.",
    ("execution.checkpointing.unaligned",),
)
CHECKPOINT_FORCE_UNALIGNED: Final[ConfigOption[bool]] = ConfigOption(
    "execution.checkpointing.unaligned.forced",
    False,
    parse_boolean,
    "Whether jobs with custom partitioners may use unaligned checkpoints.",
)
CHECKPOINT_ALIGNED_TIMEOUT: Final[ConfigOption[int]] = ConfigOption(
    "execution.checkpointing.aligned-checkpoint-timeout",
    0,
    parse_duration_ms,
    "Time that an unaligned checkpoint stays aligned before its barriers overtake.",
    ("execution.checkpointing.alignment-timeout",),
)
CHECKPOINT_INCREMENTAL: Final[ConfigOption[bool]] = ConfigOption(
    "execution.checkpointing.incremental",
    False,
    parse_boolean,
    "Whether checkpoints of rocksdb store new files only; those of hashmap are always full.",
    ("state.backend.incremental",),
)
CHECKPOINTS_AFTER_TASKS_FINISH: Final[ConfigOption[bool]] = ConfigOption(
    "execution.checkpointing.checkpoints-after-tasks-finish",
    True,
    parse_on_for_now,
    "Whether checkpoints continue after some tasks have finished.",
    ("execution.checkpointing.checkpoints-after-tasks-finish.enabled",),
)
DEFAULT_PARALLELISM: Final[ConfigOption[int]] = ConfigOption(
    "parallelism.default",
    1,
    at_least(1),
    "Number of subtasks of operators that set no parallelism.",
)
MAX_PARALLELISM: Final[ConfigOption[int]] = ConfigOption(
    "pipeline.max-parallelism",
    -1,
    parse_max_parallelism,
    "Number of key groups of operators that set none; -1: derived from the parallelism.",
)
JOB_NAME: Final[ConfigOption[str | None]] = ConfigOption(
    "pipeline.name",
    None,
    parse_text,
    "Name of the job, which determines its id; unset and without execute(NAME): a new id at each start.",
)
JOB_PARAMETERS: Final[ConfigOption[dict[str, str] | None]] = ConfigOption(
    "pipeline.global-job-parameters",
    None,
    parse_texts_by_name,
    "Parameters that functions read with get_job_parameter, such as rate:5,place:north.",
)
CLUSTER_ID: Final[ConfigOption[str | None]] = ConfigOption(
    "high-availability.cluster-id",
    None,
    parse_text,
    "Name of the job in its checkpoint directory; unset: the name in the program.",
    ("high-availability.zookeeper.path.namespace", "recovery.zookeeper.path.namespace"),
)
LEASE_TIMEOUT: Final[ConfigOption[int | None]] = ConfigOption(
    "high-availability.lease-timeout",
    None,
    parse_duration_ms,
    "Ours: let a process that finds its job running stand by until the other dies or has not renewed its "
    "lease for this time; unset: reject it.",
)
EXECUTION_TARGET: Final[ConfigOption[str]] = ConfigOption(
    "execution.target",
    LOCAL_TARGET,
    one_of(
        {"local": LOCAL_TARGET, "spark": SPARK_TARGET},
        later=("remote", "yarn-session", "yarn-application", "kubernetes-session", "kubernetes-application"),
    ),
    "What runs the job: local, or (ours) spark.",
)
SPARK_MASTER: Final[ConfigOption[str | None]] = ConfigOption(
    "execution.spark.master",
    None,
    parse_text,
    "Ours: Spark's master; unset: the Spark of this process or of spark-submit, else all cores here.",
)
SPARK_CONF: Final[ConfigOption[dict[str, str] | None]] = ConfigOption(
    "execution.spark.conf",
    None,
    parse_texts_by_name,
    "Ours: options of a Spark that the job starts, such as spark.executor.memory:2g,spark.executor.cores:2.",
)
LOCAL_WORKERS: Final[ConfigOption[int | None]] = ConfigOption(
    "execution.local.workers",
    None,
    whole_between(1, MOST_LOCAL_WORKERS),
    "Ours: number of processes of this machine that run tasks; unset: the number of slots.",
)
HEARTBEAT_INTERVAL: Final[ConfigOption[int]] = ConfigOption(
    "heartbeat.interval",
    10_000,
    parse_positive_duration_ms,
    "Time between the heartbeats of a worker.",
)
HEARTBEAT_TIMEOUT: Final[ConfigOption[int]] = ConfigOption(
    "heartbeat.timeout",
    50_000,
    parse_positive_duration_ms,
    "Time without a heartbeat after which a worker is killed and the job restarted.",
)
TASK_SLOTS: Final[ConfigOption[int]] = ConfigOption(
    "taskmanager.numberOfTaskSlots",
    1,
    whole_between(1, MOST_LOCAL_WORKERS),
    "Number of slots of this machine; locally each slot is a process.",
)
RUNTIME_MODE: Final[ConfigOption[str]] = ConfigOption(
    "execution.runtime-mode",
    STREAMING,
    one_of({word: word for word in (STREAMING, BATCH, AUTOMATIC)}),
    "STREAMING, BATCH (bounded input, one result per key at the end), or AUTOMATIC: BATCH if all sources "
    "are bounded.",
)
SORTED_INPUTS_MEMORY: Final[ConfigOption[int]] = ConfigOption(
    "execution.sorted-inputs.memory",
    128 << 20,
    parse_memory_bytes,
    "Approximate memory of a subtask's sorted inputs in BATCH mode; more is sorted in temporary files.",
)
OPERATOR_CHAINING: Final[ConfigOption[bool]] = ConfigOption(
    "pipeline.operator-chaining.enabled",
    True,
    parse_boolean,
    "Whether operators are chained into one task.",
    ("pipeline.operator-chaining",),
)
AUTO_WATERMARK_INTERVAL: Final[ConfigOption[int]] = ConfigOption(
    "pipeline.auto-watermark-interval",
    200,
    parse_duration_ms,
    "Interval of periodic watermarks; 0: only per record.",
)
BUFFER_TIMEOUT_ENABLED: Final[ConfigOption[bool]] = ConfigOption(
    "execution.buffer-timeout.enabled",
    True,
    parse_boolean,
    "Whether the buffer timeout applies; otherwise only full buffers are sent.",
)
BUFFER_TIMEOUT: Final[ConfigOption[int]] = ConfigOption(
    "execution.buffer-timeout.interval",
    100,
    parse_duration_ms,
    "Maximum time that timers, barriers and requests wait for records; 0: send each record by itself.",
    ("execution.buffer-timeout",),
)
SINK_COMMITTER_RETRIES: Final[ConfigOption[int]] = ConfigOption(
    "sink.committer.retries",
    10,
    at_least(0),
    "Number of retries of a commit before it fails.",
)
SOURCE_ON_CHANGE: Final[ConfigOption[str]] = ConfigOption(
    "source.on-change",
    FAIL,
    one_of({word: word for word in (FAIL, FROM_START, SKIP)}),
    "Ours: reaction to a changed file: fail the job, read it from-start, or skip its rest; the last two "
    "warn.",
)
BUFFER_RECORDS: Final[ConfigOption[int]] = ConfigOption(
    "pipeline.buffer-records",
    1000,
    at_least(1),
    "Ours: number of records in a buffer; 1 is slow, and so are several thousand.",
)
CHANNEL_BUFFERS: Final[ConfigOption[int]] = ConfigOption(
    "pipeline.channel-buffers",
    8,
    at_least(1),
    "Ours: number of buffers that a channel queues before its sender waits.",
)
ALLOW_PICKLED_STATE: Final[ConfigOption[bool]] = ConfigOption(
    "pipeline.allow-pickled-state",
    False,
    parse_boolean,
    "Ours: whether state may contain pickles of opaque objects; a restore runs the code that they name.",
)

OPTIONS: Final[tuple[ConfigOption[Any], ...]] = (
    CHECKPOINT_INTERVAL,
    CHECKPOINT_INTERVAL_RECORDS,
    CHECKPOINT_MODE,
    CHECKPOINT_TIMEOUT,
    CHECKPOINT_MIN_PAUSE,
    CHECKPOINT_MAX_CONCURRENT,
    CHECKPOINT_TOLERABLE_FAILURES,
    CHECKPOINT_NUM_RETAINED,
    CHECKPOINT_DIRECTORY,
    CHECKPOINT_RETENTION,
    CHECKPOINT_UNALIGNED,
    CHECKPOINT_FORCE_UNALIGNED,
    CHECKPOINT_ALIGNED_TIMEOUT,
    CHECKPOINT_INCREMENTAL,
    CHECKPOINTS_AFTER_TASKS_FINISH,
    *STATE_OPTIONS,
    *RECOVERY_OPTIONS,
    *RESTART_OPTIONS,
    DEFAULT_PARALLELISM,
    MAX_PARALLELISM,
    JOB_NAME,
    JOB_PARAMETERS,
    CLUSTER_ID,
    LEASE_TIMEOUT,
    EXECUTION_TARGET,
    LOCAL_WORKERS,
    HEARTBEAT_INTERVAL,
    HEARTBEAT_TIMEOUT,
    TASK_SLOTS,
    SPARK_MASTER,
    SPARK_CONF,
    RUNTIME_MODE,
    SORTED_INPUTS_MEMORY,
    OPERATOR_CHAINING,
    AUTO_WATERMARK_INTERVAL,
    BUFFER_TIMEOUT_ENABLED,
    BUFFER_TIMEOUT,
    SINK_COMMITTER_RETRIES,
    SOURCE_ON_CHANGE,
    BUFFER_RECORDS,
    CHANNEL_BUFFERS,
    ALLOW_PICKLED_STATE,
    *MONITOR_OPTIONS,
)
