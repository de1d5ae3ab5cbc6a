"""Chooses the state backend and the checkpoint directory of a job, once, when its job graph is built."""

from __future__ import annotations

from msgspec import Struct

from onceproof.engine.configuration.backend_options import (
    CHECKPOINT_STORAGE,
    FILESYSTEM,
    HASHMAP,
    JOBMANAGER,
    ROCKSDB_BLOCK_CACHE,
    ROCKSDB_COMPACTION,
    ROCKSDB_LOCAL_DIRECTORY,
    ROCKSDB_WRITE_BUFFER,
    ROCKSDB_WRITE_BUFFERS,
    STATE_BACKEND,
    UNIVERSAL,
)
from onceproof.engine.configuration.configuration import Configuration
from onceproof.engine.configuration.options import CHECKPOINT_DIRECTORY, CHECKPOINT_INCREMENTAL
from onceproof.engine.locations import place_given


class StateBackendSettings(Struct, frozen=True):
    """The state backend of a job, and the memory and folder of its RocksDB databases.

    ``kind`` is hashmap, rocksdb, or the class of a factory. ``local_directory`` None: the system's folder for
    temporary files. ``incremental``: a checkpoint of a database stores only files that the previous one does
    not have.
    """

    kind: str = HASHMAP
    local_directory: str | None = None
    block_cache_bytes: int = ROCKSDB_BLOCK_CACHE.default
    write_buffer_bytes: int = ROCKSDB_WRITE_BUFFER.default
    write_buffers: int = ROCKSDB_WRITE_BUFFERS.default
    incremental: bool = False
    compaction: str = UNIVERSAL


def state_backend_settings(configuration: Configuration) -> StateBackendSettings:
    """Decide the backend of a job."""
    get = configuration.get
    chosen = get(STATE_BACKEND)
    return StateBackendSettings(
        HASHMAP if chosen in (JOBMANAGER, FILESYSTEM) else chosen,
        place_given(get(ROCKSDB_LOCAL_DIRECTORY)),
        get(ROCKSDB_BLOCK_CACHE),
        get(ROCKSDB_WRITE_BUFFER),
        get(ROCKSDB_WRITE_BUFFERS),
        get(CHECKPOINT_INCREMENTAL),
        get(ROCKSDB_COMPACTION),
    )


def checkpoint_directory(configuration: Configuration, checkpointing: bool) -> str | None:
    """Decide where checkpoints are stored: a directory, or None for the memory of the job master.

    Raises ConfigurationError if the options contradict each other.
    """
    directory = configuration.get(CHECKPOINT_DIRECTORY)
    wanted: dict[str, str] = {}
    backend = configuration.get(STATE_BACKEND)
    if backend in (JOBMANAGER, FILESYSTEM):
        wanted[STATE_BACKEND.key] = backend
    storage = configuration.get(CHECKPOINT_STORAGE)
    if storage is not None:
        wanted[CHECKPOINT_STORAGE.key] = storage
    if len(set(wanted.values())) == 2:
        raise configuration.contradiction(
            CHECKPOINT_STORAGE,
            f"option {STATE_BACKEND.key!r} is {backend}, which keeps checkpoints there, and "
            f"{CHECKPOINT_STORAGE.key!r} is {storage}: set the former to {HASHMAP}",
        )
    for key, place in wanted.items():
        option = STATE_BACKEND if key == STATE_BACKEND.key else CHECKPOINT_STORAGE
        if place == JOBMANAGER and directory is not None:
            raise configuration.contradiction(
                option,
                f"option {key!r} is {place}, which keeps checkpoints in memory, but "
                f"{CHECKPOINT_DIRECTORY.key!r} is set: remove one of them",
            )
        if place == FILESYSTEM and directory is None and checkpointing:
            raise configuration.contradiction(
                option,
                f"option {key!r} is {place}, but {CHECKPOINT_DIRECTORY.key!r} is not set: set it",
            )
    return directory
