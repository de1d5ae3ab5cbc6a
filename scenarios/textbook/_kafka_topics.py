"""How the programs read and write topics of Kafka: texts, exactly once, with the textbook's settings.

A checkpoint every ``interval_ms``, at least 500 ms between two, a minute for each, one at a time, kept when
the job is cancelled; state in RocksDB, of which a checkpoint stores what is new. The option
``execution.checkpointing.dir`` names their folder, such as one of an object store.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from onceproof.engine import (
    CheckpointingMode,
    Configuration,
    DeliveryGuarantee,
    ExternalizedCheckpointRetention,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
    SimpleStringSchema,
    StreamExecutionEnvironment,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

SECOND_MS: Final = 1000
TRANSACTION_TIMEOUT_MS: Final = 15 * 60 * SECOND_MS
"""The most that a broker allows by default; the producer's own default is one hour."""
OPTIONS: Final = {
    "state.backend.type": "rocksdb",
    "execution.checkpointing.incremental": "true",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "3",
    "restart-strategy.fixed-delay.delay": "0 s",
}


def environment(
    configuration: Configuration | None = None, interval_ms: int = SECOND_MS
) -> StreamExecutionEnvironment:
    """Return an environment with the textbook's settings; ``configuration`` has the folder of checkpoints."""
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_mapping(OPTIONS))
    if configuration is not None:
        env.configure(configuration)
    env.set_parallelism(1)
    env.enable_checkpointing(interval_ms, CheckpointingMode.EXACTLY_ONCE)
    checkpoints = env.get_checkpoint_config()
    checkpoints.set_min_pause_between_checkpoints(SECOND_MS // 2)
    checkpoints.set_checkpoint_timeout(60 * SECOND_MS)
    checkpoints.set_max_concurrent_checkpoints(1)
    checkpoints.set_externalized_checkpoint_retention(ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION)
    return env


def texts_of(servers: str, topic: str, group: str) -> KafkaSource:
    """Return the source of the texts of a topic; completed checkpoints commit its offsets to the group."""
    builder = KafkaSource.builder().set_bootstrap_servers(servers).set_topics(topic).set_group_id(group)
    return builder.set_value_only_deserializer(SimpleStringSchema()).build()


def texts_into(
    servers: str, topic: str, prefix: str, transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS
) -> KafkaSink:
    """Return the sink of texts into a topic, exactly once."""
    rows = KafkaRecordSerializationSchema.builder().set_topic(topic)
    builder = KafkaSink.builder().set_bootstrap_servers(servers)
    builder.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).set_transactional_id_prefix(prefix)
    builder.set_property("transaction.timeout.ms", transaction_timeout_ms)
    builder.set_record_serializer(rows.set_value_serialization_schema(SimpleStringSchema()).build())
    return builder.build()


def named(arguments: Sequence[str], *names: str) -> Sequence[str]:
    """Return the arguments of a program; exit with one line where there are not as many as names."""
    if len(arguments) != len(names):
        sys.exit(f"give {' '.join(names)}, such as localhost:9092 for SERVERS")
    return arguments
