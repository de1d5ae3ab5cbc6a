"""The connectors of tables by their options: formats, files, generated rows, and what is refused."""

from __future__ import annotations

import pickle
from decimal import Decimal
from typing import Any

import pytest

from onceproof.engine import StreamExecutionEnvironment
from onceproof.engine.formats.message_schemas import MalformedMessage
from onceproof.engine.table.connectors.console import PrintSink
from onceproof.engine.table.connectors.lookups import CachedLookup, CacheSettings, HeldRows
from onceproof.engine.table.connectors.message_formats import format_of
from onceproof.engine.table.connectors.registry import (
    Options,
    WrongTable,
    load_connectors,
    lookup_of,
    sink_of,
    source_of,
)
from onceproof.engine.table.table_ends import TableEnd
from onceproof.engine.table.types import read_type
from onceproof.engine.watermarks.strategy import WatermarkStrategy

SCALARS = (
    "id INT NOT NULL, price DECIMAL(10, 2), name STRING, at TIMESTAMP(3), day DATE, raw BYTES, part FLOAT"
)
ROW = (1, Decimal("-2.50"), 'a "b", c', 1_700_000_000_120_000_000, 19_000, b"\x00a", 0.5)
NESTED = "tags ARRAY<INT>, counts MAP<STRING, DOUBLE>, inner ROW<x INT, at TIMESTAMP(3)>"
NESTED_ROW = ((1, None), (("k", 1.5),), (1, 0))


def table(columns: str, primary_key: tuple[int, ...] = (), **options: str) -> TableEnd:
    given = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    return TableEnd("orders", "`c`.`d`.`orders`", read_type(f"ROW<{columns}>"), given, primary_key)


def made(columns: str, **options: str) -> Any:
    end = table(columns, connector="kafka", **options)
    load_connectors()
    return format_of(end.type, Options(end), "format")


def written(columns: str, changes: list[Any], **options: str) -> list[Any]:
    """Write changes into files, and return those that are read from them."""
    end = table(columns, connector="filesystem", **options)
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    env.from_collection(changes).sink_to(sink_of(end)[0])
    env.execute()
    return read(end)


def read(end: TableEnd) -> list[Any]:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    stream = env.from_source(source_of(end), WatermarkStrategy.no_watermarks(), end.name)
    return list(stream.execute_and_collect())


@pytest.mark.parametrize("name", ["json", "avro", "debezium-json"])
def test_message_gives_back_the_row_that_was_written(name: str) -> None:
    form = made(f"{SCALARS}, {NESTED}", format=name)
    message = form.message((0, ROW + NESTED_ROW))
    assert list(pickle.loads(pickle.dumps(form)).changes(message)) == [(0, ROW + NESTED_ROW)]


def test_texts_are_those_of_flink() -> None:
    columns = "id INT, at TIMESTAMP(3), there TIMESTAMP_LTZ(3), clock TIME(0)"
    row = (1, 1_700_000_000_120_000_000, 1_700_000_000_000_000_000, 3_600_000)
    assert made(columns, format="json").message((0, row)) == (
        b'{"id":1,"at":"2023-11-14 22:13:20.12","there":"2023-11-14 22:13:20Z","clock":"01:00:00"}'
    )
    iso = made("at TIMESTAMP(3)", format="json", json__timestamp_format__standard="ISO-8601")
    assert iso.changes(b'{"at": "2023-11-14T22:13:20.12"}') == ((0, (1_700_000_000_120_000_000,)),)
    with pytest.raises(MalformedMessage, match="is no time such as"):
        iso.changes(b'{"at": "2023-11-14 22:13:20"}')
    assert made(SCALARS, format="csv").message((0, ROW)) == (
        b'1,-2.50,"a ""b"", c","2023-11-14 22:13:20.12",2022-01-08,AGE=,0.5'
    )


