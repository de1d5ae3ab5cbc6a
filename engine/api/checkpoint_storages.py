"""Checkpoint storages as objects, as Flink 1 has them, over the options that replace them.

`CheckpointConfig.set_checkpoint_storage` sets the options of a storage (PyFlink: checkpoint_storage).
"""

from __future__ import annotations

from onceproof.engine.configuration import (
    CHECKPOINT_DIRECTORY,
    CHECKPOINT_STORAGE,
    MAX_MEMORY_STATE_BYTES,
    Configuration,
    ConfigurationError,
)
from onceproof.engine.configuration.backend_options import FILESYSTEM, JOBMANAGER


class CheckpointStorage:
    """Where checkpoints are kept (PyFlink: CheckpointStorage)."""

    def set_in(self, configuration: Configuration) -> None:
        """Set the options of the storage in a configuration."""
        raise NotImplementedError(f"{type(self).__name__} must implement set_in(configuration)")


class JobManagerCheckpointStorage(CheckpointStorage):
    """Checkpoints live in the memory of the job master (PyFlink: JobManagerCheckpointStorage).

    Args:
        checkpoint_path: None; the metadata of checkpoints in memory are in memory, too.
        max_state_size: the most bytes that the snapshot of a subtask may have; None: 5 MiB.

    Raises:
        ConfigurationError: there is a path, or the size is no positive number.
    """

    DEFAULT_MAX_STATE_SIZE = MAX_MEMORY_STATE_BYTES.default

    def __init__(self, checkpoint_path: str | None = None, max_state_size: int | None = None) -> None:
        if checkpoint_path is not None:
            raise ConfigurationError(
                f"checkpoints in memory are not kept in {checkpoint_path}: use"
                f" FileSystemCheckpointStorage({checkpoint_path!r}), or leave the path out"
            )
        size = self.DEFAULT_MAX_STATE_SIZE if max_state_size is None else max_state_size
        self._checked = Configuration().set(CHECKPOINT_STORAGE, JOBMANAGER).set(MAX_MEMORY_STATE_BYTES, size)

    def get_checkpoint_path(self) -> str | None:
        """Return None: nothing is kept in files."""
        return None

    def get_savepoint_path(self) -> str | None:
        """Return None: `execution.checkpointing.savepoint-dir` is the place of savepoints."""
        return None

    def get_max_state_size(self) -> int:
        """Return the most bytes that the snapshot of a subtask may have."""
        return self._checked.get(MAX_MEMORY_STATE_BYTES)

    def set_in(self, configuration: Configuration) -> None:
        """Set `execution.checkpointing.storage` and the largest state; no folder of checkpoints is left."""
        configuration.remove_config(CHECKPOINT_DIRECTORY.key)
        configuration.add_all(self._checked)

    def __repr__(self) -> str:
        return f"JobManagerCheckpointStorage(max_state_size={self.get_max_state_size()})"


class FileSystemCheckpointStorage(CheckpointStorage):
    """Checkpoints live in files (PyFlink: FileSystemCheckpointStorage).

    Args:
        checkpoint_path: the folder of the checkpoints; each job has one of its own below it.
        file_state_size_threshold: kept; snapshots are never part of the metadata here.
        write_buffer_size: kept; a snapshot is written at once.
    """

    MAX_FILE_STATE_THRESHOLD = 1024 * 1024

    def __init__(
        self, checkpoint_path: str, file_state_size_threshold: int | None = None, write_buffer_size: int = -1
    ) -> None:
        self._path = checkpoint_path
        self._checked = Configuration().set(CHECKPOINT_STORAGE, FILESYSTEM)
        self._checked.set(CHECKPOINT_DIRECTORY, checkpoint_path)
        self._threshold = -1 if file_state_size_threshold is None else file_state_size_threshold
        self._buffer = write_buffer_size

    def get_checkpoint_path(self) -> str:
        """Return the folder of the checkpoints."""
        return self._path

    def get_savepoint_path(self) -> str | None:
        """Return None: `execution.checkpointing.savepoint-dir` is the place of savepoints."""
        return None

    def get_min_file_size_threshold(self) -> int:
        """Return the kept threshold in bytes; -1 where none was given."""
        return self._threshold

    def get_write_buffer_size(self) -> int:
        """Return the kept size in bytes; -1 where none was given."""
        return self._buffer

    def set_in(self, configuration: Configuration) -> None:
        """Set `execution.checkpointing.storage` and `execution.checkpointing.dir`."""
        configuration.add_all(self._checked)

    def __repr__(self) -> str:
        return f"FileSystemCheckpointStorage({self._path!r})"
