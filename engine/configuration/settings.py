"""The settings of a job's machines, computed once from its configuration when the job graph is built.

Places are absolute from then on (`engine/locations.py`).
"""

from __future__ import annotations

from msgspec import Struct, field

from onceproof.engine.configuration import options
from onceproof.engine.configuration.alignment import CheckpointOptions, checkpoint_options
from onceproof.engine.configuration.backend_options import MAX_MEMORY_STATE_BYTES
from onceproof.engine.configuration.backends import (
    StateBackendSettings,
    checkpoint_directory,
    state_backend_settings,
)
from onceproof.engine.configuration.configuration import Configuration
from onceproof.engine.configuration.monitor_options import (
    CHECKPOINT_HISTORY,
    EXCEPTION_HISTORY,
    METRICS_INTERVAL,
    METRICS_REPORTERS,
    REST_ADDRESS,
    REST_BIND_ADDRESS,
    REST_PORT,
    MonitorSettings,
    reporters_of,
)
from onceproof.engine.configuration.options import (
    EXACTLY_ONCE,
    RECOVERY_CLAIM_MODE,
    RECOVERY_IGNORE_UNCLAIMED,
    RECOVERY_PATH,
    RECOVERY_SKIP_DAMAGED,
    SAVEPOINT_DIRECTORY,
    RecoverySettings,
)
from onceproof.engine.configuration.restart_options import MAX_EQUAL_ERRORS
from onceproof.engine.configuration.restarts import NoRestarts, RestartSettings, restart_settings
from onceproof.engine.configuration.runtimes import REFUSED, Runtime, runtime_of
from onceproof.engine.locations import place_given


class CheckpointSettings(Struct, frozen=True):
    """The settings that tasks, the coordinator and the drivers read; durations in milliseconds."""

    interval_ms: int | None = None
    interval_records: int | None = None
    timeout_ms: int = 600_000
    min_pause_ms: int = 0
    max_concurrent: int = 1
    tolerable_failures: int = 0
    num_retained: int = 1
    directory: str | None = None
    savepoint_directory: str | None = None
    recovery: RecoverySettings = RecoverySettings()
    state_backend: StateBackendSettings = StateBackendSettings()
    max_memory_state_bytes: int = 5 << 20
    """How large a snapshot of a subtask may be where checkpoints are kept in memory."""
    retention: str | None = None
    mode: str = EXACTLY_ONCE
    unaligned: bool = False
    forces_unaligned: bool = False
    """Whether jobs with custom partitioners may have unaligned checkpoints."""
    aligned_timeout_ms: int = 0
    checkpoints_after_tasks_finish: bool = True
    restarts: RestartSettings = NoRestarts()
    max_equal_errors: int = 3
    """0: without a limit."""
    buffer_records: int = 1000
    channel_buffers: int = 8
    buffer_timeout_ms: int = 100
    """-1: none, so buffers are always full."""
    allow_pickled_state: bool = False
    source_on_change: str = options.FAIL
    job_parameters: dict[str, str] = field(default_factory=dict)
    """Texts by name for every function."""
    workers: int = 1
    """How many processes of the local runtime run the tasks."""
    heartbeat_interval_ms: int = 10_000
    heartbeat_timeout_ms: int = 50_000
    """After which silence a worker is dead."""
    lease_timeout_ms: int | None = None
    """After which silence of its process another one goes on with the job; None: none does."""
    monitor: MonitorSettings = MonitorSettings()

    @property
    def enabled(self) -> bool:
        """Whether checkpoints are taken."""
        return self.interval_ms is not None or self.interval_records is not None

    def checkpoint_options(self, *, is_savepoint: bool) -> CheckpointOptions:
        """Return how the barriers of a checkpoint or savepoint of this job travel."""
        return checkpoint_options(
            is_savepoint=is_savepoint,
            exactly_once=self.mode == EXACTLY_ONCE,
            unaligned=self.unaligned,
            aligned_timeout_ms=self.aligned_timeout_ms,
        )


