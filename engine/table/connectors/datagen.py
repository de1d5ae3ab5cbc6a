"""The connector ``datagen``: rows that are made of their numbers (``connectors/generated_tables.py``)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final

from onceproof.engine.connectors.generated_tables import GeneratedTableSource, InvalidTable
from onceproof.engine.table.connectors.message_types import type_of
from onceproof.engine.table.connectors.registry import Options, source
from onceproof.engine.table.python_values import row_from_python
from onceproof.engine.table.table_ends import TableEnd
from onceproof.engine.table.types import BINARIES, LONGEST, TEXTS, Field, LogicalType
from onceproof.engine.table.values import INSERT, Change
from onceproof.engine.types import TypeInformation, Types

_TIMES: Final = {
    "TIME": Types.SQL_TIME,
    "TIMESTAMP": Types.SQL_TIMESTAMP,
    "TIMESTAMP_LTZ": Types.SQL_TIMESTAMP,
}


class GeneratedChanges(GeneratedTableSource):
    """The generated rows, as changes of a table."""

    def __init__(self, end: TableEnd, options: Mapping[str, str]) -> None:
        self._row = end.type
        columns = [(field.name, _type_of(field.type)) for field in end.type.fields]
        super().__init__(end.name, columns, options)

    @cached_property
    def _convert(self) -> Any:
        return row_from_python(self._row)

    def value_of(self, number: int) -> Change:
        """Return the row of a number."""
        return INSERT, self._convert(super().value_of(number))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_convert"}


def _type_of(kind: LogicalType) -> TypeInformation:
    if kind.root in _TIMES:
        return _TIMES[kind.root]()
    if kind.fields:
        return Types.ROW_NAMED(kind.names, [_type_of(each) for each in kind.types])
    if kind.root == "ARRAY":
        return Types.OBJECT_ARRAY(_type_of(kind.element))
    if kind.root == "MAP":
        return Types.MAP(*map(_type_of, kind.arguments))
    return type_of(kind)


def _bounds(field: Field, prefix: str) -> dict[str, str]:
    """Return the options that follow from a column's type where the user has not set them."""
    kind, place = field.type, f"{prefix}{field.name}."
    if kind.root == "DECIMAL":
        largest = "9" * (kind.precision - kind.scale) + "." + "9" * kind.scale
        return {f"{place}min": f"-{largest}", f"{place}max": largest}
    if kind.root in TEXTS | BINARIES and kind.precision != LONGEST:
        return {f"{place}length": str(min(kind.precision, 100))}
    found: dict[str, str] = {}
    inner = [Field("element", kind.arguments[0])] if kind.root in ("ARRAY", "MULTISET") else list(kind.fields)
    if kind.root == "MAP":
        inner = [Field(name, each) for name, each in zip(("key", "value"), kind.arguments, strict=True)]
    for each in inner:
        found.update(_bounds(each, place))
    return found


@source("datagen")
def datagen_source(end: TableEnd, options: Options) -> GeneratedChanges:
    """Make the rows of a table."""
    fields = {f"fields.{key}": text for key, text in options.below("fields.").items()}
    for key in ("rows-per-second", "number-of-rows"):
        if (text := options.text(key)) is not None:
            fields[key] = text
    implied: dict[str, str] = {}
    for field in end.type.fields:
        kind = fields.get(f"fields.{field.name}.kind", "random")
        implied.update(_bounds(field, "fields.") if kind == "random" else {})
    try:
        return GeneratedChanges(end, {**implied, **fields})
    except InvalidTable as error:
        raise options.wrong(str(error).partition(": ")[2] or str(error)) from None
