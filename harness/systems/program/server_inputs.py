"""Inputs of a program on servers: topics of Kafka, tables of databases, objects of an S3 store.

The rules this module lives by:

- The harness writes past the proxy of the program, and waits while a server is away.
- A record is a message, a row of a transaction of its own, or a line of an object.
- PostgreSQL keeps the numbers of the given rows in a table of its own, written in the same transactions. So a
  commit whose answer was lost is not repeated.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from onceproof.engine.extras import SQL, require
from onceproof.harness.model.family import FamilyError
from onceproof.harness.model.program_ends import Input
from onceproof.harness.model.program_file import filled
from onceproof.harness.model.scenario import InputRecord
from onceproof.harness.systems.process.kafka_clients import writer_settings
from onceproof.harness.systems.program.inputs import DeliveredInput, InputBatches, NotTaken, ProgramInput
from onceproof.harness.systems.program.trial_end import TrialEnd

_SECONDS_TO_DELIVER: Final = 30.0
# A schema with the name of the user would be the one in which statements look first.
_MAKE_COUNTS: Final = """
    CREATE SCHEMA IF NOT EXISTS onceproof_harness;
    CREATE TABLE IF NOT EXISTS onceproof_harness.given
        (input text, number bigint, PRIMARY KEY (input, number))
"""
_COUNT: Final = "INSERT INTO onceproof_harness.given VALUES (%s, %s) ON CONFLICT DO NOTHING"
"""Changes no row if the record was given before."""


def headers_of(end: TrialEnd[Input], fields: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers of a record."""
    texts = {name: str(value) for name, value in fields.items()}
    return {name: filled(text, texts) for name, text in end.file.headers.items()}


class InputTopic(ProgramInput):
    """A topic of Kafka whose partitions are the splits."""

    def __init__(self, end: TrialEnd[Input]) -> None:
        from confluent_kafka import Producer

        super().__init__(end)
        self.address = end.topic
        self._partitions = {split: number for number, split in enumerate(end.splits)}
        self._producer = Producer(writer_settings(end.server))

    def give(self, split: str, record: InputRecord) -> None:
        fields, key = self.fields(record), self._end.file.key
        self._producer.produce(
            self.address,
            self.message(record),
            key=str(fields[key]).encode() if key else None,
            partition=self._partitions[split],
            headers={name: text.encode() for name, text in headers_of(self._end, fields).items()},
        )
        self._producer.poll(0)

    def all_given(self) -> None:
        self._producer.flush(_SECONDS_TO_DELIVER)


class PostgresInput(DeliveredInput):
    """A table of PostgreSQL into which rows are inserted."""

    def __init__(self, end: TrialEnd[Input]) -> None:
        self.address = end.file.table
        self._connection: Any = None
        super().__init__(end)

    def deliver(self, number: int, split: str, record: InputRecord) -> None:
        import psycopg
        from psycopg import sql

        fields = self.fields(record)
        insert = sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(
            sql.Identifier(*self.address.split(".")),
            sql.SQL(", ").join(map(sql.Identifier, fields)),
            sql.SQL(", ").join(sql.Placeholder() * len(fields)),
        )
        try:
            if self._connection is None or self._connection.closed:
                self._connection = psycopg.connect(self._end.server, connect_timeout=2)
                self._connection.execute(_MAKE_COUNTS)
            count = self._connection.execute(_COUNT, [self._end.folder.name, number])
            if count.rowcount:
                self._connection.execute(insert, list(fields.values()))
            self._connection.commit()
        except psycopg.OperationalError:
            self._connection = None
            raise NotTaken from None
        except psycopg.Error as error:
            cause = error.diag.message_primary or error
            raise FamilyError(f"{self._end.place}.table: {cause}; it gets {', '.join(fields)}") from None

    def close(self) -> None:
        try:
            super().close()
        finally:
            if self._connection is not None:
                self._connection.close()


class SqlInput(DeliveredInput):
    """A table of any database that SQLAlchemy reaches, into which rows are inserted."""

    def __init__(self, end: TrialEnd[Input]) -> None:
        require(f"{end.place}.kind 'sql'", SQL)
        from sqlalchemy import create_engine, text
        from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

        self.address = end.file.table
        self._refused_at: float | None = None
        url = filled(end.file.url, end.values)
        try:
            self._engine = create_engine(url)
        except (ArgumentError, NoSuchModuleError, ImportError) as error:
            raise FamilyError(f"{end.place}.url: {error}") from None
        for number, statement in enumerate(end.file.create):
            try:
                with self._engine.begin() as connection:
                    connection.execute(text(filled(statement, {"input": self.address})))
            except SQLAlchemyError as error:
                raise FamilyError(f"{end.place}.create[{number}]: {_cause(error)}") from None
        super().__init__(end)

    def deliver(self, number: int, split: str, record: InputRecord) -> None:
        from sqlalchemy import column, table
        from sqlalchemy.exc import OperationalError, SQLAlchemyError

        fields = self.fields(record)
        schema, _, name = self.address.rpartition(".")
        target = table(name, *map(column, fields), schema=schema or None)
        try:
            with self._engine.begin() as connection:
                connection.execute(target.insert().values(fields))
            self._refused_at = None
        except SQLAlchemyError as error:
            self._refused_at = self._refused_at or time.monotonic()
            # A table that is missing or locked may be there, or free, a moment later.
            is_for_good = time.monotonic() > self._refused_at + _SECONDS_TO_DELIVER
            if is_for_good or not isinstance(error, OperationalError):
                raise FamilyError(f"{self._end.place}.table: {_cause(error)}") from None
            raise NotTaken from None

    def close(self) -> None:
        try:
            super().close()
        finally:
            self._engine.dispose()


class InputObjects(InputBatches):
    """Objects that appear in an S3 store."""

    def __init__(self, end: TrialEnd[Input]) -> None:
        from onceproof.harness.systems.process.object_io import StoreReader

        super().__init__(end)
        assert end.objects is not None, "the trial has a place in the store"
        self._folder = end.folder.name
        self._store = StoreReader(end.objects)
        self.address = f"s3://{end.objects.bucket}/{end.objects.prefix}/{self._folder}"

    def put(self, name: str, content: bytes) -> None:
        self._store.ask(lambda: self._store.put(self._folder, name, content))


def _cause(error: Any) -> str:
    return " ".join(str(getattr(error, "orig", None) or error).split())
