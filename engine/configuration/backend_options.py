"""The options of the state backend and of checkpoint storage."""

from __future__ import annotations

from typing import Any, Final

from onceproof.engine.configuration.option import ConfigOption
from onceproof.engine.configuration.parsing import (
    at_least,
    one_of,
    parse_memory_bytes,
    parse_text,
    word_or_class,
)

HASHMAP: Final = "hashmap"
ROCKSDB: Final = "rocksdb"
JOBMANAGER: Final = "jobmanager"
FILESYSTEM: Final = "filesystem"
UNIVERSAL: Final = "universal"
LEVEL: Final = "level"

STATE_BACKEND: Final[ConfigOption[str]] = ConfigOption(
    "state.backend.type",
    HASHMAP,
    word_or_class(
        {
            "hashmap": HASHMAP,
            "rocksdb": ROCKSDB,
            "org.apache.flink.runtime.state.hashmap.HashMapStateBackendFactory": HASHMAP,
            "org.apache.flink.state.rocksdb.EmbeddedRocksDBStateBackendFactory": ROCKSDB,
            "org.apache.flink.contrib.streaming.state.EmbeddedRocksDBStateBackendFactory": ROCKSDB,
            # Flink's names before 1.13, when the backend also decided where checkpoints are stored.
            "jobmanager": JOBMANAGER,
            "memory": JOBMANAGER,
            "filesystem": FILESYSTEM,
            "fs": FILESYSTEM,
        },
        later=("forst",),
    ),
    "Where keyed state lives while the job runs: hashmap, rocksdb, or (ours: in Python) the class of a"
    " StateBackendFactory as package.module.Class. The former names jobmanager (or memory)"
    " and filesystem (or fs) mean hashmap, with checkpoints in that place.",
    ("state.backend",),
)
CHECKPOINT_STORAGE: Final[ConfigOption[str | None]] = ConfigOption(
    "execution.checkpointing.storage",
    None,
    one_of({"jobmanager": JOBMANAGER, "filesystem": FILESYSTEM}),
    "Where checkpoints are kept: jobmanager, in the memory of the job master, or filesystem; unset: the"
    " latter where execution.checkpointing.dir is set.",
    ("state.checkpoint-storage",),
)
MAX_MEMORY_STATE_BYTES: Final[ConfigOption[int]] = ConfigOption(
    "execution.checkpointing.max-memory-state",
    5 << 20,
    parse_memory_bytes,
    "Ours: the most bytes that a snapshot of a subtask may have where checkpoints are kept in memory; a"
    " larger one fails the checkpoint. In Flink it is a parameter of JobManagerCheckpointStorage.",
)
ROCKSDB_LOCAL_DIRECTORY: Final[ConfigOption[str | None]] = ConfigOption(
    "state.backend.rocksdb.localdir",
    None,
    parse_text,
    "Folder of the databases of running tasks; unset: the system's folder for temporary files.",
)
ROCKSDB_BLOCK_CACHE: Final[ConfigOption[int]] = ConfigOption(
    "state.backend.rocksdb.block.cache-size",
    64 << 20,
    parse_memory_bytes,
    "Memory of the block cache, shared by all databases of a process; Flink's default is 8 mb for each.",
)
ROCKSDB_WRITE_BUFFER: Final[ConfigOption[int]] = ConfigOption(
    "state.backend.rocksdb.writebuffer.size",
    32 << 20,
    parse_memory_bytes,
    "Memory in which a database collects writes before they become a file; Flink's default is 64 mb.",
)
ROCKSDB_WRITE_BUFFERS: Final[ConfigOption[int]] = ConfigOption(
    "state.backend.rocksdb.writebuffer.count",
    2,
    at_least(2),
    "How many write buffers a database may have.",
)
ROCKSDB_COMPACTION: Final[ConfigOption[str]] = ConfigOption(
    "state.backend.rocksdb.compaction.style",
    UNIVERSAL,
    one_of({UNIVERSAL: UNIVERSAL, LEVEL: LEVEL}),
    "How a database merges its files: universal merges files of similar age, so that an incremental"
    " checkpoint stores little more than the changes; level, Flink's default, takes less disk.",
)

STATE_OPTIONS: Final[tuple[ConfigOption[Any], ...]] = (
    STATE_BACKEND,
    CHECKPOINT_STORAGE,
    MAX_MEMORY_STATE_BYTES,
    ROCKSDB_LOCAL_DIRECTORY,
    ROCKSDB_BLOCK_CACHE,
    ROCKSDB_WRITE_BUFFER,
    ROCKSDB_WRITE_BUFFERS,
    ROCKSDB_COMPACTION,
)
