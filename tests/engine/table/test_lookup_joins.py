"""Lookup joins: what a row meets, by key, filter and condition."""

from __future__ import annotations

import pytest

from onceproof.engine.table.connectors.lookups import HeldRows
from onceproof.engine.table.nodes.lookup_join import LookupJoin, LookupSpec
from onceproof.engine.table.table_settings import TableSettings

ROWS = [("ada", "UK", 40), ("ada", "FR", 20), ("bob", "UK", 30), (None, "UK", 50)]
NAME = {"type": "FieldRef", "index": 1}


def column(place: int, kind: str = "INT") -> dict[str, object]:
    return {"kind": "INPUT_REF", "inputIndex": place, "type": kind}


def greater(left: dict[str, object], right: object) -> dict[str, object]:
    if isinstance(right, int):
        right = {"kind": "LITERAL", "value": right, "type": "INT NOT NULL"}
    return {
        "kind": "CALL",
        "syntax": "BINARY",
        "internalName": "$>$1",
        "operands": [left, right],
        "type": "BOOLEAN",
    }


def joined(
    *changes: tuple[int, tuple[object, ...]],
    keys: tuple[int, ...] = (0,),
    is_left: bool = True,
    **spec: object,
) -> list[object]:
    """Join changes of (id, name) with the rows, by the name unless the spec says otherwise."""
    parts = {"before": None, "filter": None, "projection": None, "condition": None, **spec}
    width = 3 if parts["projection"] is None else len(parts["projection"])  # type: ignore[arg-type]
    made = LookupSpec(is_left, parts.pop("key", (NAME,)), padding=(None,) * width, **parts)  # type: ignore[arg-type]
    join = LookupJoin(made, lambda: HeldRows(ROWS, keys), TableSettings())
    join.start(None)  # type: ignore[arg-type]
    found: list[object] = []
    for kind, row in changes:
        join.process(kind, row, found.append)
    join.close()
    return found


def test_row_meets_all_rows_of_its_key_and_keeps_its_kind() -> None:
    assert joined((0, (1, "ada")), (3, (2, "bob"))) == [
        (0, (1, "ada", "ada", "UK", 40)),
        (0, (1, "ada", "ada", "FR", 20)),
        (3, (2, "bob", "bob", "UK", 30)),
    ]


@pytest.mark.parametrize("name", ["zoe", None])
def test_row_without_a_match_is_padded_or_dropped(name: str | None) -> None:
    assert joined((0, (1, name))) == [(0, (1, name, None, None, None))]
    assert joined((0, (1, name)), is_left=False) == []


def test_constant_is_a_part_of_the_key() -> None:
    literal = {"kind": "LITERAL", "value": "FR", "type": "VARCHAR(2) NOT NULL"}
    constant = {"type": "Constant", "sourceType": "VARCHAR(2)", "literal": literal}
    assert joined((0, (1, "ada")), keys=(0, 1), key=(NAME, constant)) == [(0, (1, "ada", "ada", "FR", 20))]


def test_filter_and_projection_come_before_the_condition() -> None:
    rows = joined(
        (0, (35, "ada")),
        (0, (50, "ada")),
        filter=greater(column(2), 30),
        projection=(column(2), column(1, "VARCHAR(2)")),
        condition=greater(column(2), column(0)),
    )
    assert rows == [(0, (35, "ada", 40, "UK")), (0, (50, "ada", None, None))]


def test_row_that_cannot_match_is_not_looked_up() -> None:
    assert joined((0, (1, "ada")), (0, (7, "bob")), is_left=False, before=greater(column(0), 5)) == [
        (0, (7, "bob", "bob", "UK", 30))
    ]
