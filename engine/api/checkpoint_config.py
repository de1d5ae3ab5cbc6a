"""The checkpoint settings of an environment, under PyFlink's names (PyFlink: CheckpointConfig).

It is a view of the configuration: what is set here is set there, and is checked there.
"""

from __future__ import annotations

import warnings
from enum import Enum
from typing import Final

from onceproof.engine.api.checkpoint_storages import CheckpointStorage, FileSystemCheckpointStorage
from onceproof.engine.configuration import (
    CHECKPOINT_ALIGNED_TIMEOUT,
    CHECKPOINT_DIRECTORY,
    CHECKPOINT_FORCE_UNALIGNED,
    CHECKPOINT_INTERVAL,
    CHECKPOINT_MAX_CONCURRENT,
    CHECKPOINT_MIN_PAUSE,
    CHECKPOINT_MODE,
    CHECKPOINT_RETENTION,
    CHECKPOINT_STORAGE,
    CHECKPOINT_TIMEOUT,
    CHECKPOINT_TOLERABLE_FAILURES,
    CHECKPOINT_UNALIGNED,
    NO_EXTERNALIZED,
    Configuration,
    job_settings,
)
from onceproof.engine.durations import Duration, milliseconds_of


def _deprecated(method: str, key: str) -> None:
    warnings.warn(f"{method} is deprecated: set the option {key!r}", DeprecationWarning, stacklevel=3)


def _renamed(method: str, now: str) -> None:
    warnings.warn(f"{method} is deprecated: {now}", DeprecationWarning, stacklevel=3)


UNLIMITED_FAILURES: Final = (1 << 31) - 1


class CheckpointingMode(Enum):
    """What a failure may do to the effect of a record on state."""

    EXACTLY_ONCE = "EXACTLY_ONCE"
    AT_LEAST_ONCE = "AT_LEAST_ONCE"


class ExternalizedCheckpointRetention(Enum):
    """What happens to the checkpoints of a job that ends otherwise than by finishing.

    DELETE_ON_CANCELLATION keeps those of a job that failed, RETAIN_ON_CANCELLATION those of one that was
    cancelled, too; NO_EXTERNALIZED_CHECKPOINTS keeps none.
    """

    DELETE_ON_CANCELLATION = "DELETE_ON_CANCELLATION"
    RETAIN_ON_CANCELLATION = "RETAIN_ON_CANCELLATION"
    NO_EXTERNALIZED_CHECKPOINTS = "NO_EXTERNALIZED_CHECKPOINTS"


