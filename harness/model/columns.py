"""The columns of a schema in Spark DDL, which families give, and how rows are compared by them.

With several outputs a row begins with the name of its own, and each output is compared in its way.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import msgspec


class OrderedBy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """In which order rows must appear, by the names of their columns."""

    key: tuple[str, ...] = ()
    """Rows that are equal in these columns have an order among them; none: all rows have one."""
    ascending: str = ""
    """The column by which they ascend; "": they come in the order in which ``expected`` returns them."""


Amounts: TypeAlias = Mapping[int, float]
"""By the place of a column, its tolerance."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """How the rows of an output are compared."""

    columns: tuple[str, ...]
    """The names of the cells of a row; "" for the name of the output, none if they are not known."""
    amounts: Amounts
    ordered_by: OrderedBy | None


@dataclass(frozen=True, slots=True)
class Comparisons:
    """How the rows of a family are compared: by the names of its outputs, or all as those of ""."""

    outputs: Mapping[str, Comparison]

    def output_of(self, row: tuple[Any, ...]) -> str:
        """Return the name of a row's output; "" of an only one."""
        return "" if "" in self.outputs else str(row[0])

    def of(self, row: tuple[Any, ...]) -> Comparison:
        """Return how a row is compared."""
        return self.outputs[self.output_of(row)]

    def amounts_of(self, row: tuple[Any, ...]) -> Amounts:
        """Return the tolerances of a row's columns."""
        return self.of(row).amounts

    @property
    def have_tolerances(self) -> bool:
        """Whether any number may differ."""
        return any(each.amounts for each in self.outputs.values())

    @property
    def have_orders(self) -> bool:
        """Whether any rows must appear in an order."""
        return any(each.ordered_by is not None for each in self.outputs.values())


def comparison(
    columns: Sequence[str], tolerance: Mapping[str, float], ordered_by: OrderedBy | None
) -> Comparison:
    """Return how rows with some columns are compared, by the names of columns."""
    amounts = {columns.index(name): amount for name, amount in tolerance.items()}
    return Comparison(tuple(columns), amounts, ordered_by)


def columns_of(schema: str) -> tuple[str, ...]:
    """Return the names of the columns in Spark DDL: "word STRING, pair STRUCT<a: INT, b: INT>"."""
    return tuple(column_types_of(schema))


def shown_columns_of(family: Any) -> tuple[str, ...]:
    """Return the names of the cells of a family's rows as a report shows them; none if they are not known.

    Args:
        family: the one whose rows they are; it may have ``shown_columns``, where it has no ``row_schema``.
    """
    columns: tuple[str, ...] = getattr(family, "shown_columns", ())
    return columns or columns_of(family.row_schema)


def column_types_of(schema: str) -> dict[str, str]:
    """Return by the names of the columns in Spark DDL their types, as they are written."""
    types, depth, start = {}, 0, 0
    for index, character in enumerate(f"{schema},"):
        depth += (character in "<(") - (character in ">)")
        if character == "," and not depth:
            column = schema[start:index].strip()
            start = index + 1
            if column:
                quoted = column.startswith("`")
                name = column.split("`")[1] if quoted else column.split()[0].rstrip(":")
                kind = column[len(name) + 2 * quoted :].lstrip(": ").split(maxsplit=1)
                types[name] = kind[0] if kind else ""
    return types


def is_tolerance(value: object) -> bool:
    """Return whether a value can be the tolerance of a column."""
    return type(value) in (int, float) and 0 < cast(float, value) < 1


def wrong_comparison(
    columns: Sequence[str],
    tolerance: Mapping[str, float],
    ordered_by: OrderedBy | None,
    table_keys: int,
    declares: bool,
) -> Iterator[str]:
    """Yield what is wrong with the tolerance and the order of a family's rows."""
    order = ordered_by or OrderedBy()
    named = {"tolerance": [*tolerance], "ordered_by": [*order.key, *filter(None, [order.ascending])]}
    for option, names in named.items():
        for name in names:
            if name not in columns:
                near = difflib.get_close_matches(name, columns, n=1, cutoff=0.6)
                there = f"there are {', '.join(columns)}" if columns else "no column has a name"
                yield f"{option}: no column {name!r}; " + (f"did you mean {near[0]}?" if near else there)
    if ordered_by and table_keys:
        yield "ordered_by: rows of a table replace each other, and have no order"
    if ordered_by and declares and not order.ascending:
        yield "ordered_by: rows that a run declares need the column by which they ascend: 'ascending'"
