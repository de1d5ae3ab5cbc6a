"""What the client of Flink gets for one start of a job: where the family is, the input, the settings.

The rules this module lives by:

- All that a run writes is below one folder. Starts of the job share it, as starts of a job in production do.
- The job reads its input in a few parts, with a checkpoint behind each; the interval of checkpoints is short,
  because it only bounds how long a part waits.
- Whatever the scenario asks for that Flink has a setting for is set: backend, barriers, time-outs, intervals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from onceproof.harness.model.family import Family
from onceproof.harness.model.family_places import place_of, script_of, statements_of
from onceproof.harness.model.history import TRANSACTION_VISIBLE, History, Row
from onceproof.harness.model.scenario import Scenario
from onceproof.harness.services.service import LOOPBACK
from onceproof.harness.systems.flink.points import ROUNDS
from onceproof.harness.systems.flink.topic_log import TopicLog, TopicUnreadable, is_of_topic, read_committed
from onceproof.harness.systems.process.job_specification import TrialTopics
from onceproof.harness.systems.process.kafka_io import PARTITIONS

INTERVAL_MS: Final = 50
"""From one checkpoint to the next."""
PAUSE_MS: Final = 1
"""Between two records of a reader, so that a kill finds some of them behind it."""
LEAST_RESTART_DELAY_MS: Final = 50
"""Without any Flink restarts a job many times before the slots of a dead TaskManager are gone."""


_SECONDS_TO_READ: Final = 30.0
ROWS: Final = "rows"
"""Of the topic of the sink, what its name ends in: the harness makes it before the job names its sink."""


def transactions_of(topics: TrialTopics) -> str:
    """Return what the ids of the transactions of a job's sink begin with."""
    return f"{topics.prefix}-flink"


