"""State backends as objects (PyFlink: state_backend), as Flink 1 has them, over the options of today.

`StreamExecutionEnvironment.set_state_backend` sets the options of a backend. Those of Flink before 1.13,
which also said where checkpoints are kept, are deprecated.
"""

from __future__ import annotations

import warnings
from enum import Enum

from onceproof.engine.api.checkpoint_storages import (
    CheckpointStorage,
    FileSystemCheckpointStorage,
    JobManagerCheckpointStorage,
)
from onceproof.engine.configuration import (
    CHECKPOINT_INCREMENTAL,
    HASHMAP,
    ROCKSDB,
    ROCKSDB_LOCAL_DIRECTORY,
    STATE_BACKEND,
    Configuration,
    ConfigurationError,
)


class PredefinedOptions(Enum):
    """Settings of RocksDB for a kind of disk (PyFlink: PredefinedOptions); kept and without effect."""

    DEFAULT = 0
    SPINNING_DISK_OPTIMIZED = 1
    SPINNING_DISK_OPTIMIZED_HIGH_MEM = 2
    FLASH_SSD_OPTIMIZED = 3


class StateBackend:
    """Where keyed state lives while a job runs (PyFlink: StateBackend)."""

    def set_in(self, configuration: Configuration) -> None:
        """Set the options of the backend in a configuration."""
        raise NotImplementedError(f"{type(self).__name__} must implement set_in(configuration)")


class HashMapStateBackend(StateBackend):
    """State lives in the memory of the process (PyFlink: HashMapStateBackend)."""

    def set_in(self, configuration: Configuration) -> None:
        """Set `state.backend.type`."""
        configuration.set(STATE_BACKEND, HASHMAP)

    def __repr__(self) -> str:
        return "HashMapStateBackend()"


class EmbeddedRocksDBStateBackend(StateBackend):
    """State lives in databases on disk (PyFlink: EmbeddedRocksDBStateBackend).

    Args:
        enable_incremental_checkpointing: whether a checkpoint stores only new files; None leaves it as it is.
    """

    def __init__(self, enable_incremental_checkpointing: bool | None = None) -> None:
        if enable_incremental_checkpointing not in (None, True, False):
            raise TypeError(
                f"enable_incremental_checkpointing is {enable_incremental_checkpointing!r}: give True, False"
                " or None"
            )
        self._incremental = enable_incremental_checkpointing
        self._paths: tuple[str, ...] = ()
        self._predefined = PredefinedOptions.DEFAULT
        self._transfer_threads = 4

    def set_db_storage_paths(self, *paths: str) -> None:
        """Set the folder of the databases; without one it is the system's for temporary files.

        Raises:
            ConfigurationError: several folders; the databases of a process lie in one.
        """
        if len(paths) > 1:
            raise ConfigurationError(
                f"databases lie in one folder, not in {', '.join(paths)}: give set_db_storage_paths one"
            )
        self._paths = paths

    def get_db_storage_paths(self) -> list[str]:
        """Return the folder of the databases, or an empty list."""
        return list(self._paths)

    def is_incremental_checkpoints_enabled(self) -> bool:
        """Return whether a checkpoint stores only new files."""
        return bool(self._incremental)

    def set_predefined_options(self, options: PredefinedOptions) -> None:
        """Keep settings for a kind of disk. They have no effect: the databases have settings of their own."""
        self._predefined = options

    def get_predefined_options(self) -> PredefinedOptions:
        """Return the kept settings."""
        return self._predefined

    def set_number_of_transfer_threads(self, number_of_transfering_threads: int) -> None:
        """Keep a number of threads. It has no effect: one thread stores the files of a checkpoint."""
        self._transfer_threads = number_of_transfering_threads

    def get_number_of_transfer_threads(self) -> int:
        """Return the kept number of threads; at first 4."""
        return self._transfer_threads

    def set_in(self, configuration: Configuration) -> None:
        """Set `state.backend.type`, and what else was given."""
        configuration.set(STATE_BACKEND, ROCKSDB)
        if self._incremental is not None:
            configuration.set(CHECKPOINT_INCREMENTAL, self._incremental)
        if self._paths:
            configuration.set(ROCKSDB_LOCAL_DIRECTORY, self._paths[0])

    def __repr__(self) -> str:
        return f"EmbeddedRocksDBStateBackend({self._incremental})"


def _deprecated(name: str, options: str) -> None:
    warnings.warn(f"{name} is deprecated: set {options}", DeprecationWarning, stacklevel=3)


def _deprecated_call(name: str, now: str) -> None:
    warnings.warn(f"{name} is deprecated: call {now}", DeprecationWarning, stacklevel=3)


class MemoryStateBackend(HashMapStateBackend):
    """State in memory, and checkpoints in the memory of the job master (Flink 1.12: MemoryStateBackend).

    Args:
        max_state_size: the most bytes that the snapshot of a subtask may have; None: 5 MiB.
    """

    DEFAULT_MAX_STATE_SIZE = JobManagerCheckpointStorage.DEFAULT_MAX_STATE_SIZE

    def __init__(self, max_state_size: int | None = None) -> None:
        _deprecated(
            "MemoryStateBackend", "state.backend.type and execution.checkpointing.storage: jobmanager"
        )
        self._storage: CheckpointStorage = JobManagerCheckpointStorage(max_state_size=max_state_size)

    def set_in(self, configuration: Configuration) -> None:
        """Set `state.backend.type` and the options of the storage."""
        super().set_in(configuration)
        self._storage.set_in(configuration)


class FsStateBackend(HashMapStateBackend):
    """State in memory, and checkpoints in files (Flink 1.12: FsStateBackend).

    Args:
        checkpoint_directory_uri: the folder of the checkpoints.
    """

    def __init__(self, checkpoint_directory_uri: str) -> None:
        _deprecated("FsStateBackend", "state.backend.type and execution.checkpointing.dir")
        self._storage: CheckpointStorage = FileSystemCheckpointStorage(checkpoint_directory_uri)

    def set_in(self, configuration: Configuration) -> None:
        """Set `state.backend.type` and the options of the storage."""
        super().set_in(configuration)
        self._storage.set_in(configuration)


class RocksDBStateBackend(EmbeddedRocksDBStateBackend):
    """State in databases, and checkpoints in files (Flink 1.12: RocksDBStateBackend).

    Args:
        checkpoint_data_uri: the folder of the checkpoints.
        enable_incremental_checkpointing: as in EmbeddedRocksDBStateBackend.
    """

    def set_number_of_transfering_threads(self, number_of_transfering_threads: int) -> None:
        """Do what set_number_of_transfer_threads does (Flink 1; deprecated)."""
        _deprecated_call("set_number_of_transfering_threads", "set_number_of_transfer_threads")
        self.set_number_of_transfer_threads(number_of_transfering_threads)

    def get_number_of_transfering_threads(self) -> int:
        """Do what get_number_of_transfer_threads does (Flink 1; deprecated)."""
        _deprecated_call("get_number_of_transfering_threads", "get_number_of_transfer_threads")
        return self.get_number_of_transfer_threads()

    def __init__(
        self, checkpoint_data_uri: str, enable_incremental_checkpointing: bool | None = None
    ) -> None:
        _deprecated("RocksDBStateBackend", "state.backend.type: rocksdb and execution.checkpointing.dir")
        super().__init__(enable_incremental_checkpointing)
        self._storage: CheckpointStorage = FileSystemCheckpointStorage(checkpoint_data_uri)

    def set_in(self, configuration: Configuration) -> None:
        """Set `state.backend.type` and the options of the storage."""
        super().set_in(configuration)
        self._storage.set_in(configuration)
