"""The ends of a family's job, as each system gives them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from onceproof.harness.model.scenario import Parameter


class JobIO(Protocol):
    """The ends of a family's job, given by whatever runs it, with the scenario's parameters."""

    @property
    def source_parallelism(self) -> int:
        """How many source subtasks the scenario asks for."""

    @property
    def parallelism(self) -> int:
        """How many subtasks of keyed operators the scenario asks for; also the environment's default."""

    @property
    def sink_parallelism(self) -> int:
        """How many sink subtasks the scenario asks for."""

    @property
    def parameters(self) -> Mapping[str, Parameter]:
        """What the family drew in its workload."""

    def source(self, name: str) -> Any:
        """Return a replayable source over the scenario's splits, for ``env.from_source``."""

    def kafka_source(self, name: str) -> Any:
        """Return the source of a topic of Kafka whose partitions are the scenario's splits."""

    def sink(self, name: str) -> Any:
        """Return an exactly-once sink for tuples, for ``add_sink`` or ``sink_to``."""

    def write_ahead_sink(self, name: str) -> Any:
        """Return a sink for tuples that keeps them in checkpoints until they are sent, for ``add_sink``."""

    def committing_sink(self, name: str) -> Any:
        """Return a sink for tuples that is made of a writer and a committer, for ``sink_to``."""

    def file_sink(self, name: str) -> Any:
        """Return a file sink for tuples with buckets, which rolls by size and time, for ``add_sink``."""

    def object_sink(self, name: str) -> Any:
        """Return a file sink at s3:// with buckets, which rolls by size, time and count, for ``add_sink``."""

    def parquet_sink(self, name: str) -> Any:
        """Return a sink of Parquet files of a few rows at s3://, with buckets, for ``add_sink``."""

    def upsert_sink(self, name: str, keys: int) -> Any:
        """Return a sink for tuples by their first ``keys`` columns, for ``add_sink`` or ``sink_to``."""

    def postgres_sink(self, name: str) -> Any:
        """Return the exactly-once sink for tuples into a table of PostgreSQL, for ``add_sink``."""

    def kafka_sink(self, name: str) -> Any:
        """Return the exactly-once sink for tuples into a topic of Kafka, for ``add_sink``."""

    def postgres_upsert_sink(self, name: str, keys: int) -> Any:
        """Return a sink for tuples into a table of PostgreSQL by their first ``keys`` columns."""

    def postgres_lookup(self, name: str, rows: Sequence[tuple[Any, ...]]) -> Any:
        """Return a function over a table of PostgreSQL that holds ``rows``, for an asynchronous operator.

        The operator's function opens and closes it. ``await function.row_of(key)`` is the row whose first
        column is the key, or None. It raises DatabaseUnavailable where the server is away.
        """
