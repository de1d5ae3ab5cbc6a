"""The connectors of Kafka and PostgreSQL on real servers: what a table writes, it reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from onceproof.engine import StreamExecutionEnvironment
from onceproof.engine.table.connectors.registry import lookup_of, sink_of, source_of
from onceproof.engine.table.table_ends import TableEnd
from onceproof.engine.table.types import read_type
from onceproof.engine.watermarks.strategy import WatermarkStrategy
from onceproof.harness.services.kafka_broker import KafkaBroker
from tests.engine.connectors.kafka.topics import committed_messages, new_topic

INSERT, UPDATE_AFTER, DELETE = 0, 2, 3
SECOND = 1_000_000_000


def table(
    columns: str, key: tuple[int, ...] = (), metadata: tuple[str, ...] = (), **options: str
) -> TableEnd:
    given = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
    return TableEnd("t", "`c`.`d`.`t`", read_type(f"ROW<{columns}>"), given, key, metadata=metadata)


def write(end: TableEnd, changes: list[Any]) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    env.enable_checkpointing(50)
    env.from_collection(changes).sink_to(sink_of(end)[0])
    env.execute()


def read(end: TableEnd) -> list[Any]:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    stream = env.from_source(source_of(end), WatermarkStrategy.no_watermarks(), end.name)
    return list(stream.execute_and_collect())


def on_kafka(broker: KafkaBroker, topic: str) -> dict[str, str]:
    return {
        "topic": topic,
        "properties__bootstrap__servers": broker.address,
        "scan__bounded__mode": "latest-offset",
    }


def test_kafka_gives_back_rows_with_keys_and_metadata(kafka_broker: KafkaBroker) -> None:
    topic = new_topic(kafka_broker.address, 1)
    columns = "id INT, name STRING, at TIMESTAMP_LTZ(3) NOT NULL"
    options = on_kafka(kafka_broker, topic) | {
        "connector": "kafka",
        "key__format": "csv",
        "key__fields": "id",
        "value__format": "json",
        "value__fields_include": "EXCEPT_KEY",
        "sink__delivery_guarantee": "exactly-once",
        "sink__transactional_id_prefix": topic,
        "properties__transaction__timeout__ms": "60000",
        "scan__startup__mode": "earliest-offset",
    }
    rows = [(INSERT, (number, f"n{number}", number * SECOND)) for number in range(1, 4)]
    write(table(columns, (), ("timestamp",), **options), rows)
    messages = committed_messages(kafka_broker.address, topic, 3)
    assert [(each.key(), each.value()) for each in messages][:2] == [
        (b"1", b'{"name":"n1"}'),
        (b"2", b'{"name":"n2"}'),
    ]
    known = f"{columns}, topic STRING NOT NULL, part INT NOT NULL, place BIGINT NOT NULL"
    found = read(table(known, (), ("timestamp", "topic", "partition", "offset"), **options))
    assert found == [(kind, (*row, topic, 0, place)) for place, (kind, row) in enumerate(rows)]


def test_upsert_kafka_deletes_by_messages_without_value(kafka_broker: KafkaBroker) -> None:
    topic = new_topic(kafka_broker.address, 1)
    options = on_kafka(kafka_broker, topic) | {
        "connector": "upsert-kafka",
        "key__format": "json",
        "value__format": "json",
    }
    end = table("n INT, id INT NOT NULL", (1,), **options)
    write(end, [(INSERT, (1, 7)), (UPDATE_AFTER, (2, 7)), (DELETE, (2, 7))])
    messages = committed_messages(kafka_broker.address, topic, 3)
    assert [(each.key(), each.value()) for each in messages[1:]] == [
        (b'{"id":7}', b'{"n":2,"id":7}'),
        (b'{"id":7}', None),
    ]
    assert read(end) == [(UPDATE_AFTER, (1, 7)), (UPDATE_AFTER, (2, 7)), (DELETE, (None, 7))]


COLUMNS = "name STRING, id INT NOT NULL, price DECIMAL(6, 2), at TIMESTAMP(3)"


@pytest.fixture
def outside(database: str) -> Iterator[Any]:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE items (id int PRIMARY KEY, name text, price numeric(6, 2), at timestamp)"
        )
        connection.execute("CREATE TABLE log (name text, id int, price numeric(6, 2), at timestamp)")
        yield connection


def on_postgres(database: str, name: str, **options: str) -> dict[str, str]:
    return {"connector": "jdbc", "url": f"jdbc:{database}", "table_name": f"public.{name}", **options}


def test_jdbc_keeps_the_last_row_of_each_key_and_deletes(database: str, outside: Any) -> None:
    end = table(COLUMNS, (1,), **on_postgres(database, "items"))
    first, second = ("a", 1, None, SECOND), ("b", 2, None, 2 * SECOND)
    write(end, [(INSERT, first), (INSERT, second), (UPDATE_AFTER, ("c", 2, None, 0)), (DELETE, first)])
    assert read(end) == [(INSERT, ("c", 2, None, 0))]
    write(end, [(DELETE, ("c", 2, None, 0)), (INSERT, first)])
    assert outside.execute("SELECT id, name FROM items").fetchall() == [(1, "a")]


def test_jdbc_without_a_key_appends_with_checkpoints(database: str, outside: Any) -> None:
    rows = [(INSERT, (f"n{number % 2}", number, None, None)) for number in range(5)]
    write(table(COLUMNS, **on_postgres(database, "log")), rows)
    found = outside.execute("SELECT name, id FROM log ORDER BY id").fetchall()
    assert found == [(name, number) for _, (name, number, _, _) in rows]


def test_jdbc_looks_rows_up_and_keeps_them_as_its_cache_says(database: str, outside: Any) -> None:
    outside.execute("INSERT INTO items VALUES (1, 'a', 1.5, NULL), (2, 'a', NULL, '1970-01-01 00:00:01')")
    cached = {"lookup__cache": "PARTIAL", "lookup__partial_cache__max_rows": "10"}
    lookups = [
        lookup_of(table(COLUMNS, (1,), **on_postgres(database, "items", **each)), [0])()
        for each in ({}, cached)
    ]
    for each in lookups:
        each.open()
        assert [row[1] for row in sorted(each.rows(("a",)))] == [1, 2]
        assert each.rows(("z",)) == []
    outside.execute("INSERT INTO items VALUES (3, 'a', NULL, NULL), (4, 'z', NULL, NULL)")
    assert [[len(each.rows((name,))) for name in "az"] for each in lookups] == [[3, 1], [2, 0]]
    for each in lookups:
        each.close()
