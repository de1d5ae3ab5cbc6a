"""The rows that are drawn for a script's tables."""

import re
from itertools import pairwise
from random import Random

import pytest

from onceproof.engine.table.plans import Node, Plan
from onceproof.engine.table.table_ends import TableEnd
from onceproof.engine.table.table_settings import TableSettings
from onceproof.engine.table.types import read_type
from onceproof.engine.table.values import NANOS_PER_MS
from onceproof.harness.scripts.sql.drawn_rows import FIRST_MS, RowDrawer
from onceproof.harness.scripts.sql.drawn_values import constants_of
from onceproof.harness.scripts.sql.sql_ends import SourceTable


def drawer_of(digits, mode="append", stays_on_time=False):
    """Return what draws a table whose event time is TO_TIMESTAMP_LTZ(v, digits)."""
    column = {"kind": "INPUT_REF", "inputIndex": 1, "type": "BIGINT"}
    literal = {"kind": "LITERAL", "value": digits, "type": "INT NOT NULL"}
    rowtime = {
        "kind": "CALL",
        "internalName": "$TO_TIMESTAMP_LTZ$1",
        "operands": [column, literal],
        "type": "TIMESTAMP_LTZ(3)",
    }
    fields = [{"name": "k", "fieldType": "VARCHAR(2147483647)"}, {"name": "v", "fieldType": "BIGINT"}]
    end = TableEnd("t", "t", read_type({"type": "ROW", "fields": fields}), {"mode": mode})
    return RowDrawer(SourceTable(end, rowtime, rowtime), TableSettings({}), (), {}, stays_on_time)


@pytest.mark.parametrize(("digits", "unit_ms"), [(3, 1), (0, 1000)])
def test_event_time_of_integers_is_drawn_in_its_unit(digits, unit_ms):
    drawer = drawer_of(digits)
    drawn = [time for own in drawer.splits(Random(3)).values() for time, _ in own]
    held = [value[1] for own in drawer.splits(Random(3)).values() for _, value in own]
    assert [value * unit_ms for value in held] == drawn
    assert all(abs(time - FIRST_MS) < 86_400_000_000 for time in drawn)


def test_changes_may_be_late_where_a_plan_drops_late_rows():
    assert drawer_of(3, "retract", stays_on_time=True).may_be_late
    assert not drawer_of(3, "retract").may_be_late
    assert not drawer_of(3, stays_on_time=True).may_be_late


def nested_drawer(constants):
    """Return what draws a table whose event time is a field of the one or the other of two rows."""
    row = {
        "type": "ROW",
        "fields": [{"name": "v", "fieldType": "BIGINT"}, {"name": "at", "fieldType": "TIMESTAMP(3)"}],
    }

    def field(index):
        of = {"kind": "INPUT_REF", "inputIndex": index, "type": row}
        return {"kind": "FIELD_ACCESS", "name": "at", "expr": of}

    operands = [field(1), field(2)]
    rowtime = {
        "kind": "CALL",
        "internalName": "$COALESCE$1",
        "operands": operands,
        "type": "TIMESTAMP(3)",
    }
    fields = [{"name": "k", "fieldType": "VARCHAR(2147483647)"}]
    fields += [{"name": name, "fieldType": row} for name in ("left", "right")]
    end = TableEnd("t", "t", read_type({"type": "ROW", "fields": fields}), {"mode": "append"})
    return RowDrawer(SourceTable(end, rowtime, rowtime), TableSettings({}), (1000,), constants, False)


def rows_of(drawer):
    splits = [drawer.splits(Random(seed)) for seed in range(30)]
    return [
        (time, drawer.table.change_of(value)[1])
        for split in splits
        for own in split.values()
        for time, value in own
    ]


def test_event_time_in_a_field_is_there_although_rows_are_null():
    rows = rows_of(nested_drawer({}))
    assert any(row[1] is None for _, row in rows)
    assert any(row[2] is None for _, row in rows)
    assert any(row[1] is not None and row[1][0] is None for _, row in rows)
    for time, (_, left, right) in rows:
        assert (left or right)[1] == time * NANOS_PER_MS


@pytest.mark.parametrize("kind", ["INPUT_REF", "PATTERN_INPUT_REF"])
def test_constants_are_those_beside_columns_and_variables_of_patterns(kind):
    column = {"kind": kind, "alpha": "A", "inputIndex": 1, "type": "INT"}
    before = {"kind": "CALL", "internalName": "$PREV$1", "operands": [column]}
    condition = {"operands": [before, {"kind": "LITERAL", "value": 10, "type": "INT NOT NULL"}]}
    row = read_type(
        {"type": "ROW", "fields": [{"name": "k", "fieldType": "INT"}, {"name": "v", "fieldType": "INT"}]}
    )
    scan, match = (
        Node(1, "table-source-scan", 1, (), (), row, {}),
        Node(2, "match", 1, (1,), (), row, condition),
    )
    assert constants_of(Plan("2.2", (scan, match))) == {"v": (10,)}


def test_rows_are_out_of_order_by_less_than_the_watermark_waits_for():
    drawer = drawer_of(3, stays_on_time=True)
    waits = {"kind": "LITERAL", "value": "10000", "type": "INTERVAL SECOND(3) NOT NULL"}
    watermark = {
        "kind": "CALL",
        "internalName": "$-$1",
        "operands": [drawer.table.rowtime, waits],
        "type": "TIMESTAMP_LTZ(3)",
    }
    table = SourceTable(drawer.table.end, drawer.table.rowtime, watermark)
    drawer = RowDrawer(table, TableSettings({}), (10_000, 180_000, 14_400_000), {}, True)
    behind = within = 0
    for seed in range(40):
        for own in drawer.splits(Random(seed)).values():
            times = [time for time, _ in own]
            behind += sum(time < max(times[:place]) for place, time in enumerate(times) if place)
            within += sum(0 < after - before <= 180_000 for before, after in pairwise(times))
            assert all(time > max(times[:place]) - 10_000 for place, time in enumerate(times) if place)
    assert behind > 40
    assert within > 200


def test_values_are_often_the_constants_of_a_plan_and_next_to_them():
    rows = rows_of(nested_drawer({"v": (7000,), "k": ("/", "(&|^)id=([^&]*)")}))
    numbers = {row[1][0] for _, row in rows if row[1] is not None}
    assert {6999, 7000, 7001, 0, None} <= numbers
    texts = {row[0] for _, row in rows if row[0] is not None}
    assert any(text.count("/") >= 3 for text in texts)
    assert any(re.search("(&|^)id=([^&]+)", text) for text in texts)
    assert texts & {"ada", "bob", "cy", "dora"}