def test_debezium_tells_of_updates_and_deletions() -> None:
    form = made("id INT, n INT", format="debezium-json")
    update = b'{"before": {"id": 1, "n": 2}, "after": {"id": 1, "n": 3}, "op": "u"}'
    assert form.changes(update) == [(1, (1, 2)), (2, (1, 3))]
    assert form.changes(b'{"before": {"id": 1, "n": 3}, "after": null, "op": "d"}') == [(3, (1, 3))]
    assert form.message((2, (1, 3))) == b'{"before":null,"after":{"id":1,"n":3},"op":"c"}'
    assert list(form.changes(b"")) == []
    for message, why in ((b'{"after": {"id": 1}, "op": "u"}', "REPLICA IDENTITY"), (b'{"op": "x"}', "'x'")):
        with pytest.raises(MalformedMessage, match=why):
            form.changes(message)
    lenient = made("id INT", format="debezium-json", debezium_json__ignore_parse_errors="true")
    assert list(lenient.changes(b'{"op": "x"}')) == []


def test_errors_are_left_out_where_the_table_says_so() -> None:
    columns = "id INT, at TIMESTAMP(3)"
    lenient = made(columns, format="json", json__ignore_parse_errors="true")
    assert list(lenient.changes(b"{")) == []
    assert list(lenient.changes(b'{"id": "x", "at": "y"}')) == [(0, (None, None))]
    with pytest.raises(MalformedMessage):
        made(columns, format="json").changes(b'{"id": "x"}')


@pytest.mark.parametrize("name", ["csv", "json", "avro", "parquet"])
def test_files_give_back_the_rows_of_a_table(name: str, tmp_path: Any) -> None:
    columns = SCALARS if name == "csv" else f"{SCALARS}, {NESTED}"
    rows = [(0, (number, *ROW[1:], *(() if name == "csv" else NESTED_ROW))) for number in range(5)]
    rows.append((0, (9, *[None] * (len(rows[0][1]) - 1))))
    options = {"csv__null_literal": "-"} if name == "csv" else {}
    assert written(columns, rows, path=str(tmp_path / "out"), format=name, **options) == rows


def test_changelog_in_files_is_read_as_it_was_written(tmp_path: Any) -> None:
    changes = [(0, (1, 2)), (3, (1, 2)), (0, (1, 3))]
    assert written("id INT, n INT", changes, path=str(tmp_path), format="debezium-json") == changes


def test_csv_with_errors_is_read_where_the_table_says_so(tmp_path: Any) -> None:
    (tmp_path / "in.csv").write_text('1,"two\nlines"\nx,b\n1,2,3\n')
    end = table("id INT, name STRING", connector="filesystem", path=str(tmp_path), format="csv")
    lenient = table(
        "id INT, name STRING",
        connector="filesystem",
        path=str(tmp_path),
        format="csv",
        csv__ignore_parse_errors="true",
    )
    assert read(lenient) == [(0, (1, "two\nlines")), (0, (None, "b"))]
    with pytest.raises(Exception, match="line 3"):
        read(end)


def test_generated_rows_are_within_the_bounds_of_types_and_options() -> None:
    columns = "id INT, price DECIMAL(4, 2), name CHAR(3), at TIMESTAMP(3), no INT"
    columns = f"{columns}, tags ARRAY<INT>, who ROW<age INT>"
    end = table(
        columns,
        connector="datagen",
        fields__id__kind="sequence",
        fields__id__start="5",
        fields__id__end="7",
        fields__at__max_past="10 s",
        fields__tags__length="2",
        fields__tags__element__min="1",
        fields__tags__element__max="2",
        fields__who__age__min="30",
        fields__who__age__max="31",
        fields__no__null_rate="1",
    )
    rows = [row for _, row in read(end)]
    assert [row[0] for row in rows] == [5, 6, 7]
    for _, price, name, at, no, tags, (age,) in rows:
        assert abs(price) < 100
        assert price == price.quantize(Decimal("0.01"))
        assert len(name) == 3
        assert isinstance(at, int)
        assert len(tags) == 2
        assert set(tags) <= {1, 2}
        assert age in (30, 31)
        assert no is None


