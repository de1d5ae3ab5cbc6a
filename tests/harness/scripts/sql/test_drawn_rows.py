"""The rows that are drawn for a script's tables."""

from random import Random

import pytest

from onceproof.engine.table.table_ends import TableEnd
from onceproof.engine.table.table_settings import TableSettings
from onceproof.engine.table.types import read_type
from onceproof.harness.scripts.sql.drawn_rows import FIRST_MS, RowDrawer
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
