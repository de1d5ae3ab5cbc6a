"""The source and the sinks that a family's job gets in a real process."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onceproof.engine.connectors import file_sink
from onceproof.engine.connectors.encoders import Encoder
from onceproof.engine.connectors.part_files import OutputFileConfig
from onceproof.harness.model.family import KAFKA, POSTGRES, S3, FamilyError
from onceproof.harness.model.scenario import Parameter
from onceproof.harness.systems.leaving_functions import changes_folder
from onceproof.harness.systems.process.job_specification import Spec, TrialTopics
from onceproof.harness.systems.process.table_sinks import make_sink
from onceproof.harness.systems.process.test_io import (
    PREFIX,
    CommitFault,
    CountedSource,
    LoggedCommits,
    LoggingFileSink,
)
from onceproof.harness.systems.process.transactional_database import Database, database_of
from onceproof.harness.systems.recording.event_log import EventLog
from onceproof.harness.systems.sinks import SinkKind, SinksByKind

if TYPE_CHECKING:
    from onceproof.harness.systems.process.postgres_io import PostgresEnd


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
        from onceproof.harness.systems.process.postgres_lookup import make_postgres_lookup

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
