"""The options, each with its key, default, check and a line of documentation.

Keys, defaults and deprecated spellings are Flink's, except where the line begins with "Ours".
"""

from __future__ import annotations

from typing import Any, Final

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
from onceproof.engine.configuration.recovery_options import RECOVERY_OPTIONS
from onceproof.engine.configuration.restart_options import RESTART_OPTIONS

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
    "Time between the triggers of two checkpoints; unset: no periodic checkpoints.",
)
CHECKPOINT_INTERVAL_RECORDS: Final[ConfigOption[int | None]] = ConfigOption(
    "execution.checkpointing.interval-records",
    None,
    at_least(1),
    "Ours: trigger a checkpoint each time the sources together have read this number of records.",
)
CHECKPOINT_MODE: Final[ConfigOption[str]] = ConfigOption(
    "execution.checkpointing.mode",
    EXACTLY_ONCE,
    one_of({"EXACTLY_ONCE": EXACTLY_ONCE, "AT_LEAST_ONCE": AT_LEAST_ONCE}),
    "The effect of each record on state.",
)
CHECKPOINT_TIMEOUT: Final[ConfigOption[int]] = ConfigOption(
    "execution.checkpointing.timeout",
    600_000,
    parse_checkpoint_time_ms,
    "How long a checkpoint may take before it is aborted.",
)
CHECKPOINT_MIN_PAUSE: Final[ConfigOption[int]] = ConfigOption(
    "execution.checkpointing.min-pause",
    0,
    parse_duration_ms,
    "Least time between the completion of one checkpoint and the next periodic trigger.",
)
CHECKPOINT_MAX_CONCURRENT: Final[ConfigOption[int]] = ConfigOption(
    "execution.checkpointing.max-concurrent-checkpoints",
    1,
    at_least(1),
    "How many checkpoints may be pending at a time.",
)
CHECKPOINT_TOLERABLE_FAILURES: Final[ConfigOption[int]] = ConfigOption(
    "execution.checkpointing.tolerable-failed-checkpoints",
    0,
    at_least(0),
    "How many checkpoints in a row may fail before the job does.",
)
CHECKPOINT_NUM_RETAINED: Final[ConfigOption[int]] = ConfigOption(
    "execution.checkpointing.num-retained",
    1,
    at_least(1),
    "How many completed checkpoints are kept.",
    ("state.checkpoints.num-retained",),
)
CHECKPOINT_DIRECTORY: Final[ConfigOption[str | None]] = ConfigOption(
    "execution.checkpointing.dir",
    None,
    parse_text,
    "Where checkpoints are stored; each job has a directory below it.",
    ("state.checkpoints.dir", "state.backend.fs.checkpointdir"),
)
CHECKPOINT_RETENTION: Final[ConfigOption[str | None]] = ConfigOption(
    "execution.checkpointing.externalized-checkpoint-retention",
    None,
    one_of({word: word for word in (NO_EXTERNALIZED, DELETE_ON_CANCELLATION, RETAIN_ON_CANCELLATION)}),
    "Whether checkpoints stay when the job is cancelled or fails; unset: only when it fails.",
)
CHECKPOINT_UNALIGNED: Final[ConfigOption[bool]] = ConfigOption(
    "execution.checkpointing.unaligned.enabled",
    False,
    parse_boolean,
    "Whether barriers overtake buffered records, which become a part of the checkpoint.",
    ("execution.checkpointing.unaligned",),
)
CHECKPOINT_FORCE_UNALIGNED: Final[ConfigOption[bool]] = ConfigOption(
    "execution.checkpointing.unaligned.forced",
    False,
    parse_boolean,
    "Whether a job with custom partitioners may have unaligned checkpoints.",
)
CHECKPOINT_ALIGNED_TIMEOUT: Final[ConfigOption[int]] = ConfigOption(
    "execution.checkpointing.aligned-checkpoint-timeout",
    0,
    parse_duration_ms,
    "How long an unaligned checkpoint stays aligned before its barriers overtake; 0: not at all.",
    ("execution.checkpointing.alignment-timeout",),
)
CHECKPOINT_INCREMENTAL: Final[ConfigOption[bool]] = ConfigOption(
    "execution.checkpointing.incremental",
    False,
    parse_boolean,
    "Whether a checkpoint of rocksdb stores only the files that are new since the previous one; a checkpoint"
    " of hashmap is always full.",
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
    "Number of subtasks of each operator that sets no parallelism.",
)
MAX_PARALLELISM: Final[ConfigOption[int]] = ConfigOption(
    "pipeline.max-parallelism",
    -1,
    parse_max_parallelism,
    "Number of key groups of each operator that sets no max parallelism; -1: derived from its parallelism.",
)
JOB_NAME: Final[ConfigOption[str | None]] = ConfigOption(
    "pipeline.name",
    None,
    parse_text,
    "Name of the job, from which its id is derived; unset, and without a name in execute(): a new id at each"
    " start.",
)
JOB_PARAMETERS: Final[ConfigOption[dict[str, str] | None]] = ConfigOption(
    "pipeline.global-job-parameters",
    None,
    parse_texts_by_name,
    "Texts by name that every function can read with get_job_parameter, such as rate:5,place:north.",
)
CLUSTER_ID: Final[ConfigOption[str | None]] = ConfigOption(
    "high-availability.cluster-id",
    None,
    parse_text,
    "Name under which the job goes on in its checkpoint directory, whatever name it has in the program;"
    " unset: the name of the job.",
    ("high-availability.zookeeper.path.namespace", "recovery.zookeeper.path.namespace"),
)
LEASE_TIMEOUT: Final[ConfigOption[int | None]] = ConfigOption(
    "high-availability.lease-timeout",
    None,
    parse_duration_ms,
    "Ours: a process that finds its job running stands by, and goes on when the other one dies or has not"
    " renewed its lease for so long; unset: it is refused.",
)
EXECUTION_TARGET: Final[ConfigOption[str]] = ConfigOption(
    "execution.target",
    LOCAL_TARGET,
    one_of(
        {"local": LOCAL_TARGET, "spark": SPARK_TARGET},
        later=("remote", "yarn-session", "yarn-application", "kubernetes-session", "kubernetes-application"),
    ),
    "What runs the job: this process, or (ours) Spark.",
)
SPARK_MASTER: Final[ConfigOption[str | None]] = ConfigOption(
    "execution.spark.master",
    None,
    parse_text,
    "Ours: the master of Spark; unset: the Spark of this process or of spark-submit, else all cores here.",
)
SPARK_CONF: Final[ConfigOption[dict[str, str] | None]] = ConfigOption(
    "execution.spark.conf",
    None,
    parse_texts_by_name,
    "Ours: options of a Spark that is started for the job, such as"
    " spark.executor.memory:2g,spark.executor.cores:2.",
)
LOCAL_WORKERS: Final[ConfigOption[int | None]] = ConfigOption(
    "execution.local.workers",
    None,
    whole_between(1, MOST_LOCAL_WORKERS),
    "Ours: how many processes of this machine run the tasks of a job on the local runtime; unset: as many as"
    " there are slots.",
)
HEARTBEAT_INTERVAL: Final[ConfigOption[int]] = ConfigOption(
    "heartbeat.interval",
    10_000,
    parse_positive_duration_ms,
    "How often a worker of the local runtime sends a heartbeat to the coordinator.",
)
HEARTBEAT_TIMEOUT: Final[ConfigOption[int]] = ConfigOption(
    "heartbeat.timeout",
    50_000,
    parse_positive_duration_ms,
    "After how long without a heartbeat a worker is killed, and the job restarted from its last checkpoint.",
)
TASK_SLOTS: Final[ConfigOption[int]] = ConfigOption(
    "taskmanager.numberOfTaskSlots",
    1,
    whole_between(1, MOST_LOCAL_WORKERS),
    "How many slots this machine has for the subtasks of an operator. On the local runtime each is a process;"
    " on Spark the option has no effect.",
)
RUNTIME_MODE: Final[ConfigOption[str]] = ConfigOption(
    "execution.runtime-mode",
    STREAMING,
    one_of({word: word for word in (STREAMING, BATCH, AUTOMATIC)}),
    "Whether a key's results come after each record, or (BATCH) one at the end of bounded input; AUTOMATIC:"
    " BATCH if all sources are bounded.",
)
SORTED_INPUTS_MEMORY: Final[ConfigOption[int]] = ConfigOption(
    "execution.sorted-inputs.memory",
    128 << 20,
    parse_memory_bytes,
    "How much memory the sorted inputs of a subtask take in BATCH mode, about; more is sorted in temporary"
    " files.",
)
OPERATOR_CHAINING: Final[ConfigOption[bool]] = ConfigOption(
    "pipeline.operator-chaining.enabled",
    True,
    parse_boolean,
    "Whether operators are chained into one task where possible.",
    ("pipeline.operator-chaining",),
)
AUTO_WATERMARK_INTERVAL: Final[ConfigOption[int]] = ConfigOption(
    "pipeline.auto-watermark-interval",
    200,
    parse_duration_ms,
    "Interval of periodic watermarks; 0: generators emit them only for records.",
)
BUFFER_TIMEOUT_ENABLED: Final[ConfigOption[bool]] = ConfigOption(
    "execution.buffer-timeout.enabled",
    True,
    parse_boolean,
    "Whether the buffer timeout bounds how long turns take and records wait; if not, buffers are full.",
)
BUFFER_TIMEOUT: Final[ConfigOption[int]] = ConfigOption(
    "execution.buffer-timeout.interval",
    100,
    parse_duration_ms,
    "How long timers, barriers and requests wait for records at most, and one record longer; 0: each record"
    " is sent by itself.",
    ("execution.buffer-timeout",),
)
SINK_COMMITTER_RETRIES: Final[ConfigOption[int]] = ConfigOption(
    "sink.committer.retries",
    10,
    at_least(0),
    "How often a committer may retry a commit before it fails.",
)
SOURCE_ON_CHANGE: Final[ConfigOption[str]] = ConfigOption(
    "source.on-change",
    FAIL,
    one_of({word: word for word in (FAIL, FROM_START, SKIP)}),
    "Ours: what happens when a file is not the one that was read before: fail ends the job, from-start reads"
    " the new content from its beginning, skip leaves out the rest of the file; the last two warn.",
)
BUFFER_RECORDS: Final[ConfigOption[int]] = ConfigOption(
    "pipeline.buffer-records",
    1000,
    at_least(1),
    "Ours: how many records a buffer holds; 1 is slow, and so are several thousand.",
)
CHANNEL_BUFFERS: Final[ConfigOption[int]] = ConfigOption(
    "pipeline.channel-buffers",
    8,
    at_least(1),
    "Ours: how many buffers a channel queues before its sender must wait.",
)
ALLOW_PICKLED_STATE: Final[ConfigOption[bool]] = ConfigOption(
    "pipeline.allow-pickled-state",
    False,
    parse_boolean,
    "Ours: whether state may hold opaque objects, as pickles: a restore runs the code that they name.",
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
