"""Builds the job graph of a specification, with its sources and sinks, in the process or worker that runs it.

Rules:

- The graph depends only on the specification and a parallelism, so all processes build the same job. Only the
  event log and the source of commit faults, which its source and sinks get, differ between processes.
- The module imports little more than a production job would, because recovery time includes the imports.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Final

from onceproof.engine.api.datastream import StreamExecutionEnvironment
from onceproof.engine.configuration import Configuration
from onceproof.engine.connectors import file_sink
from onceproof.engine.connectors.collection import CollectionSource
from onceproof.engine.connectors.encoders import Encoder
from onceproof.engine.connectors.part_files import OutputFileConfig
from onceproof.engine.graph import JobGraph
from onceproof.harness.model.columns import column_types_of
from onceproof.harness.model.family import KAFKA, POSTGRES, S3, FamilyError
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.scenario import Parameter
from onceproof.harness.systems.job_configuration import check_configuration
from onceproof.harness.systems.leaving_functions import changes_folder
from onceproof.harness.systems.process.database_io import Database, database_of, make_sink
from onceproof.harness.systems.process.file_io import (
    PREFIX,
    CommitFault,
    CountedSource,
    LoggedCommits,
    LoggingFileSink,
    filed_source,
)
from onceproof.harness.systems.process.job_specification import Spec, TrialTopics, read_records
from onceproof.harness.systems.recording.event_log import EventLog
from onceproof.harness.systems.sinks import SinkKind, SinksByKind

if TYPE_CHECKING:
    from onceproof.harness.systems.process.postgres_io import PostgresEnd


HEARTBEAT_MS: Final = 250
SILENCE_MS: Final = 10_000
"""How long a worker may be silent where one is paused. It beats forty times meanwhile: only a machine that
does not run it at all takes a living one for a paused one."""


class ProcessIO(SinksByKind):
    """The ``JobIO`` of a real process: counted source, logging sinks into part files or a database."""

    def __init__(
        self,
        spec: Spec,
        source: CountedSource,
        parallelism: int,
        log: EventLog,
        fault: CommitFault,
        column_types: Mapping[str, str],
    ) -> None:
        self.source_parallelism = spec.source_parallelism or parallelism
        self.parallelism = parallelism
        self.sink_parallelism = spec.sink_parallelism or parallelism
        self.parameters: dict[str, Parameter] = spec.parameters
        self._spec = spec
        self._source = source
        self._commits = LoggedCommits(log, fault)
        self._column_types = column_types

    def source(self, name: str) -> CountedSource:
        """Return the source of the scenario's splits."""
        return self._source

    def kafka_source(self, name: str) -> CountedSource:
        """Return the source of the topic with the scenario's records. Raises FamilyError, as `make_sink`."""
        topics = self._topics("a source of Kafka")
        # It imports what only these families need.
        from onceproof.harness.systems.process.kafka_io import make_kafka_source

        return make_kafka_source(topics, self._commits.log, is_bounded=not self._spec.is_endless)

    def sink(self, name: str) -> LoggingFileSink:
        """Return an exactly-once sink into part files."""
        return self._file_sink(self._spec.in_buckets)

    def _file_sink(self, in_buckets: bool) -> LoggingFileSink:
        spec = self._spec
        encoder = Encoder.json_lines_encoder() if spec.rows == "json" else Encoder.csv_encoder()
        folder = spec.part_folder or spec.output
        if changes_folder(spec.faults):
            folder = file_sink.base_path_of(os.path.relpath(folder))
        config = OutputFileConfig(PREFIX, spec.suffix)
        return LoggingFileSink(folder, encoder, config, self._commits, in_buckets)

    def make_sink(self, kind: SinkKind, name: str, *, keys: int = 0) -> Any:
        """Return a new sink of a kind, into the database that the job's processes share, or into files.

        Raises:
            FamilyError: the job needs a server that the system does not start.
        """
        if kind in ("postgres", "postgres-upsert"):
            return self._postgres_sink(name, keys)
        if kind == "kafka":
            return self._kafka_sink(name)
        if kind in ("objects", "parquet"):
            return self._object_sink(kind)
        if kind == "files":
            return self._file_sink(in_buckets=True)
        database = Database(database_of(Path(self._spec.output)))
        return make_sink(kind, name, database, self._commits, self.parameters, list(self._column_types), keys)

    def postgres_lookup(self, name: str, rows: Sequence[tuple[Any, ...]]) -> Any:
        """Return a lookup in a real table with these rows. Raises FamilyError, as `make_sink`."""
        end = self._postgres_end("a lookup in PostgreSQL")
        from onceproof.harness.systems.process.postgres_io import make_postgres_lookup

        return make_postgres_lookup(end, name, rows)

    def _postgres_sink(self, name: str, keys: int) -> Any:
        end = self._postgres_end("a sink into PostgreSQL")
        from onceproof.harness.systems.process.postgres_io import make_postgres_sink

        return make_postgres_sink(end, name, self._column_types, keys, self._commits)

    def _postgres_end(self, what: str) -> PostgresEnd:
        address = self._spec.postgres
        if not address:
            raise self._no_server(what, POSTGRES)
        # It imports psycopg, which only these families need.
        from onceproof.harness.systems.process.postgres_io import PostgresEnd

        return PostgresEnd(address, self._spec.postgres_of_job or address, self._spec.request_timeout_ms)

    def _kafka_sink(self, name: str) -> Any:
        topics = self._topics("a sink into Kafka")
        from onceproof.harness.systems.process.kafka_io import make_kafka_sink

        return make_kafka_sink(topics, name, self._commits)

    def _object_sink(self, kind: SinkKind) -> Any:
        if self._spec.objects is None:
            raise self._no_server("a sink at s3://", S3)
        # It imports a client of S3, which only these families need.
        from onceproof.harness.systems.process.object_io import make_object_sink

        timeout_ms = self._spec.request_timeout_ms
        return make_object_sink(self._spec.objects, kind, self._column_types, self._commits, timeout_ms)

    def _topics(self, what: str) -> TrialTopics:
        if self._spec.kafka is None:
            raise self._no_server(what, KAFKA)
        return self._spec.kafka

    def _no_server(self, what: str, server: str) -> FamilyError:
        return FamilyError(
            f"{self._spec.family}: {what} needs options = FamilyOptions(servers=({server!r},)) and a system"
            " that starts the server: run it with --system local"
        )


