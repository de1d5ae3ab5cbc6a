"""Tables of the connector datagen, read as streams of rows."""

from __future__ import annotations

import pytest

from onceproof.engine import (
    DataTypes,
    InvalidJob,
    Schema,
    StreamExecutionEnvironment,
    StreamTableEnvironment,
    TableDescriptor,
)
from onceproof.engine.connectors.generated_tables import InvalidTable

INT = (-(2**31), 2**31 - 1)


def tables():
    return StreamTableEnvironment.create(StreamExecutionEnvironment.get_execution_environment())


def descriptor(columns, options, connector="datagen"):
    schema = Schema.new_builder()
    for name, kind in columns.items():
        schema = schema.column(name, kind)
    built = TableDescriptor.for_connector(connector).schema(schema.build())
    for key, value in options.items():
        built = built.option(key, value)
    return built.build()


def rows(columns, **options):
    environment = tables()
    fields = {key.replace("__", "."): value for key, value in options.items()}
    fields = {"rows-per-second": "100000000", "number-of-rows": 200, **fields}
    environment.create_temporary_table("numbers", descriptor(columns, fields))
    stream = environment.to_data_stream(environment.from_path("numbers"))
    return list(stream.execute_and_collect())


def test_random_numbers_are_within_their_bounds_and_differ():
    columns = {"small": DataTypes.INT(), "any": DataTypes.INT(), "part": DataTypes.DOUBLE()}
    bounds = {"fields__small__min": 3, "fields__small__max": "5"}
    drawn = rows(columns, **bounds, fields__part__min=0, fields__part__max=1)
    assert len(drawn) == 200
    assert {row.small for row in drawn} == {3, 4, 5}
    assert all(INT[0] <= row["any"] <= INT[1] for row in drawn)
    assert len({row[1] for row in drawn}) > 190
    assert all(0 <= row.part <= 1 for row in drawn)


def test_random_texts_have_their_length():
    drawn = rows({"long": DataTypes.STRING(), "short": DataTypes.STRING()}, fields__short__length=3)
    assert {(len(row.long), len(row.short)) for row in drawn} == {(100, 3)}
    assert set("".join(row.long for row in drawn)) == set("0123456789abcdef")


def test_each_type_of_column_is_drawn():
    kinds = ("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "STRING")
    drawn = rows({kind.lower(): getattr(DataTypes, kind)() for kind in kinds})
    assert {type(field) for row in drawn for field in row} == {bool, int, float, str}
    assert {row.boolean for row in drawn} == {True, False}
    assert all(-128 <= row.tinyint <= 127 and -32768 <= row.smallint <= 32767 for row in drawn)


def test_same_rows_come_again():
    columns = {"text": DataTypes.STRING(), "number": DataTypes.BIGINT()}
    assert rows(columns) == rows(columns)


def test_table_ends_with_its_shortest_sequence():
    columns = {"one": DataTypes.BIGINT(), "two": DataTypes.STRING()}
    sequence = {"kind": "sequence", "start": 5}
    one = {f"fields__one__{key}": value for key, value in (sequence | {"end": 99}).items()}
    two = {f"fields__two__{key}": value for key, value in (sequence | {"end": 7}).items()}
    assert [(row.one, row.two) for row in rows(columns, **one, **two)] == [(5, "5"), (6, "6"), (7, "7")]


def test_table_without_an_end_is_not_bounded():
    environment = tables()
    environment.create_temporary_table("numbers", descriptor({"n": DataTypes.INT()}, {}))
    source = environment.from_path("numbers").source
    assert not source.is_bounded
    assert "numbers" in str(source.identity())


WRONG = {
    "fields.n.min is 'x': give a number": {"fields.n.min": "x"},
    "fields.n.min is 9, above its max 3": {"fields.n.min": 9, "fields.n.max": 3},
    "fields.n.kind is 'odd': give random or sequence": {"fields.n.kind": "odd"},
    "the sequence 'n' goes from -1 to -1: set fields.n.start": {"fields.n.kind": "sequence"},
    "has no option 'fields.m.min' of datagen": {"fields.m.min": 1},
    "rows-per-second is 0: give at least 1": {"rows-per-second": 0},
}


@pytest.mark.parametrize("words", WRONG)
def test_wrong_option_is_refused_by_its_name(words):
    with pytest.raises(InvalidTable, match=words.replace(".", r"\.")):
        tables().create_temporary_table("numbers", descriptor({"n": DataTypes.INT()}, WRONG[words]))


def test_wrong_table_is_refused_by_its_name():
    environment = tables()
    with pytest.raises(InvalidJob, match="table 'orders' has the connector 'kafka'"):
        environment.create_temporary_table("orders", descriptor({"n": DataTypes.INT()}, {}, "kafka"))
    with pytest.raises(InvalidJob, match="table 'orders' has no columns"):
        environment.create_temporary_table("orders", descriptor({}, {}))
    with pytest.raises(InvalidJob, match="there is no table 'orders'"):
        environment.from_path("orders")
    environment.create_temporary_table("orders", descriptor({"n": DataTypes.INT()}, {}))
    with pytest.raises(InvalidJob, match="table 'orders' exists already"):
        environment.create_temporary_table("orders", descriptor({"n": DataTypes.INT()}, {}))
    with pytest.raises(InvalidJob, match="two columns 'n'"):
        Schema.new_builder().column("n", DataTypes.INT()).column("n", DataTypes.INT())
    with pytest.raises(InvalidJob, match="column 'n' has type 'INT': give one of DataTypes"):
        Schema.new_builder().column("n", "INT")
