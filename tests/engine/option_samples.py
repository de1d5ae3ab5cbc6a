"""A value for every option that is not its default, for tests that walk all options."""

from __future__ import annotations

SAMPLES = {
    "execution.checkpointing.interval": "7 s",
    "execution.checkpointing.interval-records": 77,
    "execution.checkpointing.mode": "AT_LEAST_ONCE",
    "execution.checkpointing.timeout": "77 s",
    "execution.checkpointing.min-pause": "7 ms",
    "execution.checkpointing.max-concurrent-checkpoints": 2,
    "execution.checkpointing.tolerable-failed-checkpoints": 7,
    "execution.checkpointing.num-retained": 7,
    "execution.checkpointing.dir": "other",
    "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
    "execution.checkpointing.unaligned.enabled": True,
    "execution.checkpointing.unaligned.forced": True,
    "execution.checkpointing.aligned-checkpoint-timeout": "7 ms",
    "execution.checkpointing.incremental": True,
    "execution.checkpointing.checkpoints-after-tasks-finish": False,
    "state.backend.type": "rocksdb",
    "execution.checkpointing.storage": "jobmanager",
    "execution.checkpointing.max-memory-state": "7 mb",
    "state.backend.rocksdb.localdir": "databases",
    "state.backend.rocksdb.block.cache-size": "7 mb",
    "state.backend.rocksdb.writebuffer.size": "7 mb",
    "state.backend.rocksdb.writebuffer.count": 7,
    "state.backend.rocksdb.compaction.style": "level",
    "execution.checkpointing.savepoint-dir": "savepoints",
    "execution.state-recovery.path": "savepoint",
    "execution.state-recovery.claim-mode": "CLAIM",
    "execution.state-recovery.ignore-unclaimed-state": True,
    "execution.state-recovery.skip-damaged-checkpoints": True,
    "restart-strategy.type": "none",
    "restart-strategy.max-equal-errors": 7,
    "restart-strategy.fixed-delay.attempts": 7,
    "restart-strategy.fixed-delay.delay": "7 s",
    "restart-strategy.failure-rate.max-failures-per-interval": 7,
    "restart-strategy.failure-rate.failure-rate-interval": "7 s",
    "restart-strategy.failure-rate.delay": "7 s",
    "restart-strategy.exponential-delay.initial-backoff": "7 s",
    "restart-strategy.exponential-delay.max-backoff": "77 s",
    "restart-strategy.exponential-delay.backoff-multiplier": 7.0,
    "restart-strategy.exponential-delay.reset-backoff-threshold": "77 min",
    "restart-strategy.exponential-delay.jitter-factor": 0.7,
    "restart-strategy.exponential-delay.attempts-before-reset-backoff": 7,
    "parallelism.default": 3,
    "pipeline.max-parallelism": 77,
    "pipeline.name": "a name",
    "pipeline.global-job-parameters": "rate:7",
    "high-availability.cluster-id": "an identity",
    "high-availability.lease-timeout": "7 s",
    "execution.target": "spark",
    "execution.local.workers": 3,
    "heartbeat.interval": "7 s",
    "heartbeat.timeout": "77 s",
    "taskmanager.numberOfTaskSlots": 3,
    "execution.spark.master": "local[1]",
    "execution.spark.conf": "spark.executor.memory:2g",
    "execution.runtime-mode": "BATCH",
    "execution.sorted-inputs.memory": "7 mb",
    "pipeline.operator-chaining.enabled": False,
    "pipeline.auto-watermark-interval": "7 ms",
    "execution.buffer-timeout.enabled": False,
    "execution.buffer-timeout.interval": "7 ms",
    "sink.committer.retries": 7,
    "source.on-change": "skip",
    "pipeline.buffer-records": 7,
    "pipeline.channel-buffers": 7,
    "pipeline.allow-pickled-state": True,
    "rest.port": 0,
    "rest.bind-address": "0.0.0.0",
    "rest.address": "jobs.example",
    "metrics.reporters": "log",
    "metrics.fetcher.update-interval": "7 s",
    "web.checkpoints.history": 7,
    "web.exception-history-size": 7,
}

WITH = {
    "execution.sorted-inputs.memory": {"execution.runtime-mode": "BATCH"},
    "restart-strategy.fixed-delay.": {"restart-strategy.type": "fixed-delay"},
    "restart-strategy.failure-rate.": {"restart-strategy.type": "failure-rate"},
    "restart-strategy.exponential-delay.": {"restart-strategy.type": "exponential-delay"},
    "metrics.reporters": {
        "metrics.reporter.log.factory.class": "log",
        "metrics.reporter.more.factory.class": "log",
    },
}
"""By the beginning of a key, the options without which it would be a contradiction or mean nothing."""


def others_for(key: str) -> dict[str, object]:
    """Return what has to be set for an option to count."""
    found: dict[str, object] = {}
    for beginning, others in WITH.items():
        if key.startswith(beginning):
            found.update(others)
    return found