def job_settings(configuration: Configuration) -> CheckpointSettings:
    """Compute the settings of a job.

    Raises ConfigurationError if options contradict each other.
    """
    get = configuration.get
    interval_ms = get(options.CHECKPOINT_INTERVAL)
    interval_records = get(options.CHECKPOINT_INTERVAL_RECORDS)
    min_pause_ms = get(options.CHECKPOINT_MIN_PAUSE)
    if interval_ms is not None:
        interval_ms = max(interval_ms, min_pause_ms)
    checkpointing = interval_ms is not None or interval_records is not None
    mode = get(options.CHECKPOINT_MODE)
    # An at-least-once barrier blocks no channel and overtakes no record: the option has no effect there.
    unaligned = get(options.CHECKPOINT_UNALIGNED) and mode == EXACTLY_ONCE
    if unaligned and get(options.CHECKPOINT_MAX_CONCURRENT) > 1:
        raise configuration.contradiction(
            options.CHECKPOINT_MAX_CONCURRENT,
            f"option {options.CHECKPOINT_MAX_CONCURRENT.key!r} allows several checkpoints, but unaligned ones"
            f" go one at a time: set it to 1, or {options.CHECKPOINT_UNALIGNED.key!r} to false",
        )
    is_on_spark = runtime_of(configuration) is Runtime.SPARK
    _refuse_contradictions(configuration)
    return CheckpointSettings(
        interval_ms=interval_ms,
        interval_records=interval_records,
        timeout_ms=get(options.CHECKPOINT_TIMEOUT),
        min_pause_ms=min_pause_ms,
        max_concurrent=get(options.CHECKPOINT_MAX_CONCURRENT),
        tolerable_failures=get(options.CHECKPOINT_TOLERABLE_FAILURES),
        num_retained=get(options.CHECKPOINT_NUM_RETAINED),
        directory=place_given(checkpoint_directory(configuration, checkpointing)),
        savepoint_directory=place_given(get(SAVEPOINT_DIRECTORY)),
        recovery=RecoverySettings(
            place_given(get(RECOVERY_PATH)),
            get(RECOVERY_CLAIM_MODE),
            get(RECOVERY_IGNORE_UNCLAIMED),
            get(RECOVERY_SKIP_DAMAGED),
        ),
        state_backend=state_backend_settings(configuration),
        max_memory_state_bytes=get(MAX_MEMORY_STATE_BYTES),
        retention=get(options.CHECKPOINT_RETENTION),
        mode=mode,
        unaligned=unaligned,
        forces_unaligned=get(options.CHECKPOINT_FORCE_UNALIGNED),
        aligned_timeout_ms=get(options.CHECKPOINT_ALIGNED_TIMEOUT),
        checkpoints_after_tasks_finish=get(options.CHECKPOINTS_AFTER_TASKS_FINISH),
        restarts=restart_settings(configuration, checkpointing),
        max_equal_errors=get(MAX_EQUAL_ERRORS),
        buffer_records=get(options.BUFFER_RECORDS),
        channel_buffers=get(options.CHANNEL_BUFFERS),
        buffer_timeout_ms=get(options.BUFFER_TIMEOUT) if get(options.BUFFER_TIMEOUT_ENABLED) else -1,
        allow_pickled_state=get(options.ALLOW_PICKLED_STATE),
        source_on_change=get(options.SOURCE_ON_CHANGE),
        job_parameters=_job_parameters(configuration),
        workers=1 if is_on_spark else get(options.LOCAL_WORKERS) or get(options.TASK_SLOTS),
        heartbeat_interval_ms=get(options.HEARTBEAT_INTERVAL),
        heartbeat_timeout_ms=get(options.HEARTBEAT_TIMEOUT),
        lease_timeout_ms=get(options.LEASE_TIMEOUT),
        monitor=_monitor_settings(configuration),
    )


def _refuse_contradictions(configuration: Configuration) -> None:
    get = configuration.get
    for option, harmless in REFUSED[runtime_of(configuration)]:
        if get(option) not in harmless:
            raise configuration.contradiction(
                option,
                f"option {option.key!r} is for the local runtime, but {options.EXECUTION_TARGET.key!r} is"
                " spark: remove the former",
            )
    if get(options.HEARTBEAT_TIMEOUT) < get(options.HEARTBEAT_INTERVAL):
        raise configuration.contradiction(
            options.HEARTBEAT_TIMEOUT,
            f"option {options.HEARTBEAT_TIMEOUT.key!r} is shorter than {options.HEARTBEAT_INTERVAL.key!r}, so"
            " no heartbeat could come in time: raise the former, or lower the latter",
        )


def _monitor_settings(configuration: Configuration) -> MonitorSettings:
    get = configuration.get
    return MonitorSettings(
        get(REST_PORT),
        get(REST_BIND_ADDRESS),
        get(REST_ADDRESS) or "",
        get(METRICS_INTERVAL),
        get(CHECKPOINT_HISTORY),
        get(EXCEPTION_HISTORY),
        reporters_of(configuration.reporter_settings(), get(METRICS_REPORTERS)),
    )


def _job_parameters(configuration: Configuration) -> dict[str, str]:
    given = configuration.get(options.JOB_PARAMETERS)
    return {} if given is None else given