class CheckpointConfig:
    """Reads and sets the checkpoint options of a configuration."""

    DEFAULT_MODE = CheckpointingMode.EXACTLY_ONCE
    DEFAULT_TIMEOUT = CHECKPOINT_TIMEOUT.default
    DEFAULT_MIN_PAUSE_BETWEEN_CHECKPOINTS = CHECKPOINT_MIN_PAUSE.default
    DEFAULT_MAX_CONCURRENT_CHECKPOINTS = CHECKPOINT_MAX_CONCURRENT.default

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    def is_checkpointing_enabled(self) -> bool:
        """Whether checkpoints are taken."""
        return job_settings(self._configuration).enabled

    def get_checkpoint_interval(self) -> int:
        """Milliseconds between two triggers, or -1."""
        interval_ms = self._configuration.get(CHECKPOINT_INTERVAL)
        return -1 if interval_ms is None else interval_ms

    def set_checkpoint_interval(self, checkpoint_interval: int) -> CheckpointConfig:
        """Set the milliseconds between two triggers."""
        self._configuration.set(CHECKPOINT_INTERVAL, checkpoint_interval)
        return self

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """The mode."""
        return CheckpointingMode(self._configuration.get(CHECKPOINT_MODE))

    def set_checkpointing_mode(self, checkpointing_mode: CheckpointingMode) -> CheckpointConfig:
        """Set the mode."""
        self._configuration.set(CHECKPOINT_MODE, checkpointing_mode.value)
        return self

    def get_checkpoint_timeout(self) -> int:
        """Milliseconds after which a checkpoint is aborted."""
        return self._configuration.get(CHECKPOINT_TIMEOUT)

    def set_checkpoint_timeout(self, checkpoint_timeout: int) -> CheckpointConfig:
        """Set the milliseconds after which a checkpoint is aborted."""
        self._configuration.set(CHECKPOINT_TIMEOUT, checkpoint_timeout)
        return self

    def get_min_pause_between_checkpoints(self) -> int:
        """Least milliseconds from a completion to the next trigger."""
        return self._configuration.get(CHECKPOINT_MIN_PAUSE)

    def set_min_pause_between_checkpoints(self, min_pause_between_checkpoints: int) -> CheckpointConfig:
        """Set the least milliseconds from a completion to the next trigger."""
        self._configuration.set(CHECKPOINT_MIN_PAUSE, min_pause_between_checkpoints)
        return self

    def get_max_concurrent_checkpoints(self) -> int:
        """How many checkpoints may be pending at a time."""
        return self._configuration.get(CHECKPOINT_MAX_CONCURRENT)

    def set_max_concurrent_checkpoints(self, max_concurrent_checkpoints: int) -> CheckpointConfig:
        """Set how many checkpoints may be pending at a time."""
        self._configuration.set(CHECKPOINT_MAX_CONCURRENT, max_concurrent_checkpoints)
        return self

    def get_tolerable_checkpoint_failure_number(self) -> int:
        """How many checkpoints in a row may fail."""
        return self._configuration.get(CHECKPOINT_TOLERABLE_FAILURES)

    def set_tolerable_checkpoint_failure_number(
        self, tolerable_checkpoint_failure_number: int
    ) -> CheckpointConfig:
        """Set how many checkpoints in a row may fail."""
        self._configuration.set(CHECKPOINT_TOLERABLE_FAILURES, tolerable_checkpoint_failure_number)
        return self

    def get_externalized_checkpoint_retention(self) -> ExternalizedCheckpointRetention:
        """What happens to the checkpoints when the job ends otherwise than by finishing.

        Where it is not set the checkpoints of a job that failed are kept, which Flink would delete: what its
        sinks had pre-committed cannot be committed in any other way.
        """
        retention = self._configuration.get(CHECKPOINT_RETENTION)
        return ExternalizedCheckpointRetention(retention or NO_EXTERNALIZED)

    def set_externalized_checkpoint_retention(
        self, retention_mode: ExternalizedCheckpointRetention
    ) -> CheckpointConfig:
        """Set what happens to the checkpoints when the job ends otherwise than by finishing."""
        self._configuration.set(CHECKPOINT_RETENTION, retention_mode.value)
        return self

    def is_externalized_checkpoints_enabled(self) -> bool:
        """Whether checkpoints may outlive a job that has not finished, because it was set so."""
        return self.get_externalized_checkpoint_retention().value != NO_EXTERNALIZED

    def set_checkpoint_storage(self, checkpoint_storage: CheckpointStorage) -> CheckpointConfig:
        """Set the options of a storage (Flink 1; deprecated: set `execution.checkpointing.storage`)."""
        _deprecated("set_checkpoint_storage", CHECKPOINT_STORAGE.key)
        checkpoint_storage.set_in(self._configuration)
        return self

    def set_checkpoint_storage_dir(self, checkpoint_path: str) -> CheckpointConfig:
        """Keep checkpoints in files below a folder (Flink 1; deprecated: `execution.checkpointing.dir`)."""
        _deprecated("set_checkpoint_storage_dir", CHECKPOINT_DIRECTORY.key)
        FileSystemCheckpointStorage(checkpoint_path).set_in(self._configuration)
        return self

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Whether barriers overtake buffered records."""
        return self._configuration.get(CHECKPOINT_UNALIGNED)

    def enable_unaligned_checkpoints(self, enabled: bool = True) -> CheckpointConfig:
        """Let barriers overtake buffered records, which become a part of the checkpoint."""
        self._configuration.set(CHECKPOINT_UNALIGNED, enabled)
        return self

    def disable_unaligned_checkpoints(self) -> CheckpointConfig:
        """Let no barrier overtake a record."""
        return self.enable_unaligned_checkpoints(False)

    def is_force_unaligned_checkpoints(self) -> bool:
        """Whether unaligned checkpoints are forced on what would forbid them."""
        return self._configuration.get(CHECKPOINT_FORCE_UNALIGNED)

    def set_force_unaligned_checkpoints(self, force_unaligned_checkpoints: bool = True) -> CheckpointConfig:
        """Let iterations and custom partitioners allow it, too; neither exists here."""
        self._configuration.set(CHECKPOINT_FORCE_UNALIGNED, force_unaligned_checkpoints)
        return self

    def get_aligned_checkpoint_timeout(self) -> Duration:
        """How long an unaligned checkpoint may try to be an aligned one."""
        return Duration.of_millis(self._configuration.get(CHECKPOINT_ALIGNED_TIMEOUT))

    def set_aligned_checkpoint_timeout(self, alignment_timeout: Duration) -> CheckpointConfig:
        """Set how long an unaligned checkpoint may try to be an aligned one."""
        timeout_ms = milliseconds_of(alignment_timeout, "the aligned checkpoint timeout")
        self._configuration.set(CHECKPOINT_ALIGNED_TIMEOUT, timeout_ms)
        return self

    # Flink 1 and no longer Flink 2.

    def enable_externalized_checkpoints(
        self, cleanup_mode: ExternalizedCheckpointRetention
    ) -> CheckpointConfig:
        """Do what set_externalized_checkpoint_retention does (Flink 1; deprecated)."""
        _renamed("enable_externalized_checkpoints", "call set_externalized_checkpoint_retention")
        return self.set_externalized_checkpoint_retention(cleanup_mode)

    def set_externalized_checkpoint_cleanup(
        self, cleanup_mode: ExternalizedCheckpointRetention
    ) -> CheckpointConfig:
        """Do what set_externalized_checkpoint_retention does (Flink 1; deprecated)."""
        _renamed("set_externalized_checkpoint_cleanup", "call set_externalized_checkpoint_retention")
        return self.set_externalized_checkpoint_retention(cleanup_mode)

    def get_externalized_checkpoint_cleanup(self) -> ExternalizedCheckpointRetention:
        """Do what get_externalized_checkpoint_retention does (Flink 1; deprecated)."""
        _renamed("get_externalized_checkpoint_cleanup", "call get_externalized_checkpoint_retention")
        return self.get_externalized_checkpoint_retention()

    def set_alignment_timeout(self, alignment_timeout: Duration) -> CheckpointConfig:
        """Do what set_aligned_checkpoint_timeout does (Flink 1; deprecated)."""
        _renamed("set_alignment_timeout", "call set_aligned_checkpoint_timeout")
        return self.set_aligned_checkpoint_timeout(alignment_timeout)

    def get_alignment_timeout(self) -> Duration:
        """Do what get_aligned_checkpoint_timeout does (Flink 1; deprecated)."""
        _renamed("get_alignment_timeout", "call get_aligned_checkpoint_timeout")
        return self.get_aligned_checkpoint_timeout()

    def set_fail_on_checkpointing_errors(self, fail_on_checkpointing_errors: bool) -> CheckpointConfig:
        """Tolerate no failed checkpoint, or any number of them (Flink 1; deprecated)."""
        _renamed("set_fail_on_checkpointing_errors", "call set_tolerable_checkpoint_failure_number")
        tolerated = 0 if fail_on_checkpointing_errors else UNLIMITED_FAILURES
        return self.set_tolerable_checkpoint_failure_number(tolerated)

    def is_fail_on_checkpointing_errors(self) -> bool:
        """Return whether a failed checkpoint fails the job (Flink 1; deprecated)."""
        _renamed("is_fail_on_checkpointing_errors", "call get_tolerable_checkpoint_failure_number")
        return self.get_tolerable_checkpoint_failure_number() == 0

    def set_prefer_checkpoint_for_recovery(self, prefer_checkpoint_for_recovery: bool) -> CheckpointConfig:
        """Have no effect (Flink up to 1.13; deprecated): a job recovers from the newest of all snapshots."""
        _renamed(
            "set_prefer_checkpoint_for_recovery",
            "remove it, a job recovers from its newest checkpoint or savepoint",
        )
        return self

    def is_prefer_checkpoint_for_recovery(self) -> bool:
        """Return False (Flink up to 1.13; deprecated): a job recovers from the newest of all snapshots."""
        _renamed("is_prefer_checkpoint_for_recovery", "remove it, no checkpoint is preferred to a savepoint")
        return False
