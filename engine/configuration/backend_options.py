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
    "hashmap, rocksdb, or (ours: in Python) a StateBackendFactory as package.module.Class. The old names "
    "jobmanager (memory) and filesystem (fs) mean hashmap with checkpoints in that place.",
    ("state.backend",),
)
CHECKPOINT_STORAGE: Final[ConfigOption[str | None]] = ConfigOption(
    "execution.checkpointing.storage",
    None,
    one_of({"jobmanager": JOBMANAGER, "filesystem": FILESYSTEM}),
    "jobmanager (in memory) or filesystem; unset: the latter if execution.checkpointing.dir is set.",
    ("state.checkpoint-storage",),
)
MAX_MEMORY_STATE_BYTES: Final[ConfigOption[int]] = ConfigOption(
    "execution.checkpointing.max-memory-state",
    5 << 20,
    parse_memory_bytes,
    "Ours: maximum size of a subtask's snapshot if checkpoints are kept in memory (in Flink a parameter "
    "of JobManagerCheckpointStorage).",
)
ROCKSDB_LOCAL_DIRECTORY: Final[ConfigOption[str | None]] = ConfigOption(
    "state.backend.rocksdb.localdir",
    None,
    parse_text,
    "Folder of the databases of running tasks; unset: the system's temporary folder.",
)
ROCKSDB_BLOCK_CACHE: Final[ConfigOption[int]] = ConfigOption(
    "state.backend.rocksdb.block.cache-size",
    64 << 20,
    parse_memory_bytes,
    "Block cache shared by all databases of a process (in Flink 8 mb for each).",
)
ROCKSDB_WRITE_BUFFER: Final[ConfigOption[int]] = ConfigOption(
    "state.backend.rocksdb.writebuffer.size",
    32 << 20,
    parse_memory_bytes,
    "Memory that collects writes before they become a file (in Flink 64 mb).",
)
ROCKSDB_WRITE_BUFFERS: Final[ConfigOption[int]] = ConfigOption(
    "state.backend.rocksdb.writebuffer.count",
    2,
    at_least(2),
    "Maximum number of write buffers of a database.",
)
ROCKSDB_COMPACTION: Final[ConfigOption[str]] = ConfigOption(
    "state.backend.rocksdb.compaction.style",
    UNIVERSAL,
    one_of({UNIVERSAL: UNIVERSAL, LEVEL: LEVEL}),
    "universal merges files of similar age, which keeps incremental checkpoints small; level, Flink's "
    "default, takes less disk.",
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