@dataclass(frozen=True, slots=True)
class FlinkOrder:
    """The run of one scenario of a family, below a folder."""

    family: Family
    scenario: Scenario
    folder: Path
    kafka: TrialTopics | None = None
    """The topics at its ends; None: it has none."""
    broker_data: Path | None = None
    """The folder of the broker's data."""
    output: Path = field(init=False)
    checkpoints: Path = field(init=False)
    kept: Path = field(init=False)
    """Where the metadata of complete checkpoints stay."""
    savepoints: Path = field(init=False)
    stops: Path = field(init=False)
    """The savepoints with which the job ends."""

    def __post_init__(self) -> None:
        for name in ("output", "checkpoints", "kept", "savepoints", "stops"):
            path = self.folder.absolute() / name
            path.mkdir()
            object.__setattr__(self, name, path)

    @property
    def log(self) -> Path:
        """The log of the sources."""
        return self.folder.absolute() / "source.jsonl"

    def made(
        self, port: int, start: int, parallelism: int, backend: str, restored: Path | None
    ) -> dict[str, Any]:
        """Return the order for one start of the job.

        Args:
            port: of the REST interface of a cluster.
            start: its number, from 1.
            parallelism: of keyed operators.
            backend: of keyed state.
            restored: the checkpoint or savepoint to go on from; None: none.
        """
        scenario = self.scenario
        module, file, attribute = place_of(self.family)
        parallelisms = scenario.parallelisms(parallelism)
        script, statements = script_of(self.family), statements_of(self.family)
        settings = self._settings(backend)
        settings["rest.port"] = str(port)
        if restored is not None:
            settings["execution.state-recovery.path"] = f"file://{restored}"
        return {
            "name": self.family.name,
            "module": module,
            "file": file,
            "attribute": attribute,
            "script": None if script is None else script.elsewhere(),
            "tables": None if statements is None else statements.on_flink().order(scenario.records),
            "folder": str(self.folder.absolute()),
            "start": start,
            "source_parallelism": parallelisms.source,
            "parallelism": parallelisms.keyed,
            "sink_parallelism": parallelisms.sink,
            "max_parallelism": scenario.max_parallelism,
            "parameters": scenario.parameters,
            "records": msgspec.to_builtins(scenario.records),
            "output": str(self.output),
            "log": str(self.log),
            "checkpoints": str(self.checkpoints),
            "kept": str(self.kept),
            "is_only_built": False,
            "rounds": ROUNDS,
            "pause_ms": PAUSE_MS,
            "endless": scenario.is_endless,
            "settings": settings,
            "kafka": None if self.kafka is None else self._topics(self.kafka),
        }

    def row_of(self) -> Callable[[Row], Row]:
        """Return what makes rows of the lines of part files."""
        statements = statements_of(self.family)
        if statements is None:
            return lambda line: line
        found: Callable[[Row], Row] = statements.on_flink().row_of
        return found

    def sink_topic(self) -> TopicLog | None:
        """Return what reads the topic of the sink; None: there is none."""
        topics, data = self.kafka, self.broker_data
        if topics is None or data is None:
            return None
        return TopicLog(data, topics.output_topic(ROWS), PARTITIONS, transactions_of(topics))

    def check_sink_topic(self, history: History) -> None:
        """Check at the end that a reader of committed rows sees in the topic what the history says.

        Raises TopicUnreadable.
        """
        topics = self.kafka
        if topics is None or self.broker_data is None:
            return
        said = Counter(
            row
            for _, kind, subject, payload in history.events
            if kind == TRANSACTION_VISIBLE and is_of_topic(subject)
            for row in payload["rows"]
        )
        topic = topics.output_topic(ROWS)
        read = Counter(read_committed(topics.servers, topic, PARTITIONS, _SECONDS_TO_READ))
        if read != said:
            raise TopicUnreadable(
                f"{topic}: a reader of committed rows sees {read.total()} rows, and the broker's log shows"
                f" {said.total()}; only the one: {list((read - said).elements())[:3]}, only the other:"
                f" {list((said - read).elements())[:3]}"
            )

    @staticmethod
    def _topics(topics: TrialTopics) -> dict[str, Any]:
        return {
            "servers": topics.servers,
            "input_topic": topics.input_topic,
            "output_topic": topics.output_topic(ROWS),
            "splits": list(topics.lengths),
            "transactions": transactions_of(topics),
        }

    def _settings(self, backend: str) -> dict[str, str]:
        scenario = self.scenario
        mode = scenario.checkpoint_mode
        return {
            "rest.address": LOOPBACK,
            # Python runs inside of Java: its own processes take seconds to start, and die with their Java.
            "python.execution-mode": "thread",
            "python.fn-execution.bundle.size": "1",
            "python.fn-execution.bundle.time": "1",
            "python.fn-execution.memory.managed": "false",
            "execution.checkpointing.interval": f"{INTERVAL_MS} ms",
            "execution.checkpointing.dir": f"file://{self.checkpoints}",
            "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
            # The whole state stands in the metadata.
            "execution.checkpointing.data-inline-threshold": "1 mb",
            "execution.checkpointing.num-retained": "1000",
            "execution.checkpointing.mode": (
                "AT_LEAST_ONCE" if mode.barriers == "at_least_once" else "EXACTLY_ONCE"
            ),
            "execution.checkpointing.unaligned.enabled": str(mode.barriers == "unaligned").lower(),
            "execution.checkpointing.unaligned.forced": str(mode.barriers == "unaligned").lower(),
            "execution.checkpointing.aligned-checkpoint-timeout": f"{mode.aligned_timeout_ms} ms",
            "execution.checkpointing.max-concurrent-checkpoints": str(mode.max_concurrent),
            "execution.checkpointing.min-pause": f"{mode.min_pause_ms if mode.min_pause_ms < 1000 else 0} ms",
            # While tasks start, a checkpoint may be declined, and that is no failure of the job.
            "execution.checkpointing.tolerable-failed-checkpoints": "20",
            "execution.checkpointing.incremental": str(scenario.incremental is True).lower(),
            "state.backend.type": backend,
            "state.backend.rocksdb.memory.managed": "false",
            "pipeline.auto-watermark-interval": f"{scenario.watermark_interval} ms",
            "restart-strategy.type": "fixed-delay",
            # While no TaskManager is back, an attempt fails at once, and counts.
            "restart-strategy.fixed-delay.attempts": "1000000",
            "restart-strategy.fixed-delay.delay": (
                f"{max(LEAST_RESTART_DELAY_MS, scenario.restart_delay_ms)} ms"
            ),
        }