class Assembly:
    """Builds the graphs of one specification; the input is read once."""

    def __init__(self, spec: Spec, log: EventLog, fault: CommitFault) -> None:
        self._spec = spec
        self._log = log
        self._fault = fault
        self._family = load_family(spec.family)
        self._source = _source(spec, log)
        self._configuration = _configuration(spec)

    def graph(self, parallelism: int) -> JobGraph:
        """Return the family's job graph at a parallelism."""
        spec = self._spec
        # Without the options of a cluster, which are no part of the scenario.
        environment = StreamExecutionEnvironment(Configuration(self._configuration))
        environment.set_parallelism(parallelism)
        environment.set_max_parallelism(spec.max_parallelism)
        columns = column_types_of(self._family.row_schema)
        io = ProcessIO(spec, self._source, parallelism, self._log, self._fault, columns)
        self._family.job(environment, io)
        check_configuration(self._family, environment.get_configuration(), self._configuration)
        return environment.get_job_graph(spec.job_name)


def _source(spec: Spec, log: EventLog) -> CountedSource:
    if spec.source:
        source, names = resolve_name(spec.source)(spec.files)
        return CountedSource(source, log, names)
    if spec.files:
        return filed_source(spec, log)
    splits = {
        split: [(value, timestamp) for timestamp, value in records]
        for split, records in read_records(spec.records).items()
    }
    return CountedSource(CollectionSource(splits), log, is_bounded=not spec.is_endless)


def _configuration(spec: Spec) -> Configuration:
    configuration = Configuration()
    for key, value in {
        "execution.checkpointing.dir": spec.checkpoints,
        "execution.checkpointing.interval-records": spec.interval_records,
        "execution.checkpointing.num-retained": spec.retained,
        "execution.checkpointing.tolerable-failed-checkpoints": spec.tolerable_failures,
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": 1_000_000,
        "restart-strategy.fixed-delay.delay": f"{spec.restart_delay_ms} ms",
        "pipeline.auto-watermark-interval": f"{spec.watermark_interval_ms} ms",
        "pipeline.buffer-records": spec.buffer_records,
        "pipeline.channel-buffers": spec.channel_buffers,
        "execution.checkpointing.mode": (
            "AT_LEAST_ONCE" if spec.barriers == "at_least_once" else "EXACTLY_ONCE"
        ),
        "execution.checkpointing.unaligned.enabled": spec.barriers == "unaligned",
        "execution.checkpointing.unaligned.forced": True,
        "execution.checkpointing.aligned-checkpoint-timeout": f"{spec.aligned_timeout_ms} ms",
        "state.backend.type": spec.state_backend,
        "execution.checkpointing.incremental": spec.incremental,
        "execution.local.workers": spec.workers,
    }.items():
        configuration.set_string(key, str(value))
    if any(FAULTS[fault.kind].strikes == "worker" for fault in spec.faults):
        configuration.set_string("heartbeat.interval", f"{HEARTBEAT_MS} ms")
        configuration.set_string("heartbeat.timeout", f"{SILENCE_MS} ms")
    return configuration