def test_print_writes_values_as_java_does(capsys: pytest.CaptureFixture[str]) -> None:
    row = read_type("ROW<ok BOOLEAN, n DOUBLE, at TIMESTAMP(3), tags ARRAY<INT>, no INT>")
    PrintSink("out> ", row).invoke((2, (True, 1e10, 60 * 10**9, (1, None), None)), None)
    assert capsys.readouterr().out == "out> +U[true, 1.0E10, 1970-01-01T00:01, [1, null], null]\n"


KAFKA = {
    "connector": "kafka",
    "topic": "t",
    "properties__bootstrap__servers": "localhost:1",
    "format": "json",
}
REFUSED = [
    (
        {"connector": "pulsar"},
        "the connector 'pulsar' is no source here; these are: datagen, filesystem, jdbc",
    ),
    ({"connector": "filesystem", "path": "."}, "misses the required option 'format'"),
    ({"connector": "filesystem", "format": "json", "path": "/nowhere"}, "/nowhere"),
    ({"connector": "filesystem", "format": "orc", "path": "."}, "avro, csv, debezium-json, json, parquet"),
    ({"connector": "datagen", "rows_per_second": "0"}, "rows-per-second is 0"),
    ({"connector": "datagen", "fields__price__min": "x"}, "fields.price.min"),
    ({"connector": "datagen", "rows": "0"}, "has no option 'rows': it has number-of-rows, rows-per-second"),
    ({"connector": "datagen", "rows_per_secnd": "1"}, "did you mean 'rows-per-second'?"),
    (
        {**KAFKA, "scan__startup__mode": "middle"},
        "invalid value 'middle' for option 'scan.startup.mode': one of",
    ),
    (KAFKA, "needs the option 'properties.group.id'"),
    ({**KAFKA, "topic_pattern": "t.*"}, "one of 'topic' and 'topic-pattern' is required"),
    ({**KAFKA, "scan__startup__mode": "latest-offset", "key__format": "json"}, "belong together"),
    ({**KAFKA, "connector": "upsert-kafka"}, "PRIMARY KEY"),
    ({"connector": "jdbc", "url": "jdbc:mysql://h/d", "table_name": "t"}, "PostgreSQL only"),
    ({"connector": "jdbc", "url": "jdbc:postgresql://h/d", "table_name": "t"}, "unique integer column"),
]


@pytest.mark.parametrize(("options", "words"), REFUSED)
def test_wrong_option_is_one_line_with_table_and_remedy(options: dict[str, str], words: str) -> None:
    with pytest.raises(WrongTable) as refused:
        source_of(table("price INT", **options))
    line = str(refused.value)
    assert line.startswith("table 'orders': ")
    assert words in line
    assert "\n" not in line


def test_sink_with_transactions_needs_their_prefix() -> None:
    with pytest.raises(WrongTable, match=r"needs sink\.transactional-id-prefix"):
        sink_of(table("price INT", **KAFKA, sink__delivery_guarantee="exactly-once"))
    with pytest.raises(WrongTable, match="the connector 'kafka' is no table to look rows up in here"):
        lookup_of(table("price INT", **KAFKA), [0])


def test_cache_keeps_rows_for_their_time_and_in_their_number() -> None:
    asked: list[Any] = []

    class Asked(HeldRows):
        def rows(self, key: Any) -> Any:
            asked.append(key)
            return super().rows(key)

    now = [0.0]
    held = Asked([(1, "a"), (2, "b")], [0])
    cached = CachedLookup(held, CacheSettings(2, 1000, 0, keeps_missing=False), lambda: now[0])
    assert [list(cached.rows((key,))) for key in (1, 1, 3, 3)] == [[(1, "a")], [(1, "a")], [], []]
    assert asked == [(1,), (3,), (3,)]
    now[0] = 1.0
    cached.rows((1,))
    assert asked[-1] == (1,)
